/*-------------------------------------------------------------------------
 *
 * checkpoint_report.h
 *	  What is kept of a checkpoint, for those who record it, log it and show it.
 *
 * checkpoint_stats.c records, in the checkpointer; checkpoint_wal.c adds WAL before
 * and after, in the worker; checkpoint_log.c writes the log line, checkpoint_view.c the
 * view.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CHECKPOINT_REPORT_H
#define PG_CALM_CHECKPOINT_REPORT_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "map/map.h"
#include "port/atomics.h"
#include "storage/spin.h"

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

/* Moments about which WAL figures are kept: checkpoint_wal.c */
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
	uint64 bridged_pages;  /* in the report under way: counter at its start; so the next */
	uint64 device_operations;
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

/* NULL before shared memory exists */
extern ReportShared *checkpoint_reports;

/* Where a report is kept, or one that is newer */
extern ReportSlot *checkpoint_report_slot(uint64 id);

/*
 * The checkpointer's, in its own memory: a checkpoint has started, with the flags of the
 * server's log message or NULL; a look at what the server has done since, true if that was
 * the end; and the report under way, or the last one.
 */
extern void checkpoint_report_begin(bool restartpoint, const char *flags);
extern bool checkpoint_report_observe(void);
extern const CheckpointReport *checkpoint_report_current(void);

/* A checkpoint is over, unless that has been noted, and it wasn't seen when */
extern void checkpoint_report_close(uint64 id);

/* Milliseconds, or negative if not known */
extern double checkpoint_phase_ms(const CheckpointReport *report, Boundary from, Boundary to);
extern double checkpoint_other_slru_ms(const CheckpointReport *report);
extern double checkpoint_scan_ms(const CheckpointReport *report);
extern double checkpoint_drain_ms(const CheckpointReport *report);
extern double checkpoint_fsync_ms(const CheckpointReport *report);

#endif /* PG_CALM_CHECKPOINT_REPORT_H */
