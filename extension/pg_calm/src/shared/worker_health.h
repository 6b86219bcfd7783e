/*-------------------------------------------------------------------------
 *
 * worker_health.h
 *	  Whether the background workers can be relied on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WORKER_HEALTH_H
#define PG_CALM_WORKER_HEALTH_H

#include "postgres.h"

/* For the writeback worker: it begins, takes a step, does nothing any more */
extern void worker_health_begin(void);
extern void worker_health_beat(uint64 now_ms);
extern void worker_health_end(void);

/* Whether the writeback worker exists and has been heard of lately */
extern bool worker_is_alive(void);

/*
 * Whether what is written is flushed, as opposed to watched: mode on, a device whose cap is known, and
 * no harm found in it
 */
extern bool calm_flushes(void);

/*
 * Whether the worker does it.  Whoever leaves out what stock does, or waits for
 * something, has to ask.
 */
extern bool worker_is_flushing(void);

#endif /* PG_CALM_WORKER_HEALTH_H */
