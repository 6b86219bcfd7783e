/*-------------------------------------------------------------------------
 *
 * shared.h
 *	  Settings, shared memory, and who can be relied on.
 *
 * - A setting that more than one part reads is declared here; one part's own is
 *   declared there.
 * - Shared memory is laid out once, by the postmaster, and has no pointers.  A
 *   field is an atomic, or belongs to one process, or is under calm_shared->lock;
 *   each says which.
 * - The checkpointer waits for a worker only while worker_is_flushing() says
 *   that it is alive and flushes.  Whoever waits in the checkpointer serves its requests.
 * - What decides anything about pages, WAL or devices is not here, but above.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_SHARED_H
#define PG_CALM_SHARED_H

#include "pg_calm.h"
#include "worker_health.h"
#include "checkpointer_wait.h"
#include "sharing.h"
#include "test_settings.h"

#endif /* PG_CALM_SHARED_H */
