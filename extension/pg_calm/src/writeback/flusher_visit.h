/*-------------------------------------------------------------------------
 *
 * flusher_visit.h
 *	  When the kernel flusher comes to a file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_FLUSHER_VISIT_H
#define PG_CALM_FLUSHER_VISIT_H

#include "device/device.h"
#include "map/map.h"

/*
 * Whether it may come, or be there already, before what is marked in the file
 * is flushed, which takes seconds of the worker's part of the device.  in_time says
 * whether that can be done by then.
 */
extern bool flusher_visit_is_near(PageMapFile *file, const KernelFlusher *flusher, double seconds,
                                  uint64 now_ms, bool *in_time);

/* Pages of the file that were marked at marked_ms or later are clean, and we have not written them */
extern void flusher_visit_seen(PageMapFile *file, uint64 marked_ms);

#endif /* PG_CALM_FLUSHER_VISIT_H */
