/*-------------------------------------------------------------------------
 *
 * wal_cache.h
 *	  Keeps WAL that nobody will read from taking the page cache.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WAL_CACHE_H
#define PG_CALM_WAL_CACHE_H

#include "postgres.h"

/* GUC: whether it does */
extern bool calm_drop_wal_cache;

/*
 * For the writeback worker, several times a second.  Drops what has been flushed
 * since the last call from the page cache, unless a standby, a slot or the
 * archiver may read it.  Reads, writes and waits for nothing.
 */
extern void wal_cache_tick(void);

#endif /* PG_CALM_WAL_CACHE_H */
