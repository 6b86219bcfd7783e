/*-------------------------------------------------------------------------
 *
 * swap_cost.c
 *	  What it costs to swap the generations of a page map that is full.
 *
 * The swap moves what is left of the old generation, and has to find it.  As
 * a rule nothing is left; the worst is everything, in as many files as there
 * is room for.  Linked with the real page_map.c.
 *
 * Usage: swap_cost MEGABYTES...; each is a pg_calm.page_map_memory.
 *
 *-------------------------------------------------------------------------
 */
#include "map/page_map.h"

#include <time.h>

#include "bench/median.h"
#include "test/s_lock.h"

#define REPEAT 9

static double
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e3 + ts.tv_nsec / 1e6;
}

/* Files with a region each, until there is no room, then more regions of each */
static void
fill(PageMap *map)
{
	uint32 *incarnation = malloc(map->max_files * sizeof(uint32));
	char path[32];

	for (uint32 f = 0; f < map->max_files; f++)
	{
		snprintf(path, sizeof(path), "base/%u", f);
		if (page_map_track_file(map, 1, f + 1, path, &incarnation[f]) != (int) f)
			abort();
	}
	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
	{
		for (uint32 f = 0; f < map->max_files; f++)
		{
			if (pg_atomic_read_u64(&map->full_regions.value) > 0)
				break;
			(void) page_map_mark(map, f, incarnation[f], number * PAGE_MAP_REGION_BLOCKS,
			                     number == 0 ? 1 : PAGE_MAP_REGION_BLOCKS, 1);
		}
	}
	free(incarnation);
}

/* Swap several times, which leaves as much to move each time, and report */
static void
measure(PageMap *map, const char *megabytes, const char *left)
{
	double times[REPEAT];

	for (int i = 0; i < REPEAT; i++)
	{
		double start = now_ms();

		page_map_swap_generation(map);
		times[i] = now_ms() - start;
	}
	printf("%8s %9u %9u  %-24s %.3f\n", megabytes, pg_atomic_read_u32(&map->files_used), map->regions_used, left,
	       median(times, REPEAT));
}

/* Take all marks but those of the last file, which a swap comes to last */
static void
leave_last(PageMap *map)
{
	for (uint32 f = 0; f + 1 < map->max_files; f++)
	{
		PageMapFile *file = page_map_file(map, f);

		for (uint32 number = 0; number < page_map_file_regions(file); number++)
		{
			uint32 slot = page_map_slot(map, file, number);
			PageMapBits bits;

			for (int g = 0; slot != 0 && g < 2; g++)
				(void) page_map_take(map, page_map_region(map, slot - 1), g, &bits);
		}
	}
}

int
main(int argc, char **argv)
{
	if (argc < 2)
	{
		fprintf(stderr, "usage: swap_cost MEGABYTES...\n");
		return 2;
	}
	printf("%8s %9s %9s  %-24s %s\n", "MB", "files", "regions", "left of the old", "ms, median");
	for (int i = 1; i < argc; i++)
	{
		Size budget = strtoul(argv[i], NULL, 10) * 1024 * 1024;
		PageMap *map = malloc(page_map_size(budget));

		if (map == NULL)
		{
			fprintf(stderr, "no memory for a map of %s MB\n", argv[i]);
			return 1;
		}
		page_map_init(map, budget, "");
		fill(map);
		/* what is marked is old from now on */
		page_map_swap_generation(map);
		measure(map, argv[i], "every page");
		leave_last(map);
		measure(map, argv[i], "the pages of one file");
		page_map_forget_file(map, map->max_files - 1, 1);
		measure(map, argv[i], "nothing");
		free(map);
	}
	return 0;
}
