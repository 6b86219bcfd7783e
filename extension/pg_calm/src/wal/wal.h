/*-------------------------------------------------------------------------
 *
 * wal.h
 *	  How long a commit waits for others, and WAL in the page cache.
 *
 * - No function of WAL is replaced.  What is set is the server's own CommitDelay
 *   and CommitSiblings, in the committing backend, for one flush.
 * - commit_delay_law.h is the law: figures in, a delay out, nothing of the
 *   server.  commit_delay.h measures, and asks it.
 * - WAL is dropped from the page cache only when nobody here will read it, and by
 *   a process that waits for nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WAL_H
#define PG_CALM_WAL_H

#include "commit_delay.h"
#include "wal_cache.h"

#endif /* PG_CALM_WAL_H */
