/*-------------------------------------------------------------------------
 *
 * page_map.c
 *	  Pages written to the kernel but not yet flushed to the device.
 *
 * See page_map.h for the invariants.  This file uses nothing of the server
 * but its atomics and spinlocks, so that test/page_map_test.c can run it in
 * threads.
 *
 * A file is found by (device, inode) through a hash table; its segment is cut
 * into regions of 1024 blocks, each with one bitmap per generation.  Looking
 * up a region is two array accesses, because processes remember the index of
 * the file behind each file descriptor (io_hooks.c).
 *
 * Reclaiming a region while a process marks a page in it: the marker reads
 * the file's region slot again after setting the bit and marks once more if
 * it changed.  A late marker can leave a spurious bit in a region that was
 * given to another file; that costs one needless flush of a clean page.
 *
 *-------------------------------------------------------------------------
 */
#include "page_map.h"

#include <time.h>

#include "port/pg_bitutils.h"

static PageMapFile *map_files(PageMap *map);
static uint32 *map_buckets(PageMap *map);
static PageMapRegion *map_regions(PageMap *map);
static void size_for(Size budget, uint32 *files, uint32 *buckets, uint32 *regions);
static uint32 bucket_of(PageMap *map, uint64 device, uint64 inode);
static void rebuild_buckets(PageMap *map);
static PageMapRegion *region_for_mark(PageMap *map, PageMapFile *file, uint32 file_index,
                                      uint32 incarnation, uint32 number, uint32 *slot_value);
static void
mark_in_region(PageMap *map, PageMapRegion *region, uint32 first, uint32 count, uint64 now_ms);
static void clear_age(PageMapRegion *region);
static void discard_region(PageMap *map, PageMapRegion *region);
static bool region_is_empty(PageMapRegion *region);
static void release_regions(PageMap *map, PageMapFile *file, bool only_clean, uint32 *released);

/*
 * Milliseconds of a clock that costs a few nanoseconds to read and is right
 * to the kernel's tick (1 to 10 ms).  Never 0, which stands for "none".
 */
uint64
page_map_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64) ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + 1;
}

/*
 * How many files and regions fit in a budget of bytes: a quarter goes to the
 * files, since a file has one region at least.
 */
static void
size_for(Size budget, uint32 *files, uint32 *buckets, uint32 *regions)
{
	Size f = Max(budget / 4 / sizeof(PageMapFile), 16);
	Size b = 64;
	Size r = Max(budget / 4 * 3 / sizeof(PageMapRegion), 64);

	while (b < f * 2)
		b *= 2;
	*files = (uint32) f;
	*buckets = (uint32) b;
	*regions = (uint32) r;
}

/* Bytes of shared memory that a map of this budget takes */
Size
page_map_size(Size budget)
{
	uint32 files;
	uint32 buckets;
	uint32 regions;

	size_for(budget, &files, &buckets, &regions);
	return MAXALIGN(sizeof(PageMap)) + MAXALIGN(files * sizeof(PageMapFile)) +
	       MAXALIGN(buckets * sizeof(uint32)) + MAXALIGN(regions * sizeof(PageMapRegion));
}

/* Make an empty map in page_map_size(budget) bytes of memory */
void
page_map_init(PageMap *map, Size budget)
{
	memset(map, 0, page_map_size(budget));
	size_for(budget, &map->max_files, &map->num_buckets, &map->max_regions);
	SpinLockInit(&map->lock);
	pg_atomic_init_u32(&map->files_high, 0);
	pg_atomic_init_u32(&map->generation, 0);
	pg_atomic_init_u64(&map->unflushed[0], 0);
	pg_atomic_init_u64(&map->unflushed[1], 0);
	pg_atomic_init_u64(&map->full_regions, 0);
	pg_atomic_init_u64(&map->full_files, 0);

	for (uint32 f = 0; f < map->max_files; f++)
	{
		PageMapFile *file = page_map_file(map, f);

		pg_atomic_init_u32(&file->incarnation, 0);
		pg_atomic_init_u64(&file->dirtied_when, 0);
		pg_atomic_init_u32(&file->handed, 0);
		pg_atomic_init_u32(&file->wanted, 0);
		pg_atomic_init_u32(&file->fsyncing, 0);
		pg_atomic_init_u64(&file->fsynced_when, 0);
		for (int i = 0; i < PAGE_MAP_FILE_REGIONS; i++)
			pg_atomic_init_u32(&file->region[i], 0);
		for (int i = 0; i < PAGE_MAP_FILE_REGION_WORDS; i++)
			pg_atomic_init_u64(&file->whole[i], 0);
		file->next_free = f + 1 < map->max_files ? f + 2 : 0;
	}
	map->free_file = 1;

	for (uint32 r = 0; r < map->max_regions; r++)
	{
		PageMapRegion *region = page_map_region(map, r);

		for (int g = 0; g < 2; g++)
		{
			pg_atomic_init_u32(&region->count[g], 0);
			for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
				pg_atomic_init_u64(&region->dirty[g][i], 0);
		}
		pg_atomic_init_u32(&region->flags, 0);
		pg_atomic_init_u64(&region->since, 0);
		region->next_free = r + 1 < map->max_regions ? r + 2 : 0;
	}
	map->free_region = 1;
}

static PageMapFile *
map_files(PageMap *map)
{
	return (PageMapFile *) ((char *) map + MAXALIGN(sizeof(PageMap)));
}

static uint32 *
map_buckets(PageMap *map)
{
	return (uint32 *) ((char *) map_files(map) + MAXALIGN(map->max_files * sizeof(PageMapFile)));
}

static PageMapRegion *
map_regions(PageMap *map)
{
	return (PageMapRegion *) ((char *) map_buckets(map) +
	                          MAXALIGN(map->num_buckets * sizeof(uint32)));
}

PageMapFile *
page_map_file(PageMap *map, uint32 file)
{
	return &map_files(map)[file];
}

PageMapRegion *
page_map_region(PageMap *map, uint32 region)
{
	return &map_regions(map)[region];
}

/* Finalizer of MurmurHash3, enough to spread consecutive inode numbers */
static uint32
bucket_of(PageMap *map, uint64 device, uint64 inode)
{
	uint64 h = inode * UINT64CONST(0x9E3779B97F4A7C15) ^ device;

	h ^= h >> 33;
	h *= UINT64CONST(0xFF51AFD7ED558CCD);
	h ^= h >> 33;
	return (uint32) h & (map->num_buckets - 1);
}

/* After files were removed: with linear probing, insert the others anew */
static void
rebuild_buckets(PageMap *map)
{
	uint32 *buckets = map_buckets(map);
	uint32 high = pg_atomic_read_u32(&map->files_high);

	memset(buckets, 0, map->num_buckets * sizeof(uint32));
	for (uint32 f = 0; f < high; f++)
	{
		PageMapFile *file = page_map_file(map, f);
		uint32 b;

		if ((pg_atomic_read_u32(&file->incarnation) & 1) == 0)
			continue;
		b = bucket_of(map, file->device, file->inode);
		while (buckets[b] != 0)
			b = (b + 1) & (map->num_buckets - 1);
		buckets[b] = f + 1;
	}
}

/*
 * Index of the entry for a file, added if need be; PAGE_MAP_NO_FILE if the
 * map has no room or the path is too long.  *incarnation is to be handed to
 * page_map_mark.
 *
 * A file found under another path is another file that was given the inode
 * number of a removed one: what was known of the old one is dropped.
 */
int
page_map_track_file(PageMap *map, uint64 device, uint64 inode, const char *path,
                    uint32 *incarnation)
{
	uint32 *buckets = map_buckets(map);
	uint32 b;
	int result = PAGE_MAP_NO_FILE;
	size_t length = strlen(path);

	if (length >= PAGE_MAP_PATH_MAX)
	{
		pg_atomic_fetch_add_u64(&map->full_files, 1);
		return PAGE_MAP_NO_FILE;
	}

	SpinLockAcquire(&map->lock);
	b = bucket_of(map, device, inode);
	while (buckets[b] != 0)
	{
		PageMapFile *file = page_map_file(map, buckets[b] - 1);

		if (file->device == device && file->inode == inode)
		{
			if (strcmp(file->path, path) != 0)
			{
				/* the same entry, for a new file */
				release_regions(map, file, false, NULL);
				pg_atomic_write_u64(&file->dirtied_when, 0);
				memcpy(file->path, path, length + 1);
				pg_atomic_fetch_add_u32(&file->incarnation, 2);
			}
			result = buckets[b] - 1;
			*incarnation = pg_atomic_read_u32(&file->incarnation);
			break;
		}
		b = (b + 1) & (map->num_buckets - 1);
	}
	if (result == PAGE_MAP_NO_FILE && map->free_file != 0)
	{
		PageMapFile *file;

		result = map->free_file - 1;
		file = page_map_file(map, result);
		map->free_file = file->next_free;
		map->files_used++;
		file->device = device;
		file->inode = inode;
		memcpy(file->path, path, length + 1);
		pg_atomic_write_u64(&file->dirtied_when, 0);
		/* a late marker may have left some */
		release_regions(map, file, false, NULL);
		*incarnation = pg_atomic_fetch_add_u32(&file->incarnation, 1) + 1;
		if ((uint32) result >= pg_atomic_read_u32(&map->files_high))
			pg_atomic_write_u32(&map->files_high, result + 1);
		buckets[b] = result + 1;
	}
	SpinLockRelease(&map->lock);

	if (result == PAGE_MAP_NO_FILE)
		pg_atomic_fetch_add_u64(&map->full_files, 1);
	return result;
}

/* Index of the entry for a file that is tracked, or PAGE_MAP_NO_FILE */
int
page_map_find_file(PageMap *map, uint64 device, uint64 inode, uint32 *incarnation)
{
	uint32 *buckets = map_buckets(map);
	uint32 b = bucket_of(map, device, inode);
	int result = PAGE_MAP_NO_FILE;

	SpinLockAcquire(&map->lock);
	while (buckets[b] != 0 && result == PAGE_MAP_NO_FILE)
	{
		PageMapFile *file = page_map_file(map, buckets[b] - 1);

		if (file->device == device && file->inode == inode)
		{
			result = buckets[b] - 1;
			*incarnation = pg_atomic_read_u32(&file->incarnation);
		}
		b = (b + 1) & (map->num_buckets - 1);
	}
	SpinLockRelease(&map->lock);
	return result;
}

/*
 * A file is about to be fsynced.  Returns what page_map_end_fsync is to be
 * told, whatever became of the entry meanwhile.
 */
int
page_map_begin_fsync(PageMap *map, uint64 device, uint64 inode)
{
	uint32 incarnation;
	int file = page_map_find_file(map, device, inode, &incarnation);

	if (file != PAGE_MAP_NO_FILE)
		pg_atomic_fetch_add_u32(&page_map_file(map, file)->fsyncing, 1);
	return file;
}

/* It has been */
void
page_map_end_fsync(PageMap *map, int file)
{
	if (file == PAGE_MAP_NO_FILE)
		return;
	pg_atomic_write_u64(&page_map_file(map, file)->fsynced_when, page_map_now_ms());
	pg_atomic_fetch_sub_u32(&page_map_file(map, file)->fsyncing, 1);
}

/* Whether a file is being fsynced, by whomever */
bool
page_map_being_fsynced(PageMap *map, uint32 file)
{
	return pg_atomic_read_u32(&page_map_file(map, file)->fsyncing) > 0;
}

/*
 * Whether a file is being fsynced, or was since a time.  To be asked after the
 * look at its pages that an fsync may explain.
 */
bool
page_map_fsynced_since(PageMap *map, uint32 file, uint64 since_ms)
{
	PageMapFile *entry = page_map_file(map, file);

	return page_map_being_fsynced(map, file) ||
	       pg_atomic_read_u64(&entry->fsynced_when) >= since_ms;
}

/*
 * Forget since when an empty region has marks.  A marker that saw the old age
 * before it went has set none, even if it is one that was overtaken by a
 * reclaim and marks a region that is free by now.
 */
static void
clear_age(PageMapRegion *region)
{
	pg_atomic_write_u64(&region->since, 0);
	pg_memory_barrier();
	if (page_map_region_count(region) > 0 && pg_atomic_read_u64(&region->since) == 0)
		pg_atomic_write_u64(&region->since, page_map_now_ms());
}

/* Empty a region's bitmaps and correct the totals */
static void
discard_region(PageMap *map, PageMapRegion *region)
{
	PageMapBits bits;

	for (int g = 0; g < 2; g++)
		(void) page_map_take(map, region, g, &bits);
	pg_atomic_write_u32(&region->flags, 0);
	clear_age(region);
}

static bool
region_is_empty(PageMapRegion *region)
{
	for (int g = 0; g < 2; g++)
	{
		for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		{
			if (pg_atomic_read_u64(&region->dirty[g][i]) != 0)
				return false;
		}
	}
	return true;
}

/* Give regions of a file back to the free list; the caller holds the lock */
static void
release_regions(PageMap *map, PageMapFile *file, bool only_clean, uint32 *released)
{
	for (int i = 0; i < PAGE_MAP_FILE_REGIONS; i++)
	{
		uint32 slot = pg_atomic_read_u32(&file->region[i]);
		PageMapRegion *region;

		if (slot == 0)
			continue;
		region = page_map_region(map, slot - 1);
		if (only_clean && page_map_region_count(region) > 0)
			continue;
		pg_atomic_write_u32(&file->region[i], 0);
		pg_memory_barrier(); /* markers see the slot go before we look or empty it */
		if (only_clean)
		{
			/*
			 * The bits, not the counts: a marker sets the bit first.  One that
			 * finished before the slot went is seen here; one that did not
			 * sees that the slot went.
			 */
			if (!region_is_empty(region))
			{
				pg_atomic_write_u32(&file->region[i], slot);
				continue;
			}
			pg_atomic_write_u32(&region->flags, 0);
			clear_age(region);
		}
		else
			discard_region(map, region);
		region->next_free = map->free_region;
		map->free_region = slot;
		map->regions_used--;
		if (released)
			(*released)++;
	}
	if (!only_clean)
	{
		for (int i = 0; i < PAGE_MAP_FILE_REGION_WORDS; i++)
			pg_atomic_write_u64(&file->whole[i], 0);
	}
}

/* Drop a file that is gone, with all that is marked in it */
void
page_map_forget_file(PageMap *map, uint32 file_index, uint32 incarnation)
{
	PageMapFile *file = page_map_file(map, file_index);

	SpinLockAcquire(&map->lock);
	if (pg_atomic_read_u32(&file->incarnation) == incarnation && (incarnation & 1))
	{
		pg_atomic_fetch_add_u32(&file->incarnation, 1);
		release_regions(map, file, false, NULL);
		file->next_free = map->free_file;
		map->free_file = file_index + 1;
		map->files_used--;
		rebuild_buckets(map);
	}
	SpinLockRelease(&map->lock);
}

/*
 * Free what stands for clean pages only: regions with no page marked, then
 * files without regions.  Returns the number of regions and files freed.
 * The lock is held per file, so that no marker spins for long.
 */
uint32
page_map_reclaim(PageMap *map)
{
	uint32 released = 0;
	uint32 high = pg_atomic_read_u32(&map->files_high);

	for (uint32 f = 0; f < high; f++)
	{
		PageMapFile *file = page_map_file(map, f);

		if ((pg_atomic_read_u32(&file->incarnation) & 1) == 0)
			continue;
		SpinLockAcquire(&map->lock);
		release_regions(map, file, true, &released);
		SpinLockRelease(&map->lock);
	}
	SpinLockAcquire(&map->lock);
	if (map->free_file == 0)
	{
		for (uint32 f = 0; f < high; f++)
		{
			PageMapFile *file = page_map_file(map, f);
			bool empty = true;

			if ((pg_atomic_read_u32(&file->incarnation) & 1) == 0)
				continue;
			/* first: a marker that we don't see below sees that */
			pg_atomic_fetch_add_u32(&file->incarnation, 1);
			for (int i = 0; empty && i < PAGE_MAP_FILE_REGIONS; i++)
				empty = pg_atomic_read_u32(&file->region[i]) == 0;
			for (int i = 0; empty && i < PAGE_MAP_FILE_REGION_WORDS; i++)
				empty = pg_atomic_read_u64(&file->whole[i]) == 0;
			if (!empty)
			{
				pg_atomic_fetch_sub_u32(&file->incarnation, 1);
				continue;
			}
			file->next_free = map->free_file;
			map->free_file = f + 1;
			map->files_used--;
			released++;
		}
		rebuild_buckets(map);
	}
	SpinLockRelease(&map->lock);
	return released;
}

/* The region to mark in, added if need be; NULL if the map is full */
static PageMapRegion *
region_for_mark(PageMap *map, PageMapFile *file, uint32 file_index, uint32 incarnation,
                uint32 number, uint32 *slot_value)
{
	uint32 slot = pg_atomic_read_u32(&file->region[number]);

	if (slot == 0)
	{
		SpinLockAcquire(&map->lock);
		slot = pg_atomic_read_u32(&file->region[number]);
		if (slot == 0 && map->free_region != 0 &&
		    pg_atomic_read_u32(&file->incarnation) == incarnation)
		{
			PageMapRegion *region;

			slot = map->free_region;
			region = page_map_region(map, slot - 1);
			map->free_region = region->next_free;
			map->regions_used++;
			region->file = file_index;
			region->number = number;
			pg_write_barrier();
			pg_atomic_write_u32(&file->region[number], slot);
		}
		SpinLockRelease(&map->lock);
		if (slot == 0)
			return NULL;
	}
	*slot_value = slot;
	return page_map_region(map, slot - 1);
}

static void
mark_in_region(PageMap *map, PageMapRegion *region, uint32 first, uint32 count, uint64 now_ms)
{
	int generation = page_map_new_generation(map);
	uint32 added = 0;

	while (count > 0)
	{
		uint32 word = first / 64;
		uint32 bit = first % 64;
		uint32 n = Min(count, 64 - bit);
		uint64 mask = (n == 64 ? ~UINT64CONST(0) : (UINT64CONST(1) << n) - 1) << bit;
		pg_atomic_uint64 *dirty = &region->dirty[generation][word];

		/*
		 * A page that is marked already needs no write to shared memory: who
		 * takes the bit after we saw it starts writeback after our write.
		 */
		if ((pg_atomic_read_u64(dirty) & mask) != mask)
		{
			uint64 before = pg_atomic_fetch_or_u64(dirty, mask);

			added += pg_popcount64(mask & ~before);
		}
		first += n;
		count -= n;
	}
	if (added > 0)
	{
		pg_atomic_fetch_add_u32(&region->count[generation], added);
		pg_atomic_fetch_add_u64(&map->unflushed[generation], added);
		if (pg_atomic_read_u64(&region->since) == 0)
			pg_atomic_write_u64(&region->since, now_ms);
	}
}

/*
 * Mark blocks of a file as written but not flushed.  block counts from the
 * start of the segment file.  Returns false if the entry stands for another
 * file by now: the caller has to track the file anew.
 */
bool
page_map_mark(PageMap *map, uint32 file_index, uint32 incarnation, BlockNumber block,
              uint32 nblocks, uint64 now_ms)
{
	PageMapFile *file = page_map_file(map, file_index);

	if (pg_atomic_read_u32(&file->incarnation) != incarnation)
		return false;
	if (pg_atomic_read_u64(&file->dirtied_when) == 0)
		pg_atomic_write_u64(&file->dirtied_when, now_ms);

	while (nblocks > 0)
	{
		uint32 number = block / PAGE_MAP_REGION_BLOCKS;
		uint32 first = block % PAGE_MAP_REGION_BLOCKS;
		uint32 n = Min(nblocks, PAGE_MAP_REGION_BLOCKS - first);
		uint32 slot = 0;

		if (number >= PAGE_MAP_FILE_REGIONS)
			break; /* not a segment of this server's making */
		do
		{
			PageMapRegion *region =
				region_for_mark(map, file, file_index, incarnation, number, &slot);

			if (region == NULL)
			{
				uint64 bit = UINT64CONST(1) << (number % 64);
				pg_atomic_uint64 *whole = &file->whole[number / 64];

				if ((pg_atomic_read_u64(whole) & bit) == 0 &&
				    (pg_atomic_fetch_or_u64(whole, bit) & bit) == 0)
					pg_atomic_fetch_add_u64(&map->full_regions, 1);
				break;
			}
			mark_in_region(map, region, first, n, now_ms);
			/* the atomic OR is a barrier: a reclaim that missed our bit is seen */
		} while (pg_atomic_read_u32(&file->region[number]) != slot);
		block += n;
		nblocks -= n;
	}

	/* it may have been reclaimed since we looked */
	pg_memory_barrier();
	return pg_atomic_read_u32(&file->incarnation) == incarnation;
}

/*
 * Take the marked pages of one generation out of a region, for the caller to
 * write back.  Returns their number.
 */
uint32
page_map_take(PageMap *map, PageMapRegion *region, int generation, PageMapBits *bits)
{
	uint32 taken = 0;

	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
	{
		bits->word[i] = 0;
		if (pg_atomic_read_u64(&region->dirty[generation][i]) != 0)
		{
			bits->word[i] = pg_atomic_exchange_u64(&region->dirty[generation][i], 0);
			taken += pg_popcount64(bits->word[i]);
		}
	}
	if (taken > 0)
	{
		pg_atomic_fetch_sub_u32(&region->count[generation], taken);
		pg_atomic_fetch_sub_u64(&map->unflushed[generation], taken);
	}
	if (page_map_region_count(region) == 0)
		clear_age(region);
	return taken;
}

/* Move what a region has marked in one generation to the other */
static void
move_generation(PageMap *map, PageMapRegion *region, int from)
{
	uint32 moved = 0;
	uint32 added = 0;

	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
	{
		uint64 word;

		if (pg_atomic_read_u64(&region->dirty[from][i]) == 0)
			continue;
		word = pg_atomic_exchange_u64(&region->dirty[from][i], 0);
		moved += pg_popcount64(word);
		added += pg_popcount64(word & ~pg_atomic_fetch_or_u64(&region->dirty[1 - from][i], word));
	}
	if (added > 0)
	{
		pg_atomic_fetch_add_u32(&region->count[1 - from], added);
		pg_atomic_fetch_add_u64(&map->unflushed[1 - from], added);
	}
	if (moved > 0)
	{
		pg_atomic_fetch_sub_u32(&region->count[from], moved);
		pg_atomic_fetch_sub_u64(&map->unflushed[from], moved);
	}
}

/*
 * What is marked now becomes the old generation, together with what is left
 * of the one before; writes from now on are marked in the new one.  For one
 * process at a time: the checkpointer.
 */
void
page_map_swap_generation(PageMap *map)
{
	int old = 1 - page_map_new_generation(map);
	uint32 high = pg_atomic_read_u32(&map->files_high);

	for (uint32 f = 0; f < high && page_map_unflushed(map, old) > 0; f++)
	{
		PageMapFile *file = page_map_file(map, f);

		if ((pg_atomic_read_u32(&file->incarnation) & 1) == 0)
			continue;
		for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
		{
			uint32 slot = pg_atomic_read_u32(&file->region[number]);

			if (slot != 0 && pg_atomic_read_u32(&page_map_region(map, slot - 1)->count[old]) != 0)
				move_generation(map, page_map_region(map, slot - 1), old);
		}
	}
	pg_atomic_fetch_add_u32(&map->generation, 1);
}
