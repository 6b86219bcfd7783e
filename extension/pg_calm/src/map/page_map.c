/*-------------------------------------------------------------------------
 *
 * page_map.c
 *	  Pages written to the kernel but not yet flushed to the device.
 *
 * See page_map.h for the invariants.  There are three kinds of spinlocks, taken in this order:
 * 1. of a bucket: hash chains, and who an entry stands for;
 * 2. of a file: which regions it has;
 * 3. of the memory: what is free.
 * Each is held for a bounded number of instructions: one chain, one region, one free list.
 *
 * A file that goes, or that is reclaimed because room is short and nothing is marked in
 * it, is taken out of its chain, and its incarnation changes, before its regions are given
 * back one by one.  A region is added only under the file's lock and to the incarnation
 * that the marker knows, so none comes after that.  A marker looks at the incarnation
 * again after it has set its bits, and tracks the file and marks anew if it changed.  So it can
 * leave a spurious bit in a region that has become another file's: a needless flush, no more.
 *
 * Who looks for marks walks the set of files that may have any.  A marker adds its file after
 * it has counted its marks, if it isn't there; page_map_settle removes a file, then looks at
 * the counts, and adds it again if there are any.  Both are full barriers, so one sees the other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "page_map.h"
#include "port/pg_bitutils.h"

/* Part of files or regions that is left when a reclaim begins */
#define LOW_PART 16

static uint32
set_words(uint32 files)
{
	return (files + 63) / 64;
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

/* The set of files that may have marks */
static pg_atomic_uint64 *
map_marked(PageMap *map)
{
	return (pg_atomic_uint64 *) ((char *) map_buckets(map) +
	                             MAXALIGN((Size) map->num_buckets * sizeof(uint32)));
}

static PageMapRegion *
map_regions(PageMap *map)
{
	return (PageMapRegion *) (map_marked(map) + set_words(map->max_files));
}

/* How many files, buckets of their hash table and regions fit in a budget of bytes */
static void
size_for(Size budget, uint32 *files, uint32 *buckets, uint32 *regions)
{
	Size for_files = budget / 8 * 3; /* the rest is for regions */

	*files = (uint32) Max(for_files / (sizeof(PageMapFile) + 2 * sizeof(uint32)), 16);
	*regions = (uint32) Max((budget - for_files) / sizeof(PageMapRegion), 64);
	/* chains have one or two on average */
	for (*buckets = 64; *buckets * 2 <= *files;)
		*buckets *= 2;
}

/* Bytes of shared memory that a map of this budget takes */
Size
page_map_size(Size budget)
{
	uint32 files;
	uint32 buckets;
	uint32 regions;

	size_for(budget, &files, &buckets, &regions);
	return MAXALIGN(sizeof(PageMap)) + MAXALIGN((Size) files * sizeof(PageMapFile)) +
	       MAXALIGN((Size) buckets * sizeof(uint32)) +
	       (Size) set_words(files) * sizeof(pg_atomic_uint64) +
	       (Size) regions * sizeof(PageMapRegion);
}

/*
 * Make an empty map in page_map_size(budget) bytes of memory.  root is the
 * directory that most files are below of, as the kernel names it.
 */
void
page_map_init(PageMap *map, Size budget, const char *root)
{
	size_t length = strlen(root);

	memset(map, 0, sizeof(PageMap));
	size_for(budget, &map->max_files, &map->num_buckets, &map->max_regions);
	if (length > 0 && length + 2 < sizeof(map->root))
	{
		memcpy(map->root, root, length);
		if (root[length - 1] != '/')
			map->root[length++] = '/';
		map->root_length = (uint32) length;
	}
	for (int i = 0; i < PAGE_MAP_LOCKS; i++)
	{
		SpinLockInit(&map->bucket_locks[i].lock);
		SpinLockInit(&map->file_locks[i].lock);
	}
	SpinLockInit(&map->memory_lock.lock);
	memset(map_buckets(map), 0, map->num_buckets * sizeof(uint32));
	memset(map_marked(map), 0, set_words(map->max_files) * sizeof(uint64));
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

/* Whether it is time to reclaim what is not needed */
bool
page_map_is_low(PageMap *map)
{
	return map->max_files - pg_atomic_read_u32(&map->files_used) <= map->max_files / LOW_PART ||
	       map->max_regions - pg_atomic_read_u32(&map->regions_used) <= map->max_regions / LOW_PART;
}

static void
set_add(PageMap *map, uint32 file)
{
	pg_atomic_uint64 *word = &map_marked(map)[file / 64];
	uint64 bit = UINT64CONST(1) << (file % 64);

	if ((pg_atomic_read_u64(word) & bit) == 0)
		(void) pg_atomic_fetch_or_u64(word, bit);
}

static void
set_remove(PageMap *map, uint32 file)
{
	(void) pg_atomic_fetch_and_u64(&map_marked(map)[file / 64], ~(UINT64CONST(1) << (file % 64)));
}

/* Files that may have marks, in order: begin with 0, and go on with the one after the last */
uint32
page_map_next_marked(PageMap *map, uint32 from)
{
	if (from >= map->max_files)
		return PAGE_MAP_END;
	for (uint32 word = from / 64; word < set_words(map->max_files); word++)
	{
		uint64 bits = pg_atomic_read_u64(&map_marked(map)[word]);

		if (word == from / 64)
			bits &= ~UINT64CONST(0) << (from % 64);
		if (bits != 0)
			return word * 64 + pg_rightmost_one_pos64(bits);
	}
	return PAGE_MAP_END;
}

static bool
has_marks(PageMap *map, PageMapFile *file)
{
	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
	{
		PageMapRegion *region = page_map_region_of(map, file, number);

		if (region && pg_atomic_read_u32(&region->count) != 0)
			return true;
	}
	return false;
}

/* Take a file out of the marked ones if it has no marks.  For who has just found that so */
void
page_map_settle(PageMap *map, uint32 file)
{
	set_remove(map, file);
	pg_memory_barrier();
	if (has_marks(map, page_map_file(map, file)))
		set_add(map, file);
}

static uint32
bucket_of(PageMap *map, uint64 device, uint64 inode)
{
	return murmurhash32((uint32) (inode ^ inode >> 32) ^ murmurhash32((uint32) device)) &
	       (map->num_buckets - 1);
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

/* A path as an entry has it: relative to the data directory, if it is below it */
const char *
page_map_short_path(PageMap *map, const char *path)
{
	if (map->root_length > 0 && strncmp(path, map->root, map->root_length) == 0)
		return path + map->root_length;
	return path;
}

/*
 * The path of a file, into PAGE_MAP_FULL_PATH bytes.  Without a lock: it may be
 * garbage if the entry comes to stand for another file meanwhile, so it is the file's
 * device and inode that decide whether it is the right one.
 */
void
page_map_path(PageMap *map, uint32 file_index, char *path)
{
	const char *stored = page_map_file(map, file_index)->path;
	size_t prefix = stored[0] == '/' ? 0 : map->root_length;
	size_t length = strnlen(stored, PAGE_MAP_PATH_MAX - 1);

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

		if (file->device == device && file->inode == inode)
			return (int) next - 1;
		next = file->next;
	}
	return PAGE_MAP_NO_FILE;
}

static void
unlink_from_chain(PageMap *map, uint32 bucket, uint32 file_index)
{
	uint32 *link = &map_buckets(map)[bucket];

	while (*link != 0 && *link != file_index + 1)
		link = &page_map_file(map, *link - 1)->next;
	if (*link != 0)
		*link = page_map_file(map, file_index)->next;
}

/* An entry for a new file, which is in no chain yet; the caller holds the bucket's lock */
static int
new_file(PageMap *map, uint64 device, uint64 inode, const char *path)
{
	PageMapFile *file = NULL;
	int result = PAGE_MAP_NO_FILE;

	SpinLockAcquire(&map->memory_lock.lock);
	if (map->free_file != 0)
	{
		result = (int) map->free_file - 1;
		file = page_map_file(map, result);
		map->free_file = file->next;
	}
	else if (map->files_high < map->max_files)
	{
		result = (int) map->files_high++;
		file = page_map_file(map, result);
		memset(file, 0, sizeof(PageMapFile));
	}
	SpinLockRelease(&map->memory_lock.lock);
	if (file == NULL)
		return PAGE_MAP_NO_FILE;

	pg_atomic_fetch_add_u32(&map->files_used, 1);
	file->device = device;
	file->inode = inode;
	memcpy(file->path, page_map_short_path(map, path), strlen(page_map_short_path(map, path)) + 1);
	pg_atomic_write_u32(&file->recent, 1);
	return result;
}

/* Give back an entry that is in no chain any more, and free by its incarnation, with its regions */
static void
dispose_file(PageMap *map, uint32 file_index)
{
	PageMapFile *file = page_map_file(map, file_index);

	/* a marker that has seen the entry in use has added his region when we get this */
	SpinLockAcquire(file_lock(map, file_index));
	SpinLockRelease(file_lock(map, file_index));
	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
	{
		PageMapRegion *region;
		PageMapBits bits;
		uint32 slot = pg_atomic_read_u32(&file->region[number]);

		if (slot == 0)
			continue;
		pg_atomic_write_u32(&file->region[number], 0);
		region = page_map_region(map, slot - 1);
		(void) page_map_take(map, region, &bits);
		pg_atomic_write_u32(&region->passed, 0);
		SpinLockAcquire(&map->memory_lock.lock);
		region->next_free = map->free_region;
		map->free_region = slot;
		SpinLockRelease(&map->memory_lock.lock);
		pg_atomic_fetch_sub_u32(&map->regions_used, 1);
	}
	set_remove(map, file_index);
	SpinLockAcquire(&map->memory_lock.lock);
	file->next = map->free_file;
	map->free_file = file_index + 1;
	SpinLockRelease(&map->memory_lock.lock);
	pg_atomic_fetch_sub_u32(&map->files_used, 1);
}

/*
 * Free the entry of a file, with all that is marked in it, unless it stands for another one by
 * now or, with only_clean, has marks.
 */
bool
page_map_retire_file(PageMap *map, uint32 file_index, uint32 incarnation, bool only_clean)
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
		/* first, with a barrier: a marker whose bits we don't see below sees that */
		pg_atomic_fetch_add_u32(&file->incarnation, 1);
		if (only_clean && (has_marks(map, file) || page_map_being_fsynced(map, file_index)))
		{
			/* not as it was: a marker that saw it free has marked nothing, and is to know that */
			pg_atomic_fetch_add_u32(&file->incarnation, 1);
			ours = false;
		}
		else
			unlink_from_chain(map, bucket, file_index);
	}
	SpinLockRelease(bucket_lock(map, bucket));
	if (ours)
		dispose_file(map, file_index);
	return ours;
}

/* Whether an entry has room for a path */
bool
page_map_keeps_path(PageMap *map, const char *path)
{
	return strlen(page_map_short_path(map, path)) < PAGE_MAP_PATH_MAX;
}

/*
 * Index of the entry for a file, added if need be; PAGE_MAP_NO_FILE if the map has no room, or
 * none for its path.  *incarnation is to be handed to page_map_mark.
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
	int result = PAGE_MAP_NO_FILE;

	if (page_map_keeps_path(map, path))
	{
		SpinLockAcquire(bucket_lock(map, bucket));
		result = find_in_chain(map, bucket, device, inode);
		if (result != PAGE_MAP_NO_FILE &&
		    strcmp(page_map_file(map, result)->path, page_map_short_path(map, path)) != 0)
		{
			gone = result;
			unlink_from_chain(map, bucket, gone);
			pg_atomic_fetch_add_u32(&page_map_file(map, gone)->incarnation, 1);
			result = PAGE_MAP_NO_FILE;
		}
		if (result != PAGE_MAP_NO_FILE)
			*incarnation = pg_atomic_read_u32(&page_map_file(map, result)->incarnation);
		else if ((result = new_file(map, device, inode, path)) != PAGE_MAP_NO_FILE)
		{
			PageMapFile *file = page_map_file(map, result);

			file->next = map_buckets(map)[bucket];
			map_buckets(map)[bucket] = result + 1;
			*incarnation = pg_atomic_fetch_add_u32(&file->incarnation, 1) + 1;
		}
		SpinLockRelease(bucket_lock(map, bucket));
	}
	if (gone != PAGE_MAP_NO_FILE)
		dispose_file(map, gone);
	if (result == PAGE_MAP_NO_FILE)
		pg_atomic_fetch_add_u64(&map->full.value, 1);
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
	if (file != PAGE_MAP_NO_FILE)
		pg_atomic_fetch_sub_u32(&page_map_file(map, file)->fsyncing, 1);
}

/* Whether a file is being fsynced, by whomever */
bool
page_map_being_fsynced(PageMap *map, uint32 file)
{
	return pg_atomic_read_u32(&page_map_file(map, file)->fsyncing) > 0;
}

/*
 * Free files in which nothing is marked, nor was since this came by last, going on after the one
 * that it ended with.  Returns how many.  For one process at a time: the worker.
 */
uint32
page_map_reclaim(PageMap *map, uint32 max_files)
{
	uint32 released = 0;
	uint32 high;

	/* who takes an entry that was never used sets it up meanwhile */
	SpinLockAcquire(&map->memory_lock.lock);
	high = map->files_high;
	SpinLockRelease(&map->memory_lock.lock);
	for (uint32 i = 0; i < Min(max_files, high); i++)
	{
		uint32 f = map->reclaim_next % high;
		PageMapFile *file = page_map_file(map, f);
		uint32 incarnation = pg_atomic_read_u32(&file->incarnation);

		map->reclaim_next = f + 1;
		if ((incarnation & 1) == 0)
			continue;
		if (pg_atomic_exchange_u32(&file->recent, 0) == 0 && !has_marks(map, file))
			released += page_map_retire_file(map, f, incarnation, true);
	}
	return released;
}

/* A region that nobody has, as its last owner left it: index + 1, or 0 */
static uint32
take_region(PageMap *map)
{
	uint32 result;
	bool fresh = false;

	SpinLockAcquire(&map->memory_lock.lock);
	result = map->free_region;
	if (result != 0)
		map->free_region = page_map_region(map, result - 1)->next_free;
	else if (map->regions_high < map->max_regions)
	{
		result = ++map->regions_high;
		fresh = true;
	}
	SpinLockRelease(&map->memory_lock.lock);
	if (result == 0)
		return 0;

	pg_atomic_fetch_add_u32(&map->regions_used, 1);
	if (fresh)
	{
		memset(page_map_region(map, result - 1), 0, sizeof(PageMapRegion));
		pg_write_barrier();
	}
	return result;
}

/* The region to mark in, index + 1, added if need be; 0 if the map is full or the entry another file's */
static uint32
region_for_mark(PageMap *map, uint32 file_index, uint32 incarnation, uint32 number)
{
	PageMapFile *file = page_map_file(map, file_index);
	uint32 slot = pg_atomic_read_u32(&file->region[number]);

	if (slot != 0)
		return slot;
	SpinLockAcquire(file_lock(map, file_index));
	if (pg_atomic_read_u32(&file->incarnation) == incarnation)
	{
		slot = pg_atomic_read_u32(&file->region[number]);
		if (slot == 0 && (slot = take_region(map)) != 0)
			pg_atomic_write_u32(&file->region[number], slot);
	}
	SpinLockRelease(file_lock(map, file_index));
	/* it can have a late marker's bits */
	if (slot != 0)
		set_add(map, file_index);
	return slot;
}

static void
mark_in_region(PageMap *map, uint32 file_index, PageMapRegion *region, uint32 first, uint32 count,
               uint64 now_ms)
{
	uint32 added = 0;

	while (count > 0)
	{
		uint32 bit = first % 64;
		uint32 n = Min(count, 64 - bit);
		uint64 mask = (n == 64 ? ~UINT64CONST(0) : (UINT64CONST(1) << n) - 1) << bit;
		pg_atomic_uint64 *dirty = &region->dirty[first / 64];

		/*
		 * A page that is marked already needs no write to shared memory: who
		 * takes the bit after we saw it starts writeback after our write.
		 */
		if ((pg_atomic_read_u64(dirty) & mask) != mask)
			added += pg_popcount64(mask & ~pg_atomic_fetch_or_u64(dirty, mask));
		first += n;
		count -= n;
	}
	if (added > 0)
	{
		pg_atomic_fetch_add_u32(&region->count, added);
		pg_atomic_fetch_add_u64(&map->unflushed.value, added);
		if (pg_atomic_read_u64(&region->since) == 0)
			pg_atomic_write_u64(&region->since, now_ms);
		/* after the counts, with the barrier that adding to them is: see page_map_settle */
		set_add(map, file_index);
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
	if (pg_atomic_read_u32(&file->recent) == 0)
		pg_atomic_write_u32(&file->recent, 1);

	while (nblocks > 0 && block < PAGE_MAP_FILE_REGIONS * PAGE_MAP_REGION_BLOCKS)
	{
		uint32 number = block / PAGE_MAP_REGION_BLOCKS;
		uint32 first = block % PAGE_MAP_REGION_BLOCKS;
		uint32 n = Min(nblocks, PAGE_MAP_REGION_BLOCKS - first);
		uint32 slot = region_for_mark(map, file_index, incarnation, number);

		if (slot != 0)
			mark_in_region(map, file_index, page_map_region(map, slot - 1), first, n, now_ms);
		else if (pg_atomic_read_u32(&file->incarnation) == incarnation)
			pg_atomic_fetch_add_u64(&map->full.value, 1);
		block += n;
		nblocks -= n;
	}

	/* it may have been given away since we looked; setting the bits was a barrier, if there was any */
	pg_memory_barrier();
	return pg_atomic_read_u32(&file->incarnation) == incarnation;
}

/*
 * Take the marked pages out of a region, for the caller to write back.  Returns their number.
 *
 * The age goes first: who has seen it, and sets none, has set its bits before: they are taken.
 */
uint32
page_map_take(PageMap *map, PageMapRegion *region, PageMapBits *bits)
{
	uint32 taken = 0;

	pg_atomic_write_u64(&region->since, 0);
	pg_memory_barrier();
	for (uint32 i = 0; i < PAGE_MAP_REGION_WORDS; i++)
	{
		bits->word[i] = 0;
		if (pg_atomic_read_u64(&region->dirty[i]) != 0)
		{
			bits->word[i] = pg_atomic_exchange_u64(&region->dirty[i], 0);
			taken += pg_popcount64(bits->word[i]);
		}
	}
	if (taken > 0)
	{
		pg_atomic_fetch_sub_u32(&region->count, taken);
		pg_atomic_fetch_sub_u64(&map->unflushed.value, taken);
	}
	return taken;
}
