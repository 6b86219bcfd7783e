/*-------------------------------------------------------------------------
 *
 * checkpoint_stats.c
 *	  Recording what a checkpoint does, in the checkpointer, for its report.
 *
 * The server has no hook for checkpoints.  It has CheckpointStats, which the checkpointer
 * fills in as it goes, and log messages, if log_checkpoints is on: only they tell why it was
 * started, and whether it is to be fast.  What can't be seen is null in the view, never
 * guessed.
 *
 * The checkpointer keeps the report under way in local memory and copies it
 * to shared memory whenever it changes, under a spinlock.  It does so in the
 * replaced calls, that is in critical sections and with locks held: nothing
 * here allocates, waits or raises errors.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xlog.h"
#include "base/base.h"
#include "checkpoint.h"
#include "pgstat.h"
#include "shared/shared.h"
#include "storage/shmem.h"

ReportShared *checkpoint_reports = NULL;

/* The checkpointer's: the report under way, if status is REPORT_RUNNING */
static CheckpointReport current = {.status = REPORT_UNKNOWN};

Size
checkpoint_stats_size(void)
{
	return MAXALIGN(sizeof(ReportShared));
}

/* Called with AddinShmemInitLock held */
void
checkpoint_stats_start(void)
{
	bool found;
	ReportShared *memory =
		ShmemInitStruct("pg_calm checkpoint reports", sizeof(ReportShared), &found);

	if (!found)
	{
		memset(memory, 0, sizeof(ReportShared));
		pg_atomic_init_u64(&memory->buffers_written, 0);
		SpinLockInit(&memory->lock);
	}
	checkpoint_reports = memory;
}

static inline bool
is_checkpointer(void)
{
	return MyBackendType == B_CHECKPOINTER && checkpoint_reports != NULL;
}

/* Show the report under way to others */
static void
publish(void)
{
	CheckpointReport *report = &checkpoint_reports->reports[current.id % CHECKPOINT_HISTORY];
	uint64 bridged = pg_atomic_read_u64(&calm_shared->counters.bridged_pages);

	SpinLockAcquire(&checkpoint_reports->lock);
	*report = current;
	report->bridged_pages = bridged - current.bridged_pages;
	SpinLockRelease(&checkpoint_reports->lock);
}

/* A checkpoint has started; flags are NULL if the server does not log them */
void
checkpoint_stats_begin(bool restartpoint, const char *flags)
{
	const char *reason = CALM_CHECKPOINT_IS_TIMED() ? "time" : "unknown";

	if (flags)
		reason = strstr(flags, "end-of-recovery") ? "end-of-recovery" :
		         strstr(flags, "shutdown")        ? "shutdown" :
		         strstr(flags, "wal")             ? "wal" :
		         strstr(flags, "time")            ? "time" :
		                                            "requested";
	current = (CheckpointReport){.status = REPORT_RUNNING,
	                             .restartpoint = restartpoint,
	                             .started = CheckpointStats.ckpt_start_t,
	                             .unflushed_at_sync = -1};
	strlcpy(current.reason, reason, sizeof(current.reason));
	/* one of which that is not known may be so, and must not wait then */
	current.immediate = strcmp(reason, "unknown") == 0 || strcmp(reason, "shutdown") == 0 ||
	                    strcmp(reason, "end-of-recovery") == 0 ||
	                    (flags && (strstr(flags, "immediate") || strstr(flags, "fast")));
	current.bridged_pages = pg_atomic_read_u64(&calm_shared->counters.bridged_pages);
	pg_atomic_write_u64(&checkpoint_reports->buffers_written, 0);

	SpinLockAcquire(&checkpoint_reports->lock);
	current.id = ++checkpoint_reports->last_id;
	checkpoint_reports->checkpointer_waits_on = my_wait_event_info;
	SpinLockRelease(&checkpoint_reports->lock);
	publish();
}

/*
 * See what the checkpointer has written into CheckpointStats.
 *
 * A checkpoint that the server skips because nothing happened sets the time
 * of its start and nothing else; it has none of the calls that we see, but
 * what the checkpointer does later, such as switching WAL, has.
 */
bool
checkpoint_stats_observe(CheckpointReport *report)
{
	if (CheckpointStats.ckpt_start_t != current.started)
	{
		if (CheckpointStats.ckpt_write_t == 0)
			return false;
		checkpoint_stats_begin(RecoveryInProgress(), NULL);
	}
	if (current.status != REPORT_RUNNING)
		return false;
	if (current.sync_started != CheckpointStats.ckpt_sync_t ||
	    current.sync_ended != CheckpointStats.ckpt_sync_end_t || CheckpointStats.ckpt_end_t != 0)
	{
		current.sync_started = CheckpointStats.ckpt_sync_t;
		current.sync_ended = CheckpointStats.ckpt_sync_end_t;
		current.ended = CheckpointStats.ckpt_end_t;
		if (current.sync_started != 0)
			current.buffers_written =
				(int64) pg_atomic_read_u64(&checkpoint_reports->buffers_written);
		if (current.ended != 0)
			current.status = REPORT_COMPLETE;
		publish();
	}
	if (report)
		*report = checkpoint_reports->reports[current.id % CHECKPOINT_HISTORY];
	return current.status == REPORT_COMPLETE;
}

/* A data file was written to, which BufferSync does (SyncOneBuffer) */
void
checkpoint_stats_written(ssize_t bytes)
{
	if (!is_checkpointer())
		return;
	(void) checkpoint_stats_observe(NULL);
	pg_atomic_fetch_add_u64(&checkpoint_reports->buffers_written, bytes / BLCKSZ);
}

void
checkpoint_stats_fsync_begins(uint32 wait_event)
{
	if (!is_checkpointer())
		return;
	(void) checkpoint_stats_observe(NULL);
	/* the first data file is about to be fsynced, or pages before it drained */
	if (wait_event == WAIT_EVENT_DATA_FILE_SYNC && current.status == REPORT_RUNNING &&
	    current.sync_started != 0 && current.unflushed_at_sync < 0 && calm_mode != CALM_MODE_OFF)
	{
		current.unflushed_at_sync = (int64) page_map_unflushed(calm_page_map);
		publish();
	}
}

/* fd was fsynced in the sync phase; its name is relative to the data directory if it is there */
static void
file_synced(int fd, uint64 microseconds)
{
	static char directory[MAXPGPATH] = "";
	char link[64];
	char path[MAXPGPATH];
	ssize_t length;
	size_t prefix;

	current.files_synced++;
	current.fsync_us += microseconds;
	if (microseconds < current.slowest_us)
		return;
	current.slowest_us = microseconds;
	if (directory[0] == '\0' && getcwd(directory, sizeof(directory)) == NULL)
		directory[0] = '\0';
	prefix = strlen(directory);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	path[Max(length, 0)] = '\0';
	if (prefix > 0 && strncmp(path, directory, prefix) == 0 && path[prefix] == '/')
		strlcpy(current.slowest_file, path + prefix + 1, sizeof(current.slowest_file));
	else
		strlcpy(current.slowest_file, path, sizeof(current.slowest_file));
}

void
checkpoint_stats_fsync_ended(int fd, uint32 wait_event, bool ok, uint64 microseconds)
{
	int save_errno = errno;

	if (!is_checkpointer() || current.status != REPORT_RUNNING || !ok)
		return;
	if ((wait_event == WAIT_EVENT_DATA_FILE_SYNC || wait_event == WAIT_EVENT_SLRU_FLUSH_SYNC) &&
	    current.sync_started != 0 && current.sync_ended == 0)
		file_synced(fd, microseconds);
	/* a restartpoint updates the file while it writes, too */
	else if (wait_event == WAIT_EVENT_CONTROL_FILE_SYNC_UPDATE && current.sync_ended != 0)
		current.durable = true;
	else
		return;
	publish();
	errno = save_errno;
}

/* After a checkpoint the checkpointer closes the files that it wrote to */
void
checkpoint_stats_closing(void)
{
	if (is_checkpointer() && current.status == REPORT_RUNNING)
		(void) checkpoint_stats_observe(NULL);
}

bool
checkpoint_stats_is_immediate(void)
{
	return current.status != REPORT_RUNNING || current.immediate;
}

void
checkpoint_stats_drained(uint64 microseconds)
{
	if (current.status != REPORT_RUNNING)
		return;
	current.drained = true;
	current.drain_us += microseconds;
	publish();
}
