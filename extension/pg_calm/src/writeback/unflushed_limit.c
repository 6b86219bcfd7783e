/*-------------------------------------------------------------------------
 *
 * unflushed_limit.c
 *	  How much may wait to be flushed.
 *
 * The more waits, the denser it is when it is flushed, and the cheaper.  But the
 * kernel flusher comes to each file once in vm.dirty_expire_centisecs
 * (flusher_visit.c) and writes what waits then, as scattered as it is.  Nothing
 * that comes meanwhile is flushed: it stands behind the visit in the device's
 * queue.  When that is more than wakes the flusher by amount, the device's part of
 * the background threshold (kernel_flusher.c), the flusher comes again at once,
 * finds scattered pages again, and so on for good: on a volume of 800 operations
 * that is 7 MiB per second where 40 are dirtied.
 *
 * So what waits, and what is dirtied in the time that writing it takes, have to fit
 * in the device's part together.  That time is told by the gaps between marked
 * pages (bridge_choice.c), with no more of them bridged than there is room for:
 *
 *	 limit + rate * limit * seconds for each byte * VISIT_FACTOR = USED * part
 *
 * The rate is the most of the last minutes: a load that is being held, by the
 * kernel or by a full queue, looks small and is not.  At most half of the part may
 * wait; the other half is for what the estimate does not see.
 *
 * A device that has written nothing, as when a load begins, has an eighth of
 * the threshold as its part; it rises with what is written back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "flush.h"
#include "shared/shared.h"
#include "unflushed_limit.h"

/* In which a rate at which pages were dirtied is forgotten: of one look, and what two have seen */
#define RATE_SECONDS 3.0
#define MOST_RATE_SECONDS 120.0

/* More time than is told by the gaps, for what is marked between two looks, and visits file by file */
#define VISIT_FACTOR 1.5

/* Part of what wakes the flusher that is to be used up by the end of a visit */
#define USED 0.9

/* Parts of it: what may wait, and does whatever a visit costs */
#define MOST 0.5
#define LEAST 0.125

static double rate = 0;      /* bytes per second that are dirtied, the most of the last seconds */
static double most_rate = 0; /* the most of the last minutes that was seen twice */
static double visit_seconds = 0; /* that the flusher would take for each byte that waits */

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
		double now = pages > last_pages ? (double) (pages - last_pages) * BLCKSZ / seconds : 0;

		most_rate = Max(Min(now, rate), most_rate * exp(-seconds / MOST_RATE_SECONDS));
		rate = Max(now, rate * exp(-seconds / RATE_SECONDS));
	}
	last_pages = pages;
	last_ms = now_ms;
}

void
unflushed_limit_visit(double seconds, uint64 bytes)
{
	if (bytes > 0)
		visit_seconds = seconds / (double) bytes;
}

uint64
unflushed_limit_bytes(const KernelFlusher *flusher)
{
	double part = (double) flusher->device_bytes;
	double limit = part * USED / (1 + most_rate * visit_seconds * VISIT_FACTOR);

	if (calm_unflushed_limit > 0)
		return (uint64) calm_unflushed_limit * 1024;
	return (uint64) Min(Max(limit, part * LEAST), part * MOST);
}
