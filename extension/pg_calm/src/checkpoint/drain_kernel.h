/*-------------------------------------------------------------------------
 *
 * drain_kernel.h
 *	  Waiting for what the kernel flusher writes, before an fsync.
 *
 * For the checkpointer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_DRAIN_KERNEL_H
#define PG_CALM_DRAIN_KERNEL_H

#include "postgres.h"

/* A sync phase has begun: what was given up in the one before is waited for again */
extern void drain_kernel_begin_sync_phase(void);

/* What was seen so far says nothing of now: the next look is not left out */
extern void drain_kernel_look_anew(void);

/*
 * Whether the kernel flusher is writing much to the device of the file behind
 * fd, or will write much of the file in a moment: fsync would have to wait for
 * that, or what it writes behind that, and nothing of it is marked.
 */
extern bool drain_kernel_writes(int fd);

/*
 * Waits until it does not any more, within the time for draining, and as long
 * as what is queued gets less.  Serves the checkpointer's requests meanwhile,
 * so fd must be none that these can close; may raise errors.
 */
extern void drain_kernel_wait(int fd);

#endif /* PG_CALM_DRAIN_KERNEL_H */
