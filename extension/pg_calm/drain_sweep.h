/*-------------------------------------------------------------------------
 *
 * drain_sweep.h
 *	  One pass over a file before its fsync: clean its buffers, flush its pages.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_DRAIN_SWEEP_H
#define PG_CALM_DRAIN_SWEEP_H

#include "relation_file.h"

/*
 * What the sweep does between its steps: serves what has to be served while
 * the checkpointer waits, and says whether to go on.  done is the part
 * of the file that is flushed, 0 to 1.
 */
typedef bool (*DrainSweepStep)(double done);

/*
 * Sweep a file of the page map.  wait_event is shown while it waits for the
 * worker.  Returns whether the whole file has been swept.
 */
extern bool
drain_sweep(int file, const RelationFile *relation, uint32 wait_event, DrainSweepStep step);

#endif /* PG_CALM_DRAIN_SWEEP_H */
