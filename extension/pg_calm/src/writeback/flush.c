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
 * SYNC_FILE_RANGE_WAIT_BEFORE, which does: see error_latch.c.
 *
 * Whatever error a call returns goes to the error latch first, then PANIC:
 * the same end as a failed fsync (data_sync_elevel), because the kernel marks
 * pages that it failed to write clean.
 *
 * All but flush_region_before_fsync is for the writeback worker only: what is
 * open and in flight is local to the process.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bridge.h"
#include "base/base.h"
#include "flush.h"
#include "flusher_visit.h"
#include "folio_split.h"
#include "shared/shared.h"
#include "port/pg_bitutils.h"

#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif

/* What may be written at once after a pause, if paced */
#define PACE_BURST_SECONDS 0.02

/* What may be owed after a run that was larger than what there was */
#define PACE_DEBT_SECONDS 1.0

/* Longest wait for absent blocks of a region to be read */
#define PREFETCH_MS 200

/* Read at a time: the default read-ahead of 128 kB */
#define PREFETCH_BLOCKS 16

/* Pages of a region that somebody else has written, at least, if the kernel flusher is to have come */
#define VISIT_PAGES 4

#define MAX_IN_FLIGHT 1024
#define MAX_OPEN_FILES 16

/* Linux 6.5, include/uapi/linux/mman.h; not in the headers of Debian 12 */
struct calm_cachestat_range
{
	uint64 off;
	uint64 len;
};

struct calm_cachestat
{
	uint64 nr_cache;
	uint64 nr_dirty;
	uint64 nr_writeback;
	uint64 nr_evicted;
	uint64 nr_recently_evicted;
};

typedef struct OpenFile
{
	int fd; /* -1: unused */
	uint32 file;
	uint32 incarnation;
	int references; /* runs in flight, region worked on */
	uint64 opened_ms;
	bool bridge; /* its filesystem allows it */
} OpenFile;

typedef struct InFlight
{
	OpenFile *open;
	off_t offset;
	off_t length;
	uint32 pages;
	uint32 operations;
	bool split;     /* last run of a region that has large folios */
	uint64 started; /* histogram_clock */
} InFlight;

/* The region that is being worked on */
typedef struct RegionJob
{
	OpenFile *open; /* NULL: none */
	off_t offset;
	size_t length;
	void *mapping; /* NULL: not bridged */
	PageMapBits dirty;
	bool planned;          /* runs[] is filled */
	bool large_folios;     /* far more is dirty than was marked */
	uint64 prefetch_until; /* reading absent blocks; when to stop waiting for them */
	int nruns;
	int next_run;
	uint32 run_done; /* blocks of the next run already started */
	BridgeRun runs[BRIDGE_MAX_RUNS];
} RegionJob;

FlushPolicy flush_policy;
FlushStarted flush_started;
uint64 flush_taken_back_pages = 0;

static OpenFile open_files[MAX_OPEN_FILES];
static bool open_files_ready = false;
static InFlight in_flight[MAX_IN_FLIGHT];
static int in_flight_first = 0;
static int in_flight_count = 0;
static uint64 in_flight_bytes = 0;
static uint32 in_flight_operations = 0;
static RegionJob job;
static double pace_operations = 0; /* that may be started now; below 0: owed */
static double pace_bytes = 0;      /* likewise */
static int cachestat_works = -1;
static const char *refused = NULL;

static int call_cachestat(int fd, off_t offset, off_t length, struct calm_cachestat *result);
static OpenFile *open_file(uint32 file, uint32 incarnation);
static void close_file(OpenFile *open);
CALM_NORETURN static void flush_failed(OpenFile *open, const char *what, int error);
static uint64 region_since(PageMapFile *file, uint32 number);
static uint32 take_region(PageMapFile *file, uint32 number, PageMapBits *bits);
static size_t region_length(int fd, off_t offset);
static void *map_region(int fd, off_t offset, size_t length);
static void
make_dense(int fd, off_t offset, bool bridge, const PageMapBits *taken, PageMapBits *filled);
static uint32 dirty_blocks(int fd, uint32 first, uint32 blocks);
static uint32 bits_span(const PageMapBits *bits, uint32 *first);
static void drop_written(int fd, uint32 number, uint32 first, uint32 blocks, PageMapBits *bits);
static void count_written(const PageMapBits *before, const PageMapBits *now);
static void prefetch(int fd, off_t offset, const PageMapBits *absent);
static bool plan_region(void);
static void refill_pace(void);
static void confirm(bool wait);
static void start_run(uint32 first, uint32 blocks, uint32 pages, uint32 bridged);
static void count(pg_atomic_uint64 *counter, uint64 value);

static void
count(pg_atomic_uint64 *counter, uint64 value)
{
	if (value > 0)
		pg_atomic_fetch_add_u64(counter, value);
}

static int
call_cachestat(int fd, off_t offset, off_t length, struct calm_cachestat *result)
{
	struct calm_cachestat_range range = {offset, length};

	return (int) syscall(__NR_cachestat, fd, &range, result, 0);
}

/* Why nothing can be flushed on this kernel, or NULL */
const char *
flush_refused(void)
{
	return refused;
}

/* Whether writeback can be confirmed without consuming errors */
bool
flush_kernel_has_cachestat(void)
{
	if (cachestat_works < 0)
	{
		struct calm_cachestat result;

		/* a missing call is ENOSYS, or EPERM under a container's seccomp filter */
		cachestat_works = call_cachestat(-1, 0, 0, &result) != 0 && errno == EBADF;
	}
	return cachestat_works > 0;
}

/*
 * A file descriptor of a tracked file, shared by all that is done with the
 * file within a second.  NULL if the file is gone, which also drops it from
 * the map.  Descriptors are kept no longer than needed, or a dropped table
 * would keep its space.
 */
static OpenFile *
open_file(uint32 file_index, uint32 incarnation)
{
	PageMapFile *file = page_map_file(calm_page_map, file_index);
	OpenFile *slot = NULL;
	struct stat st;
	char path[PAGE_MAP_PATH_MAX];

	if (!open_files_ready)
	{
		for (int i = 0; i < MAX_OPEN_FILES; i++)
			open_files[i].fd = -1;
		open_files_ready = true;
	}
	for (int i = 0; i < MAX_OPEN_FILES; i++)
	{
		OpenFile *open = &open_files[i];

		if (open->fd >= 0 && open->file == file_index && open->incarnation == incarnation)
			return open;
		if (open->fd < 0 || (open->references == 0 && (slot == NULL || slot->fd >= 0)))
			slot = open;
	}
	if (slot == NULL)
		return NULL; /* all in flight: try again later */
	if (slot->fd >= 0)
		close_file(slot);

	/* the path may change under us; the check of device and inode decides */
	page_map_path(calm_page_map, file_index, path);
	slot->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (slot->fd >= 0 &&
	    (fstat(slot->fd, &st) != 0 || st.st_dev != file->device || st.st_ino != file->inode))
		close_file(slot);
	if (slot->fd < 0)
	{
		page_map_forget_file(calm_page_map, file_index, incarnation);
		return NULL;
	}
	slot->file = file_index;
	slot->incarnation = incarnation;
	slot->references = 0;
	slot->opened_ms = page_map_now_ms();
	slot->bridge = bridge_possible(slot->fd, path);
	return slot;
}

/*
 * close(2) of a file of a local filesystem reports no writeback error and
 * marks none as seen (fs/open.c, filp_close: ->flush, which they lack).
 */
static void
close_file(OpenFile *open)
{
	close(open->fd);
	open->fd = -1;
}

/* Close what has not been used for a second */
void
flush_close_idle(void)
{
	uint64 now = page_map_now_ms();

	for (int i = 0; open_files_ready && i < MAX_OPEN_FILES; i++)
	{
		if (open_files[i].fd >= 0 && open_files[i].references == 0 &&
		    now - open_files[i].opened_ms > 1000)
			close_file(&open_files[i]);
	}
}

/*
 * An error of writeback.  The latch has it already; end as a failed fsync
 * does, data_sync_retry or not: what that setting relies on, that a later
 * fsync fails again, is not true of Linux.
 */
static void
flush_failed(OpenFile *open, const char *what, int error)
{
	char path[PAGE_MAP_PATH_MAX];

	page_map_path(calm_page_map, open->file, path);
	errno = error;
	ereport(PANIC, (errcode_for_file_access(),
	                errmsg("pg_calm: could not %s file \"%s\": %m", what, path)));
}

/* When the oldest marked page of a region was marked; 0 if that is not known */
static uint64
region_since(PageMapFile *file, uint32 number)
{
	uint32 slot = page_map_slot(calm_page_map, file, number);

	return slot == 0 ? 0 : pg_atomic_read_u64(&page_map_region(calm_page_map, slot - 1)->since);
}

/* All marked pages of a region, of both generations */
static uint32
take_region(PageMapFile *file, uint32 number, PageMapBits *bits)
{
	uint32 slot = page_map_slot(calm_page_map, file, number);
	uint64 whole_bit = UINT64CONST(1) << (number % 64);

	memset(bits, 0, sizeof(*bits));
	if (slot != 0)
	{
		PageMapRegion *region = page_map_region(calm_page_map, slot - 1);

		for (int g = 0; g < 2; g++)
		{
			PageMapBits taken;

			(void) page_map_take(calm_page_map, region, g, &taken);
			for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
				bits->word[i] |= taken.word[i];
		}
		pg_atomic_fetch_and_u32(&region->flags, ~PAGE_MAP_REGION_WINDOW);
	}
	if (pg_atomic_read_u64(&file->whole[number / 64]) & whole_bit)
	{
		pg_atomic_fetch_and_u64(&file->whole[number / 64], ~whole_bit);
		memset(bits, 0xFF, sizeof(*bits));
	}
	return bits_count(bits);
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

/* Short-lived mapping of a region for bridging; NULL if not to be bridged */
static void *
map_region(int fd, off_t offset, size_t length)
{
	void *mapping;

	if (!calm_bridge || flush_policy.max_gap == 0 || bridge_refusal() != NULL)
		return NULL;
	mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	if (mapping == MAP_FAILED)
		return NULL;
	/* in a dry run nothing is touched by it */
	if (!flush_policy.dry_run)
		bridge_leave_no_trace(mapping, length);
	return mapping;
}

/*
 * Bytes of a file that are dirty and under writeback, as the kernel counts
 * (in whole folios).  False if the kernel can't tell.
 */
bool
flush_descriptor_state(int fd, uint64 *dirty_bytes, uint64 *writeback_bytes)
{
	struct calm_cachestat state;
	uint64 page_size = sysconf(_SC_PAGESIZE);

	if (!flush_kernel_has_cachestat() || call_cachestat(fd, 0, 0, &state) != 0)
		return false;
	*dirty_bytes = state.nr_dirty * page_size;
	*writeback_bytes = state.nr_writeback * page_size;
	return true;
}

/* Likewise of a file in the page map; false as well if it is gone */
bool
flush_file_state(uint32 file, uint32 incarnation, uint64 *dirty_bytes, uint64 *writeback_bytes)
{
	OpenFile *open = flush_kernel_has_cachestat() ? open_file(file, incarnation) : NULL;

	return open && flush_descriptor_state(open->fd, dirty_bytes, writeback_bytes);
}

/* How many blocks of a file are dirty, from one on */
static uint32
dirty_blocks(int fd, uint32 first, uint32 blocks)
{
	struct calm_cachestat state;

	if (call_cachestat(fd, (off_t) first * BLCKSZ, (off_t) blocks * BLCKSZ, &state) != 0)
		return blocks;
	return state.nr_dirty * sysconf(_SC_PAGESIZE) / BLCKSZ;
}

/*
 * Drop those of a region's blocks that are not dirty any more: somebody has
 * written them.  A part of which none is, or as many as we know of, is not
 * looked into; so that takes one call if nobody has.  In a dry run gaps were
 * never dirty.
 */
static void
drop_written(int fd, uint32 number, uint32 first, uint32 blocks, PageMapBits *bits)
{
	uint32 known = 0;
	uint32 dirty;

	if (flush_policy.dry_run || !flush_kernel_has_cachestat())
		return;
	for (uint32 b = first; b < first + blocks; b++)
		known += bits_test(bits, b);
	if (known == 0)
		return;
	dirty = dirty_blocks(fd, number * PAGE_MAP_REGION_BLOCKS + first, blocks);
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
	CalmCounters *counters = &calm_shared->counters;
	OpenFile *open;
	struct calm_cachestat state;
	uint64 since_ms;
	uint32 pages;

	Assert(job.open == NULL);
	open = open_file(file_index, incarnation);
	if (open == NULL)
		return false;
	since_ms = region_since(file, number);
	pages = take_region(file, number, &job.dirty);
	job.offset = (off_t) number * PAGE_MAP_REGION_BYTES;
	job.length = region_length(open->fd, job.offset);
	if (pages == 0 || job.length == 0)
		return false;

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
	if (flush_kernel_has_cachestat() &&
	    call_cachestat(open->fd, job.offset, job.length, &state) == 0)
	{
		uint64 dirty_blocks = state.nr_dirty * sysconf(_SC_PAGESIZE) / BLCKSZ;

		if (dirty_blocks < pages && !flush_policy.dry_run)
		{
			if (flush_policy.paced && dirty_blocks + VISIT_PAGES <= pages)
				flusher_visit_seen(file, since_ms);
			count(&counters->kernel_flushed_pages, pages - dirty_blocks);
			if (state.nr_writeback == 0)
				drop_written(open->fd, number, 0, PAGE_MAP_REGION_BLOCKS, &job.dirty);
		}
		if (dirty_blocks == 0 && !flush_policy.dry_run)
			return false;
		job.large_folios = calm_split_folios && !flush_policy.dry_run && dirty_blocks > 2 * pages;
	}
	else
		job.large_folios = false;

	/* what was taken, but is nobody's or written */
	pages = bits_count(&job.dirty);
	if (pages == 0)
		return false;

	/* the mapping is for looking only in a dry run: nothing gets populated */
	job.mapping = open->bridge ? map_region(open->fd, job.offset, job.length) : NULL;
	job.planned = false;
	job.prefetch_until = 0;
	job.next_run = 0;
	job.run_done = 0;
	job.open = open;
	open->references++;
	count(&calm_shared->in_flight_pages, pages);
	return true;
}

/*
 * Start to read the absent blocks of a region.  In pieces, because one call
 * reads no more than the device's read-ahead (mm/readahead.c,
 * force_page_cache_ra).
 */
static void
prefetch(int fd, off_t offset, const PageMapBits *absent)
{
	for (uint32 b = 0; b < PAGE_MAP_REGION_BLOCKS; b += PREFETCH_BLOCKS)
	{
		bool any = false;

		for (uint32 i = b; i < b + PREFETCH_BLOCKS && !any; i++)
			any = bits_test(absent, i);
		if (any)
			(void) posix_fadvise(fd, offset + (off_t) b * BLCKSZ, PREFETCH_BLOCKS * BLCKSZ,
			                     POSIX_FADV_WILLNEED);
	}
}

/*
 * Join the dirty blocks of the region into runs.  Where gaps could be bridged
 * if they were in the page cache, and reading is free, they are read first:
 * false until that is done.  With large shared_buffers the page cache holds
 * few of the pages that the server has, so this is the common case there.
 */
static bool
plan_region(void)
{
	PageMapBits allowed = job.dirty;
	PageMapBits absent;

	if (job.mapping)
	{
		uint64 now = page_map_now_ms();

		bridge_allowed(job.open->fd, job.offset, job.mapping, job.length, &job.dirty, &allowed,
		               &absent);
		if (flush_policy.prefetch && !flush_policy.dry_run &&
		    bridge_wants(&job.dirty, &absent, flush_policy.max_gap))
		{
			if (job.prefetch_until == 0)
			{
				prefetch(job.open->fd, job.offset, &absent);
				job.prefetch_until = now + PREFETCH_MS;
			}
			if (now < job.prefetch_until)
				return false;
		}
	}
	job.nruns = bridge_plan(&job.dirty, &allowed, flush_policy.max_gap, job.runs);
	job.planned = true;
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

uint64
flush_in_flight_bytes(void)
{
	return in_flight_bytes;
}

/* What the rates of caps have added since the last call */
static void
refill_pace(void)
{
	static uint64 last = 0;
	const DeviceCaps *caps = &flush_policy.caps;
	uint64 now = histogram_clock();
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

		if (flush_kernel_has_cachestat())
		{
			struct calm_cachestat state;

			if (call_cachestat(run->open->fd, run->offset, run->length, &state) == 0 &&
			    state.nr_writeback > 0)
				return;
		}
		else
		{
			int error = 0;

			if (!wait)
				return;
			error_latch_begin(&calm_shared->error_latch);
			if (sync_file_range(run->open->fd, run->offset, run->length,
			                    SYNC_FILE_RANGE_WAIT_BEFORE) != 0)
				error = errno;
			error_latch_end(&calm_shared->error_latch, error);
			if (error != 0)
				flush_failed(run->open, "write back", error);
			wait = false;
		}
		pg_atomic_fetch_sub_u64(&calm_shared->in_flight_pages, run->pages);
		count(&calm_shared->counters.flushed_pages, run->pages);
		(void) histogram_count(HISTOGRAM_WRITEBACK, run->started);
		in_flight_bytes -= run->length;
		in_flight_operations -= run->operations;
		if (run->split)
		{
			/* clean for a moment: see folio_split.c */
			off_t region = run->offset - run->offset % PAGE_MAP_REGION_BYTES;

			folio_split(run->open->fd, region, region_length(run->open->fd, region));
			count(&calm_shared->counters.large_folio_regions, 1);
		}
		run->open->references--;
		in_flight_first = (in_flight_first + 1) % MAX_IN_FLIGHT;
		in_flight_count--;
	}
}

/* Hand one stretch of the region worked on to the device */
static void
start_run(uint32 first, uint32 blocks, uint32 pages, uint32 bridged)
{
	CalmCounters *counters = &calm_shared->counters;
	off_t offset = job.offset + (off_t) first * BLCKSZ;
	off_t length = (off_t) blocks * BLCKSZ;
	uint32 operations = device_operations(&flush_policy.caps, length);
	uint64 started = histogram_clock();
	InFlight *run;
	int error = 0;

	count(&counters->bridged_pages, bridged);
	count(&counters->device_operations, operations);
	count(&counters->written_bytes, length);
	flush_started.operations += operations;
	flush_started.bytes += length;
	if (flush_policy.dry_run)
	{
		pg_atomic_fetch_sub_u64(&calm_shared->in_flight_pages, pages);
		count(&counters->flushed_pages, pages);
		return;
	}

	error_latch_begin(&calm_shared->error_latch);
	if (sync_file_range(job.open->fd, offset, length, SYNC_FILE_RANGE_WRITE) != 0)
		error = errno;
	/* a call that is not to be had writes nothing, and has seen no error */
	if (error == ENOSYS || error == EOPNOTSUPP || error == EPERM)
	{
		error_latch_end(&calm_shared->error_latch, 0);
		refused = "the kernel refuses sync_file_range";
		pg_atomic_fetch_sub_u64(&calm_shared->in_flight_pages, pages);
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
	run->split = false;
	run->started = started;
	job.open->references++;
	in_flight_count++;
	in_flight_bytes += length;
	in_flight_operations += operations;
	pace_operations -= operations;
	pace_bytes -= length;
}

/*
 * Do what can be done without exceeding what may be in flight.  Returns true
 * if the region worked on (if any) is finished, so that another can be
 * started; false if the caller should wait a moment.
 */
bool
flush_advance(void)
{
	/* with nothing to start, wait: or files stay open, and we would poll for ever */
	confirm(job.open == NULL);
	while (job.open)
	{
		BridgeRun *run;
		BridgeRun part;
		uint32 bridged = 0;

		if (!job.planned && !plan_region())
			return false;
		if (job.next_run >= job.nruns)
		{
			if (job.mapping)
				munmap(job.mapping, job.length);
			if (job.large_folios && in_flight_count > 0)
				in_flight[(in_flight_first + in_flight_count - 1) % MAX_IN_FLIGHT].split = true;
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

		if (flush_policy.hold)
			return false;
		if (flush_policy.paced && !flush_policy.dry_run)
		{
			refill_pace();
			if (pace_operations <= 0 || pace_bytes <= 0)
				return false;
		}

		run = &job.runs[job.next_run];
		part.first = run->first + job.run_done;
		part.blocks = Min(run->blocks - job.run_done, flush_policy.max_run);
		part.dirty = 0;
		for (uint32 b = part.first; b < part.first + part.blocks; b++)
			part.dirty += bits_test(&job.dirty, b);
		if (part.dirty < part.blocks)
			bridged = flush_policy.dry_run ? part.blocks - part.dirty :
			                                 bridge_fill(job.mapping, &job.dirty, &part);
		start_run(part.first, part.blocks, part.dirty, bridged);

		job.run_done += part.blocks;
		if (job.run_done >= run->blocks)
		{
			job.next_run++;
			job.run_done = 0;
		}
		if (part.blocks >= flush_policy.max_run)
			return false; /* let the caller look at interrupts */
	}
	return true;
}

/*
 * Bridge a region and start nothing.  taken are the pages that were marked;
 * filled, which holds what earlier calls filled, is extended by what is dirty
 * now.
 */
static void
make_dense(int fd, off_t offset, bool bridge, const PageMapBits *taken, PageMapBits *filled)
{
	static BridgeRun runs[BRIDGE_MAX_RUNS];
	PageMapBits allowed;
	PageMapBits absent;
	size_t length = region_length(fd, offset);
	void *mapping;
	int nruns;

	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		filled->word[i] |= taken->word[i];
	if (length == 0)
		return;
	for (uint32 b = length / BLCKSZ; b < PAGE_MAP_REGION_BLOCKS; b++)
		bits_clear(filled, b);

	mapping = bridge ? map_region(fd, offset, length) : NULL;
	allowed = *filled;
	if (mapping)
		bridge_allowed(fd, offset, mapping, length, filled, &allowed, &absent);
	nruns = bridge_plan(filled, &allowed, flush_policy.max_gap, runs);
	for (int r = 0; r < nruns; r++)
	{
		uint64 gap_bytes = (uint64) (runs[r].blocks - runs[r].dirty) * BLCKSZ;

		if (gap_bytes == 0 || gap_bytes > flush_policy.headroom)
			continue;
		flush_policy.headroom -= gap_bytes;
		count(&calm_shared->counters.bridged_pages, flush_policy.dry_run ?
		                                                runs[r].blocks - runs[r].dirty :
		                                                bridge_fill(mapping, filled, &runs[r]));
		for (uint32 b = runs[r].first; b < runs[r].first + runs[r].blocks; b++)
			bits_set(filled, b);
	}
	if (mapping)
		munmap(mapping, length);
}

/* Marked pages that have been taken, since the server was started or pg_calm_reset() */
uint64
flush_taken_pages(void)
{
	CalmCounters *counters = &calm_shared->counters;

	return pg_atomic_read_u64(&counters->flushed_pages) +
	       pg_atomic_read_u64(&counters->fsynced_pages) +
	       pg_atomic_read_u64(&counters->handed_pages) +
	       pg_atomic_read_u64(&counters->kernel_flushed_pages);
}

/* Somebody else writes these blocks of a region now: count what it takes */
void
flush_count_foreign(const PageMapBits *filled)
{
	static BridgeRun runs[BRIDGE_MAX_RUNS];
	int nruns = bridge_plan(filled, filled, 0, runs);

	for (int r = 0; r < nruns; r++)
	{
		uint64 bytes = (uint64) runs[r].blocks * BLCKSZ;

		count(&calm_shared->counters.device_operations,
		      device_operations(&flush_policy.caps, bytes));
		count(&calm_shared->counters.written_bytes, bytes);
	}
}

/* Somebody has written what is not left any more */
static void
count_written(const PageMapBits *before, const PageMapBits *now)
{
	PageMapBits written;

	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		written.word[i] = before->word[i] & ~now->word[i];
	flush_count_foreign(&written);
}

/*
 * Bridge a region and leave it to the kernel flusher, which is about to come.
 * filled is what has been left to it by earlier calls; what was written
 * meanwhile, by an fsync most likely, has gaps again.
 */
void
flush_hand_over_region(uint32 file, uint32 incarnation, uint32 number, PageMapBits *filled)
{
	OpenFile *open = open_file(file, incarnation);
	PageMapBits taken;
	PageMapBits known;
	uint32 pages;

	if (open == NULL)
		return;
	pages = take_region(page_map_file(calm_page_map, file), number, &taken);
	if (pages == 0)
		return;
	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		known.word[i] = filled->word[i] | taken.word[i];
	drop_written(open->fd, number, 0, PAGE_MAP_REGION_BLOCKS, &known);
	count_written(filled, &known);
	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		filled->word[i] &= known.word[i];
	make_dense(open->fd, (off_t) number * PAGE_MAP_REGION_BYTES, open->bridge, &taken, filled);
	count(&calm_shared->counters.handed_pages, pages);
}

/*
 * The flusher has not come: mark again what was left to it and is still
 * dirty, or nobody would know of it until an fsync has to write it.
 */
void
flush_take_back_region(uint32 file, uint32 incarnation, uint32 number, const PageMapBits *filled)
{
	static BridgeRun runs[BRIDGE_MAX_RUNS];
	OpenFile *open = open_file(file, incarnation);
	PageMapBits left = *filled;
	int nruns;

	if (open == NULL)
		return;
	if (flush_policy.dry_run)
		memset(&left, 0, sizeof(left));
	else
		drop_written(open->fd, number, 0, PAGE_MAP_REGION_BLOCKS, &left);
	count_written(filled, &left);
	nruns = bridge_plan(&left, &left, 0, runs);
	for (int r = 0; r < nruns; r++)
	{
		if (page_map_mark(calm_page_map, file, incarnation,
		                  number * PAGE_MAP_REGION_BLOCKS + runs[r].first, runs[r].blocks,
		                  page_map_now_ms()))
			flush_taken_back_pages += runs[r].blocks;
	}
}

/* How many blocks there are from the first of a set to the last one; the set has one */
static uint32
bits_span(const PageMapBits *bits, uint32 *first)
{
	uint32 low = 0;
	uint32 high = PAGE_MAP_REGION_WORDS - 1;
	uint32 last;

	while (low < high && bits->word[low] == 0)
		low++;
	while (high > low && bits->word[high] == 0)
		high--;
	*first = low * 64 + pg_rightmost_one_pos64(bits->word[low]);
	last = high * 64 + pg_leftmost_one_pos64(bits->word[high]);
	return last - *first + 1;
}

/*
 * Bridge a region of a file that the caller fsyncs next.  Returns the number
 * of marked pages that the fsync will find.
 */
uint32
flush_region_before_fsync(int fd, uint32 file_index, uint32 number)
{
	PageMapFile *file = page_map_file(calm_page_map, file_index);
	PageMapBits taken;
	PageMapBits filled = {{0}};
	uint32 marked = take_region(file, number, &taken);
	uint32 first;
	uint32 blocks;
	uint32 pages;
	char path[PAGE_MAP_PATH_MAX];

	if (marked == 0)
		return 0;
	blocks = bits_span(&taken, &first);
	drop_written(fd, number, first, blocks, &taken);
	pages = bits_count(&taken);
	count(&calm_shared->counters.kernel_flushed_pages, marked - pages);
	if (pages == 0)
		return 0;

	/* a checkpoint can have very many files of a few blocks, with nothing between them */
	if (pages == blocks)
		filled = taken;
	else
	{
		page_map_path(calm_page_map, file_index, path);
		make_dense(fd, (off_t) number * PAGE_MAP_REGION_BYTES,
		           flush_policy.max_gap > 0 && bridge_possible(fd, path), &taken, &filled);
	}
	flush_count_foreign(&filled);
	count(&calm_shared->counters.fsynced_pages, pages);
	return pages;
}
