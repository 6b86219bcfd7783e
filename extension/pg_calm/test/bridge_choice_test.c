/*-------------------------------------------------------------------------
 *
 * bridge_choice_test.c
 *	  Tests of the choice of gaps without a server.
 *
 * Prints TAP.  Build: see run_tests.sh.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "writeback/bridge_choice.h"

static int tests = 0;
static int failures = 0;

static void
is(double got, double expected, const char *name)
{
	tests++;
	if (got == expected)
		printf("ok %d - %s\n", tests, name);
	else
	{
		failures++;
		printf("not ok %d - %s: got %g, expected %g\n", tests, name, got, expected);
	}
}

static DeviceCaps
caps(double iops, double bytes, uint32 io_size)
{
	DeviceCaps result;

	memset(&result, 0, sizeof(result));
	result.write_iops = iops;
	result.write_bytes = bytes;
	result.io_size = io_size;
	return result;
}

/* Regions with each page dirty by chance, and what writing them takes with a threshold */
static void
count_random(BridgeGaps *gaps, double density, int regions)
{
	memset(gaps, 0, sizeof(*gaps));
	for (int region = 0; region < regions; region++)
	{
		uint32 previous = PAGE_MAP_REGION_BLOCKS;

		for (uint32 block = 0; block < PAGE_MAP_REGION_BLOCKS; block++)
		{
			if (drand48() >= density)
				continue;
			gaps->dirty_blocks++;
			if (previous == PAGE_MAP_REGION_BLOCKS)
				gaps->runs++;
			else if (block > previous + 1)
			{
				gaps->runs++;
				if (block - previous - 1 <= BRIDGE_MAX_GAP)
					gaps->gaps[block - previous - 1]++;
			}
			previous = block;
		}
	}
}

static void
write_with_gap(const BridgeGaps *gaps, uint32 max_gap, uint64 *operations, uint64 *bytes)
{
	*operations += gaps->runs;
	*bytes += gaps->dirty_blocks * BLCKSZ;
	for (uint32 gap = 1; gap <= max_gap; gap++)
	{
		*operations -= gaps->gaps[gap];
		*bytes += gaps->gaps[gap] * gap * BLCKSZ;
	}
}

static void
test_longest_gap(void)
{
	DeviceCaps volume = caps(800, 125e6, 1024 * 1024);
	DeviceCaps cloud = caps(3000, 125e6, 256 * 1024);
	DeviceCaps no_bandwidth = caps(800, INFINITY, 256 * 1024);
	DeviceCaps no_operations = caps(INFINITY, 125e6, 256 * 1024);
	DeviceCaps even = caps(1000, 8192e3, 1024 * 1024);

	is(bridge_longest_gap(&volume), 19, "800 operations, 125 MB/s: 19.07 blocks are worth one");
	is(bridge_longest_gap(&cloud), 5, "3000 operations, 125 MB/s");
	is(bridge_longest_gap(&no_bandwidth), 32, "only operations are capped: up to one operation");
	is(bridge_longest_gap(&no_operations), 0, "only bytes are capped: no gap");
	is(bridge_longest_gap(&even), 0, "a gap that costs what it saves is not bridged");
}

static void
test_least_time(void)
{
	DeviceCaps volume = caps(800, 125e6, 1024 * 1024);
	BridgeGaps gaps;
	double least = INFINITY;
	uint32 chosen;

	count_random(&gaps, 0.1, 100);
	chosen = bridge_least_time_gap(&gaps, &volume);
	for (uint32 gap = 0; gap <= 19; gap++)
	{
		uint64 operations = 0;
		uint64 bytes = 0;

		write_with_gap(&gaps, gap, &operations, &bytes);
		least = Min(least, device_seconds(&volume, operations, bytes));
	}
	{
		uint64 operations = 0;
		uint64 bytes = 0;

		write_with_gap(&gaps, chosen, &operations, &bytes);
		is(device_seconds(&volume, operations, bytes), least, "nothing is written sooner");
	}
}

int
main(void)
{
	srand48(1);
	test_longest_gap();
	test_least_time();
	printf("1..%d\n", tests);
	return failures > 0;
}
