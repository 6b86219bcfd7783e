/*-------------------------------------------------------------------------
 *
 * wal_recycling.c
 *	  Spreads the recycling of WAL segments at the end of a checkpoint.
 *
 * When a checkpoint is complete the server renames the segments that it does
 * not need any more (xlog.c, RemoveOldXlogFiles), each with durable_rename:
 * fsync of the file before and after, and of pg_wal.  On ext4 that came to two
 * writes to the journal and three flushes for each, without a pause: a hundred
 * segments took a capped device for 0.3 s, in which commits got a third of
 * their writes (docs/internals/checkpoints.md).  So the checkpointer waits a little
 * after each segment.
 *
 * It waits where it reads the next entry of the directory: there it holds no
 * lock, while the renames themselves are made with ControlFileLock held
 * (InstallXLogFileSegment).  The server counts the segments that it has
 * recycled, which tells a directory of WAL from any other.
 *
 * Segments must be there before they are written to, or backends have to make
 * new ones: so the wait is bounded, and there is none where WAL asks for the
 * next checkpoint.  Nothing is left undone, only done later.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "checkpoint_stats.h"
#include "shared/shared.h"
#include "base/base.h"
#include "map/map.h"
#include "pgstat.h"
#include "postmaster/bgwriter.h"
#include "storage/latch.h"
#include "wal_recycling.h"

/* Part of checkpoint_timeout that is waited in a checkpoint */
#define TIMEOUT_SHARE 0.1

static TimestampTz checkpoint = 0; /* ckpt_start_t of the one that is under way */
static int recycled = 0;           /* segments, in it */
static uint64 waited_ms = 0;       /* for them */
static uint32 wait_event = 0;

/*
 * The settings, and what is asked of the checkpointer, may change while we
 * wait.  With the worker gone the server is shutting down: the checkpointer is
 * told when all others have ended (postmaster.c, PostmasterStateMachine).
 */
static bool
may_wait(uint64 waited)
{
	return worker_is_flushing() && waited < calm_wal_recycle_delay &&
	       waited_ms + waited < CheckPointTimeout * 1000 * TIMEOUT_SHARE &&
	       (checkpointer_requests() & (CHECKPOINT_IMMEDIATE | CHECKPOINT_CAUSE_XLOG)) == 0 &&
	       !checkpoint_stats_is_immediate();
}

void
wal_recycling_next_file(void)
{
	int save_errno = errno;
	uint64 start;
	uint64 waited = 0;

	if (checkpoint != CheckpointStats.ckpt_start_t)
	{
		checkpoint = CheckpointStats.ckpt_start_t;
		recycled = 0;
		waited_ms = 0;
	}
	if (CheckpointStats.ckpt_segs_recycled == recycled)
		return;
	recycled = CheckpointStats.ckpt_segs_recycled;
	if (wait_event == 0)
		wait_event = CALM_WAIT_EVENT("PgCalmWalRecycling");

	start = page_map_now_ms();
	while (may_wait(waited))
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
		                 calm_wal_recycle_delay - waited, wait_event);
		ResetLatch(MyLatch);
		/* may read directories, of settings, and so come here again: nothing is new then */
		checkpointer_serve_requests();
		waited = page_map_now_ms() - start;
	}
	waited_ms += waited;
	errno = save_errno;
}
