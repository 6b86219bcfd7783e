/*-------------------------------------------------------------------------
 *
 * flush.c
 *	  Writes regions of data files back: bridge, start, confirm.
 *
 * One region is worked on at a time.  Its marked pages are taken from the map, joined into runs,
 * and each run is bridged and handed to the device with sync_file_range(SYNC_FILE_RANGE_WRITE).  A
 * run counts as in flight until the kernel has no page of it under writeback; only so much is that
 * others wait for a few operations of ours at most.
 *
 * Confirmation polls cachestat(2) (Linux 6.5), which takes no part in the kernel's error
 * reporting.  On older kernels it waits with SYNC_FILE_RANGE_WAIT_BEFORE, which does: see
 * error_latch.c.  So can starting, which is why it is done in small pieces.
 *
 * For the worker, but for the last function: what is open and in flight is the process's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "writeback.h"

/*
 * What may be written at once after a pause, if paced, and what may be owed after a run that
 * was larger than what there was
 */
#define PACE_BURST_SECONDS 0.02
#define PACE_DEBT_SECONDS 1.0

/* Blocks started by one call at most: the fsync of the file waits for it to end */
#define RUN_BLOCKS (256 * 1024 / BLCKSZ)

/* ... and by one flush_advance(), so that interrupts are seen; and for so long, each can wait for the device */
#define STEP_BLOCKS (4 * 1024 * 1024 / BLCKSZ)
#define STEP_MS 100

#define MAX_IN_FLIGHT 1024

typedef struct InFlight
{
	OpenFile *open;
	off_t offset;
	off_t length;
	uint32 pages;
	uint32 operations;
} InFlight;

/* The region that is being worked on */
typedef struct RegionJob
{
	OpenFile *open; /* NULL: none */
	off_t offset;
	PageMapBits dirty;
	uint32 left;    /* dirty pages not started */
	bool amplified; /* more became dirty than was bridged: no more is (nor in a dry run) */
	int nruns;
	int next_run;
	uint32 run_done; /* blocks of the next run already started */
	BridgeRun runs[BRIDGE_MAX_RUNS];
} RegionJob;

FlushPolicy flush_policy;
FlushStarted flush_started;
const char *flush_refused = NULL;

static InFlight in_flight[MAX_IN_FLIGHT];
static int in_flight_first = 0;
static int in_flight_count = 0;
static uint64 in_flight_bytes = 0;
static uint32 in_flight_operations = 0;
static RegionJob job;
static double pace_operations = 0; /* that may be started now; below 0: owed */
static double pace_bytes = 0;      /* likewise */

/*
 * A call that may consume an error of the file.  The latch has an error first; then we end as
 * a failed fsync does (data_sync_elevel), data_sync_retry or not: what that setting relies on, that
 * a later fsync fails again, is not true of Linux, which marks pages that it failed to write clean.
 * False if the call is not to be had.
 */
static bool
sync_range(OpenFile *open, off_t offset, off_t length, unsigned int flags, const char *what)
{
	int error;
	bool refused;

	error_latch_begin(&calm_shared->error_latch, open->device, open->inode);
	do /* a signal is no error: as fd.c, pg_flush_data, since 17 */
		error = sync_file_range(open->fd, offset, length, flags) == 0 ? 0 : errno;
	while (error == EINTR);
	/* then it has written nothing, and seen no error; a wait can fail with one that a device reported */
	refused = flags == SYNC_FILE_RANGE_WRITE &&
	          (error == ENOSYS || error == EOPNOTSUPP || error == EPERM);
	error_latch_end(&calm_shared->error_latch, refused ? 0 : error);
	if (refused)
		flush_refused = "the kernel refuses sync_file_range";
	else if (error != 0)
	{
		char path[PAGE_MAP_FULL_PATH];

		page_map_path(calm_page_map, open->file, path);
		errno = error;
		ereport(PANIC, (errcode_for_file_access(),
		                errmsg("pg_calm: could not %s file \"%s\": %m", what, path)));
	}
	return !refused;
}

/* Add to a counter of CalmShared */
static void
count(pg_atomic_uint64 *counter, uint64 value)
{
	if (value > 0)
		pg_atomic_fetch_add_u64(counter, value);
}

/* What was taken of a region is less by so many pages: they are nobody's, or written */
static void
not_in_flight(uint32 pages)
{
	pg_atomic_fetch_sub_u64(&calm_shared->in_flight_pages, pages);
}

/* Take all marked pages of a region; how many there were */
static uint32
take_region(PageMapFile *file, uint32 number, PageMapBits *bits)
{
	PageMapRegion *region = page_map_region_of(calm_page_map, file, number);

	memset(bits, 0, sizeof(*bits));
	if (region == NULL)
		return 0;
	pg_atomic_write_u32(&region->passed, 0);
	return page_map_take(calm_page_map, region, bits);
}

/* Bytes of a region that lie within the file, in whole blocks */
static size_t
region_length(int fd, off_t offset)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || st.st_size <= offset)
		return 0;
	return Min(st.st_size - offset, PAGE_MAP_REGION_BYTES) / BLCKSZ * BLCKSZ;
}

/*
 * Drop those of a region's blocks that are not dirty any more: somebody has written them.  A part
 * of which none is, or as many as we know of, is not looked into; so that takes one call if nobody
 * has.  In a dry run gaps were never dirty.
 */
static void
drop_written(int fd, uint32 number, uint32 first, uint32 blocks, PageMapBits *bits)
{
	off_t offset = ((off_t) number * PAGE_MAP_REGION_BLOCKS + first) * BLCKSZ;
	struct calm_cachestat state;
	uint32 known = 0;
	uint32 dirty;

	if (flush_policy.dry_run || !cachestat_works())
		return;
	for (uint32 b = first; b < first + blocks; b++)
		known += bits_test(bits, b);
	if (known == 0 || cachestat_call(fd, offset, (off_t) blocks * BLCKSZ, &state) != 0)
		return;
	dirty = cachestat_dirty_blocks(&state);
	if (dirty >= known)
		return;
	if (dirty == 0 || blocks == 1)
	{
		for (uint32 b = first; b < first + blocks; b++)
			bits_clear(bits, b);
		return;
	}
	drop_written(fd, number, first, blocks / 2, bits);
	drop_written(fd, number, first + blocks / 2, blocks - blocks / 2, bits);
}

/*
 * Begin to write a region back.  Must not be called while flush_busy().
 * False if there was nothing to write.
 */
bool
flush_start_region(uint32 file_index, uint32 incarnation, uint32 number)
{
	PageMapFile *file = page_map_file(calm_page_map, file_index);
	OpenFile *open;
	struct calm_cachestat state;
	PageMapBits allowed;
	size_t length;
	uint32 taken;
	uint32 pages;

	Assert(job.open == NULL);
	open = open_files_get(file_index, incarnation);
	if (open == NULL)
		return false;
	taken = take_region(file, number, &job.dirty);
	/* at once: whoever waits for what was marked looks there next (checkpoint/drain.c) */
	count(&calm_shared->in_flight_pages, taken);
	job.offset = (off_t) number * PAGE_MAP_REGION_BYTES;
	length = region_length(open->fd, job.offset);

	/* pages past the end of a truncated file are nobody's */
	for (uint32 b = length / BLCKSZ; b < PAGE_MAP_REGION_BLOCKS; b++)
		bits_clear(&job.dirty, b);
	pages = bits_count(&job.dirty);

	/*
	 * Folios that are dirty can be larger than the dirty pages in them, not smaller: less
	 * than we marked means that the kernel wrote some of ours.  Those are gaps like others.
	 * Not while it is still writing: what is under writeback is passed over by
	 * sync_file_range (mm/page-writeback.c), and would stay dirty if it were bridged.
	 */
	if (pages > 0 && !flush_policy.dry_run && cachestat_works() &&
	    cachestat_call(open->fd, job.offset, length, &state) == 0)
	{
		uint32 dirty_blocks = cachestat_dirty_blocks(&state);

		/* none at all is cached: the filesystem caches elsewhere (overlayfs, ZFS), where nothing is seen */
		if (dirty_blocks < pages && state.nr_cache > 0)
		{
			count(&calm_shared->counters.kernel_flushed_pages, pages - dirty_blocks);
			flush_started.found_written += pages - dirty_blocks;
		}
		if (dirty_blocks == 0)
			memset(&job.dirty, 0, sizeof(job.dirty));
		else if (dirty_blocks < pages && state.nr_writeback == 0)
			drop_written(open->fd, number, 0, PAGE_MAP_REGION_BLOCKS, &job.dirty);
	}

	/* what was taken, but is nobody's or written */
	pages = bits_count(&job.dirty);
	not_in_flight(taken - pages);
	if (pages == 0)
		return false;

	/* clean pages are dirty only until they are written, and no more than may be in flight */
	if (!calm_bridge || !flush_policy.bridges || flush_policy.max_gap == 0 ||
	    bridge_refusal() != NULL)
		allowed = job.dirty;
	else if (flush_policy.dry_run)
		memset(&allowed, 0xFF, sizeof(allowed)); /* it maps no pages to look which are there */
	else
		bridge_allowed(open->fd, job.offset, length, &job.dirty, &allowed);
	job.nruns = bridge_plan(&job.dirty, &allowed, flush_policy.max_gap, job.runs);
	job.amplified = flush_policy.dry_run; /* or the mode changes, and nobody has looked */
	job.next_run = 0;
	job.run_done = 0;
	job.left = pages;
	job.open = open;
	open->references++;
	return true;
}

/* Whether a region is being worked on */
bool
flush_busy(void)
{
	return job.open != NULL;
}

/* Whether anything is in flight */
bool
flush_in_flight(void)
{
	return in_flight_count > 0;
}

/* What a rate adds to what may be started; least may be saved up in any case, or nothing would be */
static void
refill(double *pace, double rate, double seconds, double least)
{
	if (isinf(rate))
		*pace = least;
	else
		/* what is owed is bounded: it may be from times of a larger share */
		*pace = Min(Max(*pace, -rate * PACE_DEBT_SECONDS) + rate * seconds,
		            Max(rate * PACE_BURST_SECONDS, least));
}

/* What the rates of caps have added since the last call */
static void
refill_pace(void)
{
	static uint64 last = 0;
	uint64 now = monotonic_ns();
	double seconds = last == 0 ? 0 : (now - last) / 1e9;

	last = now;
	refill(&pace_operations, flush_policy.caps.write_iops, seconds, 1);
	refill(&pace_bytes, flush_policy.caps.write_bytes, seconds, BLCKSZ);
}

/* Milliseconds until a run may be started by the rates; 0: now, or there is none to start */
uint64
flush_pause_ms(void)
{
	double seconds = Max(-pace_operations / flush_policy.caps.write_iops,
	                     -pace_bytes / flush_policy.caps.write_bytes);

	if (job.open == NULL || !flush_policy.paced || (pace_operations > 0 && pace_bytes > 0))
		return 0;
	return (uint64) (Min(seconds, 1.0) * 1000) + 1;
}

/*
 * Drop finished runs from the front of the queue.  The device works in order
 * closely enough: what is behind an unfinished run is asked later.
 */
static void
confirm(bool wait)
{
	while (in_flight_count > 0)
	{
		InFlight *run = &in_flight[in_flight_first];

		if (cachestat_works())
		{
			struct calm_cachestat state;

			if (cachestat_call(run->open->fd, run->offset, run->length, &state) == 0 &&
			    state.nr_writeback > 0)
				return;
		}
		else
		{
			if (!wait)
				return;
			(void) sync_range(run->open, run->offset, run->length, SYNC_FILE_RANGE_WAIT_BEFORE,
			                  "write back");
			wait = false;
		}
		not_in_flight(run->pages);
		count(&calm_shared->counters.flushed_pages, run->pages);
		in_flight_bytes -= run->length;
		in_flight_operations -= run->operations;
		run->open->references--;
		in_flight_first = (in_flight_first + 1) % MAX_IN_FLIGHT;
		in_flight_count--;
	}
}

/* Hand one stretch of the region worked on to the device */
static void
start_run(uint32 first, uint32 blocks, uint32 pages, const BridgeFilled *bridged)
{
	CalmCounters *counters = &calm_shared->counters;
	off_t offset = job.offset + (off_t) first * BLCKSZ;
	off_t length = (off_t) blocks * BLCKSZ;
	off_t written = length - (off_t) bridged->left * BLCKSZ;
	uint32 operations = device_operations(&flush_policy.caps, written) + bridged->breaks;

	count(&counters->bridged_pages, bridged->filled);
	count(&counters->unbridged_pages, bridged->left);
	count(&counters->device_operations, operations);
	count(&counters->written_bytes, written);
	if (flush_policy.dry_run)
	{
		not_in_flight(pages);
		count(&counters->flushed_pages, pages);
		return;
	}

	if (!sync_range(job.open, offset, length, SYNC_FILE_RANGE_WRITE, "start writeback of"))
	{
		not_in_flight(pages);
		return;
	}
	in_flight[(in_flight_first + in_flight_count) % MAX_IN_FLIGHT] =
		(InFlight){job.open, offset, length, pages, operations};
	job.open->references++;
	in_flight_count++;
	in_flight_bytes += length;
	in_flight_operations += operations;
	flush_started.operations += operations;
	flush_started.bytes += written;
	pace_operations -= operations;
	pace_bytes -= written;
}

/* Whether no more may be; one run always may */
static bool
in_flight_is_full(void)
{
	return in_flight_count >= MAX_IN_FLIGHT ||
	       (in_flight_count > 0 && (in_flight_bytes >= flush_policy.max_bytes ||
	                                in_flight_operations >= flush_policy.max_operations));
}

/*
 * Do what can be done without exceeding what may be in flight.  Returns true
 * if the region worked on (if any) is finished, so that another can be
 * started; false if the caller should wait a moment.
 */
bool
flush_advance(void)
{
	uint64 until_ms = monotonic_ms() + STEP_MS;
	uint32 started = 0;

	/* with nothing to start, wait: or files stay open, and we would poll for ever */
	confirm(job.open == NULL || flush_policy.rests);
	while (job.open)
	{
		BridgeRun *run;
		BridgeRun part;
		BridgeFilled bridged = {0};
		uint32 dirty = 0;

		bool rests = flush_policy.rests && !flush_policy.dry_run;

		if (rests && pg_atomic_read_u32(&calm_shared->let_go) == 0)
			return false;
		if (job.next_run >= job.nruns || rests)
		{
			/* where the breaker has let go the rest is fsync's, and the file may go */
			not_in_flight(job.left);
			job.open->references--;
			job.open = NULL;
			break;
		}
		if (in_flight_is_full())
			confirm(true);
		if (in_flight_is_full())
			return false;
		if (flush_policy.paced && !flush_policy.dry_run)
		{
			refill_pace();
			if (pace_operations <= 0 || pace_bytes <= 0)
				return false;
		}

		run = &job.runs[job.next_run];
		part.first = run->first + job.run_done;
		part.blocks = Min(run->blocks - job.run_done, RUN_BLOCKS);
		for (uint32 b = part.first; b < part.first + part.blocks; b++)
			dirty += bits_test(&job.dirty, b);
		if (flush_policy.dry_run)
			bridged.filled = part.blocks - dirty;
		else if (job.amplified || !flush_policy.bridges)
			bridged.left = bridged.breaks = part.blocks - dirty;
		else if (dirty < part.blocks)
			bridge_fill(job.open->fd, job.offset, &job.dirty, &part, &bridged);
		if (bridged.amplified > 0)
			job.amplified = true;
		job.left -= dirty;
		start_run(part.first, part.blocks, dirty, &bridged);

		job.run_done += part.blocks;
		if (job.run_done >= run->blocks)
		{
			job.next_run++;
			job.run_done = 0;
		}
		started += part.blocks;
		if (started >= STEP_BLOCKS || monotonic_ms() >= until_ms)
			return false; /* let the caller look at interrupts */
	}
	return true;
}

/*
 * In any process but the worker: forget the marks of a file that is fsynced next, and count
 * what the fsync will find
 */
void
flush_file_before_fsync(int fd, uint32 file_index)
{
	static BridgeRun runs[BRIDGE_MAX_RUNS];
	PageMapFile *file = page_map_file(calm_page_map, file_index);
	CalmCounters *counters = &calm_shared->counters;
	DeviceCaps caps = calm_figures().caps;

	flush_policy.dry_run = !calm_flushes();
	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
	{
		PageMapRegion *region = page_map_region_of(calm_page_map, file, number);
		PageMapBits taken;
		uint32 marked;
		uint32 pages;
		int nruns;

		if (region == NULL || page_map_region_count(region) == 0)
			continue;
		marked = take_region(file, number, &taken);
		drop_written(fd, number, 0, PAGE_MAP_REGION_BLOCKS, &taken);
		pages = bits_count(&taken);
		count(&counters->kernel_flushed_pages, marked - pages);
		count(&counters->fsynced_pages, pages);
		nruns = bridge_plan(&taken, &taken, 0, runs);
		count(&counters->written_bytes, (uint64) pages * BLCKSZ);
		for (int r = 0; r < nruns; r++)
			count(&counters->device_operations,
			      device_operations(&caps, (uint64) runs[r].blocks * BLCKSZ));
	}
}
