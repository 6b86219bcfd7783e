/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  Time that only goes forward, the same for all processes of the host.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CLOCK_H
#define PG_CALM_CLOCK_H

#include "postgres.h"

#include <time.h>

/* Nanoseconds; never 0 */
static inline uint64
clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64) ts.tv_sec * 1000000000 + ts.tv_nsec + 1;
}

/* Milliseconds, as of the last tick of the kernel; never 0 */
static inline uint64
clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64) ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + 1;
}

#endif /* PG_CALM_CLOCK_H */
