/*-------------------------------------------------------------------------
 *
 * drain.c
 *	  What is done before PostgreSQL's fsync of data files.
 *
 * Before the first fsync of a checkpoint's sync phase, pages that are written
 * but not flushed are drained: the writeback worker flushes them, bridged and
 * merged and with little in flight, while the checkpointer waits.  That goes in
 * rounds.  A round flushes the pages of the old generation, which are those
 * written before the round began; what is written meanwhile is the new
 * generation, and left to the next round.  It ends when few are left, when
 * pg_calm.drain_timeout is over, or when it is seen that the pages do not get
 * fewer fast enough to be done by then: where backends write pages as fast as
 * the device takes them, waiting gains nothing.
 *
 * Where that is not enough, each file of which many pages are unflushed is
 * swept right before the fsync of it: see drain_sweep.c.  One that has few, of
 * too many in all files, and each with pg_calm.drain_clean_buffers off, gets
 * rounds of its own instead: backends write to one file a part of what they
 * write to all, so that its rounds can get shorter where those over all files
 * don't.
 *
 * What the kernel flusher is writing just then is waited for first: see
 * drain_kernel.c.  All of it has to be over in the time of drain_budget.c.
 *
 * Then every fsync happens as ever.  It finds what was written meanwhile,
 * which is bridged right before, so that it reaches the device in as few
 * operations as its caps make worth while.
 *
 * The wait is inside PostgreSQL's call of fsync, with the file descriptor of
 * a file of the virtual file layer.  While we wait we absorb sync requests,
 * obey barriers and reload settings, as CheckpointWriteDelay does; all of them
 * may close that descriptor, so the fsync is made on a duplicate, which stands for
 * the same open file and the same state of error reporting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint_stats.h"
#include "checkpointer_wait.h"
#include "drain.h"
#include "drain_budget.h"
#include "drain_kernel.h"
#include "drain_sweep.h"
#include "flush.h"
#include "page_map.h"
#include "pg_calm.h"
#include "storage/latch.h"
#include "worker_health.h"

/* Between looks at what is left */
#define POLL_MS 10

/* Part of pg_calm.drain_timeout after which progress is judged */
#define TRIAL_SHARE 0.1

/*
 * How long the worker starts nothing: during an fsync, between two of them,
 * and in all of a sync phase
 */
#define HOLD_FSYNC_MS 500
#define HOLD_NEXT_MS 20
#define HOLD_ALL_MS 2000

/*
 * Milliseconds after which it is known whether rounds get shorter, and how
 * many pages may be written meanwhile, as a part of the operations that the
 * device has for them.
 */
#define CONVERGENCE_MS 300
#define CONVERGENCE_SHARE 0.5

/* How often a file is drained: again if the kernel flusher was left its pages meanwhile */
#define FILE_DRAINS 3

/* A sweep is repeated if it took less than this part of the time of the one before */
#define SHORTER_SWEEP 0.9

static double sweep_done = 0;        /* part of the file under way that is swept */
static uint64 sweep_progress_ms = 0; /* when that grew */
static uint64 hold_began_ms = 0;     /* since the last drain; 0: not held in this sync phase */
static uint64 held_ms = 0;           /* before that */

static uint64 pages_in(int file, int generation);
static uint64 unflushed_pages(int file);
static bool promising(int file, uint64 start_ms, uint64 start_pages);
static bool converging(int file, uint64 round_start_ms);
static void flush_in_rounds(int file, bool swept);
static bool sweep_step(double done);
static bool sweep(int file, const RelationFile *relation);
static void drain(int file, const RelationFile *relation);
static bool has_many_pages(int file);
static int file_to_drain(int fd, struct stat *st);
static void drain_file(int fd);
static void drain_with_duplicate(int duplicate, bool all);
static void hold_worker(uint64 ms);
static void end_hold(void);

/* Pages marked in a generation, of a file or of all */
static uint64
pages_in(int file_index, int generation)
{
	PageMapFile *file;
	uint32 regions;
	uint64 pages = 0;

	if (file_index == PAGE_MAP_NO_FILE)
		return page_map_unflushed(calm_page_map, generation);
	file = page_map_file(calm_page_map, file_index);
	regions = page_map_file_regions(file);
	for (uint32 number = 0; number < regions; number++)
	{
		uint32 slot = page_map_slot(calm_page_map, file, number);
		int32 count = 0;

		if (slot != 0)
			count = (int32) pg_atomic_read_u32(
				&page_map_region(calm_page_map, slot - 1)->count[generation]);
		pages += Max(count, 0);
	}
	return pages;
}

/* Those of both generations; a page that is in both counts twice */
static uint64
unflushed_pages(int file)
{
	return pages_in(file, 0) + pages_in(file, 1);
}

/* Those that the round under way is about */
static uint64
old_pages(int file)
{
	return pages_in(file, 1 - page_map_new_generation(calm_page_map));
}

/*
 * Whether the drain will be over in time if it goes on as it did.
 */
static bool
promising(int file, uint64 start_ms, uint64 start_pages)
{
	double elapsed = page_map_now_ms() - start_ms;
	uint64 left = unflushed_pages(file);

	if (elapsed < drain_timeout_ms() * TRIAL_SHARE || left <= drain_goal_pages())
		return true;
	if (left >= start_pages)
		return false;
	return drain_spent_ms() + elapsed / (start_pages - left) * (left - drain_goal_pages()) <
	       drain_timeout_ms();
}

/*
 * Whether rounds get shorter.  While one flushes, pages are written that the
 * next has to flush, scattered, so that each is an operation: they have to be
 * fewer than those that the device has in that time.  Not asked if there is
 * no other way.
 */
static bool
converging(int file, uint64 round_start_ms)
{
	double elapsed = page_map_now_ms() - round_start_ms;
	double operations;

	if (!calm_drain_clean_buffers || elapsed < CONVERGENCE_MS)
		return true;
	SpinLockAcquire(&calm_shared->lock);
	operations = calm_shared->granted_operations;
	SpinLockRelease(&calm_shared->lock);
	return pages_in(file, page_map_new_generation(calm_page_map)) <
	       operations * CONVERGENCE_SHARE * elapsed / 1000 + drain_threshold_pages();
}

/*
 * Rounds over a file or all, until it is enough, or seen not to help.  After a
 * sweep evictions begin to write again, more from round to round; before one,
 * where as much is evicted as the device takes, each round has about as many
 * as the one before.  Either ends with the first round that has no fewer.
 * Without sweeps there is no other way than to go on.
 */
static void
flush_in_rounds(int file, bool swept)
{
	uint64 start = page_map_now_ms();
	uint64 start_pages = unflushed_pages(file);
	uint64 before = PG_UINT64_MAX;
	bool more = true;

	while (more && drain_may_wait())
	{
		uint64 round_start = page_map_now_ms();
		uint64 pages;

		/* what is marked now is what this round is about */
		page_map_swap_generation(calm_page_map);
		pages = old_pages(file);
		/* few enough, or as few as they get; too short a round is not judged by converging() */
		if (pages <= drain_goal_pages() || (pages >= before && (swept || calm_drain_clean_buffers ||
		                                                        pages <= drain_threshold_pages())))
			break;
		before = pages;

		pg_atomic_write_u32(&calm_shared->draining, file == PAGE_MAP_NO_FILE ?
		                                                CALM_DRAINING_ALL :
		                                                CALM_DRAINING_FILE + file);
		/* what is taken is under way; fsync would have to wait for it */
		while (more && drain_may_wait() &&
		       (old_pages(file) > 0 || pg_atomic_read_u64(&calm_shared->in_flight_pages) > 0))
		{
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, POLL_MS,
			                 drain_wait_event());
			ResetLatch(MyLatch);
			checkpointer_serve_requests();
			more = drain_time_left() && promising(file, start, start_pages) &&
			       converging(file, round_start);
		}
		pg_atomic_write_u32(&calm_shared->draining, CALM_DRAINING_NOTHING);
	}
}

/*
 * Between the steps of a sweep.  It goes on while it gets on: the part of a
 * file that has been swept is clean even if time runs out, and what holds the
 * device up for a while, like a visit of the kernel flusher, says nothing of
 * the rest.
 */
static bool
sweep_step(double done)
{
	uint64 now = page_map_now_ms();

	checkpointer_serve_requests();
	if (done > sweep_done)
	{
		sweep_done = done;
		sweep_progress_ms = now;
	}
	return drain_may_wait() && drain_time_left() && calm_drain_clean_buffers &&
	       now - sweep_progress_ms < drain_timeout_ms() * TRIAL_SHARE;
}

/*
 * Sweep a file, and again if too much was evicted to what had been swept: less
 * is dirty the second time, so it may be over before that begins again.  Not
 * if it took no less time.  False if it was broken off.
 */
static bool
sweep(int file, const RelationFile *relation)
{
	uint64 before = PG_UINT64_MAX;

	for (;;)
	{
		uint64 start = page_map_now_ms();
		uint64 took;

		sweep_done = 0;
		sweep_progress_ms = start;
		if (!drain_sweep(file, relation, drain_wait_event(), sweep_step))
			return false;
		took = page_map_now_ms() - start;
		/* also if the file has been truncated to nothing, which takes no time at all */
		if (unflushed_pages(file) <= drain_threshold_pages() || took >= before * SHORTER_SWEEP)
			return true;
		if (!sweep_step(0))
			return false;
		before = took;
	}
}

/*
 * Have the worker start nothing for a while: each fsync, of which a sync phase has
 * many with a commit of the file system's journal each, would wait behind what
 * it has in flight.  It is not held for long; a long fsync is not
 * made shorter by that.
 */
static void
hold_worker(uint64 ms)
{
	uint64 now = page_map_now_ms();

	if (hold_began_ms == 0)
		hold_began_ms = now;
	if (held_ms + (now - hold_began_ms) < HOLD_ALL_MS)
		pg_atomic_write_u64(&calm_shared->hold_until_ms, now + ms);
}

/* A drain does not count as time for which it is held */
static void
end_hold(void)
{
	if (hold_began_ms != 0)
		held_ms += page_map_now_ms() - hold_began_ms;
	hold_began_ms = 0;
}

/* Drain a file or all */
static void
drain(int file, const RelationFile *relation)
{
	drain_begin();
	/* few pages of one file take rounds so short that hardly any is evicted to it meanwhile */
	if (relation == NULL || unflushed_pages(file) <= drain_threshold_pages() ||
	    sweep(file, relation))
		flush_in_rounds(file, relation != NULL);
	drain_end();
}

/*
 * Whether a file needs a drain of its own: what may be left is left in all
 * files together, so each is left less if there is too much in all.
 */
static bool
has_many_pages(int file)
{
	uint64 pages = unflushed_pages(file);

	return pages > drain_threshold_pages() ||
	       (pages > drain_goal_pages() &&
	        unflushed_pages(PAGE_MAP_NO_FILE) > drain_threshold_pages());
}

/* The file behind fd in the page map, if it needs a drain of its own */
static int
file_to_drain(int fd, struct stat *st)
{
	uint32 incarnation;
	int file;

	if (fstat(fd, st) != 0)
		return PAGE_MAP_NO_FILE;
	file = page_map_find_file(calm_page_map, st->st_dev, st->st_ino, &incarnation);
	if (file != PAGE_MAP_NO_FILE && !has_many_pages(file))
		file = PAGE_MAP_NO_FILE;
	return file;
}

/* Drain what is to be fsynced by fd, which has to stay open meanwhile */
static void
drain_file(int fd)
{
	struct stat st;
	int file = file_to_drain(fd, &st);
	char path[PAGE_MAP_PATH_MAX];
	RelationFile relation;

	if (file == PAGE_MAP_NO_FILE || !drain_may_wait() || !drain_time_left())
		return;
	/* the entry may be another file's by now; where the path leads decides */
	page_map_path(calm_page_map, file, path);
	if (calm_drain_clean_buffers && relation_file_identify(path, &st, &relation))
		drain(file, &relation);
	else
		drain(file, NULL);
}

/* Drain before the fsync of the file behind duplicate, which is closed if that fails */
static void
drain_with_duplicate(int duplicate, bool all)
{
	end_hold();
	drain_begin();
	PG_TRY();
	{
		if (all)
			drain(PAGE_MAP_NO_FILE, NULL);
		/* the flusher may be about to come while the file is drained: then it is left pages, too */
		for (int i = 0; i < FILE_DRAINS; i++)
		{
			drain_kernel_wait(duplicate);
			drain_file(duplicate);
			drain_kernel_look_anew();
			if (!drain_kernel_writes(duplicate))
				break;
		}
	}
	PG_CATCH();
	{
		/* a barrier, a reload or a write failed, and the checkpoint with it */
		pg_atomic_write_u32(&calm_shared->draining, CALM_DRAINING_NOTHING);
		close(duplicate);
		PG_RE_THROW();
	}
	PG_END_TRY();
	drain_end();
}

/*
 * To be called before each fsync of a data file by the checkpointer; see
 * drain.h.
 */
int
drain_before_checkpoint_fsync(int fd)
{
	bool first = drain_sync_phase_began();
	uint64 threshold = drain_threshold_pages();
	int duplicate = -1;
	bool all;
	struct stat st;

	if (first)
	{
		held_ms = 0;
		hold_began_ms = 0;
		drain_kernel_begin_sync_phase();
	}
	if (threshold == PG_UINT64_MAX || checkpoint_stats_is_immediate() || !drain_may_wait())
		return fd;

	all = first && unflushed_pages(PAGE_MAP_NO_FILE) > threshold;
	if (drain_time_left() &&
	    (all || file_to_drain(fd, &st) != PAGE_MAP_NO_FILE || drain_kernel_writes(fd)))
		duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (duplicate >= 0)
		drain_with_duplicate(duplicate, all);
	hold_worker(HOLD_FSYNC_MS);
	/* without a duplicate we are out of file descriptors: no time to be smart */
	return duplicate >= 0 ? duplicate : fd;
}

void
drain_after_checkpoint_fsync(void)
{
	if (hold_began_ms != 0)
		hold_worker(HOLD_NEXT_MS);
}

/* Bridge what fsync will write of a file, or forget what it will write */
void
drain_before_fsync(int fd, bool checkpoint)
{
	struct stat st;
	uint32 incarnation;
	int file_index;
	PageMapFile *file;
	uint32 regions;

	/* in mode off, what was marked before still has to be forgotten */
	if (page_map_unflushed(calm_page_map, 0) + page_map_unflushed(calm_page_map, 1) == 0)
		return;
	if (fstat(fd, &st) != 0)
		return;
	file_index = page_map_find_file(calm_page_map, st.st_dev, st.st_ino, &incarnation);
	if (file_index == PAGE_MAP_NO_FILE)
		return;
	file = page_map_file(calm_page_map, file_index);

	SpinLockAcquire(&calm_shared->lock);
	flush_policy.caps = calm_shared->caps;
	flush_policy.max_gap = checkpoint && worker_is_flushing() ? calm_shared->max_gap : 0;
	SpinLockRelease(&calm_shared->lock);
	flush_policy.dry_run = !calm_flushes();
	/* it tells how much may be bridged */
	if (flush_policy.max_gap > 0)
		drain_kernel_look();

	regions = page_map_file_regions(file);
	for (uint32 number = 0; number < regions; number++)
	{
		uint32 slot = page_map_slot(calm_page_map, file, number);

		if (page_map_is_whole(file, number) ||
		    (slot != 0 && page_map_region_count(page_map_region(calm_page_map, slot - 1)) > 0))
			(void) flush_region_before_fsync(fd, file_index, number);
	}
}
