/*-------------------------------------------------------------------------
 *
 * latency_probe.h
 *	  Lets the block layer see how long reads take on a volume that is full.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_LATENCY_PROBE_H
#define PG_CALM_LATENCY_PROBE_H

#include "postgres.h"

/*
 * To be called by the worker as often as it likes: reads a block, without waiting for it, if
 * the last one is long enough ago and the volume is full.  Never fails: where such reads
 * are not to be had there are none.
 */
extern void latency_probe_tick(bool full, uint64 now_ms);

#endif /* PG_CALM_LATENCY_PROBE_H */
