/*-------------------------------------------------------------------------
 *
 * flush_region.c
 *	  A region that is about to be written back: its marks, its length, its mapping.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "writeback.h"
#include "shared/shared.h"

void
flush_count(pg_atomic_uint64 *counter, uint64 value)
{
	if (value > 0)
		pg_atomic_fetch_add_u64(counter, value);
}

uint32
flush_region_take(PageMapFile *file, uint32 number, PageMapBits *bits)
{
	PageMapRegion *region = page_map_region_of(calm_page_map, file, number);

	memset(bits, 0, sizeof(*bits));
	if (region == NULL)
		return 0;
	pg_atomic_write_u32(&region->passed, 0);
	return page_map_take(calm_page_map, region, bits);
}

size_t
flush_region_length(int fd, off_t offset)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || st.st_size <= offset)
		return 0;
	return Min(st.st_size - offset, PAGE_MAP_REGION_BYTES) / BLCKSZ * BLCKSZ;
}

void *
flush_region_map(int fd, off_t offset, size_t length)
{
	void *mapping;

	if (!calm_bridge || !flush_policy.bridges || flush_policy.max_gap == 0 ||
	    bridge_refusal() != NULL)
		return NULL;
	mapping = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, offset);
	if (mapping == MAP_FAILED)
		return NULL;
	/* in a dry run nothing is touched by it */
	if (!flush_policy.dry_run)
		bridge_leave_no_trace(mapping, length);
	return mapping;
}

/*
 * Drop those of a region's blocks that are not dirty any more: somebody has
 * written them.  A part of which none is, or as many as we know of, is not
 * looked into; so that takes one call if nobody has.  In a dry run gaps were
 * never dirty.
 */
void
flush_region_drop_written(int fd, uint32 number, uint32 first, uint32 blocks, PageMapBits *bits)
{
	uint32 known = 0;
	uint32 dirty;

	if (flush_policy.dry_run || !cachestat_works())
		return;
	for (uint32 b = first; b < first + blocks; b++)
		known += bits_test(bits, b);
	if (known == 0)
		return;
	dirty = cachestat_dirty_blocks(fd, number * PAGE_MAP_REGION_BLOCKS + first, blocks);
	if (dirty >= known)
		return;
	if (dirty == 0 || blocks == 1)
	{
		for (uint32 b = first; b < first + blocks; b++)
			bits_clear(bits, b);
		return;
	}
	flush_region_drop_written(fd, number, first, blocks / 2, bits);
	flush_region_drop_written(fd, number, first + blocks / 2, blocks - blocks / 2, bits);
}

void
flush_file_before_fsync(int fd, uint32 file_index)
{
	static BridgeRun runs[BRIDGE_MAX_RUNS];
	PageMapFile *file = page_map_file(calm_page_map, file_index);
	CalmCounters *counters = &calm_shared->counters;
	DeviceCaps caps;

	SpinLockAcquire(&calm_shared->lock);
	caps = calm_shared->caps;
	SpinLockRelease(&calm_shared->lock);
	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
	{
		PageMapRegion *region = page_map_region_of(calm_page_map, file, number);
		PageMapBits taken;
		uint32 marked;
		uint32 pages;
		int nruns;

		if (region == NULL || page_map_region_count(region) == 0)
			continue;
		marked = flush_region_take(file, number, &taken);
		flush_region_drop_written(fd, number, 0, PAGE_MAP_REGION_BLOCKS, &taken);
		pages = bits_count(&taken);
		flush_count(&counters->kernel_flushed_pages, marked - pages);
		flush_count(&counters->fsynced_pages, pages);
		nruns = bridge_plan(&taken, &taken, 0, runs);
		for (int r = 0; r < nruns; r++)
		{
			uint64 bytes = (uint64) runs[r].blocks * BLCKSZ;

			flush_count(&counters->device_operations, device_operations(&caps, bytes));
			flush_count(&counters->written_bytes, bytes);
		}
	}
}
