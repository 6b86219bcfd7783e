/*-------------------------------------------------------------------------
 *
 * drain.c
 *	  What is done before PostgreSQL's fsync of data files.
 *
 * Before the fsync of a file in a checkpoint's sync phase, what is written to it and not
 * flushed is drained: the worker flushes it, merged and with little in flight, while the
 * checkpointer waits.  What is written to the file meanwhile is left to fsync.
 *
 * All drains of a checkpoint together take a bounded time.  By default that is what the server
 * plans to have left of checkpoint_timeout when all is written, thirty seconds at least; and where
 * WAL will ask for the next checkpoint before that, a part of the time until then, as fast as WAL
 * has come so far: a checkpoint that is late for WAL leaves no segments to recycle, and filling new
 * ones costs the device 16 MiB each.  It is never less than the time in which the device would
 * write what is unflushed page by page, as fsync does: so long the checkpoint takes in any case.  A
 * drain ends at once when somebody wants a checkpoint immediately, and when the worker is silent.
 *
 * The wait is inside PostgreSQL's call of fsync, with the file descriptor of a file of the virtual
 * file layer.  While we wait we absorb sync requests, obey barriers and reload settings, as
 * CheckpointWriteDelay does; all of them may close that descriptor, so the fsync is made on a
 * duplicate, which stands for the same open file and the same state of error reporting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "checkpoint.h"
#include "postmaster/bgwriter.h"
#include "storage/latch.h"
#include "utils/timestamp.h"

/*
 * POLL_MS			between looks at what is left
 * LEAST_TIMEOUT_MS	that all drains of a checkpoint may take by default, at least
 * WAL_PART			... and of the time until WAL asks for the next checkpoint
 * LEFT_SECONDS		of the device's operations, for which a file is not drained
 */
#define POLL_MS 10
#define LEAST_TIMEOUT_MS 30000
#define WAL_PART 0.5
#define LEFT_SECONDS 0.025

static TimestampTz sync_phase = 0; /* ckpt_sync_t of the one that is under way */
static uint64 budget_ms = 0;       /* for its drains */
static uint64 spent_us = 0;        /* of that, microseconds */

/*
 * Milliseconds until WAL will ask for the next checkpoint, if it comes as it did since this
 * one began; infinity where it has not come, or comes from a primary.  As the server reckons
 * (xlog.c, XLogCheckpointNeeded; checkpointer.c, IsCheckpointOnSchedule).
 */
static double
time_until_wal_asks(void)
{
	double distance = (double) CheckPointSegments * wal_segment_size;
	/* the clock may have been set back */
	double elapsed = Max((double) (GetCurrentTimestamp() - CheckpointStats.ckpt_start_t), 0) / 1000;
	double come;

	if (RecoveryInProgress())
		return INFINITY;
	come = (double) (GetXLogInsertRecPtr() - GetRedoRecPtr());
	return come > 0 ? elapsed * Max(distance - come, 0) / come : INFINITY;
}

/* Milliseconds that all drains of a checkpoint may take by the setting, and its writes be held */
uint64
drain_timeout_ms(void)
{
	if (calm_drain_timeout >= 0)
		return calm_drain_timeout;
	return Max((uint64) (CheckPointTimeout * 1000.0 * (1 - CheckPointCompletionTarget)),
	           LEAST_TIMEOUT_MS);
}

/*
 * A shutdown needs no look: the checkpointer is told of it when all others
 * have ended (postmaster.c, PostmasterStateMachine), and so the worker first.
 */
static bool
may_wait(void)
{
	return (checkpointer_requests() & CALM_CHECKPOINT_FAST) == 0 && worker_is_flushing();
}

/* Pages of a file that are in regions with marks that are older */
static uint64
pages_marked_before(int file_index, uint64 before_ms)
{
	PageMapFile *file = page_map_file(calm_page_map, file_index);
	uint64 pages = 0;

	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
	{
		PageMapRegion *region = page_map_region_of(calm_page_map, file, number);

		if (region && pg_atomic_read_u64(&region->since) <= before_ms)
			pages += page_map_region_count(region);
	}
	return pages;
}

/* Milliseconds in which the device writes what is unflushed page by page */
static double
time_of_fsync(void)
{
	CalmFigures figures = calm_figures();
	DeviceCaps caps = device_part(&figures.caps, figures.given);
	double pages = (double) page_map_unflushed(calm_page_map);

	return device_seconds(&caps, pages, pages * BLCKSZ) * 1000;
}

static uint64
pages_not_drained_for(void)
{
	CalmFigures figures = calm_figures();
	DeviceCaps caps = device_part(&figures.caps, figures.given);
	double pages = Min(figures.granted.operations, Min(caps.write_bytes, caps.all_bytes) / BLCKSZ);

	if (calm_drain_threshold >= 0)
		return calm_drain_threshold;
	return isinf(pages) ? PG_UINT64_MAX : (uint64) (pages * LEFT_SECONDS);
}

/* The file behind fd in the page map, if it is to be drained */
static int
file_to_drain(int fd)
{
	struct stat st;
	uint32 incarnation;
	int file;

	if (fstat(fd, &st) != 0)
		return PAGE_MAP_NO_FILE;
	file = page_map_find_file(calm_page_map, st.st_dev, st.st_ino, &incarnation);
	if (file == PAGE_MAP_NO_FILE ||
	    pages_marked_before(file, monotonic_ms()) <= pages_not_drained_for())
		return PAGE_MAP_NO_FILE;
	return file;
}

/*
 * Wait until the worker has flushed what is marked now, or the time is over.  What it has taken
 * from the map is under way, in the order in which it was taken; fsync would have to wait for that.
 */
static pg_noinline void
drain(int file)
{
	uint64 start_ms = monotonic_ms();
	uint64 start_ns = monotonic_ns();
	uint64 until = 0; /* flushed_pages with which it is done; 0: not known */

	pg_atomic_write_u64(&calm_shared->drain_before_ms, start_ms);
	pg_atomic_write_u32(&calm_shared->draining, file);
	/* a reload may have made it less */
	while (may_wait() && !checkpoint_stats_must_be_fast() &&
	       spent_us / 1000 + monotonic_ms() - start_ms < Min(budget_ms, drain_timeout_ms()))
	{
		uint64 flushed = pg_atomic_read_u64(&calm_shared->counters.flushed_pages);
		uint64 in_flight = pg_atomic_read_u64(&calm_shared->in_flight_pages);

		if (pages_marked_before(file, start_ms) > 0)
			until = 0;
		else if (until == 0)
			until = flushed + in_flight + 1;
		else if (flushed + 1 >= until || in_flight == 0)
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, POLL_MS,
		                 calm_shared->drain_wait_event);
		ResetLatch(MyLatch);
		checkpointer_serve_requests();
	}
	pg_atomic_write_u32(&calm_shared->draining, PAGE_MAP_END);
	spent_us += (monotonic_ns() - start_ns) / 1000;
}

/*
 * For the checkpointer, before each fsync of a data file in the sync phase: waits until what is
 * marked in the file now is flushed, within bounds.  Returns the descriptor to fsync: fd, or a
 * duplicate of it that the caller closes afterwards.  Does not preserve errno.
 */
int
drain_before_checkpoint_fsync(int fd)
{
	uint64 before_us;
	int duplicate;
	int file;

	if (CheckpointStats.ckpt_sync_t != sync_phase)
	{
		sync_phase = CheckpointStats.ckpt_sync_t;
		spent_us = 0;
		budget_ms = (uint64) Min((double) drain_timeout_ms(),
		                         Max(time_until_wal_asks() * WAL_PART, time_of_fsync()));
	}
	if (spent_us / 1000 >= budget_ms || !may_wait() || checkpoint_stats_must_be_fast() ||
	    (file = file_to_drain(fd)) == PAGE_MAP_NO_FILE)
		return fd;
	duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	/* we may be out of file descriptors: no time to be smart */
	if (duplicate < 0)
		return fd;
	before_us = spent_us;
	PG_TRY();
	{
		drain(file);
	}
	PG_CATCH();
	{
		/* a barrier, a reload or a write failed, and the checkpoint with it */
		pg_atomic_write_u32(&calm_shared->draining, PAGE_MAP_END);
		close(duplicate);
		PG_RE_THROW();
	}
	PG_END_TRY();
	checkpoint_stats_drained(spent_us - before_us);
	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_SYNC);
	return duplicate;
}
