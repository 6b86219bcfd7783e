/*-------------------------------------------------------------------------
 *
 * error_latch.c
 *	  A writeback error seen by pg_calm reaches PostgreSQL's next fsync.
 *
 * The kernel reports a writeback error once to every file description that
 * was open when it happened, and to the first that is opened afterwards if
 * nobody has seen it (lib/errseq.c).  The checkpointer opens segments afresh
 * to fsync them.  So if the worker waits for writeback and is told of an
 * error, the checkpointer's fsync returns success over lost data.
 *
 * Where the kernel has cachestat(2) the worker never makes a call that
 * consumes an error.  Elsewhere it waits with sync_file_range, between begin
 * and end; and after every fsync of a data file the caller's process waits
 * until all such calls begun before have ended, then fails the fsync if any of
 * them saw an error.  The server then does what it does for a failed fsync.
 * A worker that is stopped between the call and the record stops the
 * checkpoint with it; one that dies there makes the postmaster restart all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "error_latch.h"

void
error_latch_init(ErrorLatch *latch)
{
	pg_atomic_init_u32(&latch->begun, 0);
	pg_atomic_init_u32(&latch->ended, 0);
	pg_atomic_init_u32(&latch->error, 0);
	pg_atomic_init_u64(&latch->errors, 0);
}

/* The worker is about to make a call that may consume an error */
void
error_latch_begin(ErrorLatch *latch)
{
	pg_atomic_fetch_add_u32(&latch->begun, 1);
}

/* The call is over; error is its errno, or 0 */
void
error_latch_end(ErrorLatch *latch, int error)
{
	if (error != 0)
	{
		uint32 none = 0;

		pg_atomic_fetch_add_u64(&latch->errors, 1);
		(void) pg_atomic_compare_exchange_u32(&latch->error, &none, (uint32) error);
	}
	pg_atomic_fetch_add_u32(&latch->ended, 1);
}

/*
 * After an fsync returned success: errno of an error that a call of ours saw
 * first, or 0.  Waits for calls under way.  There is one worker, so calls end
 * in the order in which they began.
 *
 * Not interruptible, like the fsync itself.
 */
int
error_latch_check(ErrorLatch *latch)
{
	uint32 begun;

	/* a call whose begin we don't see here started after the fsync returned */
	pg_memory_barrier();
	begun = pg_atomic_read_u32(&latch->begun);
	while ((int32) (pg_atomic_read_u32(&latch->ended) - begun) < 0)
	{
		int save_errno = errno;

		pg_usleep(1000);
		errno = save_errno;
	}
	pg_read_barrier();
	return (int) pg_atomic_read_u32(&latch->error);
}
