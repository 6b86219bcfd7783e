/*-------------------------------------------------------------------------
 *
 * unflushed_limit.c
 *	  How much may wait to be flushed.
 *
 * By default half of the device's part of the background threshold, which is
 * what wakes the kernel flusher (kernel_flusher.c).  That part is in proportion
 * to what the device has written lately; one that has written nothing, as when
 * a load begins, has an eighth of the threshold.  On a host with little memory
 * writers pass that in a second or two, and what is written back from half of
 * it on does not raise the part in time: then the flusher takes all there is,
 * scattered, or has to be prepared for, and what comes after that stands behind
 * it.  So where pages come that fast less may wait, as much as leaves room for
 * what comes until the part has risen.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "flush.h"
#include "shared/shared.h"
#include "unflushed_limit.h"

/* In which the device's part follows what it writes (VM_COMPLETIONS_PERIOD_LEN, mm/page-writeback.c) */
#define SHARE_SECONDS 3.0

/* Parts of it: what may wait, and does however fast pages come */
#define MOST 0.5
#define LEAST 0.125

static double dirtied_per_second = 0; /* bytes, the most of the last seconds */

/* How many pages have been marked for the first time since they were last written back */
void
unflushed_limit_follow(uint64 unflushed_pages, uint64 now_ms)
{
	static int64 last_pages = 0;
	static uint64 last_ms = 0;
	uint64 taken = pg_atomic_read_u64(&calm_shared->in_flight_pages) + flush_taken_pages();
	/* less than 0 after pg_calm_reset() */
	int64 pages = (int64) (unflushed_pages + taken) - (int64) flush_taken_back_pages;

	if (last_ms != 0 && now_ms > last_ms)
	{
		double seconds = (double) (now_ms - last_ms) / 1000;
		/* they can also get fewer: those marked in both generations count twice */
		double rate = pages > last_pages ? (double) (pages - last_pages) * BLCKSZ / seconds : 0;

		dirtied_per_second = Max(rate, dirtied_per_second * exp(-seconds / SHARE_SECONDS));
	}
	last_pages = pages;
	last_ms = now_ms;
}

uint64
unflushed_limit_bytes(const KernelFlusher *flusher)
{
	double part = (double) flusher->device_bytes;
	double limit = part - dirtied_per_second * SHARE_SECONDS;

	if (calm_unflushed_limit > 0)
		return (uint64) calm_unflushed_limit * 1024;
	return (uint64) Min(Max(limit, part * LEAST), part * MOST);
}
