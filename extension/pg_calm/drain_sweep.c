/*-------------------------------------------------------------------------
 *
 * drain_sweep.c
 *	  One pass over a file before its fsync: clean its buffers, flush its pages.
 *
 * Rounds of flushing (drain.c) do not get shorter where backends evict dirty
 * buffers as fast as the device takes scattered pages.  So the evictions have
 * to stop writing for a while: a buffer that has just been written is clean
 * when the clock hand comes to it, and a page that is changed after that comes
 * to be evicted only when the hand has been around, about shared_buffers /
 * (evictions per second) later.
 *
 * Region by region, in order, the checkpointer writes what is dirty in shared
 * buffers (buffer_cleaning.c), and the worker flushes the region right after.
 * Cleaning all of the file first would give the clock hand a head start on
 * what is flushed last.  So if a sweep takes S seconds and the hand T seconds
 * for its way, nothing is left if S <= T; and if S > T, what is evicted in the
 * last S - T seconds to the regions that were swept before that.
 *
 * The checkpointer keeps a few regions ahead of the worker, no more: so what
 * it writes is what the device can take, however large shared_buffers are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "buffer_cleaning.h"
#include "drain_sweep.h"
#include "miscadmin.h"
#include "pg_calm.h"
#include "storage/latch.h"

/* Regions that are cleaned and not yet taken by the worker, at most */
#define AHEAD 8

/* Between looks at what the worker has done */
#define POLL_MS 10

static PageMapRegion *region_of(int file, uint32 number);
static void forget_sweep(int file);
static uint32 waiting_regions(int file, uint32 end);

/* A region of a file, or NULL if nothing has been marked in it */
static PageMapRegion *
region_of(int file, uint32 number)
{
	uint32 slot = page_map_slot(calm_page_map, page_map_file(calm_page_map, file), number);

	return slot == 0 ? NULL : page_map_region(calm_page_map, slot - 1);
}

/* What an earlier sweep, broken off, has left */
static void
forget_sweep(int file)
{
	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
	{
		PageMapRegion *region = region_of(file, number);

		if (region)
			pg_atomic_fetch_and_u32(&region->flags, ~PAGE_MAP_REGION_SWEPT);
	}
}

/* Regions before end that the worker has still to take */
static uint32
waiting_regions(int file, uint32 end)
{
	uint32 waiting = 0;

	for (uint32 number = 0; number < end; number++)
	{
		PageMapRegion *region = region_of(file, number);

		if (region && (pg_atomic_read_u32(&region->flags) & PAGE_MAP_REGION_SWEPT) &&
		    page_map_region_count(region) > 0)
			waiting++;
	}
	return waiting;
}

bool
drain_sweep(int file, const RelationFile *relation, uint32 wait_event, DrainSweepStep step)
{
	uint32 incarnation = pg_atomic_read_u32(&page_map_file(calm_page_map, file)->incarnation);
	uint32 end = Min((relation->blocks + PAGE_MAP_REGION_BLOCKS - 1) / PAGE_MAP_REGION_BLOCKS,
	                 PAGE_MAP_FILE_REGIONS);
	uint32 cleaned = 0;
	uint32 waiting = 0;
	bool go_on = true;

	if (end == 0)
		return true; /* truncated meanwhile */
	forget_sweep(file);
	pg_atomic_write_u32(&calm_shared->draining, CALM_DRAINING_SWEEP + file);
	while (go_on)
	{
		if (cleaned < end && waiting < AHEAD)
		{
			PageMapRegion *region;

			pg_atomic_fetch_add_u64(&calm_shared->counters.cleaned_buffers,
			                        buffer_cleaning_write(relation,
			                                              cleaned * PAGE_MAP_REGION_BLOCKS,
			                                              PAGE_MAP_REGION_BLOCKS));
			region = region_of(file, cleaned++);
			if (region && page_map_region_count(region) > 0)
				pg_atomic_fetch_or_u32(&region->flags, PAGE_MAP_REGION_SWEPT);
		}
		else
		{
			/* what is taken is under way; fsync would have to wait for it */
			if (cleaned == end && waiting == 0 &&
			    pg_atomic_read_u64(&calm_shared->in_flight_pages) == 0)
				break;
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, POLL_MS,
			                 wait_event);
			ResetLatch(MyLatch);
		}
		waiting = waiting_regions(file, cleaned);
		go_on = step((double) (cleaned - waiting) / end) &&
		        pg_atomic_read_u32(&page_map_file(calm_page_map, file)->incarnation) == incarnation;
	}
	pg_atomic_write_u32(&calm_shared->draining, CALM_DRAINING_NOTHING);
	return go_on;
}
