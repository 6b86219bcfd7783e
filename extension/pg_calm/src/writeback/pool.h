/*-------------------------------------------------------------------------
 *
 * pool.h
 *	  What is written and not flushed, and which of it is flushed next.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_POOL_H
#define PG_CALM_POOL_H

#include "bridge.h"
#include "device/device.h"

/* What a look has found */
typedef struct PoolLook
{
	double pages;   /* marked, in the regions that were looked at */
	double seconds; /* in which the device would write them, merged and bridged */
} PoolLook;

/* What is due */
typedef struct PoolDue
{
	bool all;         /* whatever its age: too much waits */
	uint64 older_ms;  /* how long a page may wait */
	uint32 drained;   /* file that the checkpointer waits for, or PAGE_MAP_END */
	uint64 before_ms; /* ... until all of it is flushed that was marked by then */
} PoolDue;

extern void pool_look(const PoolDue *due, PoolLook *look);
extern bool pool_start_next(const PoolDue *due, uint64 now_ms);
extern bool pool_is_done(void);

#endif /* PG_CALM_POOL_H */
