/*-------------------------------------------------------------------------
 *
 * histogram.h
 *	  How long the server's calls for I/O took, by type of process.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_HISTOGRAM_H
#define PG_CALM_HISTOGRAM_H

#include "postgres.h"

#include <time.h>

typedef enum HistogramOperation
{
	HISTOGRAM_WRITE,       /* pwrite, pwritev of a data file */
	HISTOGRAM_WRITEBACK,   /* until started writeback of a data file was over */
	HISTOGRAM_FSYNC,       /* fsync of a data file */
	HISTOGRAM_FSYNC_OTHER, /* fsync of anything else */
	HISTOGRAM_OPERATIONS
} HistogramOperation;

/* Of a process's writes, one in so many is timed */
#define HISTOGRAM_WRITE_SAMPLE 8

/* Number of writes of this process that could have been timed */
extern uint32 histogram_writes;

/* Nanoseconds of a clock that never steps; never 0 */
static inline uint64
histogram_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64) ts.tv_sec * 1000000000 + ts.tv_nsec + 1;
}

/* A write begins: when, or 0 if this one is not timed */
static inline uint64
histogram_write_begins(void)
{
	return ++histogram_writes % HISTOGRAM_WRITE_SAMPLE == 0 ? histogram_clock() : 0;
}

extern Size histogram_size(void);
extern void histogram_start(void);

extern uint64 histogram_count(HistogramOperation operation, uint64 started);
extern void histogram_checkpoint_begins(void);
extern void histogram_checkpoint_ends(void);
extern void histogram_reset(void);

#endif /* PG_CALM_HISTOGRAM_H */
