/*-------------------------------------------------------------------------
 *
 * page_map.h
 *	  Pages written to the kernel but not yet flushed to the device.
 *
 * The map is advice: it decides what is written back early and never
 * whether a page is durable.  A missing or stale bit costs speed, not data.
 *
 * A data file has an entry, which is found by (device, inode).  It is cut into regions of 1024
 * blocks, each with one bitmap and the time at which the oldest of its marks was set.
 *
 * Invariants:
 * - A bit is set after the write that dirtied the page returned, and cleared
 *	 before writeback of the page is started.  So a page that is dirty in the
 *	 kernel has its bit set, or is being written back by whoever took the bit,
 *	 or is about to get its bit set by the process that wrote it.
 * - A process marks pages without a lock: one atomic OR per 64 blocks, one
 *	 atomic add per counter when a page was not marked yet.  A spinlock is
 *	 taken only to add a file or a region, for a bounded number of instructions.
 * - Nothing is done for all files under a lock, and for all of a file's regions nothing but
 *	 a look at how many marks they have.
 * - The memory holds no pointers.  It can be used by any process that has it
 *	 mapped, at any address.  What was never used of it was never touched.
 *
 * Times are milliseconds of CLOCK_MONOTONIC_COARSE; 0 means "none".
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_PAGE_MAP_H
#define PG_CALM_PAGE_MAP_H

#include "port/atomics.h"
#include "storage/block.h"
#include "storage/spin.h"

/* A region is what one flush decision is made about: 8 MiB of 8 KiB blocks. */
#define PAGE_MAP_REGION_BLOCKS 1024
#define PAGE_MAP_REGION_WORDS (PAGE_MAP_REGION_BLOCKS / 64)
#define PAGE_MAP_REGION_BYTES ((off_t) PAGE_MAP_REGION_BLOCKS * BLCKSZ)

/* Regions of one segment file; RELSEG_SIZE is fixed when the server is built */
#define PAGE_MAP_FILE_REGIONS ((RELSEG_SIZE + PAGE_MAP_REGION_BLOCKS - 1) / PAGE_MAP_REGION_BLOCKS)

/* Longest path that is tracked, below the data directory or absolute; others are left as they are */
#define PAGE_MAP_PATH_MAX 128

#define PAGE_MAP_NO_FILE (-1)

/* After the last file: page_map_next_marked */
#define PAGE_MAP_END PG_UINT32_MAX

typedef struct PageMapRegion
{
	uint32 next_free;        /* free list, index + 1 */
	pg_atomic_uint32 count;  /* bits set in dirty[] */
	pg_atomic_uint32 passed; /* the checkpointer has written here, and went on */
	pg_atomic_uint64 since;  /* when the oldest marked page was marked */
	pg_atomic_uint64 dirty[PAGE_MAP_REGION_WORDS];
} PageMapRegion;

typedef struct PageMapFile
{
	/*
	 * Even: free; odd: in use.  Changes whenever the entry stands for another
	 * file, so that a process can tell that what it remembers is stale.
	 */
	pg_atomic_uint32 incarnation;
	uint32 next;   /* in its hash chain or the free list, index + 1 */
	uint64 device; /* st_dev */
	uint64 inode;  /* st_ino */

	pg_atomic_uint32 fsyncing; /* fsyncs of it that are under way */
	pg_atomic_uint32 recent;   /* marked since the reclaim came by */

	pg_atomic_uint32 region[PAGE_MAP_FILE_REGIONS]; /* index + 1, or 0 */
	char path[PAGE_MAP_PATH_MAX];                   /* page_map_path() reads it */
} PageMapFile;

/* Locks of each kind: so many that processes seldom meet */
#define PAGE_MAP_LOCKS 64

/* What many processes write to, with a cache line of its own */
typedef union PageMapLine
{
	slock_t lock;
	pg_atomic_uint64 value;
	char pad[PG_CACHE_LINE_SIZE];
} PageMapLine;

typedef struct PageMap
{
	/* set once */
	uint32 max_files;
	uint32 num_buckets; /* power of two */
	uint32 max_regions;
	uint32 root_length;
	char root[MAXPGPATH]; /* the data directory, with a slash; paths below go without */

	PageMapLine unflushed; /* bits set */
	PageMapLine full;      /* times that a file or a region found no room */

	PageMapLine bucket_locks[PAGE_MAP_LOCKS]; /* hash chains, keys and paths of the files in them */
	PageMapLine file_locks[PAGE_MAP_LOCKS];   /* which regions a file has */

	/* what is free; taken last, for as long as it takes to unlink one */
	PageMapLine memory_lock;
	uint32 free_file;   /* head of free list, index + 1 */
	uint32 free_region; /* likewise */
	uint32 files_high;  /* entries at or above were never used */
	uint32 regions_high;
	pg_atomic_uint32 files_used;
	pg_atomic_uint32 regions_used;

	uint32 reclaim_next; /* file that the reclaim comes to next; the worker's */
						 /* followed by PageMapFile[], uint32 buckets[], the set, regions */
} PageMap;

/* The dirty pages that one take got out of a region */
typedef struct PageMapBits
{
	uint64 word[PAGE_MAP_REGION_WORDS];
} PageMapBits;

extern Size page_map_size(Size budget);
extern void page_map_init(PageMap *map, Size budget, const char *root);
extern PageMapFile *page_map_file(PageMap *map, uint32 file);
extern PageMapRegion *page_map_region(PageMap *map, uint32 region);
extern void page_map_path(PageMap *map, uint32 file, char *path);
extern const char *page_map_short_path(PageMap *map, const char *path);
extern bool page_map_keeps_path(PageMap *map, const char *path);
extern int page_map_track_file(PageMap *map, uint64 device, uint64 inode, const char *path,
                               uint32 *incarnation);
extern int page_map_find_file(PageMap *map, uint64 device, uint64 inode, uint32 *incarnation);
extern int page_map_begin_fsync(PageMap *map, uint64 device, uint64 inode);
extern void page_map_end_fsync(PageMap *map, int file);
extern bool page_map_being_fsynced(PageMap *map, uint32 file);
extern bool page_map_retire_file(PageMap *map, uint32 file, uint32 incarnation, bool only_clean);
extern bool page_map_is_low(PageMap *map);
extern uint32 page_map_reclaim(PageMap *map, uint32 max_files);
extern bool page_map_mark(PageMap *map, uint32 file, uint32 incarnation, BlockNumber block,
                          uint32 nblocks, uint64 now_ms);
extern uint32 page_map_take(PageMap *map, PageMapRegion *region, PageMapBits *bits);
extern uint32 page_map_next_marked(PageMap *map, uint32 from);
extern void page_map_settle(PageMap *map, uint32 file);

/* Bytes that a path takes, with the data directory's and the byte at its end */
#define PAGE_MAP_FULL_PATH (MAXPGPATH + PAGE_MAP_PATH_MAX)

/* A region of a file, or NULL if nothing was marked there */
static inline PageMapRegion *
page_map_region_of(PageMap *map, PageMapFile *file, uint32 number)
{
	uint32 slot = pg_atomic_read_u32(&file->region[number]);

	return slot == 0 ? NULL : page_map_region(map, slot - 1);
}

/* Pages marked in a region; a taker can be ahead of the marker's addition: negative for an instant */
static inline uint32
page_map_region_count(PageMapRegion *region)
{
	int32 pages = (int32) pg_atomic_read_u32(&region->count);

	return Max(pages, 0);
}

/* Pages marked in all files, likewise */
static inline uint64
page_map_unflushed(PageMap *map)
{
	int64 pages = (int64) pg_atomic_read_u64(&map->unflushed.value);

	return Max(pages, 0);
}

#endif /* PG_CALM_PAGE_MAP_H */
