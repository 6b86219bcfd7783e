/*-------------------------------------------------------------------------
 *
 * flush.c
 *	  Writes regions of data files back: bridge, start, confirm.
 *
 * One region is worked on at a time.  Its marked pages are taken from the
 * map, joined into runs, and each run is bridged and handed to the device
 * with sync_file_range(SYNC_FILE_RANGE_WRITE).  A run counts as in flight
 * until the kernel has no page of it under writeback; only so much is in
 * flight that what others write to the device waits for a few operations of
 * ours at most.
 *
 * Confirmation polls cachestat(2) (Linux 6.5), which takes no part in the
 * kernel's error reporting.  On older kernels it waits with
 * SYNC_FILE_RANGE_WAIT_BEFORE, which does: see error_latch.c.  So can starting, which
 * is why it is done in small pieces.
 *
 * Whatever error a call returns goes to the error latch first, then PANIC:
 * the same end as a failed fsync (data_sync_elevel), because the kernel marks
 * pages that it failed to write clean.
 *
 * For the writeback worker only: what is open and in flight is local to the process.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "writeback.h"
#include "base/base.h"
#include "shared/shared.h"

/* What may be written at once after a pause, if paced */
#define PACE_BURST_SECONDS 0.02

/* What may be owed after a run that was larger than what there was */
#define PACE_DEBT_SECONDS 1.0

/* In which a device has written a region, where clean pages are written along without room for more dirty ones */
#define MOMENT_SECONDS 0.25

/* Blocks started by one call at most: the fsync of the file waits for it to end */
#define RUN_BLOCKS (256 * 1024 / BLCKSZ)

/* ... and by one flush_advance(), so that interrupts are seen */
#define STEP_BLOCKS (4 * 1024 * 1024 / BLCKSZ)

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
	size_t length;
	void *mapping; /* NULL: not bridged */
	PageMapBits dirty;
	bool planned;   /* runs[] is filled */
	bool amplified; /* more became dirty than was bridged: no more is */
	int nruns;
	int next_run;
	uint32 run_done; /* blocks of the next run already started */
	BridgeRun runs[BRIDGE_MAX_RUNS];
} RegionJob;

FlushPolicy flush_policy;
FlushStarted flush_started;

static InFlight in_flight[MAX_IN_FLIGHT];
static int in_flight_first = 0;
static int in_flight_count = 0;
static uint64 in_flight_bytes = 0;
static uint32 in_flight_operations = 0;
static RegionJob job;
static double pace_operations = 0; /* that may be started now; below 0: owed */
static double pace_bytes = 0;      /* likewise */
static const char *refused = NULL;

CALM_NORETURN static void flush_failed(OpenFile *open, const char *what, int error);
static bool may_bridge(void);

/* Why nothing can be flushed on this kernel, or NULL */
const char *
flush_refused(void)
{
	return refused;
}

/*
 * An error of writeback.  The latch has it already; end as a failed fsync
 * does, data_sync_retry or not: what that setting relies on, that a later
 * fsync fails again, is not true of Linux.
 */
static void
flush_failed(OpenFile *open, const char *what, int error)
{
	char path[PAGE_MAP_FULL_PATH];

	page_map_path(calm_page_map, open->file, path);
	errno = error;
	ereport(PANIC, (errcode_for_file_access(),
	                errmsg("pg_calm: could not %s file \"%s\": %m", what, path)));
}

/* What was taken of a region is less by so many pages: they are nobody's, or written */
static void
not_in_flight(uint32 pages)
{
	pg_atomic_fetch_sub_u64(&calm_shared->in_flight_pages, pages);
}

/*
 * Begin to write a region back.  Must not be called while flush_busy().
 * False if there was nothing to write.
 */
bool
flush_start_region(uint32 file_index, uint32 incarnation, uint32 number)
{
	PageMapFile *file = page_map_file(calm_page_map, file_index);
	CalmCounters *counters = &calm_shared->counters;
	OpenFile *open;
	struct calm_cachestat state;
	uint32 taken;
	uint32 pages;

	Assert(job.open == NULL);
	open = open_files_get(file_index, incarnation);
	if (open == NULL)
		return false;
	taken = pages = flush_region_take(file, number, &job.dirty);
	/* at once: whoever waits for what was marked looks there next (checkpoint/drain.c) */
	flush_count(&calm_shared->in_flight_pages, taken);
	job.offset = (off_t) number * PAGE_MAP_REGION_BYTES;
	job.length = flush_region_length(open->fd, job.offset);
	if (pages == 0 || job.length == 0)
	{
		not_in_flight(taken);
		return false;
	}

	/* pages past the end of a truncated file are nobody's */
	for (uint32 b = job.length / BLCKSZ; b < PAGE_MAP_REGION_BLOCKS; b++)
		bits_clear(&job.dirty, b);

	/*
	 * nr_dirty counts folios, which can be larger than a block but not
	 * smaller than the dirty pages in them: less than we marked means that
	 * the kernel wrote some of ours.  Those are gaps like others: if they stayed
	 * clean in the middle of a run, it would take an operation more for each.
	 * Not while it is still writing: what is under writeback is passed over by
	 * sync_file_range (mm/page-writeback.c), so that it would stay dirty if it
	 * were bridged.
	 */
	if (cachestat_works() && cachestat_call(open->fd, job.offset, job.length, &state) == 0)
	{
		uint64 dirty_blocks = state.nr_dirty * sysconf(_SC_PAGESIZE) / BLCKSZ;

		if (dirty_blocks < pages && !flush_policy.dry_run)
		{
			flush_count(&counters->kernel_flushed_pages, pages - dirty_blocks);
			if (state.nr_writeback == 0)
				flush_region_drop_written(open->fd, number, 0, PAGE_MAP_REGION_BLOCKS, &job.dirty);
		}
		if (dirty_blocks == 0 && !flush_policy.dry_run)
		{
			not_in_flight(taken);
			return false;
		}
	}

	/* what was taken, but is nobody's or written */
	pages = bits_count(&job.dirty);
	not_in_flight(taken - pages);
	if (pages == 0)
		return false;

	/* the mapping is for looking only in a dry run: nothing gets populated */
	job.mapping =
		open->bridge && may_bridge() ? flush_region_map(open->fd, job.offset, job.length) : NULL;
	job.planned = false;
	job.amplified = false;
	job.next_run = 0;
	job.run_done = 0;
	job.open = open;
	open->references++;
	return true;
}

/*
 * Whether clean pages may be written along: they are dirty ones until the device
 * has written them.  Near where the kernel makes all writers of the host wait
 * (kernel_flusher_headroom) they may be so for a moment only.  Not bridging at all
 * would be worse there: what is scattered is not got rid of, and makes others wait
 * for longer.
 */
static bool
may_bridge(void)
{
	return flush_policy.headroom > 0 ||
	       PAGE_MAP_REGION_BYTES <= flush_policy.caps.write_bytes * MOMENT_SECONDS;
}

/* Join the dirty blocks of the region into runs */
static void
plan_region(void)
{
	PageMapBits allowed = job.dirty;

	if (job.mapping)
		bridge_allowed(job.open->fd, job.offset, job.mapping, job.length, &job.dirty, &allowed);
	job.nruns = bridge_plan(&job.dirty, &allowed, flush_policy.max_gap, job.runs);
	job.planned = true;
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

/* What the rates of caps have added since the last call */
static void
refill_pace(void)
{
	static uint64 last = 0;
	const DeviceCaps *caps = &flush_policy.caps;
	uint64 now = monotonic_ns();
	double seconds = last == 0 ? 0 : (now - last) / 1e9;

	last = now;
	/*
	 * An operation at least may be saved up, or nothing would ever be started.
	 * What is owed is bounded: it may be from times of a larger share.
	 */
	pace_operations = isinf(caps->write_iops) ?
	                      1 :
	                      Min(Max(pace_operations, -caps->write_iops * PACE_DEBT_SECONDS) +
	                              caps->write_iops * seconds,
	                          Max(caps->write_iops * PACE_BURST_SECONDS, 1.0));
	pace_bytes = isinf(caps->write_bytes) ?
	                 1 :
	                 Min(Max(pace_bytes, -caps->write_bytes * PACE_DEBT_SECONDS) +
	                         caps->write_bytes * seconds,
	                     Max(caps->write_bytes * PACE_BURST_SECONDS, (double) BLCKSZ));
}

/* Milliseconds until a run may be started by the rates; 0: now, or there is none to start */
uint64
flush_pause_ms(void)
{
	double seconds = 0;

	if (job.open == NULL || !flush_policy.paced)
		return 0;
	if (pace_operations <= 0)
		seconds = -pace_operations / flush_policy.caps.write_iops;
	if (pace_bytes <= 0)
		seconds = Max(seconds, -pace_bytes / flush_policy.caps.write_bytes);
	else if (pace_operations > 0)
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
			int error = 0;

			if (!wait)
				return;
			error_latch_begin(&calm_shared->error_latch, run->open->device, run->open->inode);
			if (sync_file_range(run->open->fd, run->offset, run->length,
			                    SYNC_FILE_RANGE_WAIT_BEFORE) != 0)
				error = errno;
			error_latch_end(&calm_shared->error_latch, error);
			if (error != 0)
				flush_failed(run->open, "write back", error);
			wait = false;
		}
		not_in_flight(run->pages);
		flush_count(&calm_shared->counters.flushed_pages, run->pages);
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
	InFlight *run;
	int error = 0;

	flush_count(&counters->bridged_pages, bridged->filled);
	flush_count(&counters->unbridged_pages, bridged->left);
	flush_count(&counters->device_operations, operations);
	flush_count(&counters->written_bytes, written);
	if (flush_policy.dry_run)
	{
		not_in_flight(pages);
		flush_count(&counters->flushed_pages, pages);
		return;
	}

	error_latch_begin(&calm_shared->error_latch, job.open->device, job.open->inode);
	if (sync_file_range(job.open->fd, offset, length, SYNC_FILE_RANGE_WRITE) != 0)
		error = errno;
	/* a call that is not to be had writes nothing, and has seen no error */
	if (error == ENOSYS || error == EOPNOTSUPP || error == EPERM)
	{
		error_latch_end(&calm_shared->error_latch, 0);
		refused = "the kernel refuses sync_file_range";
		not_in_flight(pages);
		return;
	}
	error_latch_end(&calm_shared->error_latch, error);
	if (error != 0)
		flush_failed(job.open, "start writeback of", error);

	run = &in_flight[(in_flight_first + in_flight_count) % MAX_IN_FLIGHT];
	run->open = job.open;
	run->offset = offset;
	run->length = length;
	run->pages = pages;
	run->operations = operations;
	job.open->references++;
	in_flight_count++;
	in_flight_bytes += length;
	in_flight_operations += operations;
	flush_started.operations += operations;
	flush_started.bytes += written;
	pace_operations -= operations;
	pace_bytes -= written;
}

/*
 * Do what can be done without exceeding what may be in flight.  Returns true
 * if the region worked on (if any) is finished, so that another can be
 * started; false if the caller should wait a moment.
 */
bool
flush_advance(void)
{
	uint32 started = 0;

	/* with nothing to start, wait: or files stay open, and we would poll for ever */
	confirm(job.open == NULL);
	while (job.open)
	{
		BridgeRun *run;
		BridgeRun part;
		BridgeFilled bridged = {0};

		if (flush_policy.rests && !flush_policy.dry_run)
			return false;
		if (!job.planned)
			plan_region();
		if (job.next_run >= job.nruns)
		{
			if (job.mapping)
				munmap(job.mapping, job.length);
			job.mapping = NULL;
			job.open->references--;
			job.open = NULL;
			break;
		}
		if (in_flight_count >= MAX_IN_FLIGHT ||
		    (in_flight_count > 0 && (in_flight_bytes >= flush_policy.max_bytes ||
		                             in_flight_operations >= flush_policy.max_operations)))
		{
			confirm(true);
			if (in_flight_count >= MAX_IN_FLIGHT ||
			    (in_flight_count > 0 && (in_flight_bytes >= flush_policy.max_bytes ||
			                             in_flight_operations >= flush_policy.max_operations)))
				return false;
		}

		if (flush_policy.paced && !flush_policy.dry_run)
		{
			refill_pace();
			if (pace_operations <= 0 || pace_bytes <= 0)
				return false;
		}

		run = &job.runs[job.next_run];
		part.first = run->first + job.run_done;
		part.blocks = Min(run->blocks - job.run_done, RUN_BLOCKS);
		part.dirty = 0;
		for (uint32 b = part.first; b < part.first + part.blocks; b++)
			part.dirty += bits_test(&job.dirty, b);
		if (part.dirty < part.blocks && flush_policy.dry_run)
			bridged.filled = part.blocks - part.dirty;
		else if (part.dirty < part.blocks && (job.amplified || !flush_policy.bridges))
		{
			bridged.left = part.blocks - part.dirty;
			bridged.breaks = bridged.left;
		}
		else if (part.dirty < part.blocks)
			bridge_fill(job.open->fd, job.offset, &job.dirty, &part, &bridged);
		if (bridged.amplified > 0 && !job.amplified)
		{
			job.amplified = true;
			ereport(DEBUG1, (errmsg_internal(
								"pg_calm: more became dirty than was bridged in region "
								"%u of file %u, the rest of it is not bridged",
								(uint32) (job.offset / PAGE_MAP_REGION_BYTES), job.open->file)));
		}
		start_run(part.first, part.blocks, part.dirty, &bridged);

		job.run_done += part.blocks;
		if (job.run_done >= run->blocks)
		{
			job.next_run++;
			job.run_done = 0;
		}
		started += part.blocks;
		if (started >= STEP_BLOCKS)
			return false; /* let the caller look at interrupts */
	}
	return true;
}

/* Marked pages that have been taken, since the server was started or pg_calm_reset() */
uint64
flush_taken_pages(void)
{
	CalmCounters *counters = &calm_shared->counters;

	return pg_atomic_read_u64(&counters->flushed_pages) +
	       pg_atomic_read_u64(&counters->fsynced_pages) +
	       pg_atomic_read_u64(&counters->kernel_flushed_pages);
}
