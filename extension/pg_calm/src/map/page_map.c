/*-------------------------------------------------------------------------
 *
 * page_map.c
 *	  Pages written to the kernel but not yet flushed to the device.
 *
 * See page_map.h for the invariants.  This file uses nothing of the server
 * but its atomics and spinlocks, so that test/page_map_test.c can run it in
 * threads.
 *
 * A file is found by (device, inode) through a hash table with chains; its segment
 * is cut into regions of 1024 blocks, each with one bitmap per generation.  Looking
 * up a region is two array accesses, three beyond the file's first region, because
 * processes remember the index of the file behind each file descriptor (io_hooks.c).
 *
 * Memory.  A server with a hundred thousand tables has as many files of a few
 * blocks.  So an entry is 128 bytes: its path goes without the data directory's, it
 * has room for one region, and that one begins small, with bitmaps for its first
 * 128 blocks.  What more a file needs (a large region, slots for further ones,
 * a long path) is cut out of the rest of the memory when it does, and comes back
 * to a free list of its kind.  Memory that was never used is not touched, at start
 * either, so what is not needed costs nothing but address space.
 *
 * Locks.  There are three kinds of spinlocks, taken in this order:
 * 1. of a bucket: hash chains, and who an entry stands for;
 * 2. of a file: which regions it has;
 * 3. of the memory: what is free.
 * Each is held for a bounded number of instructions: for one chain, one region,
 * one free list.  A file that goes is taken out of its chain first; its regions,
 * which nobody finds any more, are given back one by one.
 *
 * Reclaiming a region while a process marks a page in it: the marker looks after it has set
 * the bit whether the file's slot still has the region, and whether it was given back
 * meanwhile, and marks once more if so.  The latter is for a region that
 * went to another file and came back, without the mark.  A late marker can leave a spurious
 * bit in a region that was given to another file; that costs one needless flush of
 * a clean page.  The same holds for a small region that is replaced by a
 * large one: the slot changes first, then what is marked moves.  A piece of memory
 * stays of the kind that it was first cut for, so a late marker never
 * writes to what is not a bitmap.
 *
 * Who looks for marks walks the set of files that may have any (PAGE_MAP_MARKED).
 * A marker adds its file after it has counted its marks, if it isn't there;
 * page_map_settle removes a file, then looks at the counts, and adds it
 * again if there are any.  Both are full barriers, so one of the two sees the
 * other.  A late marker adds the file that has its spurious bit: the next marker of
 * that page finds it set, and adds nothing.  A region that has such bits when it
 * is taken is seen by who takes it.
 *
 *-------------------------------------------------------------------------
 */
#include "page_map.h"

#include <time.h>

#include "port/pg_bitutils.h"

/* Memory for pieces is handed out in units of so many bytes */
#define UNIT 32

/* Part of the memory that is for files, and of the rest that is left to large regions */
#define FILES_SHARE 3
#define FILES_PARTS 8
#define LARGE_SHARE 1
#define LARGE_PARTS 4

/* What is left when a reclaim begins: parts of files, and of units */
#define LOW_FILES 16
#define LOW_UNITS 8

/* What looking at all slots of a file counts for, in a reclaim */
#define SLOTS_STEPS 16

#ifdef PAGE_MAP_TEST
#define COUNT_STEP() (page_map_steps++)
#else
#define COUNT_STEP() ((void) 0)
#endif

typedef struct MapSizes
{
	uint32 files;
	uint32 buckets;
	uint32 words[2]; /* of the sets, and of their summaries */
	uint32 units;
} MapSizes;

static void size_for(Size budget, MapSizes *sizes);
static Size size_before_units(const MapSizes *sizes);
static PageMapFile *map_files(PageMap *map);
static uint32 *map_buckets(PageMap *map);
static uint32 set_words(uint32 bits);
static pg_atomic_uint64 *map_set(PageMap *map, PageMapSet set, int level);
static char *map_units(PageMap *map);
static char *piece_at(PageMap *map, uint32 index);
static uint32 piece_units(PageMapPiece kind);
static void init_piece(PageMap *map, PageMapPiece kind, uint32 index);
static uint32 take_piece(PageMap *map, PageMapPiece kind);
static void give_piece(PageMap *map, PageMapPiece kind, uint32 index_plus_1);
static void give_region(PageMap *map, uint32 slot);
static uint32 times_given(PageMapRegion *region);
static bool files_are_low(PageMap *map);
static void set_add(PageMap *map, PageMapSet set, uint32 file);
static void set_remove(PageMap *map, PageMapSet set, uint32 file);
static uint32 set_next(PageMap *map, PageMapSet set, uint32 from);
static uint32 bucket_of(PageMap *map, uint64 device, uint64 inode);
static slock_t *bucket_lock(PageMap *map, uint32 bucket);
static slock_t *file_lock(PageMap *map, uint32 file);
static const char *short_path(PageMap *map, const char *path);
static bool has_path(PageMap *map, PageMapFile *file, const char *path);
static int find_in_chain(PageMap *map, uint32 bucket, uint64 device, uint64 inode);
static void unlink_from_chain(PageMap *map, uint32 bucket, uint32 file);
static int new_file(PageMap *map, uint64 device, uint64 inode, const char *path);
static void give_file(PageMap *map, uint32 file);
static bool has_nothing(PageMapFile *file);
static void dispose_file(PageMap *map, uint32 file);
static bool has_marks(PageMap *map, PageMapFile *file);
static pg_atomic_uint32 *slot_to_fill(PageMap *map, PageMapFile *file, uint32 number);
static void
grow_region(PageMap *map, pg_atomic_uint32 *where, PageMapRegion *small, uint32 large_slot);
static PageMapRegion *region_for_mark(PageMap *map, PageMapFile *file, uint32 file_index,
                                      uint32 incarnation, uint32 number, uint32 end, uint32 *slot);
static void mark_in_region(PageMap *map, uint32 file, PageMapRegion *region, uint32 first,
                           uint32 count, uint64 now_ms);
static void clear_age(PageMapRegion *region);
static void discard_region(PageMap *map, PageMapRegion *region);
static bool region_is_empty(PageMapRegion *region);
static bool
release_region(PageMap *map, PageMapFile *file, uint32 file_index, uint32 number, bool only_clean);
static uint32 release_regions(PageMap *map, PageMapFile *file, uint32 file_index, bool only_clean);
static bool reclaim_file(PageMap *map, uint32 file_index);
static void move_generation(PageMap *map, PageMapRegion *region, int from);

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
 * Memory
 */

static uint32
set_words(uint32 bits)
{
	return (bits + 63) / 64;
}

/* How many files and units fit in a budget of bytes */
static void
size_for(Size budget, MapSizes *sizes)
{
	Size for_files = budget * FILES_SHARE / FILES_PARTS;
	Size files = Max(for_files / (sizeof(PageMapFile) + sizeof(uint32)), 16);
	Size units = Max((budget - for_files) / UNIT, 64 * piece_units(PAGE_MAP_LARGE_REGION));
	Size buckets = 64;

	/* chains have one or two on average */
	while (buckets * 2 <= files)
		buckets *= 2;
	sizes->files = (uint32) files;
	sizes->buckets = (uint32) buckets;
	sizes->words[0] = set_words(sizes->files);
	sizes->words[1] = set_words(sizes->words[0]);
	sizes->units = (uint32) Min(units, PG_UINT32_MAX - 1);
}

static Size
size_before_units(const MapSizes *sizes)
{
	return MAXALIGN(sizeof(PageMap)) + MAXALIGN((Size) sizes->files * sizeof(PageMapFile)) +
	       MAXALIGN((Size) sizes->buckets * sizeof(uint32)) +
	       PAGE_MAP_SETS * sizeof(pg_atomic_uint64) * (Size) (sizes->words[0] + sizes->words[1]);
}

/* Bytes of shared memory that a map of this budget takes */
Size
page_map_size(Size budget)
{
	MapSizes sizes;

	size_for(budget, &sizes);
	return size_before_units(&sizes) + (Size) sizes.units * UNIT;
}

/*
 * Make an empty map in page_map_size(budget) bytes of memory.  root is the
 * directory that most files are below of, as the kernel names it.
 */
void
page_map_init(PageMap *map, Size budget, const char *root)
{
	MapSizes sizes;
	size_t length = strlen(root);

	size_for(budget, &sizes);
	memset(map, 0, sizeof(PageMap));
	map->max_files = sizes.files;
	map->num_buckets = sizes.buckets;
	map->units = sizes.units;
	if (length > 0 && length + 2 < PAGE_MAP_PATH_MAX)
	{
		memcpy(map->root, root, length);
		if (root[length - 1] != '/')
			map->root[length++] = '/';
		map->root_length = (uint32) length;
	}
	pg_atomic_init_u32(&map->files_high, 0);
	pg_atomic_init_u32(&map->generation, 0);
	pg_atomic_init_u32(&map->units_used, 0);
	pg_atomic_init_u32(&map->files_used, 0);
	pg_atomic_init_u64(&map->unflushed[0].value, 0);
	pg_atomic_init_u64(&map->unflushed[1].value, 0);
	pg_atomic_init_u64(&map->full_regions.value, 0);
	pg_atomic_init_u64(&map->full_files.value, 0);
	for (int i = 0; i < PAGE_MAP_LOCKS; i++)
	{
		SpinLockInit(&map->bucket_locks[i].lock);
		SpinLockInit(&map->file_locks[i].lock);
	}
	SpinLockInit(&map->memory_lock.lock);
	memset(map_buckets(map), 0, sizes.buckets * sizeof(uint32));
	for (int set = 0; set < PAGE_MAP_SETS; set++)
	{
		for (int level = 0; level < 2; level++)
		{
			for (uint32 i = 0; i < sizes.words[level]; i++)
				pg_atomic_init_u64(&map_set(map, set, level)[i], 0);
		}
	}
}

static PageMapFile *
map_files(PageMap *map)
{
	return (PageMapFile *) ((char *) map + MAXALIGN(sizeof(PageMap)));
}

static uint32 *
map_buckets(PageMap *map)
{
	return (uint32 *) ((char *) map_files(map) +
	                   MAXALIGN((Size) map->max_files * sizeof(PageMapFile)));
}

/* A set's bitmap (level 0), or that of its words which are not 0 (level 1) */
static pg_atomic_uint64 *
map_set(PageMap *map, PageMapSet set, int level)
{
	uint32 words = set_words(map->max_files);
	pg_atomic_uint64 *sets =
		(pg_atomic_uint64 *) ((char *) map_buckets(map) +
	                          MAXALIGN((Size) map->num_buckets * sizeof(uint32)));

	return sets + set * (words + set_words(words)) + level * words;
}

static char *
map_units(PageMap *map)
{
	return (char *) map_set(map, PAGE_MAP_SETS, 0);
}

PageMapFile *
page_map_file(PageMap *map, uint32 file)
{
	return &map_files(map)[file];
}

static char *
piece_at(PageMap *map, uint32 index)
{
	return map_units(map) + (Size) index * UNIT;
}

PageMapRegion *
page_map_region(PageMap *map, uint32 region)
{
	return (PageMapRegion *) piece_at(map, region);
}

PageMapSlots *
page_map_slots(PageMap *map, uint32 slots)
{
	return (PageMapSlots *) piece_at(map, slots);
}

static uint32
piece_units(PageMapPiece kind)
{
	Size bytes = 0;

	switch (kind)
	{
		case PAGE_MAP_SMALL_REGION:
			bytes = offsetof(PageMapRegion, dirty) + 2 * PAGE_MAP_SMALL_WORDS * sizeof(uint64);
			break;
		case PAGE_MAP_LARGE_REGION:
			bytes = offsetof(PageMapRegion, dirty) + 2 * PAGE_MAP_REGION_WORDS * sizeof(uint64);
			break;
		case PAGE_MAP_FURTHER_SLOTS:
			bytes = sizeof(PageMapSlots);
			break;
		case PAGE_MAP_LONG_PATH:
			bytes = PAGE_MAP_PATH_MAX;
			break;
	}
	return (uint32) ((bytes + UNIT - 1) / UNIT);
}

/* A piece that was never used */
static void
init_piece(PageMap *map, PageMapPiece kind, uint32 index)
{
	memset(piece_at(map, index), 0, (Size) piece_units(kind) * UNIT);
#ifdef PAGE_MAP_TEST
	page_map_piece_made(map, kind, index);
#endif
	if (kind == PAGE_MAP_SMALL_REGION || kind == PAGE_MAP_LARGE_REGION)
	{
		PageMapRegion *region = page_map_region(map, index);

		region->words =
			kind == PAGE_MAP_SMALL_REGION ? PAGE_MAP_SMALL_WORDS : PAGE_MAP_REGION_WORDS;
		for (int g = 0; g < 2; g++)
		{
			pg_atomic_init_u32(&region->count[g], 0);
			for (uint32 i = 0; i < region->words; i++)
				pg_atomic_init_u64(page_map_word(region, g, i), 0);
		}
		pg_atomic_init_u32(&region->flags, 0);
		pg_atomic_init_u32(&region->file, 0);
		pg_atomic_init_u64(&region->since, 0);
	}
	else if (kind == PAGE_MAP_FURTHER_SLOTS)
	{
		for (int i = 0; i < PAGE_MAP_FILE_REGIONS; i++)
			pg_atomic_init_u32(&page_map_slots(map, index)->region[i], 0);
	}
}

/*
 * A piece that nobody has, as its last owner left it: index + 1, or 0.  The last
 * quarter of the memory is for large regions, of which there would be none if
 * many small files came first.
 */
static uint32
take_piece(PageMap *map, PageMapPiece kind)
{
	uint32 units = piece_units(kind);
	uint32 keep = kind == PAGE_MAP_LARGE_REGION ? 0 : map->units / LARGE_PARTS * LARGE_SHARE;
	uint32 result;
	bool fresh = false;

	SpinLockAcquire(&map->memory_lock.lock);
	result = map->free_piece[kind];
	if (result != 0)
		map->free_piece[kind] = *(uint32 *) piece_at(map, result - 1);
	else if (map->units - map->units_high >= units + keep)
	{
		result = map->units_high + 1;
		map->units_high += units;
		fresh = true;
	}
	if (result != 0)
	{
		pg_atomic_fetch_add_u32(&map->units_used, units);
		map->regions_used += kind <= PAGE_MAP_LARGE_REGION;
	}
	SpinLockRelease(&map->memory_lock.lock);

	if (fresh)
		init_piece(map, kind, result - 1);
	else if (result != 0)
		*(uint32 *) piece_at(map, result - 1) = 0;
	return result;
}

/* Its first four bytes link the free list; what has atomics there is not used any more */
static void
give_piece(PageMap *map, PageMapPiece kind, uint32 piece)
{
	SpinLockAcquire(&map->memory_lock.lock);
	*(uint32 *) piece_at(map, piece - 1) = map->free_piece[kind];
	map->free_piece[kind] = piece;
	pg_atomic_fetch_sub_u32(&map->units_used, piece_units(kind));
	map->regions_used -= kind <= PAGE_MAP_LARGE_REGION;
	SpinLockRelease(&map->memory_lock.lock);
}

static void
give_region(PageMap *map, uint32 slot)
{
	PageMapRegion *region = page_map_region(map, slot - 1);

	/* a barrier: a marker that finds it in a slot again sees that it was given back */
	pg_atomic_fetch_add_u32(&region->flags, PAGE_MAP_REGION_FLAGS + 1);
	give_piece(
		map, region->words == PAGE_MAP_SMALL_WORDS ? PAGE_MAP_SMALL_REGION : PAGE_MAP_LARGE_REGION,
		slot);
}

/* How often it was */
static uint32
times_given(PageMapRegion *region)
{
	return pg_atomic_read_u32(&region->flags) & ~PAGE_MAP_REGION_FLAGS;
}

static bool
files_are_low(PageMap *map)
{
	return map->max_files - pg_atomic_read_u32(&map->files_used) <= map->max_files / LOW_FILES;
}

/* Whether it is time to reclaim what is not needed */
bool
page_map_is_low(PageMap *map)
{
	return files_are_low(map) ||
	       map->units - pg_atomic_read_u32(&map->units_used) <= map->units / LOW_UNITS;
}

/*
 * Sets of files
 */

static void
set_add(PageMap *map, PageMapSet set, uint32 file)
{
	uint32 word = file / 64;

	for (int level = 0; level < 2; level++)
	{
		pg_atomic_uint64 *bits = &map_set(map, set, level)[word];
		uint64 bit = UINT64CONST(1) << (file % 64);

		if ((pg_atomic_read_u64(bits) & bit) == 0)
			(void) pg_atomic_fetch_or_u64(bits, bit);
		file = word;
		word /= 64;
	}
}

static void
set_remove(PageMap *map, PageMapSet set, uint32 file)
{
	uint32 word = file / 64;
	pg_atomic_uint64 *bits = &map_set(map, set, 0)[word];
	uint64 bit = UINT64CONST(1) << (file % 64);
	pg_atomic_uint64 *summary = &map_set(map, set, 1)[word / 64];
	uint64 summary_bit = UINT64CONST(1) << (word % 64);

	if ((pg_atomic_fetch_and_u64(bits, ~bit) & ~bit) != 0)
		return;
	/* who adds one now has set the word before it looks here */
	(void) pg_atomic_fetch_and_u64(summary, ~summary_bit);
	if (pg_atomic_read_u64(bits) != 0)
		(void) pg_atomic_fetch_or_u64(summary, summary_bit);
}

/* The first file of a set at or after one, or PAGE_MAP_END */
static uint32
set_next(PageMap *map, PageMapSet set, uint32 from)
{
	uint32 words[2] = {set_words(map->max_files), 0};
	uint32 word = from / 64;
	uint64 bits;

	if (from >= map->max_files)
		return PAGE_MAP_END;
	words[1] = set_words(words[0]);
	COUNT_STEP();
	bits = pg_atomic_read_u64(&map_set(map, set, 0)[word]) & (~UINT64CONST(0) << (from % 64));
	while (bits == 0)
	{
		uint32 summary = ++word / 64;

		if (word >= words[0])
			return PAGE_MAP_END;
		bits =
			pg_atomic_read_u64(&map_set(map, set, 1)[summary]) & (~UINT64CONST(0) << (word % 64));
		while (bits == 0)
		{
			COUNT_STEP();
			if (++summary >= words[1])
				return PAGE_MAP_END;
			bits = pg_atomic_read_u64(&map_set(map, set, 1)[summary]);
		}
		word = summary * 64 + pg_rightmost_one_pos64(bits);
		COUNT_STEP();
		bits = pg_atomic_read_u64(&map_set(map, set, 0)[word]);
	}
	return word * 64 + pg_rightmost_one_pos64(bits);
}

/* Files that may have marks, in order: begin with 0, and go on with the one after the last */
uint32
page_map_next_marked(PageMap *map, uint32 from)
{
	return set_next(map, PAGE_MAP_MARKED, from);
}

/* Files in which a block was marked beyond what a small region is for, in the same way */
uint32
page_map_next_large(PageMap *map, uint32 from)
{
	return set_next(map, PAGE_MAP_LARGE, from);
}

/* Whether a file is one of those */
bool
page_map_is_large(PageMap *map, uint32 file)
{
	return (pg_atomic_read_u64(&map_set(map, PAGE_MAP_LARGE, 0)[file / 64]) >> (file % 64)) & 1;
}

static bool
has_marks(PageMap *map, PageMapFile *file)
{
	uint32 regions = page_map_file_regions(file);

	for (uint32 number = 0; number < regions; number++)
	{
		uint32 slot = page_map_slot(map, file, number);

		COUNT_STEP();
		if ((slot != 0 && page_map_region_count(page_map_region(map, slot - 1)) > 0) ||
		    page_map_is_whole(file, number))
			return true;
	}
	return false;
}

/* Take a file out of the marked ones if it has no marks.  For who has just found that so */
void
page_map_settle(PageMap *map, uint32 file)
{
	set_remove(map, PAGE_MAP_MARKED, file);
	pg_memory_barrier();
	if (has_marks(map, page_map_file(map, file)))
		set_add(map, PAGE_MAP_MARKED, file);
}

/*
 * Files
 */

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

static slock_t *
bucket_lock(PageMap *map, uint32 bucket)
{
	return &map->bucket_locks[bucket % PAGE_MAP_LOCKS].lock;
}

static slock_t *
file_lock(PageMap *map, uint32 file)
{
	return &map->file_locks[file % PAGE_MAP_LOCKS].lock;
}

/* A path as an entry has it */
static const char *
short_path(PageMap *map, const char *path)
{
	if (map->root_length > 0 && strncmp(path, map->root, map->root_length) == 0)
		return path + map->root_length;
	return path;
}

static bool
has_path(PageMap *map, PageMapFile *file, const char *path)
{
	const char *stored =
		file->long_path == 0 ? file->path : (const char *) piece_at(map, file->long_path - 1);

	return strcmp(stored, short_path(map, path)) == 0;
}

/*
 * The path of a file, into PAGE_MAP_PATH_MAX bytes.  Without a lock: it may be
 * garbage if the entry comes to stand for another file meanwhile, so it is the file's
 * device and inode that decide whether it is the right one.
 */
void
page_map_path(PageMap *map, uint32 file_index, char *path)
{
	PageMapFile *file = page_map_file(map, file_index);
	uint32 long_path = file->long_path;
	const char *stored = long_path == 0 ? file->path : (const char *) piece_at(map, long_path - 1);
	size_t size = long_path == 0 ? PAGE_MAP_SHORT_PATH : PAGE_MAP_PATH_MAX;
	size_t prefix = stored[0] == '/' ? 0 : map->root_length;
	size_t length = strnlen(stored, Min(size, PAGE_MAP_PATH_MAX - prefix) - 1);

	memcpy(path, map->root, prefix);
	memcpy(path + prefix, stored, length);
	path[prefix + length] = '\0';
}

static int
find_in_chain(PageMap *map, uint32 bucket, uint64 device, uint64 inode)
{
	for (uint32 next = map_buckets(map)[bucket]; next != 0;)
	{
		PageMapFile *file = page_map_file(map, next - 1);

		COUNT_STEP();
		if (file->device == device && file->inode == inode)
			return (int) next - 1;
		next = file->next;
	}
	return PAGE_MAP_NO_FILE;
}

/* The entry is nobody's from now on: who has its incarnation can't mark */
static void
unlink_from_chain(PageMap *map, uint32 bucket, uint32 file_index)
{
	uint32 *link = &map_buckets(map)[bucket];

	while (*link != 0 && *link != file_index + 1)
	{
		COUNT_STEP();
		link = &page_map_file(map, *link - 1)->next;
	}
	if (*link != 0)
		*link = page_map_file(map, file_index)->next;
}

/* An entry for a new file, which is in no chain yet; the caller holds the bucket's lock */
static int
new_file(PageMap *map, uint64 device, uint64 inode, const char *path)
{
	const char *stored = short_path(map, path);
	size_t length = strlen(stored);
	uint32 long_path = 0;
	PageMapFile *file = NULL;
	int result = PAGE_MAP_NO_FILE;

	if (length >= PAGE_MAP_SHORT_PATH)
	{
		long_path = take_piece(map, PAGE_MAP_LONG_PATH);
		if (long_path == 0)
			return PAGE_MAP_NO_FILE;
	}
	SpinLockAcquire(&map->memory_lock.lock);
	if (map->free_file != 0)
	{
		result = (int) map->free_file - 1;
		file = page_map_file(map, result);
		map->free_file = file->next;
	}
	else if (pg_atomic_read_u32(&map->files_high) < map->max_files)
	{
		result = (int) pg_atomic_read_u32(&map->files_high);
		file = page_map_file(map, result);
		memset(file, 0, sizeof(PageMapFile));
		pg_atomic_init_u32(&file->incarnation, 0);
		pg_atomic_init_u64(&file->dirtied_when, 0);
		pg_atomic_init_u32(&file->handed, 0);
		pg_atomic_init_u32(&file->wanted, 0);
		pg_atomic_init_u32(&file->fsyncing, 0);
		pg_atomic_init_u32(&file->visit_near, 0);
		pg_atomic_init_u32(&file->recent, 0);
		pg_atomic_init_u64(&file->fsynced_when, 0);
		pg_atomic_init_u32(&file->region, 0);
		pg_atomic_init_u32(&file->slots, 0);
		for (int i = 0; i < PAGE_MAP_FILE_REGION_WORDS; i++)
			pg_atomic_init_u64(&file->whole[i], 0);
		pg_write_barrier();
		pg_atomic_write_u32(&map->files_high, result + 1);
	}
	if (result != PAGE_MAP_NO_FILE)
		pg_atomic_fetch_add_u32(&map->files_used, 1);
	SpinLockRelease(&map->memory_lock.lock);

	if (result == PAGE_MAP_NO_FILE)
	{
		if (long_path != 0)
			give_piece(map, PAGE_MAP_LONG_PATH, long_path);
		return PAGE_MAP_NO_FILE;
	}
	/* a late marker may have left some */
	if (!has_nothing(file))
		(void) release_regions(map, file, result, false);
	file->device = device;
	file->inode = inode;
	memcpy(long_path != 0 ? piece_at(map, long_path - 1) : file->path, stored, length + 1);
	file->long_path = long_path;
	pg_atomic_write_u64(&file->dirtied_when, 0);
	pg_atomic_write_u32(&file->visit_near, 0);
	pg_atomic_write_u32(&file->recent, 0);
	return result;
}

/* Back to the free list; of what had a long path, that as well */
static void
give_file(PageMap *map, uint32 file_index)
{
	PageMapFile *file = page_map_file(map, file_index);
	uint32 long_path = file->long_path;

	file->path[0] = '\0';
	file->long_path = 0;
	if (long_path != 0)
		give_piece(map, PAGE_MAP_LONG_PATH, long_path);
	set_remove(map, PAGE_MAP_MARKED, file_index);
	set_remove(map, PAGE_MAP_LARGE, file_index);
	SpinLockAcquire(&map->memory_lock.lock);
	file->next = map->free_file;
	map->free_file = file_index + 1;
	pg_atomic_fetch_sub_u32(&map->files_used, 1);
	SpinLockRelease(&map->memory_lock.lock);
}

/* Whether a file has no regions, and none that counts as dirty */
static bool
has_nothing(PageMapFile *file)
{
	if (pg_atomic_read_u32(&file->region) != 0 || pg_atomic_read_u32(&file->slots) != 0)
		return false;
	for (int i = 0; i < PAGE_MAP_FILE_REGION_WORDS; i++)
	{
		if (pg_atomic_read_u64(&file->whole[i]) != 0)
			return false;
	}
	return true;
}

/* An entry that is in no chain any more and free by its incarnation */
static void
dispose_file(PageMap *map, uint32 file_index)
{
	(void) release_regions(map, page_map_file(map, file_index), file_index, false);
	give_file(map, file_index);
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
	uint32 bucket = bucket_of(map, device, inode);
	int gone = PAGE_MAP_NO_FILE;
	int result;

	if (strlen(path) >= PAGE_MAP_PATH_MAX)
	{
		pg_atomic_fetch_add_u64(&map->full_files.value, 1);
		return PAGE_MAP_NO_FILE;
	}

	SpinLockAcquire(bucket_lock(map, bucket));
	result = find_in_chain(map, bucket, device, inode);
	if (result != PAGE_MAP_NO_FILE && !has_path(map, page_map_file(map, result), path))
	{
		gone = result;
		unlink_from_chain(map, bucket, gone);
		pg_atomic_fetch_add_u32(&page_map_file(map, gone)->incarnation, 1);
		result = PAGE_MAP_NO_FILE;
	}
	if (result != PAGE_MAP_NO_FILE)
		*incarnation = pg_atomic_read_u32(&page_map_file(map, result)->incarnation);
	else
	{
		result = new_file(map, device, inode, path);
		if (result != PAGE_MAP_NO_FILE)
		{
			PageMapFile *file = page_map_file(map, result);

			file->next = map_buckets(map)[bucket];
			map_buckets(map)[bucket] = result + 1;
			*incarnation = pg_atomic_fetch_add_u32(&file->incarnation, 1) + 1;
		}
	}
	SpinLockRelease(bucket_lock(map, bucket));

	if (gone != PAGE_MAP_NO_FILE)
		dispose_file(map, gone);
	if (result == PAGE_MAP_NO_FILE)
		pg_atomic_fetch_add_u64(&map->full_files.value, 1);
	return result;
}

/* Index of the entry for a file that is tracked, or PAGE_MAP_NO_FILE */
int
page_map_find_file(PageMap *map, uint64 device, uint64 inode, uint32 *incarnation)
{
	uint32 bucket = bucket_of(map, device, inode);
	int result;

	SpinLockAcquire(bucket_lock(map, bucket));
	result = find_in_chain(map, bucket, device, inode);
	if (result != PAGE_MAP_NO_FILE)
		*incarnation = pg_atomic_read_u32(&page_map_file(map, result)->incarnation);
	SpinLockRelease(bucket_lock(map, bucket));
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

/* Drop a file that is gone, with all that is marked in it */
void
page_map_forget_file(PageMap *map, uint32 file_index, uint32 incarnation)
{
	PageMapFile *file = page_map_file(map, file_index);
	uint32 bucket;
	bool ours;

	pg_read_barrier();
	/* another file's if the entry was given away, which its incarnation tells */
	bucket = bucket_of(map, file->device, file->inode);
	SpinLockAcquire(bucket_lock(map, bucket));
	ours = (incarnation & 1) && pg_atomic_read_u32(&file->incarnation) == incarnation;
	if (ours)
	{
		unlink_from_chain(map, bucket, file_index);
		pg_atomic_fetch_add_u32(&file->incarnation, 1);
	}
	SpinLockRelease(bucket_lock(map, bucket));
	if (ours)
		dispose_file(map, file_index);
}

/*
 * Regions
 */

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
	pg_atomic_fetch_and_u32(&region->flags, ~PAGE_MAP_REGION_FLAGS);
	clear_age(region);
}

static bool
region_is_empty(PageMapRegion *region)
{
	for (uint32 i = 0; i < 2 * region->words; i++)
	{
		if (pg_atomic_read_u64(&region->dirty[i]) != 0)
			return false;
	}
	return true;
}

/* Give a region of a file back to the free list */
static bool
release_region(PageMap *map, PageMapFile *file, uint32 file_index, uint32 number, bool only_clean)
{
	uint32 slot = page_map_slot(map, file, number);
	PageMapRegion *region = NULL;
	pg_atomic_uint32 *where;
	uint32 slots;

	COUNT_STEP();
	if (slot == 0 || (only_clean && page_map_region_count(page_map_region(map, slot - 1)) > 0))
		return false;

	SpinLockAcquire(file_lock(map, file_index));
	slots = pg_atomic_read_u32(&file->slots);
	where = number == 0 ? &file->region :
	        slots == 0  ? NULL :
	                      &page_map_slots(map, slots - 1)->region[number];
	slot = where == NULL ? 0 : pg_atomic_read_u32(where);
	if (slot != 0)
	{
		region = page_map_region(map, slot - 1);
		pg_atomic_write_u32(where, 0);
		pg_memory_barrier(); /* markers see the slot go before we look or empty it */

		/*
		 * The bits, not the counts: a marker sets the bit first.  One that
		 * finished before the slot went is seen here; one that did not
		 * sees that the slot went.
		 */
		if (only_clean && !region_is_empty(region))
		{
			pg_atomic_write_u32(where, slot);
			slot = 0;
		}
	}
	SpinLockRelease(file_lock(map, file_index));
	if (slot == 0)
		return false;

	if (only_clean)
	{
		pg_atomic_fetch_and_u32(&region->flags, ~PAGE_MAP_REGION_FLAGS);
		clear_age(region);
	}
	else
		discard_region(map, region);
	give_region(map, slot);
	return true;
}

/* Those of a file, and where it notes them; returns how many there were */
static uint32
release_regions(PageMap *map, PageMapFile *file, uint32 file_index, bool only_clean)
{
	uint32 released = 0;
	uint32 slots;

	released += release_region(map, file, file_index, 0, only_clean);
	if (pg_atomic_read_u32(&file->slots) != 0)
	{
		bool empty = true;

		for (uint32 number = 1; number < PAGE_MAP_FILE_REGIONS; number++)
		{
			released += release_region(map, file, file_index, number, only_clean);
			empty = empty && page_map_slot(map, file, number) == 0;
		}
		if (empty)
		{
			SpinLockAcquire(file_lock(map, file_index));
			slots = pg_atomic_read_u32(&file->slots);
			for (uint32 number = 1; slots != 0 && number < PAGE_MAP_FILE_REGIONS; number++)
			{
				if (page_map_slot(map, file, number) != 0)
					slots = 0;
			}
			if (slots != 0)
				pg_atomic_write_u32(&file->slots, 0);
			SpinLockRelease(file_lock(map, file_index));
			if (slots != 0)
				give_piece(map, PAGE_MAP_FURTHER_SLOTS, slots);
		}
	}
	if (!only_clean)
	{
		for (int i = 0; i < PAGE_MAP_FILE_REGION_WORDS; i++)
			pg_atomic_write_u64(&file->whole[i], 0);
	}
	return released;
}

/* Free the entry of a file that has no regions, unless somebody adds one */
static bool
reclaim_file(PageMap *map, uint32 file_index)
{
	PageMapFile *file = page_map_file(map, file_index);
	uint32 incarnation = pg_atomic_read_u32(&file->incarnation);
	uint32 bucket;
	bool ours;

	if ((incarnation & 1) == 0 || pg_atomic_read_u32(&file->handed) == incarnation)
		return false;
	pg_read_barrier();
	bucket = bucket_of(map, file->device, file->inode);
	SpinLockAcquire(bucket_lock(map, bucket));
	SpinLockAcquire(file_lock(map, file_index));
	ours = pg_atomic_read_u32(&file->incarnation) == incarnation;
	if (ours)
	{
		/* first: a marker that we don't see below sees that */
		pg_atomic_fetch_add_u32(&file->incarnation, 1);
		ours = has_nothing(file);
		if (!ours)
			pg_atomic_fetch_sub_u32(&file->incarnation, 1);
	}
	SpinLockRelease(file_lock(map, file_index));
	if (ours)
		unlink_from_chain(map, bucket, file_index);
	SpinLockRelease(bucket_lock(map, bucket));
	if (ours)
		give_file(map, file_index);
	return ours;
}

/*
 * Free what stands for clean pages only, going on with the file after the one that
 * it ended with: regions with no page marked, and if entries of files are short, files
 * without regions, unless they have been marked since it came by last.  Returns
 * the number of regions and files freed.  For one process at a time: the worker.
 */
uint32
page_map_reclaim(PageMap *map, uint32 max_steps)
{
	uint32 released = 0;
	uint32 high = pg_atomic_read_u32(&map->files_high);
	uint32 visited = 0;

	for (uint32 steps = 0; steps < max_steps && visited < high; visited++)
	{
		uint32 f = map->reclaim_next >= high ? 0 : map->reclaim_next;
		PageMapFile *file = page_map_file(map, f);

		map->reclaim_next = f + 1;
		steps += pg_atomic_read_u32(&file->slots) != 0 ? SLOTS_STEPS : 1;
		COUNT_STEP();
		if ((pg_atomic_read_u32(&file->incarnation) & 1) == 0)
			continue;
		released += release_regions(map, file, f, true);
		if (pg_atomic_read_u32(&file->recent) != 0)
			pg_atomic_write_u32(&file->recent, 0);
		else if (files_are_low(map))
			released += reclaim_file(map, f);
	}
	return released;
}

/* Where the index of a region belongs; NULL if there is no room for it.  The caller holds the file's lock */
static pg_atomic_uint32 *
slot_to_fill(PageMap *map, PageMapFile *file, uint32 number)
{
	uint32 slots;

	if (number == 0)
		return &file->region;
	slots = pg_atomic_read_u32(&file->slots);
	if (slots == 0)
	{
		slots = take_piece(map, PAGE_MAP_FURTHER_SLOTS);
		if (slots == 0)
			return NULL;
		pg_write_barrier();
		pg_atomic_write_u32(&file->slots, slots);
	}
	return &page_map_slots(map, slots - 1)->region[number];
}

/* A large region takes a small one's place, and its marks; the caller holds the file's lock */
static void
grow_region(PageMap *map, pg_atomic_uint32 *where, PageMapRegion *small, uint32 large_slot)
{
	PageMapRegion *large = page_map_region(map, large_slot - 1);
	uint32 small_slot = pg_atomic_read_u32(where);
	uint64 since = pg_atomic_read_u64(&small->since);

	pg_atomic_fetch_or_u32(&large->flags,
	                       pg_atomic_read_u32(&small->flags) & PAGE_MAP_REGION_FLAGS);
	if (since != 0)
		pg_atomic_write_u64(&large->since, since);
	pg_write_barrier();
	pg_atomic_write_u32(where, large_slot);
	pg_memory_barrier(); /* who marks in the small one after this sees that it went */

	for (int g = 0; g < 2; g++)
	{
		uint32 moved = 0;
		uint32 added = 0;

		for (uint32 i = 0; i < small->words; i++)
		{
			uint64 word = pg_atomic_exchange_u64(page_map_word(small, g, i), 0);

			moved += pg_popcount64(word);
			added +=
				pg_popcount64(word & ~pg_atomic_fetch_or_u64(page_map_word(large, g, i), word));
		}
		pg_atomic_fetch_add_u32(&large->count[g], added);
		pg_atomic_fetch_sub_u32(&small->count[g], moved);
		if (moved > added)
			pg_atomic_fetch_sub_u64(&map->unflushed[g].value, moved - added);
	}
	if (page_map_region_count(large) > 0 && pg_atomic_read_u64(&large->since) == 0)
		pg_atomic_write_u64(&large->since, page_map_now_ms());
	else if (page_map_region_count(large) == 0)
		clear_age(large);
	pg_atomic_fetch_and_u32(&small->flags, ~PAGE_MAP_REGION_FLAGS);
	clear_age(small);
	give_region(map, small_slot);
}

/*
 * The region to mark in up to block end, added or made larger if need be; NULL if
 * the map is full, or the entry is another file's.
 */
static PageMapRegion *
region_for_mark(PageMap *map, PageMapFile *file, uint32 file_index, uint32 incarnation,
                uint32 number, uint32 end, uint32 *slot_value)
{
	uint32 slot = page_map_slot(map, file, number);
	bool may_be_small = number == 0 && end <= PAGE_MAP_SMALL_WORDS * 64;
	bool taken = false;
	bool large = false;

	if (slot == 0 || (!may_be_small && page_map_region(map, slot - 1)->words * 64 < end))
	{
		pg_atomic_uint32 *where = NULL;

		/* wholly dirty already; who takes that after we saw it begins to write after our write */
		if (page_map_is_whole(file, number))
			return NULL;
		SpinLockAcquire(file_lock(map, file_index));
		if (pg_atomic_read_u32(&file->incarnation) == incarnation)
			where = slot_to_fill(map, file, number);
		slot = where ? pg_atomic_read_u32(where) : 0;
		if (where && (slot == 0 || page_map_region(map, slot - 1)->words * 64 < end))
		{
			uint32 added =
				take_piece(map, may_be_small ? PAGE_MAP_SMALL_REGION : PAGE_MAP_LARGE_REGION);

			large = !may_be_small;
			taken = added != 0;
			if (taken)
				pg_atomic_write_u32(&page_map_region(map, added - 1)->file, file_index);
			if (taken && slot != 0)
				grow_region(map, where, page_map_region(map, slot - 1), added);
			else if (taken)
			{
				pg_write_barrier();
				pg_atomic_write_u32(where, added);
			}
			slot = added;
		}
		SpinLockRelease(file_lock(map, file_index));
		if (large)
			set_add(map, PAGE_MAP_LARGE, file_index);
		/* it can have a late marker's bits; and what moved was in neither for a moment */
		if (taken)
			set_add(map, PAGE_MAP_MARKED, file_index);
		if (slot == 0)
			return NULL;
	}
	*slot_value = slot;
	return page_map_region(map, slot - 1);
}

static void
mark_in_region(PageMap *map, uint32 file_index, PageMapRegion *region, uint32 first, uint32 count,
               uint64 now_ms)
{
	int generation = page_map_new_generation(map);
	uint32 added = 0;

	while (count > 0)
	{
		uint32 word = first / 64;
		uint32 bit = first % 64;
		uint32 n = Min(count, 64 - bit);
		uint64 mask = (n == 64 ? ~UINT64CONST(0) : (UINT64CONST(1) << n) - 1) << bit;
		pg_atomic_uint64 *dirty = page_map_word(region, generation, word);

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
		pg_atomic_fetch_add_u64(&map->unflushed[generation].value, added);
		if (pg_atomic_read_u64(&region->since) == 0)
			pg_atomic_write_u64(&region->since, now_ms);
		/* after the counts, with the barrier that adding to them is: see page_map_settle */
		set_add(map, PAGE_MAP_MARKED, file_index);
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
	if (pg_atomic_read_u32(&file->recent) == 0)
		pg_atomic_write_u32(&file->recent, 1);

	while (nblocks > 0)
	{
		uint32 number = block / PAGE_MAP_REGION_BLOCKS;
		uint32 first = block % PAGE_MAP_REGION_BLOCKS;
		uint32 n = Min(nblocks, PAGE_MAP_REGION_BLOCKS - first);
		uint32 slot = 0;
		bool marked = false;

		if (number >= PAGE_MAP_FILE_REGIONS)
			break; /* not a segment of this server's making */
		while (!marked)
		{
			PageMapRegion *region =
				region_for_mark(map, file, file_index, incarnation, number, first + n, &slot);
			uint32 given;

			if (region == NULL)
			{
				uint64 bit = UINT64CONST(1) << (number % 64);
				pg_atomic_uint64 *whole = &file->whole[number / 64];

				if (pg_atomic_read_u32(&file->incarnation) != incarnation)
					return false;
				if ((pg_atomic_read_u64(whole) & bit) == 0 &&
				    (pg_atomic_fetch_or_u64(whole, bit) & bit) == 0)
				{
					pg_atomic_fetch_add_u64(&map->full_regions.value, 1);
					set_add(map, PAGE_MAP_MARKED, file_index);
				}
				break;
			}
			given = times_given(region);
			pg_read_barrier();
			mark_in_region(map, file_index, region, first, n, now_ms);
			/* the atomic OR is a barrier: a reclaim that missed our bit is seen */
			marked = page_map_slot(map, file, number) == slot;
			pg_read_barrier();
			marked = marked && times_given(region) == given;
			if (!marked)
				set_add(map, PAGE_MAP_MARKED, pg_atomic_read_u32(&region->file));
		}
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

	memset(bits, 0, sizeof(*bits));
	for (uint32 i = 0; i < region->words; i++)
	{
		pg_atomic_uint64 *dirty = page_map_word(region, generation, i);

		if (pg_atomic_read_u64(dirty) != 0)
		{
			bits->word[i] = pg_atomic_exchange_u64(dirty, 0);
			taken += pg_popcount64(bits->word[i]);
		}
	}
	if (taken > 0)
	{
		pg_atomic_fetch_sub_u32(&region->count[generation], taken);
		pg_atomic_fetch_sub_u64(&map->unflushed[generation].value, taken);
	}
	if (page_map_region_count(region) == 0)
		clear_age(region);
	return taken;
}

/*
 * Somebody else writes these blocks of a file's small region back: take their marks,
 * of both generations.  Returns how many there were.
 */
uint32
page_map_unmark(PageMap *map, uint32 file, BlockNumber block, uint32 nblocks)
{
	uint32 slot = page_map_slot(map, page_map_file(map, file), 0);
	PageMapRegion *region = slot == 0 ? NULL : page_map_region(map, slot - 1);
	uint32 all = 0;

	if (region == NULL || region->words != PAGE_MAP_SMALL_WORDS)
		return 0;
	for (int g = 0; g < 2; g++)
	{
		uint32 taken = 0;

		for (uint32 i = 0; i < PAGE_MAP_SMALL_WORDS; i++)
		{
			uint64 mask = 0;

			for (uint32 bit = 0; bit < 64; bit++)
			{
				if (i * 64 + bit >= block && i * 64 + bit - block < nblocks)
					mask |= UINT64CONST(1) << bit;
			}
			if ((pg_atomic_read_u64(page_map_word(region, g, i)) & mask) != 0)
				taken += pg_popcount64(mask &
				                       pg_atomic_fetch_and_u64(page_map_word(region, g, i), ~mask));
		}
		if (taken > 0)
		{
			pg_atomic_fetch_sub_u32(&region->count[g], taken);
			pg_atomic_fetch_sub_u64(&map->unflushed[g].value, taken);
			all += taken;
		}
	}
	if (all > 0 && page_map_region_count(region) == 0)
	{
		pg_atomic_fetch_and_u32(&region->flags, ~PAGE_MAP_REGION_WINDOW);
		clear_age(region);
	}
	return all;
}

/*
 * Move what a region has marked in one generation to the other.  The caller
 * holds the file's lock: what is in neither for a moment would be left behind if a
 * larger region took this one's place just then.
 */
static void
move_generation(PageMap *map, PageMapRegion *region, int from)
{
	uint32 moved = 0;
	uint32 added = 0;

	for (uint32 i = 0; i < region->words; i++)
	{
		uint64 word;

		if (pg_atomic_read_u64(page_map_word(region, from, i)) == 0)
			continue;
		word = pg_atomic_exchange_u64(page_map_word(region, from, i), 0);
		moved += pg_popcount64(word);
		added +=
			pg_popcount64(word & ~pg_atomic_fetch_or_u64(page_map_word(region, 1 - from, i), word));
	}
	if (added > 0)
	{
		pg_atomic_fetch_add_u32(&region->count[1 - from], added);
		pg_atomic_fetch_add_u64(&map->unflushed[1 - from].value, added);
	}
	if (moved > 0)
	{
		pg_atomic_fetch_sub_u32(&region->count[from], moved);
		pg_atomic_fetch_sub_u64(&map->unflushed[from].value, moved);

		/* clear_age can have read one count before they moved, and the other one after */
		if (page_map_region_count(region) > 0 && pg_atomic_read_u64(&region->since) == 0)
			pg_atomic_write_u64(&region->since, page_map_now_ms());
	}
}

/*
 * What is marked now becomes the old generation, together with what is left
 * of the one before; writes from now on are marked in the new one.  For one
 * process at a time: the checkpointer.  As a rule nothing is left, and nothing is
 * walked; if there is, the files that have marks are.
 */
void
page_map_swap_generation(PageMap *map)
{
	int old = 1 - page_map_new_generation(map);
	uint32 f = 0;

	while (page_map_unflushed(map, old) > 0 && (f = page_map_next_marked(map, f)) != PAGE_MAP_END)
	{
		PageMapFile *file = page_map_file(map, f);
		uint32 regions = page_map_file_regions(file);

		for (uint32 number = 0; number < regions; number++)
		{
			uint32 slot = page_map_slot(map, file, number);

			COUNT_STEP();
			if (slot == 0 || pg_atomic_read_u32(&page_map_region(map, slot - 1)->count[old]) == 0)
				continue;
			SpinLockAcquire(file_lock(map, f));
			slot = page_map_slot(map, file, number);
			if (slot != 0)
				move_generation(map, page_map_region(map, slot - 1), old);
			SpinLockRelease(file_lock(map, f));
		}
		/* none of both: it has been flushed since somebody looked */
		page_map_settle(map, f);
		f++;
	}
	pg_atomic_fetch_add_u32(&map->generation, 1);
}
