/*-------------------------------------------------------------------------
 *
 * wal.h
 *	  Flushes of WAL, and WAL in the page cache.
 *
 * - No function of WAL is replaced, and no flush is left out or comes later: they are
 *   timed.
 * - WAL is dropped from the page cache only when nobody here will read it, and by
 *   a process that waits for nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WAL_H
#define PG_CALM_WAL_H

#include "wal_cache.h"
#include "wal_flush_time.h"

#endif /* PG_CALM_WAL_H */
