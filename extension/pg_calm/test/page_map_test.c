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
#include "postgres.h"

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
#define BUDGET_MIN 1 /* the map rounds up to 16 files and 64 regions */
#define BUDGET_WORLD (1024 * 1024)
#define ROOT "/data"
#define ROUNDS 20
#define MOST_ROUNDS 600
#define ROUND_MS 50

/* Looks of the taker for which markers leave a third of the files alone, so that it is reclaimed */
#define LOOKS_ALONE 4

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
	bool reclaim; /* of files without marks, all the time */
	pg_atomic_uint32 stop;
	pg_atomic_uint32 looks; /* of the taker */
	pg_atomic_uint64 marks;
	pg_atomic_uint64 taken;
	pg_atomic_uint64 released;
	Page *pages;
} World;

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

static PageMap *
new_map(Size budget)
{
	/* page_map_init has to clear what it is given */
	PageMap *map = malloc(page_map_size(budget));

	memset(map, 0x5A, page_map_size(budget));
	page_map_init(map, budget, ROOT);
	return map;
}

static int
track(PageMap *map, int number, uint32 *incarnation)
{
	char path[64];

	snprintf(path, sizeof(path), "/data/base/5/%d", 16384 + number);
	return page_map_track_file(map, DEVICE, 1000 + number, path, incarnation);
}

static PageMapRegion *
region_of(PageMap *map, int file, int number)
{
	return page_map_region_of(map, page_map_file(map, file), number);
}

static void
test_marks(void)
{
	PageMap *map = new_map(BUDGET_MIN);
	PageMapBits bits;
	uint32 incarnation;
	int file = track(map, 1, &incarnation);

	check(file >= 0 && (incarnation & 1) == 1, "a file is tracked");
	check(page_map_next_marked(map, 0) == PAGE_MAP_END, "and not marked");
	check(page_map_mark(map, file, incarnation, 1020, 10, 77), "blocks are marked");
	check_number(page_map_unflushed(map), 10, "all of them");
	check_number(page_map_region_count(region_of(map, file, 0)), 4, "four in the first region");
	check_number(page_map_region_count(region_of(map, file, 1)), 6, "six in the next");
	check_number(pg_atomic_read_u64(&region_of(map, file, 0)->since), 77, "since then");
	check(page_map_mark(map, file, incarnation, 1020, 10, 99), "they are marked again");
	check_number(page_map_unflushed(map), 10, "which counts once");
	check_number(pg_atomic_read_u64(&region_of(map, file, 0)->since), 77,
	             "and makes them no younger");
	check_number(page_map_next_marked(map, 0), file, "the file is among the marked");
	check(page_map_next_marked(map, file + 1) == PAGE_MAP_END, "as the only one");
	page_map_settle(map, file);
	check_number(page_map_next_marked(map, 0), file, "and stays there while it has marks");

	check_number(page_map_take(map, region_of(map, file, 0), &bits), 4, "they are taken");
	check_number(bits.word[15], UINT64CONST(0xF) << 60, "the last four of the region");
	check_number(pg_atomic_read_u64(&region_of(map, file, 0)->since), 0, "which has no age then");
	check_number(page_map_take(map, region_of(map, file, 0), &bits), 0, "once");
	(void) page_map_take(map, region_of(map, file, 1), &bits);
	check_number(bits.word[0], 0x3F, "the first six of the next");
	check_number(page_map_unflushed(map), 0, "none is left");
	page_map_settle(map, file);
	check(page_map_next_marked(map, 0) == PAGE_MAP_END, "and the file is settled");

	check(page_map_mark(map, file, incarnation, PAGE_MAP_FILE_REGIONS * PAGE_MAP_REGION_BLOCKS - 1,
	                    5, 1),
	      "what is beyond a segment");
	check_number(page_map_unflushed(map), 1, "is not marked");
	free(map);
}

static void
test_files(void)
{
	PageMap *map = new_map(BUDGET_MIN);
	char path[PAGE_MAP_FULL_PATH];
	char longest[PAGE_MAP_PATH_MAX + 2];
	uint32 incarnation;
	uint32 other;
	int file = track(map, 1, &incarnation);
	int again = track(map, 1, &other);

	check(again == file && other == incarnation, "a file has one entry");
	page_map_path(map, file, path);
	check(strcmp(path, "/data/base/5/16385") == 0, "with its path");
	check(page_map_find_file(map, DEVICE, 1001, &other) == file && other == incarnation,
	      "and is found");
	check(page_map_find_file(map, DEVICE + 1, 1001, &other) == PAGE_MAP_NO_FILE,
	      "on its device only");
	(void) page_map_mark(map, file, incarnation, 0, 3, 1);

	/* the inode number of a removed file is used again */
	again = page_map_track_file(map, DEVICE, 1001, "/elsewhere/9", &other);
	check(again >= 0 && again != file, "another path with its inode is another file");
	check_number(page_map_unflushed(map), 0, "without the marks of the old one");
	check(!page_map_mark(map, file, incarnation, 0, 1, 1), "who knows the old one can't mark");
	page_map_path(map, again, path);
	check(strcmp(path, "/elsewhere/9") == 0, "a path outside of the data directory is kept whole");
	(void) page_map_mark(map, again, other, 7, 1, 1);
	(void) page_map_retire_file(map, again, other + 2, false);
	check_number(page_map_unflushed(map), 1, "who knows the old one can't have it forgotten");
	(void) page_map_retire_file(map, again, other, false);
	check_number(page_map_unflushed(map), 0, "it is forgotten with its marks");
	check(page_map_find_file(map, DEVICE, 1001, &other) == PAGE_MAP_NO_FILE, "and not found");

	file = track(map, 2, &incarnation);
	check(page_map_begin_fsync(map, DEVICE, 1002) == file, "an fsync begins");
	check(page_map_being_fsynced(map, file), "and is seen");
	page_map_end_fsync(map, file);
	check(!page_map_being_fsynced(map, file), "until it ends");

	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	longest[PAGE_MAP_PATH_MAX] = '\0';
	check(page_map_track_file(map, DEVICE, 5, longest, &other) == PAGE_MAP_NO_FILE,
	      "a path that is too long is not tracked");
	longest[PAGE_MAP_PATH_MAX - 1] = '\0';
	file = page_map_track_file(map, DEVICE, 5, longest, &other);
	check(file >= 0, "the longest is");
	page_map_path(map, file, path);
	check(strcmp(path, longest) == 0, "as it is");
	free(map);
}

/* No room: for files, and for regions */
static void
test_full(void)
{
	PageMap *map = new_map(BUDGET_MIN);
	uint32 incarnation[MAX_FILES];
	uint32 other;
	uint32 marked = 0;

	for (uint32 f = 0; f < map->max_files; f++)
		(void) track(map, f, &incarnation[f]);
	check(page_map_is_low(map), "with all files taken the map is low");
	check(track(map, MAX_FILES, &other) == PAGE_MAP_NO_FILE, "and takes no other");
	check_number(pg_atomic_read_u64(&map->full.value), 1, "which is counted");

	(void) page_map_mark(map, 5, incarnation[5], 0, 1, 1);
	check_number(page_map_reclaim(map, UINT32_MAX), 0, "what is new is kept for once more");
	check_number(page_map_begin_fsync(map, DEVICE, 1003), 3, "one is fsynced");
	check_number(page_map_reclaim(map, UINT32_MAX), map->max_files - 2,
	             "all but that and the marked one are freed");
	page_map_end_fsync(map, 3);
	check(page_map_mark(map, 5, incarnation[5], 1, 1, 1), "the marked one is as it was");
	check(!page_map_retire_file(map, 5, incarnation[5], true),
	      "nor is it freed if it looked clean");
	/* it may have found the entry free, and marked nothing */
	check(!page_map_mark(map, 5, incarnation[5], 2, 1, 1), "but a marker of that moment is told");
	check(track(map, 5, &other) == 5 && page_map_mark(map, 5, other, 2, 1, 1),
	      "and finds it again");
	check_number(page_map_unflushed(map), 3, "with all its marks");
	check(!page_map_mark(map, 6, incarnation[6], 1, 1, 1), "the others are gone");
	check(track(map, MAX_FILES, &other) != PAGE_MAP_NO_FILE, "and there is room");
	free(map);

	map = new_map(BUDGET_MIN);
	(void) track(map, 0, &incarnation[0]);
	for (uint32 r = 0; r < map->max_regions + 1; r++)
		(void) page_map_mark(map, 0, incarnation[0], r * PAGE_MAP_REGION_BLOCKS, 1, 1);
	check_number(page_map_unflushed(map), map->max_regions,
	             "as many regions are marked as there are");
	check_number(pg_atomic_read_u64(&map->full.value), 1, "one more is counted");
	(void) page_map_retire_file(map, 0, incarnation[0], false);
	(void) track(map, 1, &incarnation[1]);
	for (uint32 r = 0; r < map->max_regions; r++)
		marked += page_map_mark(map, 0, incarnation[1], r * PAGE_MAP_REGION_BLOCKS, 1, 1);
	check_number(marked, map->max_regions, "those of a file that is gone are used again");
	check_number(pg_atomic_read_u64(&map->full.value), 1, "all of them");
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
	while (pg_atomic_read_u32(&world->stop) == 0)
	{
		int f = next_random(&random) % world->nfiles;
		uint32 block = next_random(&random) % FILE_REGIONS * PAGE_MAP_REGION_BLOCKS +
		               next_random(&random) % 130;
		uint32 n = 1 + next_random(&random) % 4;
		bool marked = false;

		/* all leave the same ones alone, and come back to them when they are gone */
		if (world->reclaim && (f + pg_atomic_read_u32(&world->looks) / LOOKS_ALONE) % 3 == 0)
			continue;
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
		int number;

		page_map_settle(map, f);
		if ((incarnation & 1) == 0)
			continue;
		/* not before: an entry that is free can be taken for another file just now */
		number = (int) file->inode - 1000;
		for (uint32 r = 0; r < FILE_REGIONS; r++)
		{
			PageMapRegion *region = page_map_region_of(map, file, r);
			PageMapBits bits;
			uint32 taken = region ? page_map_take(map, region, &bits) : 0;

			pg_atomic_fetch_add_u64(&world->taken, taken);
			for (uint32 b = 0; taken > 0 && b < PAGE_MAP_REGION_BLOCKS; b++)
			{
				Page *page = page_of(world, number, r * PAGE_MAP_REGION_BLOCKS + b);

				if ((bits.word[b / 64] >> (b % 64)) & 1)
					pg_atomic_write_u32(&page->flushed, pg_atomic_read_u32(&page->written));
			}
		}
	}
}

static void *
taker_main(void *argument)
{
	World *world = argument;

	while (pg_atomic_read_u32(&world->stop) == 0)
	{
		take_all(world);
		/* the server has one worker: it takes, reclaims and forgets */
		if (world->reclaim)
			pg_atomic_fetch_add_u64(&world->released, page_map_reclaim(world->map, UINT32_MAX));
		pg_atomic_fetch_add_u32(&world->looks, 1);
		sched_yield();
	}
	return NULL;
}

/* Bits set in all regions, and regions with marks that no one knows the age of */
static uint64
count_bits(PageMap *map, uint64 *ageless)
{
	uint64 bits = 0;

	for (uint32 r = 0; r < map->regions_high; r++)
	{
		PageMapRegion *region = page_map_region(map, r);

		for (uint32 i = 0; i < PAGE_MAP_REGION_WORDS; i++)
			bits += pg_popcount64(pg_atomic_read_u64(&region->dirty[i]));
		if (page_map_region_count(region) > 0 && pg_atomic_read_u64(&region->since) == 0)
			(*ageless)++;
	}
	return bits;
}

/* Regions that entries have which stand for no file: nobody flushes or gives them back */
static uint64
count_stray(PageMap *map)
{
	uint64 stray = 0;

	for (uint32 f = 0; f < map->files_high; f++)
	{
		PageMapFile *file = page_map_file(map, f);

		for (uint32 r = 0; pg_atomic_read_u32(&file->incarnation) % 2 == 0 && r < FILE_REGIONS; r++)
			stray += page_map_region_of(map, file, r) != NULL;
	}
	return stray;
}

/* Whether there was something to lose */
static bool
enough(World *world)
{
	return pg_atomic_read_u64(&world->taken) > 1000 &&
	       (!world->reclaim || pg_atomic_read_u64(&world->released) > 100);
}

/* Let markers run against the taker, round after round, and look at what is left */
static void
run_world(const char *name, Size budget, int nfiles, bool reclaim)
{
	World world = {.nfiles = nfiles, .reclaim = reclaim};
	char text[200];
	uint64 wrong_totals = 0;
	uint64 ageless = 0;
	uint64 stray = 0;
	uint64 lost = 0;
	struct timespec pause = {0, ROUND_MS * 1000000L};

	world.map = new_map(budget);
	world.pages = calloc((size_t) nfiles * FILE_PAGES, sizeof(Page));
	pg_atomic_init_u64(&world.marks, 0);
	pg_atomic_init_u64(&world.taken, 0);
	pg_atomic_init_u64(&world.released, 0);
	pg_atomic_init_u32(&world.looks, 0);
	/* on a busy machine there is little to lose in so many */
	for (int round = 0; round < ROUNDS || (round < MOST_ROUNDS && !enough(&world)); round++)
	{
		pthread_t markers[MARKERS];
		pthread_t taker;

		pg_atomic_init_u32(&world.stop, 0);
		for (int i = 0; i < MARKERS; i++)
			pthread_create(&markers[i], NULL, marker_main, &world);
		pthread_create(&taker, NULL, taker_main, &world);
		nanosleep(&pause, NULL);
		pg_atomic_write_u32(&world.stop, 1);
		for (int i = 0; i < MARKERS; i++)
			pthread_join(markers[i], NULL);
		pthread_join(taker, NULL);

		wrong_totals += count_bits(world.map, &ageless) != page_map_unflushed(world.map);
		stray += count_stray(world.map);
		take_all(&world);
		for (size_t p = 0; p < (size_t) nfiles * FILE_PAGES; p++)
		{
			Page *page = &world.pages[p];

			lost += pg_atomic_read_u32(&page->untracked) == 0 &&
			        pg_atomic_read_u32(&page->written) != pg_atomic_read_u32(&page->flushed);
			/* what the map was not told of is the server's fsync's */
			pg_atomic_write_u32(&page->untracked, 0);
			pg_atomic_write_u32(&page->flushed, pg_atomic_read_u32(&page->written));
		}
	}
	printf("# %s: %llu marks, %llu taken, %llu files given back\n", name,
	       (unsigned long long) pg_atomic_read_u64(&world.marks),
	       (unsigned long long) pg_atomic_read_u64(&world.taken),
	       (unsigned long long) pg_atomic_read_u64(&world.released));
	snprintf(text, sizeof(text), "%s: no mark is lost", name);
	check_number(lost, 0, text);
	snprintf(text, sizeof(text), "%s: the total is the number of bits", name);
	check_number(wrong_totals, 0, text);
	snprintf(text, sizeof(text), "%s: what is marked has an age", name);
	check_number(ageless, 0, text);
	snprintf(text, sizeof(text), "%s: what stands for no file has no regions", name);
	check_number(stray, 0, text);
	snprintf(text, sizeof(text), "%s: there was something to lose", name);
	check(enough(&world), text);
	free(world.pages);
	free(world.map);
}

int
main(void)
{
	test_marks();
	test_files();
	test_full();
	run_world("four files", BUDGET_WORLD, 4, false);
	run_world("files that come and go", BUDGET_WORLD, 24, true);
	run_world("more files than there is room for", BUDGET_MIN, 24, true);
	printf("1..%d\n", tests);
	return failures == 0 ? 0 : 1;
}
