/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  Nanoseconds, for how long things take.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CLOCK_H
#define PG_CALM_CLOCK_H

#include "postgres.h"

#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC */
static inline uint64
calm_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64) ts.tv_sec * UINT64CONST(1000000000) + (uint64) ts.tv_nsec;
}

#endif /* PG_CALM_CLOCK_H */
