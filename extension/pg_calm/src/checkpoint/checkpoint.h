/*-------------------------------------------------------------------------
 *
 * checkpoint.h
 *	  What the module does in a checkpoint, and what it reports of one.
 *
 * - Every fsync of the server happens, in its order, with its result.  A drain
 *   goes before; a drain that fails or takes too long leaves the rest to fsync.
 * - The checkpointer waits only where somebody flushes for it, not once an immediate
 *   checkpoint is asked for, and not beyond pg_calm.drain_timeout.
 * - While it waits it serves what CheckpointWriteDelay would.
 * - Reports only count: what they need of a call is measured in the call's hook, and
 *   the server's own statistics and log lines keep the server's meaning.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CHECKPOINT_H
#define PG_CALM_CHECKPOINT_H

#include "checkpoint_stats.h"
#include "drain.h"

#endif /* PG_CALM_CHECKPOINT_H */
