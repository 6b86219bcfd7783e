/*-------------------------------------------------------------------------
 *
 * governor_writeback.c
 *	  Pages written by the server that the data volume has not taken yet.
 *
 * What is written faster than the device takes it stays in the page cache.
 * That ends badly: at its background threshold the kernel flusher queues all
 * of it as scattered writes, every checkpoint's fsync waits behind them while
 * WAL grows, and at the dirty limit the kernel holds writers itself
 * (mm/page-writeback.c, balance_dirty_pages), inside of pwrite, with the locks
 * that they have by then.  So writers are held to what the device takes, before
 * it comes to that.
 *
 * What the device takes depends on how dense pages are, and so on how many have
 * gathered; the writeback worker works it out from the page map (worker.c,
 * collect_candidates).  Both come and go in seconds, with its passes, with
 * visits of the kernel flusher and with checkpoints.  Followed as they are they
 * would have writers run and stop; what counts is how far they rise.
 *
 * What the flusher has queued holds writers as well, and by default it is all
 * that does: governor_queue.c.
 *
 * Pages are converted to WAL by how much was written of either lately, which is
 * a mean over about a minute: checkpoints write pages in bursts, and full-page
 * images make more WAL right after each has begun.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "device/device.h"
#include "writeback/writeback.h"
#include "governor.h"
#include "map/map.h"
#include "shared/shared.h"

/* Seconds over which the limit is smoothed, and WAL and pages are compared */
#define LIMIT_SECONDS 30.0
#define RATIO_SECONDS 60.0

/* Seconds in which what is unflushed, and the device's rate, are followed up and down */
#define RISE_SECONDS 3.0
#define FALL_SECONDS 30.0
#define RATE_RISE_SECONDS 20.0
#define RATE_FALL_SECONDS 60.0

/*
 * Part of the device's rate that writers get at the limit; what is over is for
 * journals and clean pages.  And what they get at least.
 */
#define RATE_SHARE 0.8
#define RATE_LEAST 0.4

/* Pages per second for each page off the limit: no faster than that is followed, 1 / FALL_SECONDS */
#define GAIN 0.03

/*
 * Parts of the limit: from where on there is a rate, down to where there is one
 * then, and what is too little to compare.  Writers who are let go at every
 * visit of the kernel flusher would write more in a second than in ten before.
 */
#define PACED_FROM 0.5
#define PACED_DOWN_TO 0.125
#define COMPARED_FROM 0.125

/* Part of the kernel's limit, of all that is dirty, from which on it counts */
#define KERNEL_FROM 0.75

/* Fewer pages than these say nothing of how much WAL comes with a page */
#define RATIO_PAGES 1000

/* Part of the flusher's threshold up to which there is room while the kernel's queue lasts */
#define ROOM_SHARE 0.9

/* Part of what the device writes that writers get then, if there is no room */
#define QUEUE_LEAST 0.25

/* The limit, in amounts that the worker lets wait at most (unflushed_limit.c) */
#define LIMIT_SHARE 1.5

/* Milliseconds between looks at which devices are ours */
#define DEVICES_INTERVAL_MS 10000

/* Seconds over which is followed what writers do when nothing holds them */
#define USUAL_SECONDS 10.0

static double limit_bytes(const KernelFlusher *flusher, double seconds);
static double wal_per_page(uint64 insert, uint64 pages, bool compare, double seconds);
static double paced_pages(const GovernorReading *reading, double drain_rate,
                          const KernelFlusher *flusher, double queue);
static double follow(double mean, double value, double seconds, double rise, double fall);

/* What may be unflushed: less than wakes the kernel flusher */
static double
limit_bytes(const KernelFlusher *flusher, double seconds)
{
	static double smoothed = 0;
	double limit;

	if (calm_unflushed_limit > 0)
		return calm_unflushed_limit * 1024.0 * LIMIT_SHARE;
	if (flusher->device_bytes == PG_UINT64_MAX)
		return INFINITY;
	limit = (double) flusher->device_bytes / 2 * LIMIT_SHARE;
	if (smoothed <= 0)
		smoothed = limit;
	smoothed += (limit - smoothed) * (1 - exp(-seconds / LIMIT_SECONDS));
	return smoothed;
}

/* Bytes of WAL for each page written; infinity if there is no telling */
static double
wal_per_page(uint64 insert, uint64 pages, bool compare, double seconds)
{
	static uint64 last_insert = 0;
	static uint64 last_pages = 0;
	static double recent_wal = 0;
	static double recent_pages = 0;

	if (last_insert != 0 && compare)
	{
		double kept = exp(-seconds / RATIO_SECONDS);

		/* pages can seem to get fewer: those marked in both generations count twice */
		recent_wal = recent_wal * kept + (double) (insert - last_insert);
		recent_pages = recent_pages * kept + ((double) pages - (double) last_pages);
	}
	last_insert = insert;
	last_pages = pages;
	recent_pages = Max(recent_pages, 0); /* pg_calm_reset() */
	return recent_pages >= RATIO_PAGES ? recent_wal / recent_pages : INFINITY;
}

/* A mean that rises sooner than it falls */
static double
follow(double mean, double value, double seconds, double rise, double fall)
{
	return mean + (value - mean) * (1 - exp(-seconds / (value > mean ? rise : fall)));
}

/* Pages per second for writers who are held to what the device takes at any time; infinity: any */
static double
paced_pages(const GovernorReading *reading, double drain_rate, const KernelFlusher *flusher,
            double queue)
{
	static bool pacing = false;
	double allowed = INFINITY;

	/* no more than there is room for until the kernel's queue is gone, or it will queue that as well */
	if (queue > 0)
		allowed =
			Max(((double) flusher->device_bytes * ROOM_SHARE - (double) flusher->dirty_bytes) /
		            queue,
		        flusher->written_per_second * QUEUE_LEAST) /
			BLCKSZ;
	pacing = reading->value > reading->limit * (pacing ? PACED_DOWN_TO : PACED_FROM);
	if (pacing && drain_rate > 0)
		allowed = Min(allowed, Max(drain_rate * RATE_SHARE +
		                               GAIN * (reading->limit - reading->value) / BLCKSZ,
		                           drain_rate * RATE_LEAST));
	return allowed;
}

/* Whether the settings want writers held, and there may be reason to */
bool
governor_writeback_is_asked(void)
{
	bool held_to_caps;

	if (calm_governor_writeback != GOVERNOR_WRITEBACK_QUEUE)
		return calm_governor_writeback == GOVERNOR_WRITEBACK_ON;
	SpinLockAcquire(&calm_shared->lock);
	held_to_caps = calm_shared->caps_known && !calm_shared->caps.flusher_is_free;
	SpinLockRelease(&calm_shared->lock);
	return held_to_caps && pg_atomic_read_u32(&calm_shared->capped) != 0;
}

/* insert is the end of WAL, wal_rate what of it comes per second */
void
governor_writeback_look(uint64 insert, double wal_rate, GovernorReading *reading, uint64 now_ms)
{
	static double unflushed = 0;
	static GovernorDrain paid;
	static double usual_rate = 0; /* of WAL, when nothing here holds writers */
	static double usual_cost = 0; /* what they pay for it, per second */
	static double known = 0;      /* seconds for which that has been followed */
	static bool held = false;
	static double drain_rate = 0; /* pages per second: flush_rate, smoothed */
	static KernelFlusher flusher;
	static DeviceCaps caps;
	static uint64 devices_ms = 0;
	static uint64 last_ms = 0;
	double seconds = last_ms != 0 && now_ms > last_ms ? (double) (now_ms - last_ms) / 1000 : 0;
	uint64 waiting = page_map_unflushed(calm_page_map, 0) + page_map_unflushed(calm_page_map, 1) +
	                 pg_atomic_read_u64(&calm_shared->in_flight_pages);
	double kernel;
	double rate;
	double ratio;
	double queue; /* seconds */
	bool queue_known;
	double allowed; /* pages per second */
	double share;   /* of the usual */

	last_ms = now_ms;
	if (!worker_is_flushing())
	{
		/* then nobody flushes, and nothing is known of what the device can do */
		unflushed = drain_rate = usual_rate = usual_cost = known = 0;
		held = false;
		return;
	}
	if (devices_ms == 0 || now_ms >= devices_ms + DEVICES_INTERVAL_MS)
	{
		device_read_caps(&caps);
		devices_ms = now_ms;
	}
	kernel_flusher_read_state(&flusher);
	SpinLockAcquire(&calm_shared->lock);
	rate = calm_shared->flush_rate;
	SpinLockRelease(&calm_shared->lock);
	if (!isinf(rate))
		drain_rate = drain_rate > 0 ?
		                 follow(drain_rate, rate, seconds, RATE_RISE_SECONDS, RATE_FALL_SECONDS) :
		                 rate;

	governor_track(&paid, pg_atomic_read_u64(&calm_governor_shared->charged_cost), now_ms);
	if (!held)
	{
		usual_rate = follow(usual_rate, wal_rate, seconds, RISE_SECONDS, USUAL_SECONDS);
		usual_cost = follow(usual_cost, paid.rate, seconds, RISE_SECONDS, USUAL_SECONDS);
		/* sessions tell what they pay only then */
		known = calm_governor_writeback == GOVERNOR_WRITEBACK_QUEUE ? known + Min(seconds, 1) : 0;
	}
	held = false;

	reading->limit = limit_bytes(&flusher, seconds);
	if (isinf(reading->limit))
		return;
	reading->state = GOVERNOR_WATCHED;
	/* the kernel counts large folios whole, and what others have written */
	kernel = (double) (flusher.dirty_bytes + flusher.writeback_bytes) /
	         ((double) flusher.freerun_bytes * KERNEL_FROM);
	unflushed =
		follow(unflushed, Max((double) waiting * BLCKSZ, kernel > 1 ? reading->limit * kernel : 0),
	           seconds, RISE_SECONDS, FALL_SECONDS);
	reading->value = unflushed;
	reading->drain_rate = drain_rate * BLCKSZ;
	strlcpy(reading->object, "writeback", sizeof(reading->object));

	ratio = wal_per_page(insert, flush_taken_pages() + waiting,
	                     (double) waiting * BLCKSZ > reading->limit * COMPARED_FROM, seconds);
	if (isinf(ratio))
		return;
	queue = governor_queue_seconds(&flusher, &caps, &queue_known, now_ms);
	if (calm_governor_writeback == GOVERNOR_WRITEBACK_ON)
	{
		allowed = paced_pages(reading, drain_rate, &flusher, queue);
		if (!isinf(allowed))
			reading->allowed_rate = ratio * allowed;
		return;
	}
	/* what is marked and no longer dirty has been written by the kernel */
	share = governor_queue_share(queue, queue_known,
	                             Min((double) waiting * BLCKSZ, flusher.dirty_bytes),
	                             reading->limit, usual_rate / ratio * BLCKSZ, now_ms);
	held = !isinf(share) && known >= USUAL_SECONDS;
	if (held)
	{
		reading->allowed_rate = usual_rate * share;
		reading->allowed_cost = usual_cost * share;
	}
}
