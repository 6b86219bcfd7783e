/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The background worker that writes marked pages back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WORKER_H
#define PG_CALM_WORKER_H

#include "postgres.h"

#include "device/device.h"

extern void writeback_register_worker(void);
extern PGDLLEXPORT void pg_calm_writeback_main(Datum argument);

/* When the worker begins: nothing is let go */
extern void breaker_begin(void);

/*
 * To be called whenever flusher has been read, a few times a second.  Sets what flush_policy
 * allows, and CalmShared.let_go.  interrupted: somebody waits for the worker.  True if
 * breaker_reason() has changed.
 */
extern bool breaker_tick(const KernelFlusher *flusher, bool interrupted, uint64 now_ms);

/* Why something is let go, or NULL */
extern const char *breaker_reason(void);

#endif /* PG_CALM_WORKER_H */
