/*-------------------------------------------------------------------------
 *
 * drain_budget.h
 *	  What drains may leave and how long they may take, in a sync phase.
 *
 * For the checkpointer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_DRAIN_BUDGET_H
#define PG_CALM_DRAIN_BUDGET_H

#include "postgres.h"

/*
 * So few unflushed pages need no drain, in all files together.  PG_UINT64_MAX
 * where the device has no caps.
 */
extern uint64 drain_threshold_pages(void);

/* With so few, or less, a drain that has begun ends.  No more than the threshold. */
extern uint64 drain_goal_pages(void);

/*
 * Whether there is somebody to wait for, and nobody who waits for the
 * checkpointer, nor WAL for longer than the device needs for what is unflushed, or 30 s.
 * Changes with settings and requests.
 */
extern bool drain_may_wait(void);

/* Milliseconds in all for draining in a sync phase; may change with settings */
extern uint64 drain_timeout_ms(void);

/* Milliseconds of draining in this sync phase so far, with what is under way */
extern uint64 drain_spent_ms(void);

/* Whether less was spent than there is */
extern bool drain_time_left(void);

/*
 * Whether a sync phase has begun since the call before.  Nothing is spent in
 * it then, and what was begun and not ended before is forgotten: it failed.
 */
extern bool drain_sync_phase_began(void);

/*
 * What lies between is counted as draining, a part of the sync phase beside the
 * fsync calls.  Pairs may be nested; after an error the outer one need not be
 * ended.
 */
extern void drain_begin(void);
extern void drain_end(void);

/* Shown while a drain waits; valid once one was begun */
extern uint32 drain_wait_event(void);

#endif /* PG_CALM_DRAIN_BUDGET_H */
