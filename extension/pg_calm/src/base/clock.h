/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  A clock that never steps.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CLOCK_H
#define PG_CALM_CLOCK_H

#include "postgres.h"

#include <time.h>

/* Nanoseconds since some moment; never 0 */
static inline uint64
monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64) ts.tv_sec * 1000000000 + ts.tv_nsec + 1;
}

/*
 * Milliseconds likewise, as of the last tick of the kernel (1 to 10 ms), for a few nanoseconds.  The
 * same for all processes of the host.
 */
static inline uint64
monotonic_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64) ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + 1;
}

#endif /* PG_CALM_CLOCK_H */
