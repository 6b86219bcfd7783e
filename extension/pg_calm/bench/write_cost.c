/*-------------------------------------------------------------------------
 *
 * write_cost.c
 *	  What the page map costs for each page that the server writes.
 *
 * Does for each write what io_hooks.c does (clock, look-up by file
 * descriptor, page_map_mark), linked with the
 * real page_map.c, and compares with the buffered pwrite of 8 KiB that it
 * accompanies.  Batches of all variants take turns, and medians are compared,
 * since other work on the machine disturbs some of them.
 *
 * Usage: write_cost FILE; FILE is written to and left behind.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/base.h"
#include "map/page_map.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench/median.h"
#include "test/s_lock.h"

#define BLOCKS (4 * PAGE_MAP_REGION_BLOCKS)
#define BATCHES 61
#define GOAL_PERCENT 5.0

typedef enum Variant
{
	PWRITE,       /* the server without the module */
	PWRITE_HIT,   /* page is marked already */
	PWRITE_MISS,  /* page is not marked */
	PWRITE_TAKE,  /* a worker takes marks all the time */
	PWRITE_FSTAT, /* what asking the kernel for the file would cost */
	VARIANTS
} Variant;

static const char *const labels[VARIANTS] = {
	"pwrite of 8 KiB",
	"pwrite + mark, marked already",
	"pwrite + mark, not marked yet",
	"pwrite + mark, marks taken meanwhile",
	"pwrite + fstat (not done)",
};

/* As in io_hooks.c */
typedef struct KnownFd
{
	int32 file;
	uint32 incarnation;
} KnownFd;

static PageMap *map;
static KnownFd known_fds[1024];
static uint32 order[BLOCKS];
static pg_atomic_uint32 taking; /* 0: taker sleeps, 1: takes, 2: ends */

static double
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static void
take_all(void)
{
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
}

static void *
taker_main(void *argument)
{
	struct timespec pause = {0, 1000000};
	uint32 state;

	(void) argument;
	while ((state = pg_atomic_read_u32(&taking)) != 2)
	{
		if (state == 1)
			take_all();
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* The common path of written() in io_hooks.c */
static inline void
written(int fd, off_t offset, ssize_t length)
{
	KnownFd known;
	BlockNumber block = offset / BLCKSZ;
	uint32 blocks = (offset + length - 1) / BLCKSZ - block + 1;
	uint64 now = monotonic_ms();

	known.file = 0;
	if (fd >= 0 && fd < (int) lengthof(known_fds))
		known = known_fds[fd];
	if (known.file > 0 &&
	    !page_map_mark(map, known.file - 1, known.incarnation, block, blocks, now))
		abort();
}

static double
run_batch(Variant variant, int fd, const char *buffer)
{
	struct stat st;
	double start;

	if (variant == PWRITE_MISS)
		take_all();
	pg_atomic_write_u32(&taking, variant == PWRITE_TAKE);
	start = now_ns();
	for (int i = 0; i < BLOCKS; i++)
	{
		off_t offset = (off_t) order[i] * BLCKSZ;
		ssize_t length = pwrite(fd, buffer, BLCKSZ, offset);

		if (length != BLCKSZ)
			abort();
		if (variant == PWRITE_FSTAT)
		{
			if (fstat(fd, &st) != 0)
				abort();
		}
		else if (variant != PWRITE)
			written(fd, offset, length);
	}
	return (now_ns() - start) / BLOCKS;
}

/* Marks alone, without the system call */
static double
run_marks(int fd, bool marked)
{
	double start;

	if (!marked)
		take_all();
	start = now_ns();
	for (int i = 0; i < BLOCKS; i++)
		written(fd, (off_t) order[i] * BLCKSZ, BLCKSZ);
	return (now_ns() - start) / BLOCKS;
}

int
main(int argc, char **argv)
{
	static double times[VARIANTS][BATCHES];
	static double hits[BATCHES];
	static double misses[BATCHES];
	static char buffer[BLCKSZ];
	uint64 random = 1;
	pthread_t taker;
	struct stat st;
	uint32 incarnation;
	double base;
	double worst = 0;
	int fd;

	if (argc != 2)
	{
		fprintf(stderr, "usage: write_cost FILE\n");
		return 2;
	}
	fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || fd >= (int) lengthof(known_fds) || fstat(fd, &st) != 0)
	{
		perror(argv[1]);
		return 1;
	}
	map = malloc(page_map_size(1024 * 1024));
	page_map_init(map, 1024 * 1024, "");
	known_fds[fd].file = page_map_track_file(map, st.st_dev, st.st_ino, argv[1], &incarnation) + 1;
	known_fds[fd].incarnation = incarnation;
	pg_atomic_init_u32(&taking, 0);

	for (uint32 i = 0; i < BLOCKS; i++)
		order[i] = i;
	for (uint32 i = BLOCKS - 1; i > 0; i--)
	{
		uint32 other;
		uint32 swap = order[i];

		random = random * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
		other = (uint32) (random >> 33) % (i + 1);
		order[i] = order[other];
		order[other] = swap;
	}
	pthread_create(&taker, NULL, taker_main, NULL);

	/* the file into the page cache */
	(void) run_batch(PWRITE_HIT, fd, buffer);
	for (int b = 0; b < BATCHES; b++)
	{
		for (Variant v = 0; v < VARIANTS; v++)
			times[v][b] = run_batch(v, fd, buffer);
		pg_atomic_write_u32(&taking, 0);
		misses[b] = run_marks(fd, false);
		hits[b] = run_marks(fd, true);
	}
	pg_atomic_write_u32(&taking, 2);
	pthread_join(taker, NULL);

	base = median(times[PWRITE], BATCHES);
	printf("%-38s %8s %8s\n", "median of one write", "ns", "added");
	for (Variant v = 0; v < VARIANTS; v++)
	{
		double ns = median(times[v], BATCHES);
		double added = (ns / base - 1) * 100;

		printf("%-38s %8.0f %7.1f%%\n", labels[v], ns, added);
	}

	/* the marks alone tell it with less noise than the difference above */
	printf("%-38s %8.1f %7.1f%%\n", "mark alone, marked already", median(hits, BATCHES),
	       median(hits, BATCHES) / base * 100);
	printf("%-38s %8.1f %7.1f%%\n", "mark alone, not marked yet", median(misses, BATCHES),
	       median(misses, BATCHES) / base * 100);
	worst = median(misses, BATCHES) / base * 100;
	printf("goal: at most %.0f %%: %s\n", GOAL_PERCENT, worst <= GOAL_PERCENT ? "met" : "missed");
	close(fd);
	return worst <= GOAL_PERCENT ? 0 : 1;
}
