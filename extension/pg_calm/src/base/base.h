/*-------------------------------------------------------------------------
 *
 * base.h
 *	  What every part may use: clocks, rows of views, the server's versions (compat.h), and
 *	  what is published for libraries beside pg_calm (core.h).
 *
 * Knows nothing of the module.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_BASE_H
#define PG_CALM_BASE_H

#include <time.h>

#include "compat.h"
#include "core.h"

/* Nanoseconds since some moment, of a clock that never steps; never 0 */
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

/*
 * Nanoseconds of a processor that this process has used: what looking costs, which is not how long
 * it took where it waited for a lock of the file system or for a processor.
 */
static inline uint64
used_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64) ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* A row of a view, made column by column */
typedef struct ViewRow
{
	int columns;
	Datum values[40];
	bool nulls[40];
} ViewRow;

/* The next column; null if it is not known */
static inline void
row_put(ViewRow *row, bool known, Datum value)
{
	row->nulls[row->columns] = !known;
	row->values[row->columns++] = value;
}

#endif /* PG_CALM_BASE_H */
