/*-------------------------------------------------------------------------
 *
 * mark_cost.c
 *	  What a mark in the page map takes, with many threads at it.
 *
 * Threads stand for backends.  All mark random blocks of the same 16 files of
 * 64 MB; one more takes what is marked, as the worker does, all the time.  On a
 * machine with fewer processors than threads it shows what waiting for a lock
 * that a thread without a processor holds would cost; not what as many
 * processors would make of one cache line.
 *
 * Usage: mark_cost THREADS...
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "map/page_map.h"

#include <pthread.h>
#include <time.h>

#include "test/s_lock.h"

#define FILES 16
#define FILE_BLOCKS 8192
#define MARKS 4000000 /* by all threads together */

static PageMap *map;
static uint32 incarnation[FILES];
static uint32 marks_each;
static pg_atomic_uint32 stop;

static double
seconds(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Returns its seconds of processor time */
static void *
marker_main(void *argument)
{
	double *used = argument;
	double start = seconds(CLOCK_THREAD_CPUTIME_ID);
	uint64 random = (uintptr_t) argument;

	for (uint32 i = 0; i < marks_each; i++)
	{
		uint32 f;

		random = random * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
		f = (random >> 60) % FILES;
		if (!page_map_mark(map, f, incarnation[f], (random >> 33) % FILE_BLOCKS, 1, 1))
			abort();
	}
	*used = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
	return NULL;
}

static void *
taker_main(void *argument)
{
	(void) argument;
	while (pg_atomic_read_u32(&stop) == 0)
	{
		struct timespec pause = {0, 1000 * 1000};

		for (uint32 f = 0; (f = page_map_next_marked(map, f)) != PAGE_MAP_END; f++)
		{
			PageMapFile *file = page_map_file(map, f);

			for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
			{
				PageMapRegion *region = page_map_region_of(map, file, number);
				PageMapBits bits;

				if (region)
					(void) page_map_take(map, region, &bits);
			}
		}
		nanosleep(&pause, NULL);
	}
	return NULL;
}

int
main(int argc, char **argv)
{
	Size budget = 8 * 1024 * 1024;
	pthread_t taker;

	if (argc < 2)
	{
		fprintf(stderr, "usage: mark_cost THREADS...\n");
		return 2;
	}
	map = malloc(page_map_size(budget));
	if (map == NULL)
		return 1;
	page_map_init(map, budget, "");
	for (uint32 f = 0; f < FILES; f++)
	{
		char path[32];

		snprintf(path, sizeof(path), "base/%u", f);
		(void) page_map_track_file(map, 1, f + 1, path, &incarnation[f]);
	}
	pg_atomic_init_u32(&stop, 0);
	pthread_create(&taker, NULL, taker_main, NULL);
	printf("%8s %12s %s\n", "threads", "marks", "ns of processor time per mark");
	for (int i = 1; i < argc; i++)
	{
		int threads = atoi(argv[i]);
		pthread_t *marker = calloc(threads, sizeof(pthread_t));
		double *used = calloc(threads, sizeof(double));
		double all = 0;

		marks_each = MARKS / threads;
		for (int t = 0; t < threads; t++)
			pthread_create(&marker[t], NULL, marker_main, &used[t]);
		for (int t = 0; t < threads; t++)
		{
			pthread_join(marker[t], NULL);
			all += used[t];
		}
		printf("%8d %12u %.1f\n", threads, marks_each * threads,
		       all * 1e9 / ((double) marks_each * threads));
		free(marker);
		free(used);
	}
	pg_atomic_write_u32(&stop, 1);
	pthread_join(taker, NULL);
	return 0;
}
