/*-------------------------------------------------------------------------
 *
 * replay_rate.h
 *	  How fast crash recovery has replayed WAL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_REPLAY_RATE_H
#define PG_CALM_REPLAY_RATE_H

#include "postgres.h"

/* The worker's, at each look */
extern void replay_rate_tick(uint64 now_ms);

#endif /* PG_CALM_REPLAY_RATE_H */
