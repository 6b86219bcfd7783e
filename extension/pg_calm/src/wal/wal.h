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

#include "replay_rate.h"
#include "wal_ahead.h"
#include "wal_cache.h"
#include "wal_flush_time.h"

#endif /* PG_CALM_WAL_H */
