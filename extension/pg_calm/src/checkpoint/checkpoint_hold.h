/*-------------------------------------------------------------------------
 *
 * checkpoint_hold.h
 *	  Holds the checkpoint's own writes while too much is unflushed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CHECKPOINT_HOLD_H
#define PG_CALM_CHECKPOINT_HOLD_H

/*
 * In place of a flush hint of the checkpointer for so many bytes that it has written:
 * waits as long as they are to take.  visit_near says that the kernel flusher may be
 * about to come to their file.  Preserves neither errno nor the latch.
 */
extern void checkpoint_hold_writes(off_t bytes, bool visit_near);

#endif /* PG_CALM_CHECKPOINT_HOLD_H */
