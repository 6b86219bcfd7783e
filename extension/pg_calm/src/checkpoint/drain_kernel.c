/*-------------------------------------------------------------------------
 *
 * drain_kernel.c
 *	  Waiting for what the kernel flusher writes, before an fsync.
 *
 * It is not marked, but fsync has to wait for what of its file is under
 * writeback (__filemap_fdatawait_range, mm/filemap.c), and what it writes
 * itself stands behind what is queued for the device, of whichever file
 * (queued_writeback.c).  So is a file of which the flusher is about to come and
 * was left pages (flusher_guard.c).  The file is drained of what comes
 * meanwhile afterwards.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "shared/shared.h"
#include "drain_budget.h"
#include "drain_kernel.h"
#include "writeback/writeback.h"
#include "device/device.h"
#include "miscadmin.h"
#include "map/map.h"
#include "storage/latch.h"

/* Between looks at what the kernel writes; and while that is waited for */
#define INTERVAL_MS 20
#define POLL_MS 250

/* Time in which what the kernel writes has to get less: part of the timeout, and least */
#define TRIAL_SHARE 0.1
#define TRIAL_MS 2000

static KernelFlusher kernel; /* as of kernel_read_ms */
static uint64 kernel_read_ms = 0;
static bool queue_given_up = false; /* what the kernel has queued got no less in this sync phase */

static int find_file(const struct stat *st, uint32 *incarnation);
static bool handed_over(const struct stat *st);
static uint64 queued_bytes(const struct stat *st);
static void want_back(const struct stat *st);
static void look(void);

static int
find_file(const struct stat *st, uint32 *incarnation)
{
	return page_map_find_file(calm_page_map, st->st_dev, st->st_ino, incarnation);
}

/* Whether a file is being left to the kernel flusher (flusher_guard.c) */
static bool
handed_over(const struct stat *st)
{
	uint32 incarnation;
	int file = find_file(st, &incarnation);

	return file != PAGE_MAP_NO_FILE &&
	       pg_atomic_read_u32(&page_map_file(calm_page_map, file)->handed) == incarnation;
}

/*
 * What the kernel has queued of our files for the device of one, in bytes, if
 * that is much; or 0.  What the worker has started is no reason to wait; but
 * where folios are large it is more than its pages.
 */
static uint64
queued_bytes(const struct stat *st)
{
	uint64 threshold = drain_threshold_pages();
	uint64 little;
	uint64 queued;

	/* no caps any more */
	if (threshold == PG_UINT64_MAX)
		return 0;
	little = (threshold + pg_atomic_read_u64(&calm_shared->in_flight_pages)) * BLCKSZ;
	/* not one by one if there is nothing to be found */
	look();
	if (kernel.writeback_bytes <= little)
		return 0;
	drain_begin();
	queued = queued_writeback_bytes(st->st_dev);
	drain_end();
	return queued > little ? queued : 0;
}

/* Have the pages of a file marked again that were left to the flusher, unless it comes soon */
static void
want_back(const struct stat *st)
{
	uint32 incarnation;
	int file = find_file(st, &incarnation);

	if (file != PAGE_MAP_NO_FILE)
		pg_atomic_write_u32(&page_map_file(calm_page_map, file)->wanted, incarnation);
}

/* Look at what is under writeback on the host, unless that was done a moment ago: a checkpoint can have thousands of small files */
static void
look(void)
{
	uint64 now = page_map_now_ms();

	if (kernel_read_ms != 0 && now < kernel_read_ms + INTERVAL_MS)
		return;
	kernel_flusher_read_state(&kernel);
	kernel_read_ms = now;
}

void
drain_kernel_begin_sync_phase(void)
{
	queue_given_up = false;
}

void
drain_kernel_look_anew(void)
{
	kernel_read_ms = 0;
	queued_writeback_forget();
}

bool
drain_kernel_writes(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (handed_over(&st) || (!queue_given_up && queued_bytes(&st) > 0));
}

/*
 * What is queued does not get less where somebody keeps the queue full, or the
 * device hangs, and then waiting gains nothing for the files that follow, either.
 */
void
drain_kernel_wait(int fd)
{
	uint64 least = PG_UINT64_MAX;
	uint64 most = 0;
	uint64 progress_ms = page_map_now_ms();
	bool was_handed_over = false;
	struct stat st;

	if (!drain_may_wait() || !drain_time_left() || !drain_kernel_writes(fd) || fstat(fd, &st) != 0)
		return;
	drain_begin();
	want_back(&st);
	while (drain_may_wait() && drain_time_left())
	{
		uint64 now = page_map_now_ms();
		bool handed = handed_over(&st);
		uint64 queued;

		/* it has come since the last look, which may have been right before */
		if (was_handed_over && !handed)
			drain_kernel_look_anew();
		was_handed_over = handed;
		queued = queue_given_up ? 0 : queued_bytes(&st);
		if (!handed && queued == 0)
			break;
		/* more than ever: another file's turn came, and all of it has to be written, too */
		if (queued < least || queued > most)
		{
			least = queued;
			most = Max(most, queued);
			progress_ms = now;
		}
		else if (!handed && now - progress_ms >= Max(TRIAL_MS, drain_timeout_ms() * TRIAL_SHARE))
			queue_given_up = true;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, POLL_MS,
		                 drain_wait_event());
		ResetLatch(MyLatch);
		checkpointer_serve_requests();
	}
	drain_end();
}
