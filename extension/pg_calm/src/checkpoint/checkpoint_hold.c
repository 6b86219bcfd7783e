/*-------------------------------------------------------------------------
 *
 * checkpoint_hold.c
 *	  Holds the checkpoint's own writes while too much is unflushed.
 *
 * The checkpointer writes buffers by its schedule, as fast as WAL comes, and on a volume that is
 * at its limits that can be twice what the worker can flush. What is left over wakes the kernel
 * flusher in some ten seconds, behind whose scattered writes all else waits then.
 *
 * Stock's flush hint, each checkpoint_flush_after pages, is a sync_file_range that waits for room
 * in the device's queue (blk_mq_get_tag).  The module does not pass the hint on, so the wait is
 * made here, by what is unflushed at that moment instead: none at the pool's limit, and the longer
 * the nearer it is to where it can't go on (writeback/controller.c).  No lock of the
 * server's is held then (bufmgr.c, IssuePendingWritebacks).
 *
 * A checkpoint that is held ends later, and where its disk runs full of WAL the server ends.  So
 * once it has been held for as long as it may be drained (drain.c), or WAL asks for the next one, it
 * is held to the device's own rate, as by stock's hints.  None is held that must be fast.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "checkpoint.h"
#include "postmaster/bgwriter.h"
#include "storage/latch.h"

/* Part of the device's rate that is left to a held checkpoint, at least; a late one has all */
#define LEAST_RATE (1.0 / 16)
/* Times pg_calm.drain_timeout that it is held in all: limits may have been told too low */
#define MOST_TIMEOUTS 4

/* Between looks at whether it may wait on, ms */
#define STEP_MS 100

/* Whether WAL asks for the next checkpoint, or this one has been held for so long that others may */
static bool
is_late(uint64 held_ms)
{
	return (checkpointer_requests() & CHECKPOINT_CAUSE_XLOG) != 0 || held_ms >= drain_timeout_ms();
}

/* Barriers are seen to where the server does so, between buffers (CheckpointWriteDelay) */
static bool
may_hold(void)
{
	return (checkpointer_requests() & CALM_CHECKPOINT_FAST) == 0 && worker_is_flushing() &&
	       !ProcSignalBarrierPending && !checkpoint_stats_must_be_fast();
}

/* How long so many bytes are to take; 0 if they are not held */
static double
hold_ms(off_t bytes, bool late)
{
	double from = (double) pg_atomic_read_u64(&calm_shared->hold_from_pages);
	double most = (double) pg_atomic_read_u64(&calm_shared->hold_most_pages);
	double unflushed = (double) page_map_unflushed(calm_page_map);
	double rate = calm_figures().flush_rate * BLCKSZ * (late ? 1 : LEAST_RATE);
	double hold;

	if (most <= from || unflushed <= from || isinf(rate) || rate <= 0)
		return 0;
	/* the worker's figures are of a quarter of a second ago */
	hold = Min((unflushed - from) / (most - from), 1);
	return (double) bytes / rate * 1000 * hold * hold;
}

/*
 * In place of a flush hint of the checkpointer for so many bytes that it has written:
 * waits as long as they are to take; false if it is to be obeyed.  Keeps neither errno nor the latch.
 */
bool
checkpoint_hold_writes(off_t bytes)
{
	static double owed_ms = 0; /* hints can be for a page */
	static TimestampTz checkpoint = 0;
	static uint64 held_ms = 0; /* in that checkpoint */
	double more_ms;
	uint64 start;
	uint64 now;
	uint64 ms;
	bool late;

	if (checkpoint != CheckpointStats.ckpt_start_t)
	{
		checkpoint = CheckpointStats.ckpt_start_t;
		held_ms = 0;
	}
	if (held_ms >= MOST_TIMEOUTS * drain_timeout_ms())
		return false;
	late = is_late(held_ms);
	more_ms = hold_ms(bytes, late);
	if (more_ms == 0 || !may_hold())
	{
		owed_ms = 0;
		return true;
	}
	owed_ms += more_ms;
	ms = (uint64) owed_ms;
	if (ms == 0)
		return true;
	owed_ms -= (double) ms;

	/* as the server's hint waits */
	start = now = monotonic_ms();
	do
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
		                 (long) Min(start + ms - now, STEP_MS), WAIT_EVENT_DATA_FILE_FLUSH);
		ResetLatch(MyLatch);
		/* behind its schedule the server does the one at the end, the other each thousand buffers */
		checkpointer_obey_reload();
		AbsorbSyncRequests();
		now = monotonic_ms();
	} while (now < start + ms && is_late(held_ms + now - start) == late && may_hold() &&
	         hold_ms(bytes, late) > 0);
	held_ms += now - start;
	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_FLUSH);
	return true;
}
