/*-------------------------------------------------------------------------
 *
 * wal.h
 *	  WAL's next segments, WAL in the page cache, and how fast it is replayed.
 *
 * - A segment is filled by the server's own function, by a process that waits for nothing.
 * - WAL is dropped from the page cache only when nobody here will read it, and by
 *   a process that waits for nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WAL_H
#define PG_CALM_WAL_H

#include "shared/shared.h"

/* replay_rate.c */

/* The worker's, at each step: what is short is not to count as long as the time between looks */
extern void replay_rate_tick(uint64 now_ms);

/* wal_ahead.c */

extern void wal_ahead_tick(uint64 now_ms, void (*between)(void));
extern bool wal_ahead_written(int fd, off_t offset, ssize_t length);
extern void wal_ahead_synced(int fd);

/* wal_cache.c */

/* GUC: whether it does */
extern bool calm_drop_wal_cache;

extern void wal_cache_tick(void);

#endif /* PG_CALM_WAL_H */
