/*-------------------------------------------------------------------------
 *
 * guard_checkpoint.c
 *	  How long the running checkpoint will still take.
 *
 * WAL is freed in one step when a checkpoint ends, which is too late to steer by.  So progress is
 * measured: BufferSync (bufmgr.c) marks the buffers that it has to write with
 * BM_CHECKPOINT_NEEDED, and the mark goes with the write.  Those that are left, by the rate at
 * which they get fewer, is the time until all are written.  What comes before and after them,
 * SLRUs and the fsync calls, has no progress to be seen; it is taken to last as long as the last
 * time, and when it lasts longer, half as long again as it did so far.
 *
 * A checkpoint that is ahead of its schedule sleeps (checkpointer.c, CheckpointWriteDelay), so its
 * rate says nothing of what the device can do.  As long as it follows WAL
 * (IsCheckpointOnSchedule), it will end in time whatever is written.  If that end comes too late
 * for the space there is, the guard makes it hurry, as CHECKPOINT does.
 *
 * All is private to the guard's worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xlog.h"
#include "base/base.h"
#include "guard.h"
#include "miscadmin.h"
#include "postmaster/bgwriter.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"

/* Buffers looked at: with more of them in shared_buffers, every so manieth */
#define BUFFERS_SAMPLED 131072

/* Least time between two requests for a checkpoint */
#define REQUEST_INTERVAL_MS 1000

/* What has no progress to be seen is given up after so many times the patience */
#define UNSEEN_PATIENCES 10

typedef enum CheckpointPhase
{
	CHECKPOINT_NONE,
	CHECKPOINT_BEFORE, /* nothing marked yet */
	CHECKPOINT_WRITING,
	CHECKPOINT_SYNCING, /* and all that comes after */
} CheckpointPhase;

static CheckpointPhase phase = CHECKPOINT_NONE;
static uint64 running_redo = 0;
static uint64 phase_since_ms = 0;
static uint64 marked = 0;       /* buffers, now */
static uint64 marked_first = 0; /* most of this checkpoint */
static GuardDrain writing;      /* buffers per second; lives on between checkpoints */
static double before_seconds = 0;
static double sync_seconds = 0; /* both of the last checkpoint that was seen */
static double write_seconds = 0;
static bool hurried = false; /* this checkpoint */
static uint64 requested_ms = 0;

static uint64 count_marked(void);
static void enter(CheckpointPhase next, uint64 now_ms);

/* Buffers that the checkpoint has still to write; of many, an estimate */
static uint64
count_marked(void)
{
	int step = (NBuffers - 1) / BUFFERS_SAMPLED + 1;
	static int start = 0;
	uint64 count = 0;

	/* not the same ones each time: they are written in order of their tables */
	start = (start + 1) % step;
	for (int i = start; i < NBuffers; i += step)
	{
		if (CALM_BUFFER_STATE(GetBufferDescriptor(i)) & BM_CHECKPOINT_NEEDED)
			count++;
	}
	return count * step;
}

static void
enter(CheckpointPhase next, uint64 now_ms)
{
	double seconds = (double) (now_ms - phase_since_ms) / 1000;

	if (phase == CHECKPOINT_BEFORE)
		before_seconds = seconds;
	else if (phase == CHECKPOINT_WRITING)
		write_seconds = seconds;
	else if (phase == CHECKPOINT_SYNCING)
		sync_seconds = seconds;
	phase = next;
	phase_since_ms = now_ms;
}

/*
 * See how far it is.  redo is the redo point of the newest checkpoint, begun or not, completed_redo
 * that in the control file: they differ as long as one runs (CreateCheckPoint sets the one at its
 * begin and the other at its end).  True if one runs.
 */
bool
guard_checkpoint_look(uint64 redo, uint64 completed_redo, uint64 now_ms)
{
	if (redo == completed_redo)
	{
		if (phase != CHECKPOINT_NONE)
			enter(CHECKPOINT_NONE, now_ms);
		return false;
	}
	if (phase == CHECKPOINT_NONE || redo != running_redo)
	{
		enter(CHECKPOINT_BEFORE, now_ms);
		running_redo = redo;
		marked_first = 0;
		hurried = false;
	}
	marked = count_marked();
	if (phase == CHECKPOINT_BEFORE && marked > 0)
	{
		enter(CHECKPOINT_WRITING, now_ms);
		/* the rate of the last one is where that of this one begins */
		writing.position = 0;
	}
	/* BufferSync marks them in one go, which we may have seen the middle of */
	marked_first = Max(marked_first, marked);
	if (phase == CHECKPOINT_WRITING)
	{
		guard_track(&writing, marked_first - marked + 1, now_ms);
		if (marked <= marked_first / 1000)
			enter(CHECKPOINT_SYNCING, now_ms);
	}
	return true;
}

/* Seconds until it ends; with none running, what the next one may take; infinity: no telling */
double
guard_checkpoint_seconds(uint64 now_ms)
{
	double here = (double) (now_ms - phase_since_ms) / 1000;
	double seconds = 0;

	switch (phase)
	{
		case CHECKPOINT_NONE:
		case CHECKPOINT_BEFORE:
			if (phase == CHECKPOINT_NONE)
				here = 0;
			seconds = Max(before_seconds - here, here / 2) + write_seconds + sync_seconds;
			return seconds > 0 ? seconds : INFINITY;
		case CHECKPOINT_WRITING:
			if (writing.rate <= 0)
				return INFINITY;
			return (double) marked / writing.rate + sync_seconds;
		case CHECKPOINT_SYNCING:
			return Max(sync_seconds - here, here / 2);
	}
	return INFINITY;
}

/* Bytes of data files that it writes per second */
double
guard_checkpoint_drain_rate(void)
{
	return phase == CHECKPOINT_WRITING ? writing.rate * BLCKSZ : 0;
}

/*
 * Whether it comes on, at no less than so many bytes per second while it writes.  An fsync of
 * minutes is no sign that it doesn't; one that never ends must not hold writers for ever.
 */
bool
guard_checkpoint_comes_on(double least, uint64 now_ms)
{
	if (phase == CHECKPOINT_NONE || phase == CHECKPOINT_WRITING)
		return guard_checkpoint_drain_rate() > least;
	return now_ms - phase_since_ms < (uint64) guard_patience * UNSEEN_PATIENCES;
}

/*
 * Whether the running checkpoint ends in time by its own schedule: it goes no
 * slower than WAL, and that schedule needs no more of it than the budget.
 */
bool
guard_checkpoint_keeps_up(double cycle, double budget)
{
	double whole = (double) CheckPointSegments * wal_segment_size;
	double progress;

	if (whole * CheckPointCompletionTarget > budget)
		return false;
	if (phase == CHECKPOINT_BEFORE)
		return cycle < whole * CheckPointCompletionTarget / 10;
	if (phase == CHECKPOINT_SYNCING || marked_first == 0)
		return false; /* fsync follows no schedule */
	progress = 1 - (double) marked / marked_first;
	/* the checkpointer looks once in 100 ms: allow for that */
	return progress * CheckPointCompletionTarget + 0.05 >= cycle / whole;
}

/*
 * Have one begin, or the running one, or that which begins, go on without pauses; see
 * RequestCheckpoint.  When that has written all, it makes no pauses any more, and the request
 * would only have the next one write everything at once.
 */
void
guard_checkpoint_hurry(uint64 now_ms, bool at_once)
{
	/* in shadow mode the server is left as it is */
	if (guard_mode != GUARD_MODE_ON)
		return;
	/* an immediate request speeds up the one that runs, and asks for another */
	if ((phase != CHECKPOINT_NONE && hurried) || phase == CHECKPOINT_SYNCING)
		return;
	if (requested_ms != 0 && now_ms - requested_ms < REQUEST_INTERVAL_MS)
		return;
	requested_ms = now_ms;
	hurried = phase != CHECKPOINT_NONE;
	/* forced: with all writers refused nothing is written, and CreateCheckPoint would skip it */
	RequestCheckpoint(CHECKPOINT_CAUSE_XLOG | CHECKPOINT_FORCE |
	                  (at_once ? CALM_CHECKPOINT_FAST : 0));
}
