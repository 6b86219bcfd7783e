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

#include "cachestat.h"
#include "flush.h"
#include "flush_region.h"
#include "shared/shared.h"

void
flush_count(pg_atomic_uint64 *counter, uint64 value)
{
	if (value > 0)
		pg_atomic_fetch_add_u64(counter, value);
}

uint64
flush_region_since(PageMapFile *file, uint32 number)
{
	uint32 slot = page_map_slot(calm_page_map, file, number);

	return slot == 0 ? 0 : pg_atomic_read_u64(&page_map_region(calm_page_map, slot - 1)->since);
}

uint32
flush_region_take(PageMapFile *file, uint32 number, PageMapBits *bits)
{
	uint32 slot = page_map_slot(calm_page_map, file, number);
	uint64 whole_bit = UINT64CONST(1) << (number % 64);

	memset(bits, 0, sizeof(*bits));
	if (slot != 0)
	{
		PageMapRegion *region = page_map_region(calm_page_map, slot - 1);

		for (int g = 0; g < 2; g++)
		{
			PageMapBits taken;

			(void) page_map_take(calm_page_map, region, g, &taken);
			for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
				bits->word[i] |= taken.word[i];
		}
		pg_atomic_fetch_and_u32(&region->flags, ~PAGE_MAP_REGION_WINDOW);
	}
	if (pg_atomic_read_u64(&file->whole[number / 64]) & whole_bit)
	{
		pg_atomic_fetch_and_u64(&file->whole[number / 64], ~whole_bit);
		memset(bits, 0xFF, sizeof(*bits));
	}
	return bits_count(bits);
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
