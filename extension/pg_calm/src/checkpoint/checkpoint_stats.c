/*-------------------------------------------------------------------------
 *
 * checkpoint_stats.c
 *	  Recording what a checkpoint does, in the checkpointer, for its report.
 *
 * The server has no hook for checkpoints.  What it has is
 *
 * - CheckpointStats, exported, which the checkpointer fills in as it goes:
 *	 when it started, began to write, to sync, was done with that, ended;
 * - our replaced calls.  CheckPointGuts (xlog.c) flushes one SLRU after the
 *	 other, and the server fsyncs the directory of each when it is done with
 *	 it, dirty or not, except those of pg_subtrans and pg_serial.  So the end
 *	 of pg_xact, pg_commit_ts and pg_multixact is seen directly, that of
 *	 pg_subtrans by the first write or fsync for pg_multixact, and that of the
 *	 buffer scan by the first write of a data file;
 * - its log messages, if log_checkpoints is on: only they tell the flags;
 * - CkptBufferIds, exported, the checkpointer's list of the buffers it has to
 *	 write.  Its length is not: see count_dirty_buffers.
 *
 * What can't be seen in one of these ways is null in the view, never guessed:
 * with fsync = off, for example, no directory is fsynced.
 *
 * The checkpointer keeps the report under way in local memory and copies it
 * to shared memory whenever it changes, under a spinlock.  It does so in the
 * replaced calls, that is in critical sections and with locks held: nothing
 * here allocates, waits or raises errors, but for the log line, which is
 * written from within the server's own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xlog.h"
#include "base/base.h"
#include "checkpoint_files.h"
#include "checkpoint_report.h"
#include "checkpoint_stats.h"
#include "map/map.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "shared/shared.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/ps_status.h"
#include "utils/timestamp.h"

/* The checkpointer's: the report under way, if status is REPORT_RUNNING */
static CheckpointReport current = {.status = REPORT_UNKNOWN};
static bool buffer_ids_cleared = false;

static inline bool active(void);
static void count_since_start(CheckpointReport *report);
static void publish(void);
static void finish(void);
static void reached(Boundary boundary, TimestampTz when);
static void scan_done(TimestampTz when);
static void forget_dirty_buffers(void);
static int64 count_dirty_buffers(void);
static bool path_of(int fd, char *path, size_t size);
static void reason_from_flags(CheckpointReport *report, const char *flags);
static void reason_from_traces(CheckpointReport *report);

static inline bool
active(void)
{
	return current.status == REPORT_RUNNING;
}

/* In a report that has counters' values at its start: what they counted since */
static void
count_since_start(CheckpointReport *report)
{
	report->bridged_pages =
		pg_atomic_read_u64(&calm_shared->counters.bridged_pages) - report->bridged_pages;
	report->device_operations =
		pg_atomic_read_u64(&calm_shared->counters.device_operations) - report->device_operations;
}

/* Show the report under way to others */
static void
publish(void)
{
	CheckpointReport *report = &checkpoint_report_slot(current.id)->report;

	SpinLockAcquire(&checkpoint_reports->lock);
	memcpy(report, &current, sizeof(CheckpointReport));
	/* while it runs, the counters' values at its start stand for the figures */
	if (active())
		count_since_start(report);
	SpinLockRelease(&checkpoint_reports->lock);
}

/*
 * A checkpoint has started: flags are those of the server's log message, or
 * NULL if that isn't written.
 */
void
checkpoint_report_begin(bool restartpoint, const char *flags)
{
	ReportSlot *slot;

	if (active())
		checkpoint_report_close(current.id);

	memset(&current, 0, sizeof(current));
	current.status = REPORT_RUNNING;
	current.mode = calm_mode;
	current.restartpoint = restartpoint;
	current.at[STARTED] = CheckpointStats.ckpt_start_t;
	current.dirty_buffers = -1;
	current.written_buffers = -1;
	current.unflushed_at_sync = -1;
	current.undrained = -1;
	current.bridged_pages = pg_atomic_read_u64(&calm_shared->counters.bridged_pages);
	current.device_operations = pg_atomic_read_u64(&calm_shared->counters.device_operations);
	if (flags)
		reason_from_flags(&current, flags);
	else
		reason_from_traces(&current);
	if (!current.restartpoint)
		current.redo = GetRedoRecPtr();
	buffer_ids_cleared = false;
	histogram_checkpoint_begins();

	SpinLockAcquire(&checkpoint_reports->lock);
	current.id = checkpoint_reports->last_id + 1;
	slot = checkpoint_report_slot(current.id);
	memset(slot, 0, sizeof(ReportSlot));
	memcpy(&slot->report, &current, sizeof(CheckpointReport));
	slot->report.bridged_pages = 0;
	slot->report.device_operations = 0;
	checkpoint_reports->last_id = current.id;
	checkpoint_reports->checkpointer_waits_on = my_wait_event_info;
	pg_atomic_write_u64(&checkpoint_reports->buffers_written, 0);
	SpinLockRelease(&checkpoint_reports->lock);
	/* from the log line, before the buffers to write are listed */
	if (flags)
		forget_dirty_buffers();
}

/* The end was seen */
static void
finish(void)
{
	count_since_start(&current);
	current.status = REPORT_COMPLETE;
	histogram_checkpoint_ends();
	publish();
	/* here, where no checkpoint waits for it */
	forget_dirty_buffers();
}

/*
 * A checkpoint is over, unless that has been noted, and it wasn't seen when:
 * its figures stay as they were last published.  By the worker, or by the
 * next checkpoint if that comes first.
 */
void
checkpoint_report_close(uint64 id)
{
	CheckpointReport *report = &checkpoint_report_slot(id)->report;
	bool complete = false;

	SpinLockAcquire(&checkpoint_reports->lock);
	if (report->id == id && report->status == REPORT_RUNNING)
	{
		complete = report->durable;
		report->status = complete ? REPORT_COMPLETE : enableFsync ? REPORT_FAILED : REPORT_UNKNOWN;
	}
	SpinLockRelease(&checkpoint_reports->lock);
	if (complete)
		histogram_checkpoint_ends();
}

/* Note the end of a phase, unless it was noted before */
static void
reached(Boundary boundary, TimestampTz when)
{
	if (current.at[boundary] == 0 && when != 0)
	{
		current.at[boundary] = when;
		publish();
	}
}

/*
 * The buffers to write are known, and none is written yet; all that the server
 * has counted as written are pages of SLRUs.
 */
static void
scan_done(TimestampTz when)
{
	current.dirty_buffers = count_dirty_buffers();
	current.slru_pages = CheckpointStats.ckpt_bufs_written;
	reached(SCAN_DONE, when);
}

/*
 * See what the checkpointer has written into CheckpointStats.
 *
 * A checkpoint that the server skips because nothing happened sets the time
 * of its start and nothing else; it has none of the calls that we see, but
 * what the checkpointer does later, such as switching WAL, has.
 */
bool
checkpoint_report_observe(void)
{
	bool was_active = active();

	if (CheckpointStats.ckpt_start_t != current.at[STARTED])
	{
		if (CheckpointStats.ckpt_write_t == 0)
			return false;
		checkpoint_report_begin(RecoveryInProgress(), NULL);
	}
	if (!active())
		return false;
	reached(SLOTS_DONE, CheckpointStats.ckpt_write_t);
	if (CheckpointStats.ckpt_sync_t != 0 && current.at[WRITE_DONE] == 0)
	{
		if (current.at[SCAN_DONE] == 0)
			scan_done(CheckpointStats.ckpt_sync_t); /* nothing had to be written */
		current.written_buffers = CheckpointStats.ckpt_bufs_written - current.slru_pages;
		reached(WRITE_DONE, CheckpointStats.ckpt_sync_t);
		checkpoint_files_note_hints();
	}
	reached(SYNC_DONE, CheckpointStats.ckpt_sync_end_t);
	if (CheckpointStats.ckpt_end_t != 0)
	{
		reached(ENDED, CheckpointStats.ckpt_end_t);
		finish();
	}
	return was_active && current.status == REPORT_COMPLETE;
}

const CheckpointReport *
checkpoint_report_current(void)
{
	return &current;
}

/*
 * How many buffers the checkpoint found dirty.
 *
 * BufferSync lists them in CkptBufferIds, an array for all buffers that
 * nobody else uses, and keeps its length to itself.  An entry in use names a
 * tablespace, and 0 is none: so the entries of the last checkpoint are
 * cleared before the list is made, and the first one that is clear is the
 * end.  BufferSync reads no entry that it has not written.
 */
static void
forget_dirty_buffers(void)
{
	for (int i = 0; i < NBuffers && CkptBufferIds[i].tsId != InvalidOid; i++)
		CkptBufferIds[i].tsId = InvalidOid;
	buffer_ids_cleared = true;
}

/* To be called between the end of the scan and the end of the checkpoint */
static int64
count_dirty_buffers(void)
{
	int low = 0;
	int high = NBuffers;

	if (!buffer_ids_cleared)
		return -1;
	while (low < high)
	{
		int middle = low + (high - low) / 2;

		if (CkptBufferIds[middle].tsId != InvalidOid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Path of an open file, relative to the data directory if it is below it.
 * That is where the server runs; DataDir may lead there by symbolic links,
 * which the kernel's path has resolved.
 */
static bool
path_of(int fd, char *path, size_t size)
{
	static char directory[MAXPGPATH] = "";
	static size_t prefix = 0;
	static char absolute[MAXPGPATH];
	char link[64];
	ssize_t length;

	if (prefix == 0 && getcwd(directory, sizeof(directory)) != NULL)
		prefix = strlen(directory);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, absolute, sizeof(absolute) - 1);
	if (length <= 0)
		return false;
	absolute[length] = '\0';
	if (prefix > 0 && strncmp(absolute, directory, prefix) == 0 && absolute[prefix] == '/')
		strlcpy(path, absolute + prefix + 1, size);
	else
		strlcpy(path, absolute, size);
	return true;
}

/* From the flags as the server's log has them: LogCheckpointStart */
static void
reason_from_flags(CheckpointReport *report, const char *flags)
{
	const char *reason = "requested";

	if (strstr(flags, "end-of-recovery"))
		reason = "end-of-recovery";
	else if (strstr(flags, "shutdown"))
		reason = "shutdown";
	else if (strstr(flags, "wal"))
		reason = "wal";
	else if (strstr(flags, "time"))
		reason = "time";
	strlcpy(report->reason, reason, sizeof(report->reason));
	strlcpy(report->flags, flags, sizeof(report->flags));
}

/*
 * Without that message: the two kinds that are shown in the process title,
 * and those that the server counts as caused by time alone.  All others have
 * been asked for, and it can't be seen by what.
 */
static void
reason_from_traces(CheckpointReport *report)
{
	const char *reason = "unknown";
	int length;
	const char *title = get_ps_display(&length);

	if (length > 0 && memmem(title, length, "end-of-recovery", strlen("end-of-recovery")))
	{
		/* a checkpoint, though made while in recovery */
		reason = "end-of-recovery";
		report->restartpoint = false;
	}
	else if (length > 0 && memmem(title, length, "shutdown", strlen("shutdown")))
		reason = "shutdown";
	else if (CALM_CHECKPOINT_IS_TIMED())
		reason = "time";
	strlcpy(report->reason, reason, sizeof(report->reason));
}

/*
 * The calls that the checkpointer makes
 */

void
checkpoint_stats_write_begins(int fd, uint32 wait_event)
{
	int save_errno = errno;

	if (MyBackendType != B_CHECKPOINTER || checkpoint_reports == NULL)
		return;
	(void) checkpoint_report_observe();
	if (!active())
		return;
	if (wait_event == WAIT_EVENT_DATA_FILE_WRITE)
	{
		if (current.at[SCAN_DONE] == 0)
			scan_done(GetCurrentTimestamp());
	}
	else if (wait_event == WAIT_EVENT_SLRU_WRITE && current.at[COMMIT_TS_DONE] != 0 &&
	         current.at[SUBTRANS_DONE] == 0)
	{
		char path[MAXPGPATH];

		if (path_of(fd, path, sizeof(path)) && strstr(path, "pg_multixact/"))
			reached(SUBTRANS_DONE, GetCurrentTimestamp());
	}
	errno = save_errno;
}

void
checkpoint_stats_write_ended(uint32 wait_event)
{
	if (MyBackendType != B_CHECKPOINTER || !active())
		return;
	/* BufferSync writes one by one (FlushBuffer) */
	if (wait_event == WAIT_EVENT_DATA_FILE_WRITE)
		pg_atomic_fetch_add_u64(&checkpoint_reports->buffers_written, 1);
	/* of the SLRUs, only pg_serial is left by then */
	else if (wait_event == WAIT_EVENT_SLRU_WRITE && current.at[MULTIXACT_DONE] != 0 &&
	         current.at[SCAN_DONE] == 0)
	{
		int save_errno = errno;

		current.at[SERIAL_DONE] = GetCurrentTimestamp();
		publish();
		errno = save_errno;
	}
}

void
checkpoint_stats_fsync_begins(uint32 wait_event)
{
	int save_errno = errno;

	if (MyBackendType != B_CHECKPOINTER || checkpoint_reports == NULL)
		return;
	(void) checkpoint_report_observe();
	if (wait_event == WAIT_EVENT_DATA_FILE_SYNC && active() && current.at[WRITE_DONE] != 0)
		checkpoint_stats_sync_begins();
	errno = save_errno;
}

void
checkpoint_stats_fsync_ended(int fd, uint32 wait_event, bool ok, uint64 microseconds)
{
	int save_errno = errno;
	char path[MAXPGPATH];

	if (MyBackendType != B_CHECKPOINTER || checkpoint_reports == NULL || !active())
		return;
	if (wait_event == WAIT_EVENT_DATA_FILE_SYNC || wait_event == WAIT_EVENT_SLRU_FLUSH_SYNC)
	{
		if (ok && current.at[WRITE_DONE] != 0 && current.at[SYNC_DONE] == 0)
			checkpoint_stats_file_synced(fd, microseconds);
	}
	else if (wait_event == WAIT_EVENT_CONTROL_FILE_SYNC_UPDATE)
	{
		/* a restartpoint updates the file while it writes, too */
		if (ok && current.at[SYNC_DONE] != 0)
		{
			current.durable = true;
			publish();
		}
	}
	else if (wait_event == 0 && current.at[SLOTS_DONE] != 0 && current.at[SCAN_DONE] == 0 &&
	         path_of(fd, path, sizeof(path)))
	{
		/* fsync_fname sets no wait event: SimpleLruWriteAll, of a directory */
		TimestampTz now = GetCurrentTimestamp();

		if (!buffer_ids_cleared)
			forget_dirty_buffers();
		if (strcmp(path, "pg_xact") == 0)
			reached(CLOG_DONE, now);
		else if (strcmp(path, "pg_commit_ts") == 0)
			reached(COMMIT_TS_DONE, now);
		else if (strcmp(path, "pg_multixact/offsets") == 0)
			reached(SUBTRANS_DONE, now - (TimestampTz) microseconds);
		else if (strcmp(path, "pg_multixact/members") == 0)
			reached(MULTIXACT_DONE, now);
	}
	errno = save_errno;
}

/* After a checkpoint the checkpointer closes the files that it wrote to */
void
checkpoint_stats_closing(void)
{
	int save_errno = errno;

	if (MyBackendType != B_CHECKPOINTER || checkpoint_reports == NULL || !active())
		return;
	(void) checkpoint_report_observe();
	errno = save_errno;
}

/* A file was fsynced in the sync phase */
void
checkpoint_stats_file_synced(int fd, uint64 microseconds)
{
	char path[MAXPGPATH];

	if (!active())
		return;
	if (!path_of(fd, path, sizeof(path)))
		path[0] = '\0';
	current.files_synced++;
	current.fsync_us += microseconds;
	if (microseconds >= current.slowest_us || current.slowest_file[0] == '\0')
	{
		current.slowest_us = microseconds;
		strlcpy(current.slowest_file, path, sizeof(current.slowest_file));
	}
	if (path[0] != '\0')
		checkpoint_files_synced(current.id, path, microseconds);
	publish();
}

void
checkpoint_stats_hinted(int fd, uint64 microseconds)
{
	int save_errno = errno;
	char path[MAXPGPATH];

	if (MyBackendType == B_CHECKPOINTER && checkpoint_reports != NULL && active() &&
	    calm_checkpoint_files > 0 && path_of(fd, path, sizeof(path)))
		checkpoint_files_hinted(current.id, path, microseconds);
	errno = save_errno;
}

/* The first data file is about to be fsynced, or pages before it drained */
void
checkpoint_stats_sync_begins(void)
{
	if (!active() || current.sync_began)
		return;
	current.sync_began = true;
	if (calm_mode != CALM_MODE_OFF)
		current.unflushed_at_sync = (int64) page_map_unflushed(calm_page_map);
	publish();
}

static TimestampTz drain_began = 0;

/*
 * Whether the checkpoint under way is to be done as fast as possible, or may be: its
 * flags are only in the log, so with log_checkpoints off, or where no message of that
 * level is written, it is not known of one that neither time nor a shutdown has caused.
 */
bool
checkpoint_stats_is_immediate(void)
{
	return !active() || strstr(current.flags, "immediate") ||
	       strcmp(current.reason, "unknown") == 0 || strcmp(current.reason, "shutdown") == 0 ||
	       strcmp(current.reason, "end-of-recovery") == 0;
}

void
checkpoint_stats_drain_begin(void)
{
	drain_began = GetCurrentTimestamp();
}

void
checkpoint_stats_drain_end(uint64 pages_left)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!active())
		return;
	current.drained = true;
	if (drain_began != 0 && now > drain_began)
		current.drain_us += now - drain_began;
	current.undrained = (int64) pages_left;
	drain_began = 0;
	publish();
}
