/*-------------------------------------------------------------------------
 *
 * drain_budget.c
 *	  What drains may leave and how long they may take, in a sync phase.
 *
 * The time is for all drains of a checkpoint together, those over all files
 * and those of single ones, and for waiting for the kernel flusher.  The
 * server's own figures of the sync phase have it in them, since the server
 * waits in it; checkpoint_stats.c tells how much of the phase it was.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xlog.h"
#include "checkpoint_stats.h"
#include "shared/shared.h"
#include "base/base.h"
#include "drain_budget.h"
#include "map/map.h"
#include "pgstat.h"
#include "postmaster/bgwriter.h"
#include "utils/timestamp.h"

/* Least time by default, and most once WAL asks for the next checkpoint, ms */
#define LEAST_TIMEOUT_MS 30000

/*
 * Seconds of device time that may be left, if calm_drain_threshold is -1;
 * and to which a drain goes on that has begun, since several files can have as much
 */
#define LEFT_SECONDS 0.1
#define GOAL_SHARE 0.25

static TimestampTz sync_phase = 0; /* ckpt_sync_t of the one that is under way */
static uint64 spent_ms = 0;        /* in it, that under way left out */
static int depth = 0;              /* how many are under way, one within another */
static uint64 start_ms = 0;        /* of the outermost */
static uint64 wal_until_ms = 0;    /* how long what WAL asks for waits; 0: it has not asked */
static uint32 wait_event = 0;

static bool wal_may_wait(void);

uint64
drain_threshold_pages(void)
{
	double operations;

	if (calm_drain_threshold >= 0)
		return calm_drain_threshold;
	SpinLockAcquire(&calm_shared->lock);
	operations = calm_shared->granted_operations * LEFT_SECONDS;
	SpinLockRelease(&calm_shared->lock);
	return isinf(operations) ? PG_UINT64_MAX : (uint64) operations;
}

uint64
drain_goal_pages(void)
{
	return calm_drain_threshold >= 0 ? calm_drain_threshold :
	                                   (uint64) (drain_threshold_pages() * GOAL_SHARE);
}

/*
 * WAL grows past max_wal_size from when it asks for the next checkpoint until this one
 * ends, and where its disk runs full the server ends.  But fsync writes what is left,
 * too, and everybody else waits meanwhile.  So it is drained for as long as the
 * device needs for it, which at most doubles what fsync would take, and no longer than
 * a drain may last by default.
 */
static bool
wal_may_wait(void)
{
	if (wal_until_ms == 0)
	{
		double rate;
		uint64 pages = page_map_unflushed(calm_page_map, 0) + page_map_unflushed(calm_page_map, 1);

		SpinLockAcquire(&calm_shared->lock);
		rate = calm_shared->flush_rate;
		SpinLockRelease(&calm_shared->lock);
		wal_until_ms = page_map_now_ms();
		if (rate > 0)
			wal_until_ms += (uint64) Min(pages / rate * 1000, LEAST_TIMEOUT_MS);
	}
	return page_map_now_ms() < wal_until_ms;
}

/*
 * A shutdown needs no look: the checkpointer is told of it when all others
 * have ended (postmaster.c, PostmasterStateMachine), and so the worker first.
 */
bool
drain_may_wait(void)
{
	int requests = checkpointer_requests();

	if (requests & CHECKPOINT_IMMEDIATE)
		return false;
	if ((requests & CHECKPOINT_CAUSE_XLOG) && !wal_may_wait())
		return false;
	return worker_is_flushing();
}

/*
 * By default what the server plans to have left of its interval when all is
 * written, so that a checkpoint that drains still ends in time.  Where that is
 * short it may take longer, and the next checkpoint begins later.
 */
uint64
drain_timeout_ms(void)
{
	if (calm_drain_timeout >= 0)
		return calm_drain_timeout;
	return Max((uint64) (CheckPointTimeout * 1000.0 * (1 - CheckPointCompletionTarget)),
	           LEAST_TIMEOUT_MS);
}

uint64
drain_spent_ms(void)
{
	return spent_ms + (depth > 0 ? page_map_now_ms() - start_ms : 0);
}

bool
drain_time_left(void)
{
	return drain_spent_ms() < drain_timeout_ms();
}

bool
drain_sync_phase_began(void)
{
	if (CheckpointStats.ckpt_sync_t == sync_phase)
		return false;
	sync_phase = CheckpointStats.ckpt_sync_t;
	spent_ms = 0;
	depth = 0;
	wal_until_ms = 0;
	return true;
}

void
drain_begin(void)
{
	if (depth++ > 0)
		return;
	if (wait_event == 0)
		wait_event = CALM_WAIT_EVENT("PgCalmDrain");
	checkpoint_stats_drain_begin();
	start_ms = page_map_now_ms();
}

void
drain_end(void)
{
	if (--depth > 0)
		return;
	checkpoint_stats_drain_end();
	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_SYNC);
	spent_ms += page_map_now_ms() - start_ms;
}

uint32
drain_wait_event(void)
{
	return wait_event;
}
