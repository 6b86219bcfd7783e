/*-------------------------------------------------------------------------
 *
 * flusher_visit.c
 *	  When the kernel flusher comes to a file.
 *
 * The flusher visits an inode vm.dirty_expire_centisecs after it was first
 * dirtied, when it looks next, each vm.dirty_writeback_centisecs; whatever was
 * written back meanwhile (fs/fs-writeback.c, wb_check_old_data_flush): neither
 * sync_file_range nor fsync resets that clock, only a visit does.  In one go it
 * then submits all pages of the file that are dirty at that moment, as deep as
 * the device's queue is, and whoever reads or flushes WAL waits behind them.
 *
 * A visit can't be avoided, but there may be little for it to find.  So from the
 * time at which it may come, and some time before, the worker flushes at once
 * what is marked in the file, and has none of its buffers cleaned (worker.c).
 *
 * The clock of a file is kept in its entry of the page map.  A visit is seen in
 * that pages which were marked are clean, although neither we nor an fsync have
 * written them; the latest of them tell when it was.  A file in which nothing was dirty when it was visited has its
 * clock started by whoever dirties it next; that can't be seen, so if no visit was
 * by the time one was due, one is taken to have been as early as possible.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "flusher_visit.h"
#include "shared/shared.h"

/* How long after the last time at which a visit is due it may still come */
#define GRACE_MS 2000

/* More time than the marks of now take, for what comes meanwhile */
#define LEAD_FACTOR 1.5
#define LEAD_MS 1000

/*
 * Part of the time between visits for which a file may be prepared for one at
 * most: as long as none of its buffers are cleaned backends write them instead.
 * A file that would take longer is not prepared.
 */
#define LEAD_SHARE 6

bool
flusher_visit_is_near(PageMapFile *file, const KernelFlusher *flusher, double seconds,
                      uint64 now_ms, bool *in_time)
{
	double lead_ms = seconds * LEAD_FACTOR * 1000 + LEAD_MS;
	double most_ms = (double) flusher->expire_ms / LEAD_SHARE;
	uint64 since = pg_atomic_read_u64(&file->dirtied_when);
	uint64 due = since + flusher->expire_ms;

	*in_time = false;
	/* without these the flusher does not come by time */
	if (since == 0 || flusher->expire_ms == 0 || flusher->interval_ms == 0)
		return false;
	if (now_ms > due + flusher->interval_ms + GRACE_MS)
	{
		/* whoever marks a page looks only whether there is a time */
		pg_atomic_write_u64(&file->dirtied_when, due);
		due += flusher->expire_ms;
	}
	*in_time = lead_ms <= most_ms;
	return now_ms + (uint64) Min(lead_ms, most_ms) >= due;
}

void
flusher_visit_seen(PageMapFile *file, uint64 marked_ms)
{
	if (marked_ms > pg_atomic_read_u64(&file->dirtied_when) &&
	    pg_atomic_read_u64(&file->fsynced_when) < marked_ms &&
	    pg_atomic_read_u32(&file->fsyncing) == 0)
		pg_atomic_write_u64(&file->dirtied_when, marked_ms);
}
