/*-------------------------------------------------------------------------
 *
 * page_map_test.c
 *	  Tests of the page map without a server: threads instead of processes.
 *
 * The concurrent tests model what the map is for.  A page has a number of
 * writes (the content that the kernel has) and the number that was flushed
 * last.  A marker does what io_hooks.c does: write, then mark.  The taker does
 * what flush.c does: take the marks, then flush what is there.  When all have
 * stopped and the last marks are taken, a page with a write that was never
 * flushed is a lost mark.
 *
 * Prints TAP.  Build: see run_tests.sh.
 *
 *-------------------------------------------------------------------------
 */
#include "map/page_map.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "port/pg_bitutils.h"

#ifndef PG_CALM_TEST_ATOMICS_H
#include "test/s_lock.h"
#endif

#define DEVICE 7
#define MAX_FILES 64
#define MARKERS 3
#define BUDGET_MIN 1 /* the map rounds up to 16 files, and memory for 64 large regions */
#define MANY_FILES 60000
#define MANY_BUDGET (48 * 1024 * 1024)
#define ROOT "/data"

/* Steps that may be taken for one file, however many there are */
#define FEW_STEPS 100

/* A simulated data file; blocks are spread over all its regions */
#define FILE_REGIONS 3
#define FILE_PAGES (FILE_REGIONS * PAGE_MAP_REGION_BLOCKS)

typedef struct Page
{
	pg_atomic_uint32 written;
	pg_atomic_uint32 flushed;
	pg_atomic_uint32 untracked; /* written while the map had no room for the file */
} Page;

typedef struct World
{
	PageMap *map;
	int nfiles;
	int nregions; /* of each file that are written to */
	bool reclaim; /* of regions and files without marks */
	pg_atomic_uint32 stop_markers;
	pg_atomic_uint32 stop_others;
	pg_atomic_uint64 marks;
	pg_atomic_uint64 taken;
	pg_atomic_uint64 released;
	Page *pages;
	int rounds;
	uint64 counted; /* marks left when a round ended */
	uint64 written; /* pages checked */
} World;

__thread uint64 page_map_steps = 0;

/* All regions that the map tested last has ever cut out, also those that are free now */
#define MAX_REGIONS (MANY_FILES * 3)
static PageMapRegion *regions[MAX_REGIONS];
static pg_atomic_uint32 regions_made;

static int tests = 0;
static int failures = 0;

static void
check(bool ok, const char *name)
{
	tests++;
	if (!ok)
		failures++;
	printf("%sok %d - %s\n", ok ? "" : "not ", tests, name);
	fflush(stdout);
}

static void
check_number(uint64 got, uint64 expected, const char *name)
{
	check(got == expected, name);
	if (got != expected)
		printf("# got %llu, expected %llu\n", (unsigned long long) got,
		       (unsigned long long) expected);
}

void
page_map_piece_made(PageMap *map, PageMapPiece kind, uint32 index)
{
	if (kind == PAGE_MAP_SMALL_REGION || kind == PAGE_MAP_LARGE_REGION)
		regions[pg_atomic_fetch_add_u32(&regions_made, 1)] = page_map_region(map, index);
}

static PageMap *
new_map(Size budget)
{
	/* page_map_init has to clear what it is given */
	PageMap *map = malloc(page_map_size(budget));

	memset(map, 0x5A, page_map_size(budget));
	page_map_init(map, budget, ROOT);
	pg_atomic_init_u32(&regions_made, 0);
	return map;
}

static void
path_of(int number, char *path, size_t size)
{
	snprintf(path, size, "/data/base/5/%d", 16384 + number);
}

static int
track(PageMap *map, int number, uint32 *incarnation)
{
	char path[64];

	path_of(number, path, sizeof(path));
	return page_map_track_file(map, DEVICE, 1000 + number, path, incarnation);
}

/* Bits set in all regions, by generation */
static uint64
count_bits(int generation)
{
	uint64 bits = 0;

	for (uint32 r = 0; r < pg_atomic_read_u32(&regions_made); r++)
	{
		for (uint32 i = 0; i < regions[r]->words; i++)
			bits += pg_popcount64(pg_atomic_read_u64(page_map_word(regions[r], generation, i)));
	}
	return bits;
}

static uint64
count_whole(PageMap *map)
{
	uint64 bits = 0;

	for (uint32 f = 0; f < pg_atomic_read_u32(&map->files_high); f++)
	{
		for (int i = 0; i < PAGE_MAP_FILE_REGION_WORDS; i++)
			bits += pg_popcount64(pg_atomic_read_u64(&page_map_file(map, f)->whole[i]));
	}
	return bits;
}

static PageMapRegion *
region_of(PageMap *map, int file, int number)
{
	uint32 slot = page_map_slot(map, page_map_file(map, file), number);

	return slot == 0 ? NULL : page_map_region(map, slot - 1);
}

static void
test_marks(void)
{
	PageMap *map = new_map(1024 * 1024);
	uint32 incarnation = 0;
	int file = track(map, 1, &incarnation);
	PageMapRegion *region;
	PageMapBits bits;
	int new;

	check(file != PAGE_MAP_NO_FILE && (incarnation & 1) == 1, "a file is tracked");
	check_number(page_map_unflushed(map, 0) + page_map_unflushed(map, 1), 0, "a new map is empty");

	/* across a word, across a region, and twice */
	check(page_map_mark(map, file, incarnation, 60, 8, 100), "marking succeeds");
	(void) page_map_mark(map, file, incarnation, 1023, 2, 200);
	(void) page_map_mark(map, file, incarnation, 1023, 1, 300);
	(void) page_map_mark(map, file, incarnation, 2048, 192, 400);
	new = page_map_new_generation(map);
	check_number(page_map_unflushed(map, new), 8 + 2 + 192, "pages are counted once");
	check_number(count_bits(new), 8 + 2 + 192, "as many bits are set");
	check_number(page_map_unflushed(map, 1 - new), 0, "nothing is in the old generation");
	check_number(page_map_region_count(region_of(map, file, 0)), 9, "count of the first region");
	check_number(page_map_region_count(region_of(map, file, 1)), 1, "count of the second region");
	check_number(pg_atomic_read_u64(&region_of(map, file, 0)->since), 100,
	             "age of the oldest mark");
	check_number(pg_atomic_read_u64(&page_map_file(map, file)->dirtied_when), 100,
	             "age of the file");

	/* the last block that a segment can have, and one beyond */
	(void) page_map_mark(map, file, incarnation, RELSEG_SIZE - 1, 2, 500);
	check_number(page_map_unflushed(map, new), 8 + 2 + 192 + 1,
	             "blocks past a segment are ignored");

	/* generations */
	page_map_swap_generation(map);
	check_number(page_map_new_generation(map), 1 - new, "generations swap");
	(void) page_map_mark(map, file, incarnation, 62, 1, 600);
	check_number(page_map_unflushed(map, 1 - new), 1, "a page is marked in the new generation too");
	check_number(page_map_unflushed(map, new), 8 + 2 + 192 + 1, "and stays in the old one");

	region = region_of(map, file, 0);
	check_number(page_map_take(map, region, new, &bits), 9, "take returns the number of pages");
	check(bits.word[0] == (UINT64CONST(0xF) << 60) && bits.word[1] == 0xF &&
	          bits.word[15] == (UINT64CONST(1) << 63) && bits.word[2] == 0,
	      "take returns the pages");
	check_number(page_map_take(map, region, new, &bits), 0, "nothing is taken twice");
	check_number(pg_atomic_read_u64(&region->since), 100, "the age stays while a page is left");
	check_number(page_map_take(map, region, 1 - new, &bits), 1, "the other generation is left");
	check_number(pg_atomic_read_u64(&region->since), 0, "a clean region has no age");
	check_number(page_map_unflushed(map, new), 1 + 192 + 1, "the total goes down");

	check_number(page_map_reclaim(map, UINT32_MAX), 1,
	             "the clean region is reclaimed, and no other");
	check(region_of(map, file, 0) == NULL && region_of(map, file, 1) != NULL,
	      "what has marks is kept");
	(void) page_map_mark(map, file, incarnation, 0, 1, 700);
	check_number(page_map_region_count(region_of(map, file, 0)), 1, "a reclaimed region is clean");

	/* what is left of the old generation stays old */
	new = page_map_new_generation(map);
	(void) page_map_mark(map, file, incarnation, 1, 1, 800);
	check_number(page_map_unflushed(map, new), 2, "both pages are in the new generation");
	page_map_swap_generation(map);
	(void) page_map_mark(map, file, incarnation, 0, 2, 900);
	(void) page_map_mark(map, file, incarnation, 70, 1, 900);
	page_map_swap_generation(map);
	check_number(page_map_unflushed(map, new), 0, "nothing is new after a swap");
	check_number(page_map_unflushed(map, 1 - new), 1 + 192 + 1 + 3,
	             "pages of both generations are old, and count once");
	check_number(page_map_region_count(region_of(map, file, 0)), 3, "in their region as well");
	free(map);
}

static void
test_full_regions(void)
{
	PageMap *map = new_map(BUDGET_MIN);
	uint32 incarnation[2];
	int file[2];
	uint32 marked = 0;
	uint32 taken = 0;
	uint32 whole;
	PageMapBits bits;

	for (int f = 0; f < 2; f++)
		file[f] = track(map, f, &incarnation[f]);
	/* 64 regions; ask for 100 */
	for (uint32 number = 0; number < 50; number++)
	{
		for (int f = 0; f < 2; f++)
		{
			marked += page_map_mark(map, file[f], incarnation[f], number * 1024 + 5, 1, 1);
			marked += page_map_mark(map, file[f], incarnation[f], number * 1024 + 6, 1, 1);
		}
	}
	check_number(marked, 200, "marking goes on when regions are used up");
	whole = count_whole(map);
	check(whole > 30 && whole < 100, "memory for regions is used up");
	check_number(map->regions_used, 100 - whole, "the others count as wholly dirty");
	check_number(pg_atomic_read_u64(&map->full_regions.value), whole, "each is counted once");
	check_number(page_map_unflushed(map, page_map_new_generation(map)), 2 * (100 - whole),
	             "the total is that of the tracked pages");

	for (uint32 number = 0; number < 50; number++)
	{
		PageMapRegion *region = region_of(map, file[0], number);

		if (region)
			taken += page_map_take(map, region, page_map_new_generation(map), &bits) > 0;
	}
	check_number(page_map_reclaim(map, UINT32_MAX), taken, "taken regions are reclaimed");
	(void) page_map_mark(map, file[1], incarnation[1], 60 * 1024, 1, 1);
	check(region_of(map, file[1], 60) != NULL, "and used again");
	(void) page_map_mark(map, file[1], incarnation[1], 49 * 1024, 1, 1);
	check(region_of(map, file[1], 49) == NULL, "but not for what is wholly dirty");
	check_number(count_whole(map), whole, "what counts as wholly dirty stays so until it is taken");

	page_map_forget_file(map, file[1], incarnation[1]);
	check(count_whole(map) < whole, "forgetting a file forgets that");
	page_map_forget_file(map, file[0], incarnation[0]);
	check_number(count_whole(map) + map->regions_used + pg_atomic_read_u32(&map->files_used), 0,
	             "an empty map again");
	check_number(page_map_unflushed(map, 0) + page_map_unflushed(map, 1), 0, "with empty totals");
	free(map);
}

static void
test_files(void)
{
	PageMap *map = new_map(BUDGET_MIN);
	uint32 incarnation[MAX_FILES];
	uint32 other;
	uint32 nfiles = map->max_files;
	char path[PAGE_MAP_PATH_MAX + 10];
	bool ok = true;
	uint32 released;
	int file;
	int next;

	for (uint32 f = 0; f < nfiles; f++)
		ok = ok && track(map, f, &incarnation[f]) == (int) f;
	check(ok, "files are tracked until the table is full");
	check(track(map, nfiles, &other) == PAGE_MAP_NO_FILE, "then no more");
	check_number(pg_atomic_read_u64(&map->full_files.value), 1, "and that is counted");
	check(track(map, 3, &other) == 3 && other == incarnation[3], "a known file is found again");
	released = page_map_reclaim(map, UINT32_MAX);
	check(released > 0 && released < nfiles, "clean files are reclaimed until there is some room");
	ok = true;
	for (uint32 f = 0; f < nfiles; f++)
	{
		if (page_map_find_file(map, DEVICE, 1000 + f, &other) != PAGE_MAP_NO_FILE)
			page_map_forget_file(map, f, other);
		else
			released--;
		ok = ok && !page_map_mark(map, f, incarnation[f], 0, 1, 1);
	}
	check_number(released, 0, "those that are reclaimed are not found");
	check(ok, "marking by an old reference is refused");

	for (uint32 f = 0; f < nfiles; f++)
	{
		file = track(map, 100 + f, &incarnation[f]);
		ok = ok && file != PAGE_MAP_NO_FILE && page_map_mark(map, file, incarnation[f], f, 1, 1);
	}
	check(ok, "reclaimed entries are used again");
	check_number(page_map_reclaim(map, UINT32_MAX), 0, "files with marks are not reclaimed");

	/* every second one goes; the others must still be found by their inode */
	for (uint32 f = 0; f < nfiles; f += 2)
	{
		file = page_map_find_file(map, DEVICE, 1100 + f, &other);
		ok = ok && file != PAGE_MAP_NO_FILE && other == incarnation[f];
		page_map_forget_file(map, file, other);
	}
	check(ok, "files are found by device and inode");
	for (uint32 f = 0; f < nfiles; f++)
	{
		file = page_map_find_file(map, DEVICE, 1100 + f, &other);
		ok = ok && (file != PAGE_MAP_NO_FILE) == (f % 2 == 1);
	}
	check(ok, "forgotten files are not found, others are");
	check(page_map_find_file(map, DEVICE + 1, 1101, &other) == PAGE_MAP_NO_FILE,
	      "the device matters");
	check_number(page_map_unflushed(map, 0) + page_map_unflushed(map, 1), nfiles / 2,
	             "the marks of forgotten files are gone");

	/* a late forget must not hit the entry's next file */
	file = page_map_find_file(map, DEVICE, 1101, &other);
	page_map_forget_file(map, file, other);
	page_map_forget_file(map, file, other);
	check_number(pg_atomic_read_u32(&map->files_used), nfiles / 2 - 1, "a file is forgotten once");

	/* a new file with the inode number of a removed one */
	file = page_map_find_file(map, DEVICE, 1103, &other);
	next = page_map_track_file(map, DEVICE, 1103, "/data/base/5/99999", &incarnation[0]);
	check(next != PAGE_MAP_NO_FILE && (next != file || incarnation[0] != other),
	      "another path with a known inode is another file");
	check(!page_map_mark(map, file, other, 0, 1, 1), "what was known of the old one is refused");
	check(region_of(map, file, 0) == NULL && region_of(map, next, 0) == NULL,
	      "its marks are dropped");
	check(page_map_find_file(map, DEVICE, 1103, &other) == next && other == incarnation[0],
	      "the new one is found");
	page_map_path(map, next, path);
	check(strcmp(path, "/data/base/5/99999") == 0, "the path is the new one");

	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	check(page_map_track_file(map, DEVICE, 5000, path, &other) == PAGE_MAP_NO_FILE,
	      "a path that is too long is refused");
	free(map);
}

/* Paths below the data directory, elsewhere, and long ones */
static void
test_paths(void)
{
	PageMap *map = new_map(1024 * 1024);
	char paths[6][PAGE_MAP_PATH_MAX];
	char path[PAGE_MAP_PATH_MAX];
	uint32 incarnation;
	uint32 used;
	int file[6];
	bool ok = true;

	strcpy(paths[0], "/data/base/4294967295/4294967295_init.131071");
	strcpy(paths[1], "/database/5/16384");
	strcpy(paths[2], "/space/PG_15_202209061/5/16384");
	memset(paths[3], 'l', sizeof(paths[3]));
	memcpy(paths[3], "/", 1);
	paths[3][PAGE_MAP_PATH_MAX - 1] = '\0';
	snprintf(paths[4], sizeof(paths[4]), ROOT "/%.*s", PAGE_MAP_SHORT_PATH - 1, paths[3] + 1);
	snprintf(paths[5], sizeof(paths[5]), ROOT "/%.*s", PAGE_MAP_SHORT_PATH, paths[3] + 1);
	for (int i = 0; i < 6; i++)
	{
		file[i] = page_map_track_file(map, DEVICE, i, paths[i], &incarnation);
		ok = ok && file[i] != PAGE_MAP_NO_FILE;
	}
	for (int i = 0; ok && i < 6; i++)
	{
		uint32 again;

		page_map_path(map, file[i], path);
		ok = ok && strcmp(path, paths[i]) == 0 &&
		     page_map_track_file(map, DEVICE, i, paths[i], &again) == file[i];
	}
	check(ok, "paths are what they were");
	check(page_map_file(map, file[0])->long_path == 0 &&
	          page_map_file(map, file[4])->long_path == 0,
	      "a relation's path takes no memory of its own");
	check(page_map_file(map, file[3])->long_path != 0 &&
	          page_map_file(map, file[5])->long_path != 0,
	      "a long one does");
	used = pg_atomic_read_u32(&map->units_used);
	page_map_path(map, file[3], path);
	(void) page_map_find_file(map, DEVICE, 3, &incarnation);
	page_map_forget_file(map, file[3], incarnation);
	check(pg_atomic_read_u32(&map->units_used) < used, "and gives it back");
	free(map);
}

/* The first region of a file begins small, and grows with what is marked in it */
static void
test_growth(void)
{
	PageMap *map = new_map(1024 * 1024);
	uint32 incarnation;
	int file = track(map, 1, &incarnation);
	int new = page_map_new_generation(map);
	PageMapRegion *region;
	PageMapBits bits;

	(void) page_map_mark(map, file, incarnation, 3, 2, 100);
	page_map_swap_generation(map);
	(void) page_map_mark(map, file, incarnation, 120, 8, 200);
	region = region_of(map, file, 0);
	if (region == NULL)
		abort(); /* for compilers that warn of it */
	pg_atomic_fetch_or_u32(&region->flags, PAGE_MAP_REGION_WINDOW);
	check_number(region->words, PAGE_MAP_SMALL_WORDS, "the first 128 blocks take a small region");
	check_number(page_map_next_large(map, 0), PAGE_MAP_END, "which is not a large file");

	(void) page_map_mark(map, file, incarnation, 126, 4, 300);
	check(region_of(map, file, 0) != region, "more take a large one");
	region = region_of(map, file, 0);
	check_number(region->words, PAGE_MAP_REGION_WORDS, "with bits for all its blocks");
	check_number(page_map_next_large(map, 0), file, "and its file is large");
	check_number(page_map_region_count(region), 2 + 8 + 2, "which has the marks of the small one");
	check_number(page_map_unflushed(map, new), 2, "in their generation");
	check_number(page_map_unflushed(map, 1 - new), 10, "and the new one");
	check_number(pg_atomic_read_u64(&region->since), 100, "the age");
	check_number(pg_atomic_read_u32(&region->flags) & PAGE_MAP_REGION_FLAGS, PAGE_MAP_REGION_WINDOW,
	             "and the flags");
	check_number(map->regions_used, 1, "the small one is free");
	check_number(page_map_take(map, region, new, &bits), 2, "old pages are taken");
	check(bits.word[0] == (UINT64CONST(3) << 3) && bits.word[1] == 0, "as they were marked");
	check_number(page_map_take(map, region, 1 - new, &bits), 10, "and new ones");
	check(bits.word[1] == (UINT64CONST(0xFF) << 56) && bits.word[2] == 3 && bits.word[0] == 0,
	      "on both sides of the small region's end");
	check_number(count_bits(0) + count_bits(1), 0, "nothing is left in either");

	check_number(page_map_reclaim(map, UINT32_MAX), 1, "a clean large region is reclaimed");
	(void) page_map_mark(map, file, incarnation, 0, 1, 400);
	check_number(region_of(map, file, 0)->words, PAGE_MAP_SMALL_WORDS, "then it is small again");

	/* further regions */
	(void) page_map_mark(map, file, incarnation, 5 * 1024, 1, 500);
	check_number(region_of(map, file, 5)->words, PAGE_MAP_REGION_WORDS, "further ones are large");
	check_number(page_map_file_regions(page_map_file(map, file)), PAGE_MAP_FILE_REGIONS,
	             "all of them are looked at");
	(void) page_map_take(map, region_of(map, file, 5), page_map_new_generation(map), &bits);
	(void) page_map_reclaim(map, UINT32_MAX);
	check_number(page_map_file_regions(page_map_file(map, file)), 1,
	             "until they are clean and reclaimed");
	page_map_forget_file(map, file, incarnation);
	check_number(pg_atomic_read_u32(&map->units_used), 0, "a forgotten file gives all back");
	check_number(page_map_next_large(map, 0), PAGE_MAP_END, "and is not large any more");
	free(map);
}

/* Blocks that somebody else writes back */
static void
test_unmark(void)
{
	PageMap *map = new_map(1024 * 1024);
	uint32 incarnation;
	int file = track(map, 1, &incarnation);
	int new = page_map_new_generation(map);

	(void) page_map_mark(map, file, incarnation, 60, 10, 100);
	page_map_swap_generation(map);
	(void) page_map_mark(map, file, incarnation, 0, 62, 200);
	pg_atomic_fetch_or_u32(&region_of(map, file, 0)->flags, PAGE_MAP_REGION_WINDOW);
	check_number(page_map_unmark(map, file, 61, 5), 6, "marks of blocks are taken");
	check_number(page_map_unflushed(map, new), 5, "from one generation");
	check_number(page_map_unflushed(map, 1 - new), 61, "and the other");
	check_number(page_map_unmark(map, file, 61, 5), 0, "once");
	check_number(pg_atomic_read_u64(&region_of(map, file, 0)->since), 100, "the age stays");
	check_number(page_map_unmark(map, file, 0, 131072), 66, "all that is left");
	check_number(pg_atomic_read_u64(&region_of(map, file, 0)->since) +
	                 (pg_atomic_read_u32(&region_of(map, file, 0)->flags) & PAGE_MAP_REGION_FLAGS) +
	                 count_bits(0) + count_bits(1),
	             0, "and nothing else is");
	(void) page_map_mark(map, file, incarnation, 0, 500, 300);
	check(page_map_is_large(map, file), "a large file");
	check_number(page_map_unmark(map, file, 0, 500), 0, "keeps its marks");
	free(map);
}

/* Small regions don't take the memory of large ones; a small file without one is dirty as a whole */
static void
test_full_small(void)
{
	PageMap *map = new_map(1024 * 1024);
	uint32 incarnation;
	uint32 whole = 0;
	int file = PAGE_MAP_NO_FILE;

	for (uint32 f = 0; f < map->max_files; f++)
	{
		file = track(map, f, &incarnation);
		(void) page_map_mark(map, file, incarnation, 0, 1, 1);
		/* not all can be small ones */
		if (f % 2 == 0)
			(void) page_map_mark(map, file, incarnation, 1000, 1, 1);
		whole += page_map_is_whole(page_map_file(map, file), 0);
	}
	check(whole > 0, "memory for regions is used up by small files");
	check_number(page_map_file_regions(page_map_file(map, file)), 1,
	             "one that counts as dirty has still one region");
	check(page_map_is_low(map), "and that is seen");
	free(map);
}

/* The set of files that may have marks */
static void
test_sets(void)
{
	static const uint32 few[] = {0, 1, 63, 64, 127, 4095, 4096, 8191, 20000, MANY_FILES - 1};
	PageMap *map = new_map(MANY_BUDGET);
	uint32 *incarnation = malloc(MANY_FILES * sizeof(uint32));
	uint32 f = 0;
	bool ok = true;
	PageMapBits bits;

	for (uint32 i = 0; i < MANY_FILES; i++)
		ok = ok && track(map, i, &incarnation[i]) == (int) i;
	check(ok, "the default map has room for 60000 files");
	check_number(page_map_next_marked(map, 0), PAGE_MAP_END, "none has marks");
	for (uint32 i = 0; i < lengthof(few); i++)
		(void) page_map_mark(map, few[i], incarnation[few[i]], 0, 1, 1);
	page_map_steps = 0;
	for (uint32 i = 0; i < lengthof(few); i++, f++)
	{
		f = page_map_next_marked(map, f);
		ok = ok && f == few[i];
	}
	check(ok && page_map_next_marked(map, f) == PAGE_MAP_END, "those that have are found in order");
	check(page_map_steps < FEW_STEPS, "without a look at the others");

	page_map_settle(map, 64);
	check_number(page_map_next_marked(map, 64), 64, "one with marks stays in the set");
	for (int g = 0; g < 2; g++)
		(void) page_map_take(map, region_of(map, 64, 0), g, &bits);
	page_map_settle(map, 64);
	check_number(page_map_next_marked(map, 64), 127, "one without does not");
	(void) page_map_mark(map, 64, incarnation[64], 0, 1, 1);
	check_number(page_map_next_marked(map, 2), 63, "the one before is not touched");
	check_number(page_map_next_marked(map, 64), 64, "it is in it again with its next mark");

	page_map_steps = 0;
	page_map_swap_generation(map);
	page_map_swap_generation(map);
	check(page_map_steps < FEW_STEPS, "swapping generations looks at files with marks only");
	check_number(page_map_unflushed(map, 1 - page_map_new_generation(map)), lengthof(few),
	             "and moves what is left");
	free(incarnation);
	free(map);
}

/* What it takes to forget and to reclaim one of very many files */
static void
test_many_files(void)
{
	PageMap *map = new_map(MANY_BUDGET);
	uint32 nfiles = map->max_files;
	uint32 *incarnation = malloc(nfiles * sizeof(uint32));
	uint64 most = 0;
	uint64 all = 0;
	uint32 released = 0;
	uint32 other;
	bool ok = true;

	for (uint32 f = 0; f < nfiles; f++)
		ok = ok && track(map, f, &incarnation[f]) == (int) f;
	check(ok && nfiles > 120000, "more than 120000 files fit into the default map");
	check(page_map_is_low(map), "which is full now");

	/* two in three, in an order that has nothing to do with the hash's */
	for (uint32 i = 0; i < nfiles; i++)
	{
		uint32 f = (uint32) ((uint64) i * 48271 % nfiles);

		if (f % 3 == 0 || page_map_find_file(map, DEVICE, 1000 + f, &other) == PAGE_MAP_NO_FILE)
			continue;
		page_map_steps = 0;
		page_map_forget_file(map, f, incarnation[f]);
		most = Max(most, page_map_steps);
		all += page_map_steps;
	}
	printf("# forgetting a file: %llu steps at most, %.1f on average\n", (unsigned long long) most,
	       (double) all / nfiles);
	check(most < FEW_STEPS, "a file is forgotten in a few steps");
	for (uint32 f = 0; f < nfiles; f++)
	{
		bool found = page_map_find_file(map, DEVICE, 1000 + f, &other) == (int) f;

		ok = ok && found == ((pg_atomic_read_u32(&page_map_file(map, f)->incarnation) & 1) == 1) &&
		     (f % 3 != 0 || found);
	}
	check(ok, "files that had the same bucket are still found, and no others");
	check(!page_map_is_low(map), "there is room again");
	for (uint32 f = 0; f < nfiles; f++)
	{
		int file = track(map, f, &other);

		ok = ok && file != PAGE_MAP_NO_FILE && (file == (int) f || f % 3 != 0);
	}
	check(ok, "for as many as there were");
	check(track(map, nfiles, &other) == PAGE_MAP_NO_FILE, "and no more");

	/* reclaim goes on where it was, a few files at a time, until there is room */
	page_map_steps = 0;
	released = page_map_reclaim(map, 100);
	check_number(released, 100, "a reclaim frees what it comes to");
	check(page_map_steps < 100 * FEW_STEPS, "and does not go farther");
	for (int i = 0; i < 1000000 && page_map_is_low(map); i++)
	{
		uint32 freed = page_map_reclaim(map, 100);

		ok = ok && freed > 0;
		released += freed;
	}
	check(ok && !page_map_is_low(map) && released < nfiles / 8,
	      "one after the other makes room, and they stop then");
	free(incarnation);
	free(map);
}

/* What has been marked lately is kept for once more */
static void
test_recent(void)
{
	PageMap *map = new_map(BUDGET_MIN);
	uint32 incarnation[MAX_FILES];
	PageMapBits bits;

	for (uint32 f = 0; f < map->max_files; f++)
		(void) track(map, f, &incarnation[f]);
	(void) page_map_mark(map, 5, incarnation[5], 0, 1, 1);
	(void) page_map_take(map, region_of(map, 5, 0), page_map_new_generation(map), &bits);
	/* a region, and all files but one until there is room; here that is one */
	(void) page_map_reclaim(map, 6);
	check(page_map_mark(map, 5, incarnation[5], 0, 1, 1),
	      "a file that was marked is not reclaimed at once");
	free(map);
}

static Page *
page_of(World *world, int file, uint32 block)
{
	return &world->pages[(size_t) file * FILE_PAGES + block];
}

/* A small random generator; rand_r's low bits are poor */
static uint32
next_random(uint64 *state)
{
	*state = *state * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return (uint32) (*state >> 33);
}

/* Writes and marks, as io_hooks.c does it */
static void *
marker_main(void *argument)
{
	World *world = argument;
	uint64 random = (uintptr_t) &random;
	int file[MAX_FILES];
	uint32 incarnation[MAX_FILES] = {0};
	uint64 marks = 0;

	for (int f = 0; f < world->nfiles; f++)
		file[f] = PAGE_MAP_NO_FILE;
	while (pg_atomic_read_u32(&world->stop_markers) == 0)
	{
		int f = next_random(&random) % world->nfiles;
		uint32 block = next_random(&random) % world->nregions * PAGE_MAP_REGION_BLOCKS +
		               next_random(&random) % 130;
		uint32 n = 1 + next_random(&random) % 4;
		bool marked = false;

		/* a locked instruction, since pwrite(2) orders memory as well */
		for (uint32 b = block; b < block + n; b++)
			pg_atomic_fetch_add_u32(&page_of(world, f, b)->written, 1);

		for (int attempt = 0; attempt < 2 && !marked; attempt++)
		{
			if (file[f] == PAGE_MAP_NO_FILE)
				file[f] = track(world->map, f, &incarnation[f]);
			if (file[f] == PAGE_MAP_NO_FILE)
				break;
			marked = page_map_mark(world->map, file[f], incarnation[f], block, n, 1);
			if (!marked)
				file[f] = PAGE_MAP_NO_FILE;
		}
		/* no room, or pushed out twice: PostgreSQL's fsync has it */
		for (uint32 b = block; !marked && b < block + n; b++)
			pg_atomic_write_u32(&page_of(world, f, b)->untracked, 1);
		if (marked)
			marks += n;
		if (next_random(&random) % 64 == 0)
			sched_yield();
	}
	pg_atomic_fetch_add_u64(&world->marks, marks);
	return NULL;
}

/* Take all there is and flush it, as flush.c does it */
static void
take_all(World *world)
{
	PageMap *map = world->map;

	for (uint32 f = 0; (f = page_map_next_marked(map, f)) != PAGE_MAP_END; f++)
	{
		PageMapFile *file = page_map_file(map, f);
		uint32 incarnation = pg_atomic_read_u32(&file->incarnation);
		int number = (int) file->inode - 1000;

		page_map_settle(map, f);
		if ((incarnation & 1) == 0)
			continue;
		for (uint32 r = 0; r < page_map_file_regions(file); r++)
		{
			uint32 slot = page_map_slot(map, file, r);
			uint64 whole_bit = UINT64CONST(1) << (r % 64);
			PageMapBits bits;

			if (r < FILE_REGIONS && (pg_atomic_read_u64(&file->whole[r / 64]) & whole_bit))
			{
				pg_atomic_fetch_and_u64(&file->whole[r / 64], ~whole_bit);
				for (uint32 b = 0; b < PAGE_MAP_REGION_BLOCKS; b++)
				{
					Page *page = page_of(world, number, r * PAGE_MAP_REGION_BLOCKS + b);

					pg_atomic_write_u32(&page->flushed, pg_atomic_read_u32(&page->written));
				}
			}
			for (int g = 0; slot != 0 && g < 2; g++)
			{
				uint32 taken = page_map_take(map, page_map_region(map, slot - 1), g, &bits);

				pg_atomic_fetch_add_u64(&world->taken, taken);
				for (uint32 b = 0; taken > 0 && b < PAGE_MAP_REGION_BLOCKS; b++)
				{
					Page *page;

					if (((bits.word[b / 64] >> (b % 64)) & 1) == 0)
						continue;
					page = page_of(world, number, r * PAGE_MAP_REGION_BLOCKS + b);
					pg_atomic_write_u32(&page->flushed, pg_atomic_read_u32(&page->written));
				}
			}
		}
	}
}

static void *
taker_main(void *argument)
{
	World *world = argument;

	while (pg_atomic_read_u32(&world->stop_others) == 0)
	{
		take_all(world);
		/* the server has one worker: it takes, reclaims and forgets */
		if (world->reclaim)
			pg_atomic_fetch_add_u64(&world->released, page_map_reclaim(world->map, UINT32_MAX));
		sched_yield();
	}
	return NULL;
}

static void *
swapper_main(void *argument)
{
	World *world = argument;
	struct timespec pause = {0, 200 * 1000};

	while (pg_atomic_read_u32(&world->stop_others) == 0)
	{
		page_map_swap_generation(world->map);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void
sleep_ms(int milliseconds)
{
	struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000L};

	nanosleep(&pause, NULL);
}

/* What a round found wrong */
typedef struct Faults
{
	uint64 totals;   /* a total that is not the number of bits */
	uint64 counts;   /* likewise, of regions */
	uint64 negative; /* counts below zero */
	uint64 ageless;  /* regions with marks that no one knows the age of */
	uint64 left;     /* counted in files after the last take */
	uint64 lost;     /* pages written, not marked, not flushed */
} Faults;

/* Let markers run against the rest for a while, then look at what is left */
static void
run_round(World *world, int milliseconds, Faults *faults)
{
	PageMap *map = world->map;
	pthread_t markers[MARKERS];
	pthread_t taker;
	pthread_t swapper;

	pg_atomic_write_u32(&world->stop_markers, 0);
	pg_atomic_write_u32(&world->stop_others, 0);
	for (int i = 0; i < MARKERS; i++)
		pthread_create(&markers[i], NULL, marker_main, world);
	pthread_create(&taker, NULL, taker_main, world);
	pthread_create(&swapper, NULL, swapper_main, world);
	sleep_ms(milliseconds);

	/* every second time the taker goes first, so that marks are left to count */
	world->rounds++;
	if (world->rounds % 2 == 0)
	{
		pg_atomic_write_u32(&world->stop_others, 1);
		sleep_ms(1);
	}
	pg_atomic_write_u32(&world->stop_markers, 1);
	for (int i = 0; i < MARKERS; i++)
		pthread_join(markers[i], NULL);
	pg_atomic_write_u32(&world->stop_others, 1);
	pthread_join(taker, NULL);
	pthread_join(swapper, NULL);

	for (int g = 0; g < 2; g++)
	{
		uint64 bits = count_bits(g);
		uint64 counts = 0;

		world->counted += bits;
		for (uint32 r = 0; r < pg_atomic_read_u32(&regions_made); r++)
		{
			PageMapRegion *region = regions[r];
			int32 count = (int32) pg_atomic_read_u32(&region->count[g]);

			counts += count;
			faults->negative += count < 0;
			faults->ageless += count > 0 && pg_atomic_read_u64(&region->since) == 0;
		}
		faults->totals += pg_atomic_read_u64(&map->unflushed[g].value) != bits;
		faults->counts += counts != bits;
	}

	/*
	 * A marker that was overtaken by a reclaim marks twice, and its first
	 * mark stays in a region that is free or another file's by now.
	 */
	take_all(world);
	faults->left += pg_atomic_read_u64(&map->unflushed[0].value) +
	                pg_atomic_read_u64(&map->unflushed[1].value) - count_bits(0) - count_bits(1);
	for (uint32 f = 0; f < pg_atomic_read_u32(&map->files_high); f++)
	{
		for (int i = 0; i < PAGE_MAP_FILE_REGIONS; i++)
		{
			if (region_of(map, f, i))
				faults->left += page_map_region_count(region_of(map, f, i));
		}
	}
	for (int i = 0; i < world->nfiles * FILE_PAGES; i++)
	{
		Page *page = &world->pages[i];
		uint32 written = pg_atomic_read_u32(&page->written);

		world->written += written > 0;
		if (written != pg_atomic_read_u32(&page->flushed) &&
		    pg_atomic_read_u32(&page->untracked) == 0)
			faults->lost++;
		pg_atomic_write_u32(&page->written, 0);
		pg_atomic_write_u32(&page->flushed, 0);
		pg_atomic_write_u32(&page->untracked, 0);
	}
}

/* Whether markers, taker and reclaim have met each other at all */
static bool
something_to_lose(World *world)
{
	return pg_atomic_read_u64(&world->taken) > 1000 && world->counted > 0 &&
	       (!world->reclaim || pg_atomic_read_u64(&world->released) > 0);
}

/*
 * Many short rounds rather than a long one: a lost mark goes unnoticed when
 * the page is written again.
 */
static void
run_world(const char *name, Size budget, int nfiles, int nregions, bool reclaim, int rounds)
{
	World world = {.nfiles = nfiles, .nregions = nregions, .reclaim = reclaim};
	Faults faults = {0};
	char label[128];

#define CHECK_FAULTS(field, what)                                                                  \
	do                                                                                             \
	{                                                                                              \
		snprintf(label, sizeof(label), "%s: %s", name, what);                                      \
		check_number(faults.field, 0, label);                                                      \
	} while (0)

	world.map = new_map(budget);
	world.pages = calloc((size_t) nfiles * FILE_PAGES, sizeof(Page));
	pg_atomic_init_u32(&world.stop_markers, 0);
	pg_atomic_init_u32(&world.stop_others, 0);
	pg_atomic_init_u64(&world.marks, 0);
	pg_atomic_init_u64(&world.taken, 0);
	pg_atomic_init_u64(&world.released, 0);

	/* on a busy machine threads may get nowhere in some milliseconds */
	for (int i = 0; i < rounds || (i < 50 * rounds && !something_to_lose(&world)); i++)
		run_round(&world, 4, &faults);

	printf("# %s: %llu marks, %llu pages taken, %llu pages checked, %llu entries reclaimed\n", name,
	       (unsigned long long) pg_atomic_read_u64(&world.marks),
	       (unsigned long long) pg_atomic_read_u64(&world.taken),
	       (unsigned long long) world.written,
	       (unsigned long long) pg_atomic_read_u64(&world.released));
	CHECK_FAULTS(lost, "no mark is lost");
	CHECK_FAULTS(totals, "totals are the numbers of bits");
	CHECK_FAULTS(counts, "so are the counts of the regions");
	CHECK_FAULTS(negative, "no count is negative");
	CHECK_FAULTS(ageless, "the age of marks is known");
	CHECK_FAULTS(left, "nothing is counted after the last take");
	snprintf(label, sizeof(label), "%s: there was something to lose", name);
	check(something_to_lose(&world), label);
	free(world.pages);
	free(world.map);
}

int
main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100;

	test_marks();
	test_full_regions();
	test_files();
	test_paths();
	test_growth();
	test_unmark();
	test_full_small();
	test_sets();
	test_many_files();
	test_recent();
	run_world("marks and takes", 1024 * 1024, 4, 3, false, rounds);
	run_world("reclaimed regions", 1024 * 1024, 4, 1, true, rounds);
	/* 24 files in 16 entries; 72 regions in 64 */
	run_world("reclaimed files", BUDGET_MIN, 24, 3, true, rounds);
	printf("1..%d\n", tests);
	if (failures > 0)
		printf("# %d of %d tests failed\n", failures, tests);
	return failures > 0;
}
