/*-------------------------------------------------------------------------
 *
 * checkpoint_stats.c
 *	  A report of every checkpoint: the view pg_calm_checkpoints.
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
 * Before and after figures of WAL come from the writeback worker, which notes
 * the position of WAL and the count of full-page images once a second.  It
 * also closes a report whose end the checkpointer made no call after.
 *
 * Reports live as long as the server's shared memory does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "archive/archive.h"
#include "checkpoint_stats.h"
#include "wal/wal.h"
#include "base/base.h"
#include "fmgr.h"
#include "funcapi.h"
#include "map/map.h"
#include "shared/shared.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/ps_status.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_calm_checkpoints);
PG_FUNCTION_INFO_V1(pg_calm_reset);

/* Milliseconds between looks of the worker at reports, and between samples */
#define LOOK_INTERVAL_MS 50
#define SAMPLE_INTERVAL_MS 1000

/* Enough for the span before a checkpoint, with one for each look */
#define SAMPLES 1024

/* With more between two samples, nothing is said about what lies between */
#define SAMPLE_GAP_US (3 * USECS_PER_SEC)

/* Boundaries of phases, in order; 0 in CheckpointReport.at: not seen */
typedef enum Boundary
{
	STARTED,
	SLOTS_DONE, /* relation map, slots, logical decoding, origins */
	CLOG_DONE,
	COMMIT_TS_DONE,
	SUBTRANS_DONE,
	MULTIXACT_DONE,
	SERIAL_DONE, /* only if pg_serial was written */
	SCAN_DONE,   /* buffers: found and sorted */
	WRITE_DONE,
	SYNC_DONE,
	ENDED,
	BOUNDARIES
} Boundary;

typedef enum ReportStatus
{
	REPORT_RUNNING,
	REPORT_COMPLETE,
	REPORT_FAILED,
	REPORT_UNKNOWN, /* over, and no telling how */
} ReportStatus;

/* Moments about which WAL figures are kept, in seconds from the start */
static const int wal_moments[] = {-30, -5, 0, 5, 30};

#define WAL_MOMENTS 5

typedef struct WalMoment
{
	bool known;
	XLogRecPtr position;
	int64 full_page_images; /* -1: not known */
} WalMoment;

/* What the checkpointer knows */
typedef struct CheckpointReport
{
	uint64 id; /* from 1 */
	ReportStatus status;
	bool restartpoint;
	int mode; /* CalmMode */
	char reason[20];
	char flags[100]; /* "": not known */
	TimestampTz at[BOUNDARIES];
	XLogRecPtr redo; /* 0: a restartpoint */
	uint64 drain_us;
	bool drained;
	bool sync_began;
	bool durable;          /* the control file names it */
	int64 dirty_buffers;   /* -1: not known */
	int64 written_buffers; /* -1: not known */
	int64 slru_pages;      /* counted among the buffers by the server, before 18 */
	uint64 bridged_pages;  /* in the report under way: counter at its start; so the next three */
	uint64 device_operations;
	uint64 wal_flushes;
	uint64 wal_flush_us;
	bool wal_flushes_known;
	int64 unflushed_at_sync; /* -1: not known */
	int64 undrained;         /* -1: no drain */
	uint64 files_synced;
	uint64 fsync_us; /* of all of them together */
	uint64 slowest_us;
	char slowest_file[PAGE_MAP_PATH_MAX];
} CheckpointReport;

typedef struct ReportSlot
{
	CheckpointReport report;
	/* by the worker */
	WalMoment wal[WAL_MOMENTS];
} ReportSlot;

typedef struct ReportShared
{
	slock_t lock;
	uint64 last_id;                         /* newest report; 0: none yet */
	uint64 first_id;                        /* older ones have been forgotten */
	volatile uint32 *checkpointer_waits_on; /* its wait event; NULL: none yet */
	pg_atomic_uint64 buffers_written;       /* by the newest one, while it writes */
	ReportSlot slots[FLEXIBLE_ARRAY_MEMBER];
} ReportShared;

/* One look at WAL */
typedef struct WalSample
{
	TimestampTz time;
	XLogRecPtr position;
	int64 full_page_images;
} WalSample;

int calm_checkpoint_history = 100;

static ReportShared *shared = NULL;
static emit_log_hook_type previous_emit_log = NULL;

/* The checkpointer's: the report under way, if status is REPORT_RUNNING */
static CheckpointReport current = {.status = REPORT_UNKNOWN};
static bool buffer_ids_cleared = false;

/* The worker's */
static WalSample samples[SAMPLES];
static uint64 sample_count = 0; /* ever taken */

static inline bool active(void);
static ReportSlot *slot_of(uint64 id);
static void count_since_start(CheckpointReport *report);
static void publish(void);
static void begin(bool restartpoint, const char *flags);
static void finish(void);
static void close_unseen(uint64 id);
static void observe(void);
static void reached(Boundary boundary, TimestampTz when);
static void scan_done(TimestampTz when);
static void forget_dirty_buffers(void);
static int64 count_dirty_buffers(void);
static bool path_of(int fd, char *path, size_t size);
static void reason_from_flags(CheckpointReport *report, const char *flags);
static void reason_from_traces(CheckpointReport *report);
static double phase_ms(const CheckpointReport *report, Boundary from, Boundary to);
static double other_slru_ms(const CheckpointReport *report);
static double scan_ms(const CheckpointReport *report);
static double drain_ms(const CheckpointReport *report);
static double fsync_ms(const CheckpointReport *report);
static int64 unflushed_pages(void);
static void log_report(void);
static void watch_log(ErrorData *edata);
static void take_sample(void);
static bool wal_at(TimestampTz when, WalMoment *moment);
static bool fill_wal(uint64 id, TimestampTz now);
static void close_abandoned(uint64 id);

Size
checkpoint_stats_size(void)
{
	return MAXALIGN(add_size(offsetof(ReportShared, slots),
	                         mul_size(calm_checkpoint_history, sizeof(ReportSlot))));
}

/* Called with AddinShmemInitLock held */
void
checkpoint_stats_start(void)
{
	bool found;
	ReportShared *memory =
		ShmemInitStruct("pg_calm checkpoint reports", checkpoint_stats_size(), &found);

	if (!found)
	{
		memset(memory, 0, checkpoint_stats_size());
		memory->first_id = 1;
		pg_atomic_init_u64(&memory->buffers_written, 0);
		SpinLockInit(&memory->lock);
	}
	shared = memory;
}

static ReportSlot *
slot_of(uint64 id)
{
	return &shared->slots[id % calm_checkpoint_history];
}

/*
 * Recording, in the checkpointer
 */

static inline bool
active(void)
{
	return current.status == REPORT_RUNNING;
}

/* In a report that has counters' values at its start: what they counted since */
static void
count_since_start(CheckpointReport *report)
{
	uint64 flushes;
	uint64 flush_us;

	report->bridged_pages =
		pg_atomic_read_u64(&calm_shared->counters.bridged_pages) - report->bridged_pages;
	report->device_operations =
		pg_atomic_read_u64(&calm_shared->counters.device_operations) - report->device_operations;
	report->wal_flushes_known = commit_delay_flush_counters(&flushes, &flush_us) &&
	                            report->wal_flushes_known && flushes >= report->wal_flushes;
	report->wal_flushes = flushes - report->wal_flushes;
	report->wal_flush_us = flush_us - report->wal_flush_us;
}

/* Show the report under way to others */
static void
publish(void)
{
	CheckpointReport *report = &slot_of(current.id)->report;

	SpinLockAcquire(&shared->lock);
	memcpy(report, &current, sizeof(CheckpointReport));
	/* while it runs, the counters' values at its start stand for the figures */
	if (active())
		count_since_start(report);
	SpinLockRelease(&shared->lock);
}

/*
 * A checkpoint has started: flags are those of the server's log message, or
 * NULL if that isn't written.
 */
static void
begin(bool restartpoint, const char *flags)
{
	ReportSlot *slot;

	if (active())
		close_unseen(current.id);

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
	current.wal_flushes_known =
		commit_delay_flush_counters(&current.wal_flushes, &current.wal_flush_us);
	if (flags)
		reason_from_flags(&current, flags);
	else
		reason_from_traces(&current);
	if (!current.restartpoint)
		current.redo = GetRedoRecPtr();
	buffer_ids_cleared = false;
	histogram_checkpoint_begins();

	SpinLockAcquire(&shared->lock);
	current.id = shared->last_id + 1;
	slot = slot_of(current.id);
	memset(slot, 0, sizeof(ReportSlot));
	memcpy(&slot->report, &current, sizeof(CheckpointReport));
	slot->report.bridged_pages = 0;
	slot->report.device_operations = 0;
	slot->report.wal_flushes = 0;
	slot->report.wal_flush_us = 0;
	shared->last_id = current.id;
	shared->checkpointer_waits_on = my_wait_event_info;
	pg_atomic_write_u64(&shared->buffers_written, 0);
	SpinLockRelease(&shared->lock);
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
static void
close_unseen(uint64 id)
{
	CheckpointReport *report = &slot_of(id)->report;
	bool complete = false;

	SpinLockAcquire(&shared->lock);
	if (report->id == id && report->status == REPORT_RUNNING)
	{
		complete = report->durable;
		report->status = complete ? REPORT_COMPLETE : enableFsync ? REPORT_FAILED : REPORT_UNKNOWN;
	}
	SpinLockRelease(&shared->lock);
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
static void
observe(void)
{
	if (CheckpointStats.ckpt_start_t != current.at[STARTED])
	{
		if (CheckpointStats.ckpt_write_t == 0)
			return;
		begin(RecoveryInProgress(), NULL);
	}
	if (!active())
		return;
	reached(SLOTS_DONE, CheckpointStats.ckpt_write_t);
	if (CheckpointStats.ckpt_sync_t != 0 && current.at[WRITE_DONE] == 0)
	{
		if (current.at[SCAN_DONE] == 0)
			scan_done(CheckpointStats.ckpt_sync_t); /* nothing had to be written */
		current.written_buffers = CheckpointStats.ckpt_bufs_written - current.slru_pages;
		reached(WRITE_DONE, CheckpointStats.ckpt_sync_t);
	}
	reached(SYNC_DONE, CheckpointStats.ckpt_sync_end_t);
	if (CheckpointStats.ckpt_end_t != 0)
	{
		reached(ENDED, CheckpointStats.ckpt_end_t);
		finish();
	}
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

	if (MyBackendType != B_CHECKPOINTER || shared == NULL)
		return;
	observe();
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
		pg_atomic_fetch_add_u64(&shared->buffers_written, 1);
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

	if (MyBackendType != B_CHECKPOINTER || shared == NULL)
		return;
	observe();
	if (wait_event == WAIT_EVENT_DATA_FILE_SYNC && active() && current.at[WRITE_DONE] != 0)
		checkpoint_stats_sync_begins();
	errno = save_errno;
}

void
checkpoint_stats_fsync_ended(int fd, uint32 wait_event, bool ok, uint64 microseconds)
{
	int save_errno = errno;
	char path[MAXPGPATH];

	if (MyBackendType != B_CHECKPOINTER || shared == NULL || !active())
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

	if (MyBackendType != B_CHECKPOINTER || shared == NULL || !active())
		return;
	observe();
	errno = save_errno;
}

/* A file was fsynced in the sync phase */
void
checkpoint_stats_file_synced(int fd, uint64 microseconds)
{
	if (!active())
		return;
	current.files_synced++;
	current.fsync_us += microseconds;
	if (microseconds >= current.slowest_us || current.slowest_file[0] == '\0')
	{
		current.slowest_us = microseconds;
		if (!path_of(fd, current.slowest_file, sizeof(current.slowest_file)))
			current.slowest_file[0] = '\0';
	}
	publish();
}

/*
 * Pages marked in the map.  The map's own counters have one that was written
 * before and after the checkpoint began to write, and so is marked in both
 * generations, twice.
 */
static int64
unflushed_pages(void)
{
	int64 pages = 0;

	for (uint32 f = 0; (f = page_map_next_marked(calm_page_map, f)) != PAGE_MAP_END; f++)
	{
		PageMapFile *file = page_map_file(calm_page_map, f);
		uint32 regions = page_map_file_regions(file);

		for (uint32 number = 0; number < regions; number++)
		{
			uint32 slot = page_map_slot(calm_page_map, file, number);
			PageMapBits bits;

			if (slot == 0 || page_map_region_count(page_map_region(calm_page_map, slot - 1)) == 0)
				continue;
			page_map_peek_region(page_map_region(calm_page_map, slot - 1), &bits);
			for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
				pages += pg_popcount64(bits.word[i]);
		}
	}
	return pages;
}

/* The first data file is about to be fsynced, or pages before it drained */
void
checkpoint_stats_sync_begins(void)
{
	if (!active() || current.sync_began)
		return;
	current.sync_began = true;
	if (calm_mode != CALM_MODE_OFF)
		current.unflushed_at_sync = unflushed_pages();
	publish();
}

static TimestampTz drain_began = 0;

/*
 * Whether the checkpoint under way is to be done as fast as possible, as far as
 * is known: its flags are only in the log, so with log_checkpoints off one that
 * was asked for by CHECKPOINT passes for any other; one at shutdown doesn't.
 */
bool
checkpoint_stats_is_immediate(void)
{
	return active() &&
	       (strstr(current.flags, "immediate") || strcmp(current.reason, "shutdown") == 0 ||
	        strcmp(current.reason, "end-of-recovery") == 0);
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

/*
 * Log messages
 */

/* Milliseconds, or negative if not known */
static double
phase_ms(const CheckpointReport *report, Boundary from, Boundary to)
{
	if (report->at[from] == 0 || report->at[to] == 0 || report->at[to] < report->at[from])
		return -1;
	return (report->at[to] - report->at[from]) / 1000.0;
}

static double
other_slru_ms(const CheckpointReport *report)
{
	double commit_ts = phase_ms(report, CLOG_DONE, COMMIT_TS_DONE);

	if (commit_ts < 0 || report->at[SERIAL_DONE] == 0)
		return commit_ts;
	return commit_ts + Max(phase_ms(report, MULTIXACT_DONE, SERIAL_DONE), 0);
}

static double
scan_ms(const CheckpointReport *report)
{
	return phase_ms(report, report->at[SERIAL_DONE] != 0 ? SERIAL_DONE : MULTIXACT_DONE, SCAN_DONE);
}

static double
drain_ms(const CheckpointReport *report)
{
	return report->drained ? report->drain_us / 1000.0 : -1;
}

static double
fsync_ms(const CheckpointReport *report)
{
	return report->at[WRITE_DONE] != 0 ? report->fsync_us / 1000.0 : -1;
}

/*
 * One line for the report that has just ended; what is not known is left out.
 * Sync is as the server logs it; what is in it follows.
 */
static void
log_report(void)
{
	struct
	{
		const char *name;
		double ms;
	} phases[] = {
		{"slots", phase_ms(&current, STARTED, SLOTS_DONE)},
		{"clog", phase_ms(&current, SLOTS_DONE, CLOG_DONE)},
		{"subtrans", phase_ms(&current, COMMIT_TS_DONE, SUBTRANS_DONE)},
		{"multixact", phase_ms(&current, SUBTRANS_DONE, MULTIXACT_DONE)},
		{"other SLRU", other_slru_ms(&current)},
		{"buffer scan", scan_ms(&current)},
		{"write", phase_ms(&current, SCAN_DONE, WRITE_DONE)},
		{"sync", phase_ms(&current, WRITE_DONE, SYNC_DONE)},
		{"drain in sync", drain_ms(&current)},
		{"fsync in sync", fsync_ms(&current)},
		{"end", phase_ms(&current, SYNC_DONE, ENDED)},
	};
	char text[1024];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < lengthof(phases); i++)
	{
		if (phases[i].ms >= 0)
			used += snprintf(text + used, sizeof(text) - used, "%s=%.3f s, ", phases[i].name,
			                 phases[i].ms / 1000);
	}
	if (current.dirty_buffers >= 0)
		used += snprintf(text + used, sizeof(text) - used, "dirty=%lld buffers, ",
		                 (long long) current.dirty_buffers);
	if (current.written_buffers >= 0)
		used += snprintf(text + used, sizeof(text) - used, "written=%lld buffers, ",
		                 (long long) current.written_buffers);
	used += snprintf(
		text + used, sizeof(text) - used, "bridged=%llu pages, device operations=%llu, ",
		(unsigned long long) current.bridged_pages, (unsigned long long) current.device_operations);
	if (current.wal_flushes_known)
		used += snprintf(
			text + used, sizeof(text) - used, "WAL flushes=%llu, average=%.2f ms, ",
			(unsigned long long) current.wal_flushes,
			current.wal_flushes > 0 ? current.wal_flush_us / 1000.0 / current.wal_flushes : 0);
	if (current.unflushed_at_sync >= 0)
		used += snprintf(text + used, sizeof(text) - used, "unflushed at sync=%lld pages, ",
		                 (long long) current.unflushed_at_sync);
	used += snprintf(text + used, sizeof(text) - used, "sync files=%llu",
	                 (unsigned long long) current.files_synced);
	if (current.slowest_file[0])
		snprintf(text + used, sizeof(text) - used, ", slowest=%.3f s (%s)",
		         current.slowest_us / 1e6, current.slowest_file);

	ereport(LOG, (errmsg("pg_calm: %s %llu (%s): %s",
	                     current.restartpoint ? "restartpoint" : "checkpoint",
	                     (unsigned long long) current.id, current.reason, text),
	              errhidestmt(true)));
}

/*
 * The server logs a checkpoint's start and end, if log_checkpoints is on:
 * LogCheckpointStart and LogCheckpointEnd.  Messages are told by their
 * untranslated format; the flags are words that are not translated.
 */
static void
watch_log(ErrorData *edata)
{
	if (previous_emit_log)
		previous_emit_log(edata);
	if (MyBackendType != B_CHECKPOINTER || shared == NULL || edata->elevel != LOG ||
	    edata->message_id == NULL || edata->message == NULL)
		return;

	if (strncmp(edata->message_id, "checkpoint starting:", strlen("checkpoint starting:")) == 0 ||
	    strncmp(edata->message_id, "restartpoint starting:", strlen("restartpoint starting:")) == 0)
	{
		const char *flags = edata->message + strlen(edata->message);

		while (flags > edata->message &&
		       ((flags[-1] >= 'a' && flags[-1] <= 'z') || flags[-1] == '-' || flags[-1] == ' '))
			flags--;
		while (*flags == ' ')
			flags++;
		begin(edata->message_id[0] == 'r', flags);
		forget_dirty_buffers();
	}
	else if (strncmp(edata->message_id, "checkpoint complete:", strlen("checkpoint complete:")) ==
	             0 ||
	         strncmp(edata->message_id,
	                 "restartpoint complete:", strlen("restartpoint complete:")) == 0)
	{
		bool was_active;

		was_active = active();
		observe();
		if (was_active && current.status == REPORT_COMPLETE)
			log_report();
	}
}

void
checkpoint_stats_watch_log(void)
{
	previous_emit_log = emit_log_hook;
	emit_log_hook = watch_log;
}

/*
 * In the worker
 */

static void
take_sample(void)
{
	WalSample *sample = &samples[sample_count++ % SAMPLES];
	bool recovery = RecoveryInProgress();

	sample->time = GetCurrentTimestamp();
	sample->position = recovery ? GetXLogReplayRecPtr(NULL) : GetXLogInsertRecPtr();

	/*
	 * During recovery no full-page images are generated, and the counter is
	 * read back from its file at some moment of it.
	 */
	sample->full_page_images = -1;
	if (!recovery)
	{
		pgstat_clear_snapshot();
		sample->full_page_images = CALM_WAL_FULL_PAGE_IMAGES();
	}
}

/*
 * WAL at a moment between two samples, in proportion.  False if there are
 * none close enough.
 */
static bool
wal_at(TimestampTz when, WalMoment *moment)
{
	uint64 low = sample_count > SAMPLES ? sample_count - SAMPLES : 0;
	uint64 high = sample_count;
	const WalSample *before;
	const WalSample *after;
	double part;

	/* the first sample that is not before the moment */
	if (low == high || samples[low % SAMPLES].time > when)
		return false;
	while (low < high)
	{
		uint64 middle = low + (high - low) / 2;

		if (samples[middle % SAMPLES].time < when)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == sample_count)
		return false;
	after = &samples[low % SAMPLES];
	before = after->time == when ? after : &samples[(low - 1) % SAMPLES];
	if (after->time - before->time > SAMPLE_GAP_US || after->position < before->position)
		return false;

	part = after == before ? 0 : (double) (when - before->time) / (after->time - before->time);
	moment->known = true;
	moment->position =
		before->position + (XLogRecPtr) (part * (after->position - before->position));
	moment->full_page_images = -1;
	if (before->full_page_images >= 0 && after->full_page_images >= before->full_page_images)
		moment->full_page_images =
			before->full_page_images +
			(int64) (part * (after->full_page_images - before->full_page_images));
	return true;
}

/* Fill in what can be told of WAL about a checkpoint by now; true if all is */
static bool
fill_wal(uint64 id, TimestampTz now)
{
	ReportSlot *slot = slot_of(id);
	TimestampTz started;
	XLogRecPtr redo;
	bool known[WAL_MOMENTS];
	bool mine;

	SpinLockAcquire(&shared->lock);
	mine = slot->report.id == id;
	started = slot->report.at[STARTED];
	redo = slot->report.redo;
	for (int i = 0; i < WAL_MOMENTS; i++)
		known[i] = slot->wal[i].known;
	SpinLockRelease(&shared->lock);
	if (!mine)
		return true;

	for (int i = 0; i < WAL_MOMENTS; i++)
	{
		TimestampTz when = started + wal_moments[i] * USECS_PER_SEC;
		WalMoment moment = {0};

		if (known[i] || when > now)
			continue;
		/* one that is behind the moment, and close to it */
		if (sample_count == 0 || samples[(sample_count - 1) % SAMPLES].time < when)
			take_sample();
		if (!wal_at(when, &moment))
			continue;
		/* that position is known exactly */
		if (wal_moments[i] == 0 && redo != 0)
			moment.position = redo;
		SpinLockAcquire(&shared->lock);
		if (slot->report.id == id)
			slot->wal[i] = moment;
		SpinLockRelease(&shared->lock);
	}
	return now > started + 30 * USECS_PER_SEC;
}

/*
 * The checkpointer idles, so no checkpoint is under way.  If one seems to be,
 * it ended and made no call after that from which we could have learnt when:
 * log_checkpoints is off, and it had no data file open.  Or it failed.
 */
static void
close_abandoned(uint64 id)
{
	ReportSlot *slot = slot_of(id);
	volatile uint32 *event;
	bool running;

	SpinLockAcquire(&shared->lock);
	running = slot->report.id == id && slot->report.status == REPORT_RUNNING;
	event = shared->checkpointer_waits_on;
	SpinLockRelease(&shared->lock);

	/* it ran when we looked there, so what we see now comes after its end */
	if (running && event != NULL && *event == WAIT_EVENT_CHECKPOINTER_MAIN)
		close_unseen(id);
}

void
checkpoint_stats_tick(uint64 now_ms)
{
	static uint64 next_look_ms = 0;
	static uint64 next_sample_ms = 0;
	static uint64 seen_id = 0;   /* newest report that we have seen */
	static uint64 filled_id = 0; /* up to this, there is nothing left to fill */
	TimestampTz now;
	uint64 last_id;

	if (now_ms < next_look_ms)
		return;
	next_look_ms = now_ms + LOOK_INTERVAL_MS;

	SpinLockAcquire(&shared->lock);
	last_id = shared->last_id;
	SpinLockRelease(&shared->lock);

	/* right after a start the rate changes most */
	if (now_ms >= next_sample_ms || last_id != seen_id)
	{
		take_sample();
		next_sample_ms = now_ms + SAMPLE_INTERVAL_MS;
		seen_id = last_id;
	}

	if (last_id - filled_id > (uint64) calm_checkpoint_history)
		filled_id = last_id - calm_checkpoint_history;
	now = GetCurrentTimestamp();
	for (uint64 id = filled_id + 1; id <= last_id; id++)
	{
		if (fill_wal(id, now) && id == filled_id + 1)
			filled_id = id;
	}
	if (last_id > 0)
		close_abandoned(last_id);
}

/*
 * SQL
 */

/* Difference of two moments in values[column], values[column + 1] */
static void
put_wal_span(const WalMoment *from, const WalMoment *to, Datum *values, bool *nulls)
{
	bool known = from->known && to->known && to->position >= from->position;
	bool images =
		known && from->full_page_images >= 0 && to->full_page_images >= from->full_page_images;

	nulls[0] = !known;
	values[0] = Int64GetDatum(known ? (int64) (to->position - from->position) : 0);
	nulls[1] = !images;
	values[1] = Int64GetDatum(images ? to->full_page_images - from->full_page_images : 0);
}

static void
put_ms(double ms, Datum *value, bool *null)
{
	*null = ms < 0;
	*value = Float8GetDatum(ms);
}

static void
put_count(int64 count, Datum *value, bool *null)
{
	*null = count < 0;
	*value = Int64GetDatum(count);
}

Datum
pg_calm_checkpoints(PG_FUNCTION_ARGS)
{
	static const char *const statuses[] = {"running", "complete", "failed", "unknown"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ReportSlot *copy = palloc(sizeof(ReportSlot));
	const CheckpointReport *report = &copy->report;
	uint64 first;
	uint64 last;

	InitMaterializedSRF(fcinfo, 0);

	SpinLockAcquire(&shared->lock);
	first = shared->first_id;
	last = shared->last_id;
	SpinLockRelease(&shared->lock);
	if (last >= (uint64) calm_checkpoint_history)
		first = Max(first, last - calm_checkpoint_history + 1);

	for (uint64 id = first; id <= last; id++)
	{
		Datum values[39];
		bool nulls[39] = {false};
		int c = 0;

		SpinLockAcquire(&shared->lock);
		memcpy(copy, slot_of(id), sizeof(ReportSlot));
		/* the server's count comes at the end of the phase */
		if (id == shared->last_id && report->status == REPORT_RUNNING &&
		    report->at[SCAN_DONE] != 0 && report->at[WRITE_DONE] == 0)
			copy->report.written_buffers = (int64) pg_atomic_read_u64(&shared->buffers_written);
		SpinLockRelease(&shared->lock);
		if (report->id != id)
			continue; /* overwritten meanwhile */

		values[c++] = Int64GetDatum((int64) report->id);
		values[c++] = CStringGetTextDatum(report->restartpoint ? "restartpoint" : "checkpoint");
		values[c++] = CStringGetTextDatum(report->reason);
		nulls[c] = report->flags[0] == '\0';
		values[c++] = CStringGetTextDatum(report->flags);
		values[c++] = CStringGetTextDatum(statuses[report->status]);
		values[c++] = CStringGetTextDatum(calm_mode_name(report->mode));
		values[c++] = TimestampTzGetDatum(report->at[STARTED]);
		nulls[c] = report->at[ENDED] == 0;
		values[c++] = TimestampTzGetDatum(report->at[ENDED]);
		put_ms(phase_ms(report, STARTED, ENDED), &values[c], &nulls[c]), c++;
		put_ms(phase_ms(report, STARTED, SLOTS_DONE), &values[c], &nulls[c]), c++;
		put_ms(phase_ms(report, SLOTS_DONE, CLOG_DONE), &values[c], &nulls[c]), c++;
		put_ms(phase_ms(report, COMMIT_TS_DONE, SUBTRANS_DONE), &values[c], &nulls[c]), c++;
		put_ms(phase_ms(report, SUBTRANS_DONE, MULTIXACT_DONE), &values[c], &nulls[c]), c++;
		put_ms(other_slru_ms(report), &values[c], &nulls[c]), c++;
		put_ms(scan_ms(report), &values[c], &nulls[c]), c++;
		put_ms(phase_ms(report, SCAN_DONE, WRITE_DONE), &values[c], &nulls[c]), c++;
		put_ms(phase_ms(report, WRITE_DONE, SYNC_DONE), &values[c], &nulls[c]), c++;
		put_ms(drain_ms(report), &values[c], &nulls[c]), c++;
		put_ms(fsync_ms(report), &values[c], &nulls[c]), c++;
		put_ms(phase_ms(report, SYNC_DONE, ENDED), &values[c], &nulls[c]), c++;
		put_count(report->dirty_buffers, &values[c], &nulls[c]), c++;
		put_count(report->written_buffers, &values[c], &nulls[c]), c++;
		put_count((int64) report->bridged_pages, &values[c], &nulls[c]), c++;
		put_count((int64) report->device_operations, &values[c], &nulls[c]), c++;
		put_count(report->unflushed_at_sync, &values[c], &nulls[c]), c++;
		put_count(report->undrained, &values[c], &nulls[c]), c++;
		put_count((int64) report->files_synced, &values[c], &nulls[c]), c++;
		nulls[c] = report->slowest_file[0] == '\0';
		values[c++] = CStringGetTextDatum(report->slowest_file);
		put_ms(report->files_synced > 0 ? report->slowest_us / 1000.0 : -1, &values[c], &nulls[c]),
			c++;
		put_wal_span(&copy->wal[1], &copy->wal[2], &values[c], &nulls[c]), c += 2;
		put_wal_span(&copy->wal[2], &copy->wal[3], &values[c], &nulls[c]), c += 2;
		put_wal_span(&copy->wal[0], &copy->wal[2], &values[c], &nulls[c]), c += 2;
		put_wal_span(&copy->wal[2], &copy->wal[4], &values[c], &nulls[c]), c += 2;
		put_count(report->wal_flushes_known ? (int64) report->wal_flushes : -1, &values[c],
		          &nulls[c]),
			c++;
		put_ms(report->wal_flushes_known ? report->wal_flush_us / 1000.0 : -1, &values[c],
		       &nulls[c]),
			c++;
		Assert(c == lengthof(values));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Forget the reports of checkpoints that are over, and all that was counted */
Datum
pg_calm_reset(PG_FUNCTION_ARGS)
{
	SpinLockAcquire(&shared->lock);
	shared->first_id = shared->last_id + 1;
	if (shared->last_id > 0 && slot_of(shared->last_id)->report.status == REPORT_RUNNING)
		shared->first_id = shared->last_id;
	SpinLockRelease(&shared->lock);
	histogram_reset();
	archive_stats_reset();
	PG_RETURN_VOID();
}
