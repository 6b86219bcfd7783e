/*-------------------------------------------------------------------------
 *
 * flusher_guard.h
 *	  Makes files dense before the kernel flusher writes them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_FLUSHER_GUARD_H
#define PG_CALM_FLUSHER_GUARD_H

#include "device/device.h"
#include "map/map.h"

extern void flusher_guard_tick(const KernelFlusher *flusher, uint64 now_ms);
extern bool flusher_guard_holds(uint32 file);
extern void flusher_guard_give_up(uint64 now_ms);
extern void flusher_guard_forget(void);

#endif /* PG_CALM_FLUSHER_GUARD_H */
