/*-------------------------------------------------------------------------
 *
 * archive_watch.h
 *	  How much WAL waits to be archived, and whether that will fill the disk.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ARCHIVE_WATCH_H
#define PG_CALM_ARCHIVE_WATCH_H

#include "postgres.h"

#include <time.h>

#include "archive_ready_queue.h"

/* What is done when the threshold is passed */
typedef enum ArchiveAlertAction
{
	ARCHIVE_ALERT_ONLY,
	ARCHIVE_ALERT_PACE, /* and writers are slowed down: governor.h */
} ArchiveAlertAction;

/* GUCs */
extern int calm_archive_alert_threshold; /* MB; 0: never; -1: the free space */
extern int calm_archive_alert_action;    /* ArchiveAlertAction */

/* What is announced in archive_status */
typedef struct ArchiveQueue
{
	uint64 files;
	uint64 bytes;
	ArchiveFileName oldest; /* first in order of archiving, or "" */
	time_t oldest_since;    /* when that was announced */
	uint64 free_bytes;      /* of pg_wal's filesystem, for the server */
} ArchiveQueue;

extern Size archive_watch_size(void);
extern void archive_watch_start(void);
extern bool archive_watch_read_queue(ArchiveQueue *queue);
extern double archive_watch_wal_rate(void);
extern double archive_watch_seconds_to_full(const ArchiveQueue *queue);
extern double archive_watch_pressure(void);
extern bool archive_watch_backlog(uint64 *bytes, uint64 *threshold);

/* For the writeback worker, as often as it likes */
extern void archive_watch_tick(uint64 now_ms);

#endif /* PG_CALM_ARCHIVE_WATCH_H */
