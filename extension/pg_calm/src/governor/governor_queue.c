/*-------------------------------------------------------------------------
 *
 * governor_queue.c
 *	  Writes that the kernel has queued, and what writers may do behind them.
 *
 * Once the kernel flusher has queued scattered pages, on a visit, at its
 * threshold or since somebody has called sync(), everything else waits behind
 * them, and so does our worker: the device does what it can with what is queued,
 * and nothing is done for what writers add.  That adds up until the flusher comes
 * again and queues it, scattered as well: for good, since each visit takes
 * longer than it takes writers to bring about the next one.  The way out is that
 * they bring less.
 *
 * How long the queue will last is told from what is in it and what the device
 * writes since it is there.  If what is unflushed would come near to the flusher's
 * threshold in that time, writers get the part of what they do usually that there
 * is room for, until the worker has caught up, which it does fast, since what has
 * gathered is dense.  A quarter is the least, as less would be a stall of its own.
 *
 * At the first look the device has not shown yet what it makes of the queue.  If
 * that is dense, as the worker leaves files to the flusher, it is gone in a second
 * or two; if it is not, each second counts.  So writers get the most that they get
 * in a hold until it is known, and when it is gone, until the worker has caught up.
 *
 * What a hold does not mend in half a minute, or could not, is more than a queue:
 * a device that takes less than is written.  Then nobody is held for a while.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "device/device.h"
#include "governor.h"
#include "shared/shared.h"
#include "writeback/writeback.h"

/*
 * Part of its caps that our device is at if what is under writeback waits for
 * it: the kernel counts that of all devices together
 */
#define AT_CAPS 0.5

/* Seconds that a queue lasts, from which on it counts */
#define LEAST_SECONDS 1.0

/* And up to which: what lasts longer is no queue that a hold can wait for */
#define MOST_SECONDS 40.0

/* Seconds for which it is there until it is known what the device makes of it; looks are a second apart or more */
#define KNOWN_SECONDS 0.9

/* Seconds over which that is a mean: some of a queue is dense and some is not */
#define MEAN_SECONDS 3.0

/* Seconds in which writers would reach the limit; where it is reached sooner the flusher always comes */
#define ROOM_SECONDS 3.0

/* Part of what writers do usually that they get at least and at most */
#define LEAST_SHARE 0.25
#define MOST_SHARE 0.6

/* For so long at most, and then not for so long, if the queue is still there */
#define HELD_MS 30000
#define RELEASED_MS 60000

/* Part of the limit that is aimed at; what is to be expected ends a hold if it is less */
#define AIM (2.0 / 3)

/*
 * Seconds until the device has written what the kernel has queued for it; 0 if that
 * is nothing to speak of.  known: whether the device has shown what it makes of it;
 * before, it is expected to go on as it was.
 */
double
governor_queue_seconds(const KernelFlusher *flusher, const DeviceCaps *caps, bool *known,
                       uint64 now_ms)
{
	static uint64 since_ms = 0; /* when it came; 0: there is none */
	static uint64 last_ms = 0;  /* of the last look */
	static uint64 written = 0;  /* by the device at that time, bytes */
	static double rate = 0;     /* at which it writes since the queue came, bytes per second */
	uint64 ours = pg_atomic_read_u64(&calm_shared->in_flight_pages) * BLCKSZ;
	double queued = (double) flusher->writeback_bytes - (double) ours;
	bool at_caps =
		flusher->written_per_second > 0 &&
		device_seconds(caps, flusher->writes_per_second, flusher->written_per_second) >= AT_CAPS;
	double age;
	double seconds;

	*known = false;
	/*
	 * Of all devices; of our files it is told if they are asked, but not on a fake host.  That takes
	 * time, so not for what is gone in a moment even if each page is an operation.
	 */
	if (at_caps && cachestat_works() && calm_host_root[0] == '\0' &&
	    device_seconds(caps, queued / BLCKSZ, queued) >= LEAST_SECONDS)
		queued =
			Min(queued, (double) queued_writeback_bytes_now(calm_shared->device) - (double) ours);
	if (!at_caps || queued <= 0)
	{
		since_ms = 0;
		return 0;
	}
	if (since_ms == 0 || flusher->write_bytes < written)
	{
		since_ms = last_ms = now_ms;
		written = flusher->write_bytes;
		rate = 0;
	}
	age = (double) (now_ms - since_ms) / 1000;
	if (now_ms > last_ms)
	{
		double elapsed = (double) (now_ms - last_ms) / 1000;

		rate += ((double) (flusher->write_bytes - written) / elapsed - rate) * elapsed /
		        Min(age, Max(MEAN_SECONDS, elapsed));
		last_ms = now_ms;
		written = flusher->write_bytes;
	}
	*known = age >= KNOWN_SECONDS;
	seconds = queued / Max(*known ? rate : flusher->written_per_second, 1);
	if (seconds >= LEAST_SECONDS)
		return seconds;
	since_ms = 0;
	return 0;
}

/*
 * Part of what they do usually that writers may do; infinity if they are not
 * held.  usual is how many bytes per second they make dirty then, queue and known
 * what governor_queue_seconds() says; unflushed and its limit are in bytes.
 */
double
governor_queue_share(double queue, bool known, double unflushed, double limit, double usual,
                     uint64 now_ms)
{
	static uint64 held_ms = 0;     /* since when writers are held; 0: they are not */
	static uint64 released_ms = 0; /* until when they are not to be */
	double expected = unflushed + usual * queue;
	double share;

	if (held_ms == 0 && queue > 0 && queue < MOST_SECONDS && expected > limit &&
	    limit > usual * ROOM_SECONDS && now_ms >= released_ms)
		held_ms = now_ms;
	else if (held_ms != 0 && expected < limit * AIM)
		held_ms = 0;
	else if (held_ms != 0 && now_ms >= held_ms + HELD_MS)
	{
		held_ms = 0;
		if (queue > 0)
			released_ms = now_ms + RELEASED_MS;
	}
	if (held_ms == 0)
		return INFINITY;
	/* once it is gone the device is the worker's, who writes more than they bring */
	if (queue <= 0 || !known)
		return MOST_SHARE;
	share = (limit * AIM - unflushed) / Max(usual * queue, 1);
	return Min(Max(share, LEAST_SHARE), MOST_SHARE);
}
