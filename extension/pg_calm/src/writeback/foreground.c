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

/* What others than the worker use per second */
typedef struct Use
{
	double operations;
	double bytes;
} Use;

/* Part of a cap that makes a volume full; and reads per second that say enough of their latency */
#define FULL_SHARE 0.7
#define READS_ENOUGH 40.0

static Use all = {0};
static Use writes = {0};    /* of all */
static Use last_look = {0}; /* of the last look alone, the worker's as well */
static double last_reads_per_second = 0;

static void
follow(double *value, double now, double elapsed_ms)
{
	double half_life = now > *value ? RISE_HALF_LIFE_MS : FALL_HALF_LIFE_MS;

	*value += (now - *value) * (1 - exp2(-elapsed_ms / half_life));
}

static void
follow_use(Use *use, double operations, double bytes, double elapsed_ms)
{
	follow(&use->operations, Max(operations, 0) * 1000 / elapsed_ms, elapsed_ms);
	follow(&use->bytes, Max(bytes, 0) * 1000 / elapsed_ms, elapsed_ms);
}

void
foreground_follow(const KernelFlusher *flusher, const DeviceCaps *caps, uint64 started_operations,
                  uint64 started_bytes, uint64 now_ms)
{
	static uint64 last_ms = 0;
	static KernelFlusher last = {0};
	static uint64 last_started_operations = 0;
	static uint64 last_started_bytes = 0;

	if (last_ms != 0 && now_ms > last_ms && flusher->operations >= last.operations &&
	    flusher->bytes >= last.bytes && flusher->write_operations >= last.write_operations &&
	    flusher->write_bytes >= last.write_bytes)
	{
		double elapsed_ms = now_ms - last_ms;
		double bytes = flusher->bytes - last.bytes;
		double write_bytes = flusher->write_bytes - last.write_bytes;
		/* a request larger than io_size is several operations of the volume's */
		double operations =
			Max((double) (flusher->operations - last.operations), bytes / caps->io_size);
		double write_operations = Max((double) (flusher->write_operations - last.write_operations),
		                              write_bytes / caps->io_size);
		uint64 own_operations = started_operations - last_started_operations;
		uint64 own_bytes = started_bytes - last_started_bytes;

		last_look.operations = operations * 1000 / elapsed_ms;
		last_look.bytes = bytes * 1000 / elapsed_ms;
		last_reads_per_second = ((double) (flusher->operations - last.operations) -
		                         (double) (flusher->write_operations - last.write_operations)) *
		                        1000 / elapsed_ms;
		follow_use(&all, operations - own_operations, bytes - own_bytes, elapsed_ms);
		follow_use(&writes, write_operations - own_operations, write_bytes - own_bytes, elapsed_ms);
	}
	last_ms = now_ms;
	last = *flusher;
	last_started_operations = started_operations;
	last_started_bytes = started_bytes;
}

bool
foreground_needs_probe(const DeviceCaps *caps)
{
	return last_reads_per_second < READS_ENOUGH &&
	       (last_look.operations >= caps->all_iops * FULL_SHARE ||
	        last_look.bytes >= caps->all_bytes * FULL_SHARE);
}

/* What is left of a cap, which may be none */
static double
left(double cap, double used, double least)
{
	return isinf(cap) ? cap : Max(cap - used, cap * least);
}

bool
foreground_limit(DeviceCaps *caps, double excess)
{
	double least = LEAST_SHARE + (MOST_SHARE - LEAST_SHARE) * excess;

	if (isinf(caps->all_iops) && isinf(caps->all_bytes))
		return false;
	/* WAL draws on limits for writes as well */
	caps->write_iops = Min(left(caps->write_iops, writes.operations, least),
	                       left(caps->all_iops, all.operations, least));
	caps->write_bytes =
		Min(left(caps->write_bytes, writes.bytes, least), left(caps->all_bytes, all.bytes, least));
	return true;
}
