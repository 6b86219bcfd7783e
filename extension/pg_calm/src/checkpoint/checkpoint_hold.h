/*-------------------------------------------------------------------------
 *
 * checkpoint_hold.h
 *	  Holds the checkpoint's own writes while too much is unflushed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CHECKPOINT_HOLD_H
#define PG_CALM_CHECKPOINT_HOLD_H

#include "postgres.h"

/*
 * In place of a flush hint of the checkpointer for so many bytes that it has written:
 * waits as long as they are to take.  Preserves neither errno nor the latch.
 */
extern void checkpoint_hold_writes(off_t bytes);

#endif /* PG_CALM_CHECKPOINT_HOLD_H */
