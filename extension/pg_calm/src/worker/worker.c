/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker that writes marked pages back.
 *
 * It looks at the host, the device and the map some times per second, and does what follows
 * from that: how much may be written is controller.c's, what is written next pool.c's, how it
 * is written flush.c's, and whether it does good breaker.c's.
 *
 * The worker has no database connection.  It is started with the postmaster,
 * so that recovery is covered as well, and restarted if it ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "common/controldata_utils.h"
#include "lib/stringinfo.h"
#include "postmaster/bgwriter.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "wal/wal.h"
#include "worker.h"

/*
 * Milliseconds between looks at: caps and settings; the map in a drain; something that waits and
 * is not due, and what is under way at most; nothing; anything, where nothing is flushed or nothing
 * was marked for a time.  With many instances on a device they are longer, by once their length for
 * so many members: a hundred workers together are not to take more of the CPUs than a few.
 */
#define SETTINGS_INTERVAL_MS 3000
#define DRAIN_INTERVAL_MS 20
#define WAITING_INTERVAL_MS 10
#define IDLE_INTERVAL_MS 100
#define RESTING_INTERVAL_MS 1000
#define QUIET_MS 10000 /* that time */
#define MEMBERS_PER_INTERVAL 8

/* Looks at what is under way in the time that the device takes for an operation */
#define LOOKS_PER_OPERATION 4

/* How long pg_calm_status says that the map was full, after it was */
#define FULL_SHOWN_MS 60000

/* Part of its limits below which a device counts as giving less, and from which it does not */
#define GIVES_LESS 0.7
#define GIVES_ALL 0.9

/* Files of the map that one look looks at in order to make room in it */
#define RECLAIM_FILES 2048

/* Seconds of device time that may be in flight; and where a read may have to wait for it */
#define IN_FLIGHT_SECONDS 0.02
#define READS_IN_FLIGHT_SECONDS 0.005

/* Bytes that may be, whatever the device takes */
#define MOST_IN_FLIGHT (2.0 * 1024 * 1024)
#define LEAST_IN_FLIGHT (256.0 * 1024)

/*
 * Reads per second that tell enough of how long reads take, and the part of a limit from which
 * a volume counts as full (latency_probe.c)
 */
#define READS_ENOUGH 40.0
#define FULL_PART 0.7

/*
 * The kernel's flusher is at work if it has written so large a part of what the device takes of
 * what was marked; or something in so long a time, and others make so large a part of all writes
 */
#define FOUND_PART 0.1
#define FOUND_MS 5000
#define OTHERS_PART 0.3

PGDLLEXPORT void pg_calm_writeback_main(Datum argument);

static KernelFlusher flusher;
static ControllerOutput control = {.given = 1};
static DeviceCaps own_caps;   /* without regard to others */
static DeviceCaps given_caps; /* of these, what the device gives */
static double flush_rate = INFINITY;
static bool visited = false;        /* by the kernel's flusher */
static bool asks_for_reads = false; /* the volume is full, and hardly anybody reads */
static bool begins = false; /* regions; else nobody fetches what the cleaner was asked for */
static uint64 next_settings_ms = 0;
static uint64 next_look_ms = 0;

static void
worker_exit(int code, Datum argument)
{
	sharing_leave();
	pg_atomic_write_u32(&calm_shared->worker_pid, 0);
	/* what was in flight is PostgreSQL's to fsync, as ever */
	pg_atomic_write_u64(&calm_shared->in_flight_pages, 0);
	pg_atomic_write_u64(&calm_shared->hold_most_pages, 0);
	/* not known until the next worker has looked */
	SpinLockAcquire(&calm_shared->lock);
	calm_shared->figures.flush_rate = INFINITY;
	calm_shared->figures.granted = (CalmRates){INFINITY, INFINITY};
	SpinLockRelease(&calm_shared->lock);
}

/* Whether pages found no room in the page map lately */
static bool
map_was_full(void)
{
	static uint64 last_full = 0;
	static uint64 shown_until = 0;
	uint64 full = pg_atomic_read_u64(&calm_page_map->full.value);
	uint64 now = monotonic_ms();

	if (full != last_full)
		shown_until = now + FULL_SHOWN_MS;
	last_full = full;
	return now < shown_until;
}

/* All reasons why less is done than the settings ask for, where the view shows them */
static void
publish_degraded(void)
{
	static char logged[sizeof(calm_shared->figures.degraded)] = "";
	static bool gives_less = false;
	StringInfoData reasons;

	initStringInfo(&reasons);
	if (flush_refused)
	{
		appendStringInfo(&reasons, "; nothing is flushed: %s", flush_refused);
		/* nobody else flushes, so the server's hints must be obeyed again */
		pg_atomic_write_u32(&calm_shared->worker_pid, 0);
	}
	if (bridge_refusal())
		appendStringInfo(&reasons, "; gaps are not bridged: %s", bridge_refusal());
	if (sharing.problem)
		appendStringInfo(&reasons, "; the device's budget is not shared: %s", sharing.problem);
	if (map_was_full())
		appendStringInfoString(
			&reasons, "; pg_calm.page_map_memory is too small: some pages are not tracked");
	gives_less = control.given < (gives_less ? GIVES_ALL : GIVES_LESS);
	if (gives_less)
		appendStringInfoString(
			&reasons, "; the device gives less than pg_calm.iops and pg_calm.bandwidth say");

	if (reasons.len > 0 && strcmp(reasons.data + 2, logged) != 0)
		ereport(LOG, (errmsg("pg_calm: %s", reasons.data + 2)));
	strlcpy(logged, reasons.len > 0 ? reasons.data + 2 : "", sizeof(logged));

	/* it has said so itself */
	if (breaker_reason())
		appendStringInfo(&reasons, "; %s", breaker_reason());
	SpinLockAcquire(&calm_shared->lock);
	strlcpy(calm_shared->figures.degraded, reasons.len > 0 ? reasons.data + 2 : "",
	        sizeof(calm_shared->figures.degraded));
	SpinLockRelease(&calm_shared->lock);
	pfree(reasons.data);
}

/*
 * Recovery repairs torn pages by their images in WAL.  So full_page_writes has to have
 * been on at the redo point from which it would begin, and since; a standby knows the former only.
 */
static void
read_images(void)
{
	bool crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	const CheckPoint *last = &control->checkPointCopy;

	if (!fullPageWrites && !RecoveryInProgress())
		pg_atomic_write_u64(&calm_shared->no_images_at, GetXLogInsertRecPtr());
	/* it may be being written just now */
	if (crc_ok)
		pg_atomic_write_u32(&calm_shared->images,
		                    last->fullPageWrites &&
		                        last->redo >= pg_atomic_read_u64(&calm_shared->no_images_at));
	pfree(control);
}

/* Caps and sysctls: an administrator may change them at any time */
static void
read_settings(void)
{
	device_read_caps(&own_caps);
	sharing_configure(&own_caps);
	read_images();
	publish_degraded();
}

/* An interval, with as many instances on the device as there are */
static uint32
stretched(uint32 interval_ms)
{
	return interval_ms + interval_ms * (sharing.members - 1) / MEMBERS_PER_INTERVAL;
}

/* A page may wait half of the time between checkpoints, no longer than the kernel's flusher does */
static PoolDue
what_is_due(void)
{
	PoolDue due = {.all = control.too_much || visited,
	               .older_ms = (uint64) CheckPointTimeout * 1000 / 2,
	               .drained = pg_atomic_read_u32(&calm_shared->draining),
	               .before_ms = pg_atomic_read_u64(&calm_shared->drain_before_ms)};

	if (flusher.expire_ms > 0)
		due.older_ms = Min(due.older_ms, flusher.expire_ms);
	if (calm_flush_age > 0)
		due.older_ms = calm_flush_age;
	return due;
}

/* Of WAL, if it is on the device of the data, of which they tell how busy it is */
static uint64
wal_flushes_here(void)
{
	struct stat wal;
	bool here = stat(XLOGDIR, &wal) != 0 || wal.st_dev == calm_shared->device;

	return here ? pg_atomic_read_u64(&calm_shared->counters.wal_flushes) : 0;
}

/*
 * Whether the kernel's flusher is at work in our files, as it is each 30 s.  It goes through a
 * file page by page as long as it finds dirty ones, each of them an operation: what is written and
 * cleaned ahead of it makes its visit longer; what the worker flushes there, merged, shorter.  So
 * until it has gone the worker flushes all that waits, with its largest share, nothing is cleaned,
 * and a checkpoint's writes are held.
 */
static bool
flusher_visits(uint64 now_ms)
{
	static uint64 last_found = 0;
	static uint64 last_flushes = 0;
	static uint64 last_ms = 0;
	static uint64 found_ms = 0;
	double seconds = (double) (now_ms - last_ms) / 1000;
	double takes = Min(given_caps.all_iops, given_caps.write_iops) * seconds;
	double found = (double) (flush_started.found_written - last_found);
	uint64 flushes = wal_flushes_here();
	double others = control.other_writes * seconds - (double) (flushes - last_flushes);

	last_found = flush_started.found_written;
	last_flushes = flushes;
	last_ms = now_ms;
	if (found > 0)
		found_ms = now_ms;
	if (!control.paced || (found <= takes * FOUND_PART &&
	                       (now_ms >= found_ms + FOUND_MS || others <= takes * OTHERS_PART)))
		return false;
	if (!visited)
		ereport(DEBUG1, (errmsg_internal("pg_calm: the kernel's flusher is at work")));
	return true;
}

/* What follows from the state of the device and of the pool, to the policy of flushing and to the checkpointer */
static void
control_flushing(uint64 now_ms)
{
	ControllerInput input = {
		.now_ms = now_ms,
		.caps = own_caps,
		.flusher = flusher,
		.own_operations = flush_started.operations,
		.own_bytes = flush_started.bytes,
		.wal_flushes = wal_flushes_here(),
		.wal_flush_us = pg_atomic_read_u64(&calm_shared->counters.wal_flush_us),
		.unflushed = page_map_unflushed(calm_page_map),
		.flush_rate = flush_rate,
		.hurries = visited || (checkpointer_requests() & CHECKPOINT_CAUSE_XLOG) != 0};
	double seconds;
	double bytes;
	double operations;
	uint64 written;
	bool holds;

	input.caps.write_iops = Min(input.caps.write_iops, sharing.granted.operations);
	input.caps.write_bytes = Min(input.caps.write_bytes, sharing.granted.bytes);
	controller_follow(&input, &control);
	if (calm_unflushed_limit > 0)
	{
		control.limit = (uint64) calm_unflushed_limit * 1024;
		control.full = control.limit + BLCKSZ;
		control.too_much = input.unflushed * BLCKSZ > control.limit;
	}
	given_caps = device_part(&own_caps, control.given);
	targets_limit_pool(input.unflushed, &given_caps, &control);
	asks_for_reads = control.reads < READS_ENOUGH &&
	                 (control.all_operations >= given_caps.all_iops * FULL_PART ||
	                  control.all_bytes >= given_caps.all_bytes * FULL_PART);

	/* without our own there may be those of a shared device */
	pg_atomic_write_u32(&calm_shared->capped, device_is_capped(&control.share) ? 1 : 0);
	/* not while the breaker has let go: what is marked then stays so */
	flush_policy.dry_run =
		calm_mode != CALM_MODE_ON || !enableFsync || pg_atomic_read_u32(&calm_shared->capped) == 0;
	flush_policy.caps = control.share;
	flush_policy.cleans = control.gap > 0 && !visited;
	flush_policy.max_gap = flush_policy.bridges ? control.gap : 0;
	/* without anybody to share with there is no pacing but by what is in flight */
	flush_policy.paced = control.paced || sharing.members > 1;
	seconds = control.paced ? READS_IN_FLIGHT_SECONDS : IN_FLIGHT_SECONDS;
	operations = control.share.write_iops * seconds;
	bytes = control.share.write_bytes * seconds;
	flush_policy.in_flight = seconds;
	flush_policy.max_operations =
		isinf(operations) ? UINT32_MAX : Max((uint32) operations, flush_policy.paced ? 1 : 4);
	flush_policy.max_bytes = (uint64) Min(Max(bytes, LEAST_IN_FLIGHT), MOST_IN_FLIGHT);

	visited = flusher_visits(now_ms);
	written = control.written / BLCKSZ;
	holds = flush_policy.paced && !visited;
	pg_atomic_write_u64(&calm_shared->hold_from_pages,
	                    holds ? control.limit / BLCKSZ + written : 0);
	pg_atomic_write_u64(&calm_shared->hold_most_pages,
	                    holds ? control.full / BLCKSZ + written : visited);
	SpinLockAcquire(&calm_shared->lock);
	calm_shared->figures.caps = own_caps;
	calm_shared->figures.granted = (CalmRates){control.share.write_iops, control.share.write_bytes};
	calm_shared->figures.given = control.given;
	calm_shared->figures.flush_rate = flush_rate;
	calm_shared->figures.max_gap = flush_policy.max_gap;
	SpinLockRelease(&calm_shared->lock);
}

/* Look at the host, the device and the map.  Returns when: reading what is there may have had to wait */
static uint64
look(void)
{
	uint64 now_ms;
	PoolDue due;
	double rate;

	kernel_flusher_read(&flusher);
	now_ms = monotonic_ms();
	control_flushing(now_ms);
	if (breaker_tick(&flusher, pg_atomic_read_u32(&calm_shared->draining) != PAGE_MAP_END, now_ms))
		publish_degraded();
	open_files_close_idle();
	wal_cache_tick();
	if (calm_mode == CALM_MODE_OFF)
		return now_ms;
	if (page_map_is_low(calm_page_map))
		(void) page_map_reclaim(calm_page_map, RECLAIM_FILES);
	due = what_is_due();
	rate = pool_look(&due);
	/* with nothing marked nothing is learnt, and what comes next will not be much unlike what was */
	if (rate > 0)
		flush_rate = rate;
	return now_ms;
}

/* One step; true if there is more to do at once */
static bool
work(uint64 now_ms)
{
	static uint64 next_drain_look_ms = 0;
	bool draining = pg_atomic_read_u32(&calm_shared->draining) != PAGE_MAP_END;
	PoolDue due;

	if (now_ms >= next_settings_ms)
	{
		read_settings();
		next_settings_ms = now_ms + stretched(SETTINGS_INTERVAL_MS);
	}
	replay_rate_tick(now_ms);
	sharing_tick(now_ms, flush_busy() || flush_in_flight() || draining);
	/* a busy device leaves no pause for it: the order would be seconds old */
	if (now_ms >= next_look_ms)
		next_look_ms = look() + stretched(CALM_LOOK_MS);
	latency_probe_tick(asks_for_reads && flush_policy.paced && calm_flushes(), now_ms);

	begins = calm_mode != CALM_MODE_OFF && flush_refused == NULL && !flush_policy.rests;
	/* what is under way is finished in any mode */
	if (!flush_advance())
		return !flush_policy.rests;
	if (!begins)
		return false;
	due = what_is_due();
	while (pool_start_next(&due, now_ms))
	{
		if (!flush_advance() || monotonic_ms() >= next_look_ms)
			return true;
	}
	if (draining && pool_is_done() && !flush_busy() && now_ms >= next_drain_look_ms)
	{
		(void) pool_look(&due);
		next_drain_look_ms = now_ms + stretched(DRAIN_INTERVAL_MS);
	}
	return false;
}

/* How long to wait before the next step */
static long
pause_ms(bool busy, uint64 now_ms)
{
	static uint64 marked_ms = 0;
	bool marked = page_map_unflushed(calm_page_map) > 0;

	if (marked || marked_ms == 0)
		marked_ms = now_ms;
	if (busy)
	{
		/* a slow device has nothing new to tell a millisecond later */
		double operation_ms = 1000 / flush_policy.caps.write_iops / LOOKS_PER_OPERATION;
		long pause = (long) Max(1, Min(operation_ms, WAITING_INTERVAL_MS));

		return Max((long) stretched((uint32) pause),
		           Min((long) flush_pause_ms(), IDLE_INTERVAL_MS));
	}
	/* settings wake us, and to count is in no hurry */
	if (calm_mode == CALM_MODE_OFF || flush_policy.dry_run)
		return RESTING_INTERVAL_MS;
	if (marked)
		return Min((long) stretched(WAITING_INTERVAL_MS), IDLE_INTERVAL_MS);
	return now_ms < marked_ms + QUIET_MS ? IDLE_INTERVAL_MS : RESTING_INTERVAL_MS;
}

void
pg_calm_writeback_main(Datum argument)
{
	uint32 wait_event = CALM_WAIT_EVENT("PgCalmWriteback");

	background_begin();
	on_shmem_exit(worker_exit, (Datum) 0);
	cleaner_forget();
	breaker_begin();
	calm_shared->drain_wait_event = CALM_WAIT_EVENT("PgCalmDrain");
	pg_atomic_write_u64(&calm_shared->worker_beat_ms, monotonic_ms());
	pg_atomic_write_u32(&calm_shared->worker_pid, (uint32) MyProcPid);
	if (!cachestat_works())
		ereport(LOG, (errmsg("pg_calm: cachestat() is not to be had"),
		              errdetail(
						  "Linux has it since 6.5; a container may refuse it. The worker waits for "
						  "what it has begun to write, and does not see what others wrote.")));

	for (;;)
	{
		bool busy;
		uint64 now_ms = monotonic_ms();

		pg_atomic_write_u64(&calm_shared->worker_beat_ms, now_ms);
		if (background_turn())
			next_settings_ms = 0;
		busy = work(now_ms);
		if (busy && !flush_in_flight() && flush_pause_ms() == 0)
			continue; /* nothing to wait for */
		(void) WaitLatch(
			MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
			pause_ms(busy || flush_in_flight() || (cleaner_is_asked() && begins), now_ms),
			wait_event);
		ResetLatch(MyLatch);
	}
}
