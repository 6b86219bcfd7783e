/*-------------------------------------------------------------------------
 *
 * foreground.c
 *	  What reads and WAL need of a volume that counts them, too.
 *
 * On most cloud volumes all operations draw on the same budget.  What the
 * worker writes at the full rate is then what backends wait for: a read of an
 * absent page, a flush of WAL.  So it takes what others leave.
 *
 * What others need is what they used when nothing held them up.  While the
 * worker is busy they may use less because of that, so the most of the last
 * seconds counts, and is forgotten slowly.  A part is always the worker's:
 * what it does not flush in time the kernel or a checkpoint's fsync writes, in
 * more operations.  That part grows with what is unflushed beyond its limit:
 * who dirties pages then waits for reads and WAL, a little each time, and so
 * dirties fewer, before the kernel makes all wait for long.
 *
 * What all use of a device is in /proc/diskstats.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "foreground.h"

/* In which time a higher use is followed half way; and a lower one */
#define RISE_HALF_LIFE_MS 500.0
#define FALL_HALF_LIFE_MS 10000.0

/* The worker's part at least; and where the kernel is about to write */
#define LEAST_SHARE 0.3
#define MOST_SHARE 0.6

static double operations_per_second = 0;
static double bytes_per_second = 0;
static double all_operations_per_second = 0; /* the worker's as well, and as they are now */

static void
follow(double *value, double now, double elapsed_ms)
{
	double half_life = now > *value ? RISE_HALF_LIFE_MS : FALL_HALF_LIFE_MS;

	*value += (now - *value) * (1 - exp2(-elapsed_ms / half_life));
}

void
foreground_follow(const KernelFlusher *flusher, const DeviceCaps *caps, uint64 started_operations,
                  uint64 started_bytes, uint64 now_ms)
{
	static uint64 last_ms = 0;
	static uint64 last_operations = 0;
	static uint64 last_bytes = 0;
	static uint64 last_started_operations = 0;
	static uint64 last_started_bytes = 0;

	if (last_ms != 0 && now_ms > last_ms && flusher->operations >= last_operations &&
	    flusher->bytes >= last_bytes)
	{
		double elapsed_ms = now_ms - last_ms;
		double bytes = flusher->bytes - last_bytes;
		/* a request larger than io_size is several operations of the volume's */
		double operations =
			Max((double) (flusher->operations - last_operations), bytes / caps->io_size);

		all_operations_per_second += (operations * 1000 / elapsed_ms - all_operations_per_second) *
		                             (1 - exp2(-elapsed_ms / RISE_HALF_LIFE_MS));
		operations -= started_operations - last_started_operations;
		bytes -= started_bytes - last_started_bytes;
		follow(&operations_per_second, Max(operations, 0) * 1000 / elapsed_ms, elapsed_ms);
		follow(&bytes_per_second, Max(bytes, 0) * 1000 / elapsed_ms, elapsed_ms);
	}
	last_ms = now_ms;
	last_operations = flusher->operations;
	last_bytes = flusher->bytes;
	last_started_operations = started_operations;
	last_started_bytes = started_bytes;
}

double
foreground_use(const DeviceCaps *caps)
{
	return isinf(caps->all_iops) ? 0 : all_operations_per_second / caps->all_iops;
}

bool
foreground_limit(DeviceCaps *caps, double excess)
{
	double least = LEAST_SHARE + (MOST_SHARE - LEAST_SHARE) * excess;

	if (isinf(caps->all_iops) && isinf(caps->all_bytes))
		return false;
	caps->write_iops =
		Min(caps->write_iops, Max(caps->all_iops - operations_per_second, caps->all_iops * least));
	caps->write_bytes =
		Min(caps->write_bytes, Max(caps->all_bytes - bytes_per_second, caps->all_bytes * least));
	return true;
}
