/*-------------------------------------------------------------------------
 *
 * targets.c
 *	  Keeps a fast stop, and recovery after a crash, as short as they are to be.
 *
 * pg_calm.stop_target.  What a stop has to write is dirty buffers and unflushed pages
 * (stop_estimate.c).  Whenever the buffers were counted the cleaner writes those that are too
 * much, or will be at the next count if they go on as since the last one, and goes on where it
 * stopped: so each stays dirty as long as it may.  They go into the pool, no faster than the worker
 * makes room there; so a load feels no more of it than of all flushing, and one that makes more dirty
 * has a target that is not met.  Of the pool the worker flushes what takes a stop, which does not
 * bridge, more than half of the target.
 *
 * pg_calm.recovery_target.  A checkpoint is requested after so much WAL that recovery takes no
 * longer even at the end of the next one, until when the redo point stays.  It is max_wal_size's
 * law (xlog.c, CalculateCheckpointSegments): one that begins after some WAL is to end, by the
 * server's schedule, after completion_target times as much again.  For that the checkpointer has
 * to schedule by it (IsCheckpointOnSchedule), so in its process what follows from max_wal_size is
 * lowered after a buffer is written, when it looks at its schedule.  When it has written WAL it
 * would request the next one by it (XLogWrite), so it is what it was then.  Recovery ends with a
 * checkpoint of its own, of a page for each block of WAL.  Before the first recovery the rate of
 * replay is not known, and a low one is taken.
 *
 * Both act in mode on only, the second not on a standby.  Nobody waits for anything here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogrecovery.h"
#include "postmaster/bgwriter.h"
#include "writeback.h"

/* Part of a target that is aimed at: estimates are off by a tenth, and all takes a moment to be seen */
#define PART 0.8

/* Bytes of WAL per second that any server replays, about */
#define SLOWEST_REPLAY (16.0 * 1024 * 1024)

/* Between checkpoints that are asked for, at least: the server schedules by segments, and a drain takes seconds */
#define LEAST_SEGMENTS 2
#define LEAST_INTERVAL_MS 10000

/* Of the worker's limit, how much the cleaner fills the pool, so that both have something to do */
#define FILL 1.25

/* The cleaner writes for so long before it looks at who waits for it */
#define STEP_NS 5000000
/* Between looks at WAL, and after which it is said that a target is not met, or met again */
#define LOOK_MS 1000
#define SETTLED_MS 15000

typedef struct Target
{
	const char *setting;
	const char *what;
	uint64 since_ms; /* it was as it was said to be; 0: not seen yet */
	bool missed;     /* as was said */
} Target;

int calm_stop_target = 0;
int calm_recovery_target = 0;

/* Say once that a target is not met, and once that it is again */
static void
judge(Target *target, double seconds, int most, uint64 now_ms)
{
	bool missed = seconds > most;

	if (most == 0 || isnan(seconds))
	{
		target->missed = false;
		target->since_ms = 0;
	}
	else if (missed == target->missed || target->since_ms == 0)
		target->since_ms = now_ms;
	else if (now_ms >= target->since_ms + SETTLED_MS)
	{
		target->missed = missed;
		ereport(LOG, (errmsg("pg_calm: %s (%d s) is %s: %s would take %.0f s", target->setting,
		                     most, missed ? "not met" : "met again", target->what, seconds)));
	}
}

/* Whether there is more to do at once */
static bool
clean_for_stop(const StopEstimate *stop, uint64 now_ms)
{
	static Target target = {.setting = "pg_calm.stop_target", .what = "a fast stop"};
	static double excess = 0; /* pages that are to be written before a stop */
	static double last = INFINITY;
	static uint64 replayed_ms = 0;
	static uint64 busy_until_ns = 0; /* the device, by what was written here */
	DeviceCaps caps = calm_figures().caps;
	uint64 until = monotonic_ns() + STEP_NS;
	double seconds = calm_stop_target > 0 && calm_flushes() ? stop->seconds : NAN;
	RelationFile file;
	uint32 first;
	uint32 blocks;
	uint32 written;
	double more = Max(seconds - last, 0) - PART * calm_stop_target;

	if (stop->counted || isnan(seconds))
	{
		excess = seconds > 0 ? stop->pages * (1 + more / seconds) : 0;
		last = isnan(seconds) ? INFINITY : seconds;
		judge(&target, seconds, calm_stop_target, now_ms);
		/* or what was replayed since somebody evicted a page would be left out (XLogNeedsFlush) */
		if (excess > 0 && RecoveryInProgress() && now_ms >= replayed_ms + LOOK_MS)
		{
			XLogFlush(GetXLogReplayRecPtr(NULL)); /* an fsync of pg_control */
			replayed_ms = now_ms;
		}
	}
	/* no faster than the device, which is all that bounds files that are not tracked */
	while (excess > 0 && busy_until_ns < until + CALM_LOOK_MS * 1000000 &&
	       page_map_unflushed(calm_page_map) < pg_atomic_read_u64(&calm_shared->stop_target_pages))
	{
		if (monotonic_ns() > until)
			return true;
		if (!stop_estimate_next_run(&file, &first, &blocks))
			excess = 0;
		else if ((written = buffer_cleaning_write(&file, first, blocks)) > 0)
		{
			uint64 operations = device_operations(&caps, (uint64) blocks * BLCKSZ);

			excess -= written;
			busy_until_ns = Max(busy_until_ns, until) +
			                1e9 * device_seconds(&caps, operations, (double) blocks * BLCKSZ);
			pg_atomic_fetch_add_u64(&calm_shared->counters.target_operations, operations);
		}
	}
	return false;
}

void
targets_limit_pool(uint64 unflushed, const DeviceCaps *caps, ControllerOutput *control)
{
	double pages = Min(PART * calm_stop_target / 2 / device_seconds(caps, 1, BLCKSZ),
	                   (double) control->limit / BLCKSZ);

	if (calm_stop_target > 0 && unflushed > pages)
		control->too_much = true;
	pg_atomic_write_u64(&calm_shared->stop_target_pages,
	                    calm_stop_target > 0 ? (uint64) Max(pages * FILL, 1) : 0);
}

double
targets_replay_rate(void)
{
	double rate = calm_figures().replay_rate;

	return rate > 0 ? rate : SLOWEST_REPLAY;
}

/* Bytes of WAL from one checkpoint's beginning to the next one's */
static double
wal_between_checkpoints(void)
{
	double seconds = PART * calm_recovery_target;
	double rate = targets_replay_rate();
	CalmFigures figures = calm_figures();
	DeviceCaps caps = device_part(&figures.caps, figures.given);
	double page = device_seconds(&caps, 1, BLCKSZ); /* of the checkpoint that ends recovery */
	double wal;

	/* with all of shared buffers dirty no more pages come of more WAL */
	wal = Max(seconds / (1 / rate + page / BLCKSZ), (seconds - page * NBuffers) * rate);
	return Max(wal / (1 + CheckPointCompletionTarget), (double) LEAST_SEGMENTS * wal_segment_size);
}

static bool
recovery_has_target(void)
{
	return calm_recovery_target > 0 && calm_mode == CALM_MODE_ON && !RecoveryInProgress();
}

static void
request_checkpoint(const StopEstimate *stop, uint64 now_ms)
{
	static Target target = {.setting = "pg_calm.recovery_target", .what = "recovery"};
	static uint64 next_look_ms = 0;
	static uint64 next_checkpoint_ms = 0;
	bool has_target = recovery_has_target();

	if (now_ms < next_look_ms)
		return;
	next_look_ms = now_ms + LOOK_MS;
	judge(&target, has_target ? recovery_estimate_seconds(stop, targets_replay_rate()) : NAN,
	      calm_recovery_target, now_ms);
	if (!has_target || now_ms < next_checkpoint_ms ||
	    GetXLogInsertRecPtr() - GetRedoRecPtr() < wal_between_checkpoints())
		return;
	/* as the one by time: spread, and in no hurry where another one is under way */
	RequestCheckpoint(CHECKPOINT_CAUSE_TIME);
	pg_atomic_fetch_add_u64(&calm_shared->counters.target_checkpoints, 1);
	next_checkpoint_ms = now_ms + LEAST_INTERVAL_MS;
}

bool
targets_tick(uint64 now_ms)
{
	StopEstimate stop = {.seconds = NAN};

	if (calm_mode == CALM_MODE_ON && (calm_stop_target > 0 || calm_recovery_target > 0))
		stop_estimate(&stop);
	request_checkpoint(&stop, now_ms);
	return clean_for_stop(&stop, now_ms);
}

void
targets_pace_checkpoint(bool data_file)
{
	static bool lowered = false;
	bool lower = data_file && recovery_has_target();
	double segments;

	if (!lowered && !lower)
		return;
	lowered = lower;
	segments =
		XLogMBVarToSegs(max_wal_size_mb, wal_segment_size) / (1 + CheckPointCompletionTarget);
	if (lowered)
		segments = Min(segments, wal_between_checkpoints() / wal_segment_size);
	CheckPointSegments = (int) Max(segments, 1);
}
