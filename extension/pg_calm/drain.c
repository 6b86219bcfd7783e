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
 * generation, and left to the next round.  It ends when few are left, when a
 * round does not leave markedly less than the one before (then pages are
 * written as fast as the device takes them, and waiting gains nothing), or when
 * pg_calm.drain_timeout is over.
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
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "checkpoint_stats.h"
#include "compat.h"
#include "drain.h"
#include "flush.h"
#include "kernel_flusher.h"
#include "pg_calm.h"
#include "pgstat.h"
#include "postmaster/bgwriter.h"
#include "postmaster/interrupt.h"
#include "replication/syncrep.h"
#include "storage/latch.h"
#include "storage/procsignal.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

/* Between looks at what is left */
#define POLL_MS 10

/* A round that leaves more than this share of what the one before left is the last */
#define WORTH_SHARE 0.7

/* Seconds of device time that may be left, if pg_calm.drain_threshold is -1 */
#define LEFT_SECONDS 0.1

/*
 * The beginning of what backends and checkpointer share
 * (postmaster/checkpointer.c, CheckpointerShmemStruct; the same in 15 to 18),
 * which has no function to ask.  Only read, and only to end a wait early.
 */
typedef struct CheckpointerRequests
{
	pid_t checkpointer_pid;
	slock_t lock;
	int started;
	int done;
	int failed;
	int flags; /* of checkpoints asked for and not begun */
} CheckpointerRequests;

static const volatile CheckpointerRequests *requests = NULL;
static TimestampTz drained_sync_phase = 0; /* ckpt_sync_t of the last one */

static uint64 old_pages(void);
static uint64 threshold_pages(void);
static bool may_wait(void);
static bool time_left(uint64 start_ms);
static void serve_requests(void);
static void drain(void);

static uint64
old_pages(void)
{
	return page_map_unflushed(calm_page_map, 1 - page_map_new_generation(calm_page_map));
}

/* So few pages need no drain */
static uint64
threshold_pages(void)
{
	double operations;

	if (calm_drain_threshold >= 0)
		return calm_drain_threshold;
	SpinLockAcquire(&calm_shared->lock);
	operations = calm_shared->caps.write_iops * LEFT_SECONDS;
	SpinLockRelease(&calm_shared->lock);
	return isinf(operations) ? PG_UINT64_MAX : (uint64) operations;
}

void
drain_shmem_startup(void)
{
	bool found;
	void *shared = ShmemInitStruct("Checkpointer Data", CheckpointerShmemSize(), &found);

	requests = found ? shared : NULL;
}

/* Whether there is somebody to wait for, and nobody who waits for us */
static bool
may_wait(void)
{
	if (requests && (requests->flags & CHECKPOINT_IMMEDIATE))
		return false;
	return calm_mode == CALM_MODE_ON && pg_atomic_read_u32(&calm_shared->worker_pid) != 0 &&
	       !CALM_CHECKPOINTER_SHUTDOWN_PENDING();
}

/* The settings may change while we wait */
static bool
time_left(uint64 start_ms)
{
	return page_map_now_ms() - start_ms < (uint64) calm_drain_timeout;
}

/* What CheckpointWriteDelay does while it waits (postmaster/checkpointer.c) */
static void
serve_requests(void)
{
	if (ProcSignalBarrierPending)
		ProcessProcSignalBarrier();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		SyncRepUpdateSyncStandbysDefined();
		UpdateFullPageWrites();
	}
	AbsorbSyncRequests();
}

/* Rounds, until it is enough */
static void
drain(void)
{
	static uint32 wait_event = 0;
	uint64 start = page_map_now_ms();
	uint64 before = PG_UINT64_MAX;

	if (wait_event == 0)
		wait_event = CALM_WAIT_EVENT("PgCalmDrain");

	while (may_wait())
	{
		uint64 left;

		/* what is marked now is what this round is about */
		page_map_swap_generation(calm_page_map);
		left = old_pages();
		if (left <= threshold_pages() || left > before * WORTH_SHARE)
			break;
		before = left;

		pg_atomic_write_u32(&calm_shared->draining, 1);
		while (old_pages() > 0 && may_wait() && time_left(start))
		{
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, POLL_MS,
			                 wait_event);
			ResetLatch(MyLatch);
			serve_requests();
		}
		pg_atomic_write_u32(&calm_shared->draining, 0);
		if (!time_left(start))
			break;
	}
}

/*
 * To be called before each fsync of a data file by the checkpointer.  Returns
 * the file descriptor that the fsync is to be made on: a duplicate, for the
 * caller to close, if fd may have been closed meanwhile; else fd.
 *
 * The time it takes is counted as part of the checkpoint's writing, which it
 * is, by moving CheckpointStats.ckpt_sync_t.
 */
int
drain_before_sync_phase(int fd)
{
	int duplicate;

	if (CheckpointStats.ckpt_sync_t == drained_sync_phase)
		return fd;
	drained_sync_phase = CheckpointStats.ckpt_sync_t;
	if (calm_drain_timeout == 0 || checkpoint_stats_is_immediate() || !may_wait() ||
	    page_map_unflushed(calm_page_map, 0) + page_map_unflushed(calm_page_map, 1) <=
	        threshold_pages())
		return fd;

	duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (duplicate < 0)
		return fd; /* out of file descriptors: no time to be smart */
	checkpoint_stats_drain_begin();
	drain();
	checkpoint_stats_drain_end(page_map_unflushed(calm_page_map, 0) +
	                           page_map_unflushed(calm_page_map, 1));
	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_SYNC);
	CheckpointStats.ckpt_sync_t = GetCurrentTimestamp();
	drained_sync_phase = CheckpointStats.ckpt_sync_t;
	return duplicate;
}

/* Bridge what fsync will write of a file, or forget what it will write */
void
drain_before_fsync(int fd, bool checkpoint)
{
	static KernelFlusher flusher;
	static uint64 next_state_ms = 0; /* a checkpoint can have thousands of small files */
	uint64 now = page_map_now_ms();
	struct stat st;
	uint32 incarnation;
	int file_index;
	PageMapFile *file;

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
	flush_policy.max_gap = checkpoint && calm_mode != CALM_MODE_OFF ? calm_shared->max_gap : 0;
	SpinLockRelease(&calm_shared->lock);
	flush_policy.dry_run = calm_mode != CALM_MODE_ON;
	if (now >= next_state_ms)
	{
		kernel_flusher_read_state(&flusher);
		flush_policy.headroom = kernel_flusher_headroom(&flusher);
		next_state_ms = now + 250;
	}

	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
	{
		uint32 slot = pg_atomic_read_u32(&file->region[number]);

		if (slot != 0 && page_map_region_count(page_map_region(calm_page_map, slot - 1)) > 0)
			(void) flush_region_before_fsync(fd, file_index, number);
	}
}
