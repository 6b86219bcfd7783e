/*-------------------------------------------------------------------------
 *
 * wal.h
 *	  Flushes of WAL, its next segments, and WAL in the page cache.
 *
 * - No flush of WAL is left out or comes later: they are timed.
 * - A segment is filled by the server's own function, by a process that waits for nothing.
 * - WAL is dropped from the page cache only when nobody here will read it, and by
 *   a process that waits for nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WAL_H
#define PG_CALM_WAL_H

#include "postgres.h"

/* replay_rate.c */

/* The worker's, at each look */
extern void replay_rate_tick(uint64 now_ms);

/* wal_ahead.c */

/*
 * To be called by the cleaner, as often as it likes.  If a segment that will be needed soon is
 * not there, it is filled; meanwhile between() is called every few milliseconds, so that
 * nobody waits for the cleaner.
 */
extern void wal_ahead_tick(uint64 now_ms, void (*between)(void));

/*
 * For the hooks of pwrite and pwritev: a part of the segment that this process fills has been
 * written.  Starts its writeback, and waits; false, with errno, if that failed.
 */
extern bool wal_ahead_written(int fd, off_t offset, ssize_t length,
                              int (*start)(int fd, off_t offset, off_t length, unsigned int flags));

/*
 * For the hook of fsync: a new segment has been synced, and is nobody's yet.  If it is one that
 * this process fills, its zeros don't stay in the page cache: what is written over them are whole
 * pages.
 */
extern void wal_ahead_synced(int fd);

/* wal_cache.c */

/* GUC: whether it does */
extern bool calm_drop_wal_cache;

/*
 * For the writeback worker, several times a second.  Drops what has been flushed
 * since the last call from the page cache, unless a standby, a slot or the
 * archiver may read it.  Reads, writes and waits for nothing.
 */
extern void wal_cache_tick(void);

/* wal_flush_time.c */

/* Around the server's flush of WAL by fdatasync or fsync */
extern void wal_flush_begins(void);
extern void wal_flush_ended(void);

#endif /* PG_CALM_WAL_H */
