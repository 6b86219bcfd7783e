/*-------------------------------------------------------------------------
 *
 * wal_flush_time.h
 *	  How long flushes of WAL take.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WAL_FLUSH_TIME_H
#define PG_CALM_WAL_FLUSH_TIME_H

#include "postgres.h"

/* Around the server's flush of WAL by fdatasync or fsync */
extern void wal_flush_begins(void);
extern void wal_flush_ended(void);

#endif /* PG_CALM_WAL_FLUSH_TIME_H */
