/*-------------------------------------------------------------------------
 *
 * wal_ahead.h
 *	  Fills the next WAL segment before it is needed, and slowly.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WAL_AHEAD_H
#define PG_CALM_WAL_AHEAD_H

#include "postgres.h"

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

#endif /* PG_CALM_WAL_AHEAD_H */
