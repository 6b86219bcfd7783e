/*-------------------------------------------------------------------------
 *
 * checkpoint_stats.h
 *	  A report of every checkpoint.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CHECKPOINT_STATS_H
#define PG_CALM_CHECKPOINT_STATS_H

#include "postgres.h"

extern int calm_checkpoint_history; /* GUC: reports that are kept */
extern int calm_checkpoint_files;   /* GUC: entries for files' calls that are kept */

extern Size checkpoint_stats_size(void);
extern void checkpoint_stats_start(void);
extern void checkpoint_stats_watch_log(void);

/*
 * For the replaced calls.  All return at once in processes other than the
 * checkpointer, allocate nothing, raise no error and keep errno.
 */
extern void checkpoint_stats_write_begins(int fd, uint32 wait_event);
extern void checkpoint_stats_write_ended(uint32 wait_event);
extern void checkpoint_stats_fsync_begins(uint32 wait_event);
extern void checkpoint_stats_fsync_ended(int fd, uint32 wait_event, bool ok, uint64 microseconds);
extern void checkpoint_stats_closing(void);
/* After a flush hint for a data file, obeyed or not, or the wait in its place */
extern void checkpoint_stats_hinted(int fd, uint64 microseconds);
extern void checkpoint_stats_file_synced(int fd, uint64 microseconds);

/* For drain.c, in the checkpointer */
extern void checkpoint_stats_sync_begins(void);
extern bool checkpoint_stats_is_immediate(void);
extern void checkpoint_stats_drain_begin(void);
extern void checkpoint_stats_drain_end(uint64 pages_left);

/* For the writeback worker, as often as it likes */
extern void checkpoint_stats_tick(uint64 now_ms);

#endif /* PG_CALM_CHECKPOINT_STATS_H */
