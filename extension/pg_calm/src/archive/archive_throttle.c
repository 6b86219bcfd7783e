/*-------------------------------------------------------------------------
 *
 * archive_throttle.c
 *	  Bandwidth that archiving may take, all processes together.
 *
 * A bucket of tokens, kept as the moment when what was handed out so far is
 * paid for.  Who wants to write waits until that moment, after having moved it
 * on by its own bytes.  What was not used is lost after a tenth of a second.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "archive_throttle.h"
#include "base/base.h"
#include "port/atomics.h"
#include "storage/shmem.h"

#define BURST_NS (UINT64CONST(100) * 1000 * 1000)
#define NAP_US (20 * 1000)

int calm_archive_bandwidth = 0;

/* In nanoseconds of monotonic_ns */
static pg_atomic_uint64 *paid_until = NULL;

Size
archive_throttle_size(void)
{
	return MAXALIGN(sizeof(pg_atomic_uint64));
}

void
archive_throttle_start(void)
{
	bool found;
	pg_atomic_uint64 *place =
		ShmemInitStruct("pg_calm archive throttle", archive_throttle_size(), &found);

	if (!found)
		pg_atomic_init_u64(place, 0);
	paid_until = place;
}

/*
 * Wait until so many bytes may be written.  False if the wait was given up
 * because the copy is to end.
 */
bool
archive_throttle(size_t bytes, ArchiveInterrupted interrupted)
{
	uint64 until;
	uint64 from;

	if (calm_archive_bandwidth <= 0)
		return true;
	until = pg_atomic_read_u64(paid_until);
	do
	{
		uint64 now = monotonic_ns();

		from = Max(until, now > BURST_NS ? now - BURST_NS : 0);
	} while (!pg_atomic_compare_exchange_u64(
		paid_until, &until,
		from + (uint64) ((double) bytes * 1e9 / ((double) calm_archive_bandwidth * 1024))));

	while (monotonic_ns() < from)
	{
		uint64 left = from - Min(from, monotonic_ns());

		if (interrupted())
			return false;
		pg_usleep((long) Min(left / 1000 + 1, NAP_US));
	}
	return true;
}
