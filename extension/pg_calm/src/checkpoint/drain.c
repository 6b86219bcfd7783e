/*-------------------------------------------------------------------------
 *
 * drain.c
 *	  What is done before PostgreSQL's fsync of data files.
 *
 * Before the fsync of a file in a checkpoint's sync phase, its pages that are
 * written but not flushed are drained: the writeback worker flushes them first,
 * bridged and merged and with little in flight, while the checkpointer waits.
 * That goes in rounds.  A round flushes the pages of the old generation, which
 * are those written before the round began; what is written meanwhile is the new
 * generation, and left to the next round.  It ends when few are left, when
 * pg_calm.drain_timeout is over, or when it is seen that the pages do not get
 * fewer fast enough to be done by then: where backends write pages as fast as
 * the device takes them, waiting gains nothing.
 *
 * What the kernel flusher is writing just then is waited for first: see
 * drain_kernel.c.  All of it has to be over in the time of drain_budget.c.
 *
 * Then every fsync happens as ever, and finds what was written meanwhile.  That is not
 * bridged: it would take a mapping of the file to be written to, in the checkpointer.
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
#include "shared/shared.h"
#include "drain.h"
#include "drain_budget.h"
#include "drain_kernel.h"
#include "writeback/writeback.h"
#include "miscadmin.h"
#include "map/map.h"
#include "storage/latch.h"

/* Between looks at what is left */
#define POLL_MS 10

/* Part of pg_calm.drain_timeout after which progress is judged */
#define TRIAL_SHARE 0.1

/* How often a file is drained: again if the kernel flusher was left its pages meanwhile */
#define FILE_DRAINS 3

static uint64 pages_in(int file, int generation);
static uint64 unflushed_pages(int file);
static bool is_written(uint64 taken);
static bool promising(int file, uint64 start_ms, uint64 start_pages);
static void flush_in_rounds(int file);
static void drain(int file);
static bool has_many_pages(int file);
static int file_to_drain(int fd, struct stat *st);
static void drain_file(int fd);
static void drain_with_duplicate(int duplicate);

/* Pages of a file that are marked in a generation */
static uint64
pages_in(int file_index, int generation)
{
	PageMapFile *file = page_map_file(calm_page_map, file_index);
	uint32 regions = page_map_file_regions(file);
	uint64 pages = 0;

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
 * Whether all that the worker had taken by the time that taken stands for is
 * written.  It writes in the order in which it takes.  Counters may be reset
 * meanwhile.
 */
static bool
is_written(uint64 taken)
{
	return pg_atomic_read_u64(&calm_shared->counters.flushed_pages) >= taken ||
	       pg_atomic_read_u64(&calm_shared->in_flight_pages) == 0;
}

/*
 * Rounds over a file, until it is enough, or seen not to help: the first
 * flushes what was written in seconds, the next what was written meanwhile.  Where
 * backends write as much as the device takes, a round has no fewer pages than
 * the one before, and waiting gains nothing.
 */
static void
flush_in_rounds(int file)
{
	uint64 start = page_map_now_ms();
	uint64 start_pages = unflushed_pages(file);
	uint64 before = PG_UINT64_MAX;
	bool more = true;

	while (more && drain_may_wait())
	{
		uint64 taken = 0;
		uint64 pages;

		/* what is marked now is what this round is about */
		page_map_swap_generation(calm_page_map);
		pages = old_pages(file);
		if (pages <= drain_goal_pages() || pages >= before)
			break;
		before = pages;

		pg_atomic_write_u32(&calm_shared->draining, CALM_DRAINING_FILE + file);
		while (more && drain_may_wait())
		{
			/* what is taken is under way; fsync would have to wait for it */
			if (old_pages(file) > 0)
				taken = 0;
			else if (taken == 0)
				taken = pg_atomic_read_u64(&calm_shared->counters.flushed_pages) +
				        pg_atomic_read_u64(&calm_shared->in_flight_pages);
			else if (is_written(taken))
				break;
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, POLL_MS,
			                 drain_wait_event());
			ResetLatch(MyLatch);
			checkpointer_serve_requests();
			more = drain_time_left() && promising(file, start, start_pages);
		}
		pg_atomic_write_u32(&calm_shared->draining, CALM_DRAINING_NOTHING);
	}
}

/* Drain a file */
static void
drain(int file)
{
	drain_begin();
	flush_in_rounds(file);
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
	        page_map_unflushed(calm_page_map, 0) + page_map_unflushed(calm_page_map, 1) >
	            drain_threshold_pages());
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

	if (file != PAGE_MAP_NO_FILE && drain_may_wait() && drain_time_left())
		drain(file);
}

/* Drain before the fsync of the file behind duplicate, which is closed if that fails */
static void
drain_with_duplicate(int duplicate)
{
	drain_begin();
	PG_TRY();
	{
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
	struct stat st;

	if (first)
		drain_kernel_begin_sync_phase();
	if (threshold == PG_UINT64_MAX || checkpoint_stats_is_immediate() || !drain_may_wait())
		return fd;

	if (drain_time_left() &&
	    (file_to_drain(fd, &st) != PAGE_MAP_NO_FILE || drain_kernel_writes(fd)))
		duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (duplicate >= 0)
		drain_with_duplicate(duplicate);
	/* without a duplicate we are out of file descriptors: no time to be smart */
	return duplicate >= 0 ? duplicate : fd;
}

/* Forget what fsync will write of a file */
void
drain_before_fsync(int fd)
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
	SpinLockRelease(&calm_shared->lock);
	flush_policy.dry_run = !calm_flushes();

	regions = page_map_file_regions(file);
	for (uint32 number = 0; number < regions; number++)
	{
		uint32 slot = page_map_slot(calm_page_map, file, number);

		if (page_map_is_whole(file, number) ||
		    (slot != 0 && page_map_region_count(page_map_region(calm_page_map, slot - 1)) > 0))
			flush_region_before_fsync(fd, file_index, number);
	}
}
