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
 *	 atomic add per counter when a page was not marked yet.  A spinlock is
 *	 taken only to add a file or a region, held for a bounded number of instructions
 *	 (page_map.c), and is one of many.
 * - Nothing is done for all files, all regions or all of a file's regions under
 *	 a lock, but for what a late marker has left in an entry that is used anew; and
 *	 nothing walks all files that only needs those with marks.
 * - The memory holds no pointers.  It can be used by any process that has it
 *	 mapped, at any address.  What was never used of it was never touched.
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

/* After the last file: page_map_next_marked, page_map_next_large */
#define PAGE_MAP_END PG_UINT32_MAX

/* Path below the data directory that a file's entry has room for: "base/N/N_init.N" */
#define PAGE_MAP_SHORT_PATH 44

/* PageMapRegion.flags; what is above them counts how often it was given back */
#define PAGE_MAP_REGION_WINDOW 0x01 /* the checkpointer has passed it */
#define PAGE_MAP_REGION_FLAGS 0xff

/*
 * Words of a bitmap in a small region: what a file's first region has until a block
 * beyond is marked.  Most files of a schema with many tables never get there.
 */
#define PAGE_MAP_SMALL_WORDS 2

typedef struct PageMapRegion
{
	uint32 next_free;          /* free list, index + 1; first, as in all that is handed out */
	uint32 words;              /* of each bitmap; never changes */
	pg_atomic_uint32 count[2]; /* bits set in dirty[], by generation */
	pg_atomic_uint64 since;    /* when the oldest marked page was marked */
	pg_atomic_uint32 flags;
	pg_atomic_uint32 file;                         /* whose it is, or was last */
	pg_atomic_uint64 dirty[FLEXIBLE_ARRAY_MEMBER]; /* words for one generation, and for the other */
} PageMapRegion;

/* The regions of a file that has more than its first */
typedef struct PageMapSlots
{
	/* region index + 1, or 0; that of the first region is in the file's entry */
	pg_atomic_uint32 region[PAGE_MAP_FILE_REGIONS];
} PageMapSlots;

/* 128 bytes with segments of 1 GB */
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

	/* Whether the kernel flusher may be about to come, or be there (flusher_visit.c) */
	pg_atomic_uint32 visit_near;

	/* Fsyncs of it that are under way, and when the last one ended */
	pg_atomic_uint32 fsyncing;
	pg_atomic_uint32 recent; /* marked since the reclaim came by */
	pg_atomic_uint64 fsynced_when;

	pg_atomic_uint32 region; /* the first one, index + 1, or 0 */
	pg_atomic_uint32 slots;  /* PageMapSlots of the others, index + 1, or 0 */

	/*
	 * Regions that got no bitmap because the map was full: they count as
	 * wholly dirty.
	 */
	pg_atomic_uint64 whole[PAGE_MAP_FILE_REGION_WORDS];

	/* page_map_path() knows how to read them */
	uint32 long_path; /* index + 1, or 0: it is here */
	char path[PAGE_MAP_SHORT_PATH];
} PageMapFile;

/* So many of each kind, so that processes seldom meet */
#define PAGE_MAP_LOCKS 64

typedef union PageMapLock
{
	slock_t lock;
	char pad[PG_CACHE_LINE_SIZE];
} PageMapLock;

/* What all processes add to, with a cache line of its own */
typedef union PageMapCounter
{
	pg_atomic_uint64 value;
	char pad[PG_CACHE_LINE_SIZE];
} PageMapCounter;

/* What is cut out of the memory that is not files' */
typedef enum PageMapPiece
{
	PAGE_MAP_SMALL_REGION,
	PAGE_MAP_LARGE_REGION,
	PAGE_MAP_FURTHER_SLOTS,
	PAGE_MAP_LONG_PATH
} PageMapPiece;

#define PAGE_MAP_PIECES (PAGE_MAP_LONG_PATH + 1)

/* Sets of files, as bitmaps with a bitmap of their words that are not 0 */
typedef enum PageMapSet
{
	PAGE_MAP_MARKED, /* may have marks */
	PAGE_MAP_LARGE   /* had a region that is not small */
} PageMapSet;

#define PAGE_MAP_SETS (PAGE_MAP_LARGE + 1)

typedef struct PageMap
{
	/* set once */
	uint32 max_files;
	uint32 num_buckets; /* power of two */
	uint32 units;       /* of memory for pieces */
	uint32 root_length;
	char root[PAGE_MAP_PATH_MAX]; /* the data directory, with a slash; paths below go without */

	pg_atomic_uint32 files_high; /* entries at or above were never used */
	pg_atomic_uint32 generation; /* parity names the new generation */

	PageMapCounter unflushed[2]; /* bits set, by generation parity */
	PageMapCounter full_regions; /* times a region was counted as whole */
	PageMapCounter full_files;   /* times a file could not be tracked */

	PageMapLock bucket_locks[PAGE_MAP_LOCKS]; /* hash chains, keys and paths of the files in them */
	PageMapLock file_locks[PAGE_MAP_LOCKS];   /* which regions a file has */

	/* what is free; taken last, for as long as it takes to unlink one */
	PageMapLock memory_lock;
	uint32 free_file; /* head of free list, index + 1 */
	uint32 free_piece[PAGE_MAP_PIECES];
	uint32 units_high; /* units at or above were never used */
	pg_atomic_uint32 units_used;
	pg_atomic_uint32 files_used;
	uint32 regions_used;

	uint32 reclaim_next; /* file that the reclaim comes to next; the worker's */
						 /* followed by PageMapFile[], uint32 buckets[], the sets, units */
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
extern PageMapSlots *page_map_slots(PageMap *map, uint32 slots);
extern void page_map_path(PageMap *map, uint32 file, char *path);

extern int page_map_track_file(PageMap *map, uint64 device, uint64 inode, const char *path,
                               uint32 *incarnation);
extern int page_map_find_file(PageMap *map, uint64 device, uint64 inode, uint32 *incarnation);
extern int page_map_begin_fsync(PageMap *map, uint64 device, uint64 inode);
extern void page_map_end_fsync(PageMap *map, int file);
extern bool page_map_being_fsynced(PageMap *map, uint32 file);
extern bool page_map_fsynced_since(PageMap *map, uint32 file, uint64 since_ms);
extern void page_map_forget_file(PageMap *map, uint32 file, uint32 incarnation);
extern bool page_map_is_low(PageMap *map);
extern uint32 page_map_reclaim(PageMap *map, uint32 max_steps);

extern bool page_map_mark(PageMap *map, uint32 file, uint32 incarnation, BlockNumber block,
                          uint32 nblocks, uint64 now_ms);
extern uint32 page_map_take(PageMap *map, PageMapRegion *region, int generation, PageMapBits *bits);
extern uint32 page_map_unmark(PageMap *map, uint32 file, BlockNumber block, uint32 nblocks);
extern void page_map_swap_generation(PageMap *map);

extern uint32 page_map_next_marked(PageMap *map, uint32 from);
extern uint32 page_map_next_large(PageMap *map, uint32 from);
extern bool page_map_is_large(PageMap *map, uint32 file);
extern void page_map_settle(PageMap *map, uint32 file);

extern uint64 page_map_now_ms(void);

#ifdef PAGE_MAP_TEST
/* the test's: entries, regions and words of sets that were looked at; what has been cut out */
extern __thread uint64 page_map_steps;
extern void page_map_piece_made(PageMap *map, PageMapPiece kind, uint32 index);
#endif

/* Index of the generation that writes are marked in now */
static inline int
page_map_new_generation(PageMap *map)
{
	return pg_atomic_read_u32(&map->generation) & 1;
}

/* Index + 1 of a region of a file, or 0 */
static inline uint32
page_map_slot(PageMap *map, PageMapFile *file, uint32 number)
{
	uint32 slots;

	if (number == 0)
		return pg_atomic_read_u32(&file->region);
	slots = pg_atomic_read_u32(&file->slots);
	return slots == 0 ? 0 : pg_atomic_read_u32(&page_map_slots(map, slots - 1)->region[number]);
}

/* Whether a region of a file counts as wholly dirty */
static inline bool
page_map_is_whole(PageMapFile *file, uint32 number)
{
	return (pg_atomic_read_u64(&file->whole[number / 64]) >> (number % 64)) & 1;
}

/* How many regions of a file are to be looked at: those of an end that nobody has marked are not */
static inline uint32
page_map_file_regions(PageMapFile *file)
{
	if (pg_atomic_read_u32(&file->slots) != 0)
		return PAGE_MAP_FILE_REGIONS;
	for (int i = 0; i < PAGE_MAP_FILE_REGION_WORDS; i++)
	{
		if (pg_atomic_read_u64(&file->whole[i]) > (i == 0))
			return PAGE_MAP_FILE_REGIONS;
	}
	return 1;
}

/* A word of a region's bitmap */
static inline pg_atomic_uint64 *
page_map_word(PageMapRegion *region, int generation, uint32 word)
{
	return &region->dirty[generation * region->words + word];
}

/* What is marked in a region now, both generations, without taking it */
static inline void
page_map_peek_region(PageMapRegion *region, PageMapBits *bits)
{
	for (uint32 i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		bits->word[i] = i < region->words ? pg_atomic_read_u64(page_map_word(region, 0, i)) |
		                                        pg_atomic_read_u64(page_map_word(region, 1, i)) :
		                                    0;
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
	int64 pages = (int64) pg_atomic_read_u64(&map->unflushed[generation].value);

	return Max(pages, 0);
}

#endif /* PG_CALM_PAGE_MAP_H */
