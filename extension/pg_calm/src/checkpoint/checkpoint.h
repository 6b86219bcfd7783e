/*-------------------------------------------------------------------------
 *
 * checkpoint.h
 *	  What the module does in a checkpoint, and what it reports of one.
 *
 * - Every fsync of the server happens, in its order, with its result.  A drain
 *   goes before; a drain that fails or takes too long leaves the rest to fsync.
 * - The checkpointer waits only where somebody flushes for it, not in a fast checkpoint nor once one
 *   is asked for, but for base backups, and not beyond pg_calm.drain_timeout, or four times that.
 * - Reports only count: what they need of a call is measured in the call's hook, and
 *   the server's own statistics and log lines keep the server's meaning.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CHECKPOINT_H
#define PG_CALM_CHECKPOINT_H

#include "datatype/timestamp.h"
#include "shared/shared.h"

/* checkpoint_stats.c */

/* Reports that are kept */
#define CHECKPOINT_HISTORY 100

typedef enum ReportStatus
{
	REPORT_RUNNING, /* or over, and the end was not seen: checkpoint_view.c */
	REPORT_COMPLETE,
	REPORT_FAILED,
	REPORT_UNKNOWN, /* over, and no telling how */
} ReportStatus;

typedef struct CheckpointReport
{
	uint64 id; /* from 1 */
	ReportStatus status;
	bool restartpoint;
	bool immediate;           /* to be as fast as possible, or may be */
	char reason[20];          /* "unknown": of all but time, without log_checkpoints */
	TimestampTz started;      /* this and the next three: 0: not seen */
	TimestampTz sync_started; /* written until then */
	TimestampTz sync_ended;
	TimestampTz ended;
	bool durable; /* the control file names it */
	bool drained;
	uint64 drain_us;
	uint64 bridged_pages;    /* in the report under way: the counter at its start */
	int64 buffers_written;   /* 0 before the sync phase: ReportShared.buffers_written */
	int64 unflushed_at_sync; /* -1: not known */
	uint64 files_synced;
	uint64 fsync_us; /* of all of them together */
	uint64 slowest_us;
	char slowest_file[MAXPGPATH];
} CheckpointReport;

typedef struct ReportShared
{
	slock_t lock;                                 /* protects all but the last */
	uint64 last_id;                               /* newest report; 0: none yet */
	volatile uint32 *checkpointer_waits_on;       /* its wait event; NULL: none yet */
	CheckpointReport reports[CHECKPOINT_HISTORY]; /* place: id % CHECKPOINT_HISTORY */
	pg_atomic_uint64 buffers_written;             /* by the newest one */
} ReportShared;

/* NULL before shared memory exists */
extern ReportShared *checkpoint_reports;

extern void checkpoint_stats_watch_log(void);

/*
 * For the replaced calls.  All return at once in processes other than the
 * checkpointer, allocate nothing and raise no error.
 */
extern void checkpoint_stats_written(ssize_t bytes);
extern void checkpoint_stats_fsync_begins(uint32 wait_event);
extern void checkpoint_stats_fsync_ended(int fd, uint32 wait_event, bool ok, uint64 microseconds);
extern void checkpoint_stats_closing(void);

/* For whoever waits in the checkpointer */
extern bool checkpoint_stats_must_be_fast(void);
extern void checkpoint_stats_drained(uint64 microseconds);

/* checkpoint_hold.c */

extern bool checkpoint_hold_writes(off_t bytes);

/* drain.c */

extern uint64 drain_timeout_ms(void);
extern int drain_before_checkpoint_fsync(int fd);

#endif /* PG_CALM_CHECKPOINT_H */
