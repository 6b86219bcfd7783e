/*-------------------------------------------------------------------------
 *
 * page_map.h
 *	  Pages written to the kernel but not yet flushed to the device.
 *
 * The map is advice: it decides what is written back early and never
 * whether a page is durable.  A missing or stale bit costs speed, not data.
 *
 * Invariants:
 * - A bit is set after the write that dirtied the page returned, and cleared
 *	 before writeback of the page is started.  So a page that is dirty in the
 *	 kernel has its bit set, or is being written back by whoever took the bit,
 *	 or is about to get its bit set by the process that wrote it.
 * - A process marks pages without a lock: one atomic OR per 64 blocks, one
 *	 atomic add per counter when a page was not marked yet.  The spinlock is
 *	 taken only to add a file or a region.
 * - The memory holds no pointers.  It can be used by any process that has it
 *	 mapped, at any address.
 *
 * Times are milliseconds of CLOCK_MONOTONIC_COARSE; 0 means "none".
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_PAGE_MAP_H
#define PG_CALM_PAGE_MAP_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/block.h"
#include "storage/spin.h"

/* A region is what one flush decision is made about: 8 MiB of 8 KiB blocks. */
#define PAGE_MAP_REGION_BLOCKS 1024
#define PAGE_MAP_REGION_WORDS (PAGE_MAP_REGION_BLOCKS / 64)
#define PAGE_MAP_REGION_BYTES ((off_t) PAGE_MAP_REGION_BLOCKS * BLCKSZ)

/* Regions of one segment file; RELSEG_SIZE is fixed when the server is built */
#define PAGE_MAP_FILE_REGIONS ((RELSEG_SIZE + PAGE_MAP_REGION_BLOCKS - 1) / PAGE_MAP_REGION_BLOCKS)
#define PAGE_MAP_FILE_REGION_WORDS ((PAGE_MAP_FILE_REGIONS + 63) / 64)

/* Longest path that is tracked; files with a longer one are left to fsync */
#define PAGE_MAP_PATH_MAX 256

#define PAGE_MAP_NO_FILE (-1)

/* PageMapRegion.flags */
#define PAGE_MAP_REGION_WINDOW 0x01 /* the checkpointer has passed it */

typedef struct PageMapRegion
{
	pg_atomic_uint64 dirty[2][PAGE_MAP_REGION_WORDS]; /* by generation */
	pg_atomic_uint32 count[2];                        /* bits set in dirty[], by generation */
	pg_atomic_uint32 flags;
	uint32 file;            /* index of the owning file */
	uint32 number;          /* which region of the file */
	uint32 next_free;       /* free list, index + 1 */
	pg_atomic_uint64 since; /* when the oldest marked page was marked */
} PageMapRegion;

typedef struct PageMapFile
{
	/*
	 * Even: free; odd: in use.  Changes whenever the entry stands for another
	 * file, so that a process can tell that what it remembers is stale.
	 */
	pg_atomic_uint32 incarnation;
	uint32 next_free; /* free list, index + 1 */
	uint64 device;    /* st_dev */
	uint64 inode;     /* st_ino */

	/*
	 * When the file was first dirtied since the kernel flusher is known to
	 * have visited it: our estimate of inode->dirtied_when (fs/fs-writeback.c,
	 * __mark_inode_dirty), which only a visit of the flusher resets.
	 */
	pg_atomic_uint64 dirtied_when;

	/*
	 * The incarnation that is being left to the kernel flusher
	 * (flusher_guard.c), or 0: it has dirty pages that are not marked.
	 */
	pg_atomic_uint32 handed;

	/*
	 * The incarnation of which these pages are wanted back, if it is not
	 * known when the flusher comes; or 0.
	 */
	pg_atomic_uint32 wanted;

	/* Fsyncs of it that are under way, and when the last one ended */
	pg_atomic_uint32 fsyncing;
	pg_atomic_uint64 fsynced_when;

	pg_atomic_uint32 region[PAGE_MAP_FILE_REGIONS]; /* region index + 1, or 0 */

	/*
	 * Regions that got no bitmap because the map was full: they count as
	 * wholly dirty.
	 */
	pg_atomic_uint64 whole[PAGE_MAP_FILE_REGION_WORDS];
	char path[PAGE_MAP_PATH_MAX];
} PageMapFile;

typedef struct PageMap
{
	slock_t lock; /* protects free lists, buckets, file keys */
	uint32 max_files;
	uint32 max_regions;
	uint32 num_buckets; /* power of two */
	uint32 free_file;   /* head of free list, index + 1 */
	uint32 free_region;
	uint32 files_used;
	uint32 regions_used;
	pg_atomic_uint32 files_high;   /* entries at or above were never used */
	pg_atomic_uint32 generation;   /* parity names the new generation */
	pg_atomic_uint64 unflushed[2]; /* bits set, by generation parity */
	pg_atomic_uint64 full_regions; /* times a region was counted as whole */
	pg_atomic_uint64 full_files;   /* times a file could not be tracked */
	/* followed by PageMapFile[], uint32 buckets[], PageMapRegion[] */
} PageMap;

/* The dirty pages that one take got out of a region */
typedef struct PageMapBits
{
	uint64 word[PAGE_MAP_REGION_WORDS];
} PageMapBits;

extern Size page_map_size(Size budget);
extern void page_map_init(PageMap *map, Size budget);

extern PageMapFile *page_map_file(PageMap *map, uint32 file);
extern PageMapRegion *page_map_region(PageMap *map, uint32 region);

extern int page_map_track_file(PageMap *map, uint64 device, uint64 inode, const char *path,
                               uint32 *incarnation);
extern int page_map_find_file(PageMap *map, uint64 device, uint64 inode, uint32 *incarnation);
extern int page_map_begin_fsync(PageMap *map, uint64 device, uint64 inode);
extern void page_map_end_fsync(PageMap *map, int file);
extern bool page_map_being_fsynced(PageMap *map, uint32 file);
extern bool page_map_fsynced_since(PageMap *map, uint32 file, uint64 since_ms);
extern void page_map_forget_file(PageMap *map, uint32 file, uint32 incarnation);
extern uint32 page_map_reclaim(PageMap *map);

extern bool page_map_mark(PageMap *map, uint32 file, uint32 incarnation, BlockNumber block,
                          uint32 nblocks, uint64 now_ms);
extern uint32 page_map_take(PageMap *map, PageMapRegion *region, int generation, PageMapBits *bits);
extern void page_map_swap_generation(PageMap *map);

extern uint64 page_map_now_ms(void);

/* Index of the generation that writes are marked in now */
static inline int
page_map_new_generation(PageMap *map)
{
	return pg_atomic_read_u32(&map->generation) & 1;
}

/* What is marked in a region now, both generations, without taking it */
static inline void
page_map_peek_region(PageMapRegion *region, PageMapBits *bits)
{
	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		bits->word[i] =
			pg_atomic_read_u64(&region->dirty[0][i]) | pg_atomic_read_u64(&region->dirty[1][i]);
}

static inline uint32
page_map_region_count(PageMapRegion *region)
{
	/* a taker can be ahead of the marker's addition: negative for an instant */
	int32 old_pages = (int32) pg_atomic_read_u32(&region->count[0]);
	int32 new_pages = (int32) pg_atomic_read_u32(&region->count[1]);

	return Max(old_pages, 0) + Max(new_pages, 0);
}

/* Pages marked in a generation, likewise */
static inline uint64
page_map_unflushed(PageMap *map, int generation)
{
	int64 pages = (int64) pg_atomic_read_u64(&map->unflushed[generation]);

	return Max(pages, 0);
}

#endif /* PG_CALM_PAGE_MAP_H */
