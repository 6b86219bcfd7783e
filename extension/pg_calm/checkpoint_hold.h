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
 * In place of a flush hint of the checkpointer, which it gives when it has written
 * checkpoint_flush_after pages: waits up to a twentieth of a second.  Preserves
 * neither errno nor the latch.
 */
extern void checkpoint_hold_writes(void);

#endif /* PG_CALM_CHECKPOINT_HOLD_H */
