/*-------------------------------------------------------------------------
 *
 * foreground.h
 *	  What reads and WAL need of a volume that counts them, too.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_FOREGROUND_H
#define PG_CALM_FOREGROUND_H

#include "device/device.h"

/* To be called several times a second, with what the worker has started since it began */
extern void foreground_follow(const KernelFlusher *flusher, const DeviceCaps *caps,
                              uint64 started_operations, uint64 started_bytes, uint64 now_ms);

/* Whether the volume is full just now, and nobody reads from it: latency_probe.h */
extern bool foreground_needs_probe(const DeviceCaps *caps);

/*
 * Lowers the caps to what is left to the worker; false if they don't count reads.  excess is how
 * far what is unflushed is beyond its limit, 0 to 1.
 */
extern bool foreground_limit(DeviceCaps *caps, double excess);

#endif /* PG_CALM_FOREGROUND_H */
