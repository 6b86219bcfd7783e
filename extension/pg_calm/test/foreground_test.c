/*-------------------------------------------------------------------------
 *
 * foreground_test.c
 *	  Tests of what is left to the worker, without a server.
 *
 * Prints TAP.  Build: see run_tests.sh.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "writeback/foreground.h"

#define MIB (1024.0 * 1024)
#define TICK_MS 100

static int tests = 0;
static int failures = 0;

/* Since the program began */
static KernelFlusher counts;
static uint64 own_operations = 0;
static uint64 own_bytes = 0;
static uint64 now_ms = 0;

static void
near(double got, double expected, const char *name)
{
	tests++;
	if (fabs(got - expected) <= expected / 100)
		printf("ok %d - %s\n", tests, name);
	else
	{
		failures++;
		printf("not ok %d - %s: got %g, expected %g\n", tests, name, got, expected);
	}
}

/* For so long that the past is forgotten; figures are per second, operations of 8 kB */
static void
use(const DeviceCaps *caps, int reads, int writes, int own)
{
	for (int tick = 0; tick < 2000; tick++)
	{
		now_ms += TICK_MS;
		counts.operations += (reads + writes + own) * TICK_MS / 1000;
		counts.bytes += (uint64) (reads + writes + own) * 8192 * TICK_MS / 1000;
		counts.write_operations += (writes + own) * TICK_MS / 1000;
		counts.write_bytes += (uint64) (writes + own) * 8192 * TICK_MS / 1000;
		own_operations += own * TICK_MS / 1000;
		own_bytes += (uint64) own * 8192 * TICK_MS / 1000;
		foreground_follow(&counts, caps, own_operations, own_bytes, now_ms);
	}
}

static DeviceCaps
left(DeviceCaps caps, double excess)
{
	(void) foreground_limit(&caps, excess);
	return caps;
}

int
main(void)
{
	/* all is shared */
	DeviceCaps gp3 = {.write_iops = 3000,
	                  .write_bytes = 125 * MIB,
	                  .all_iops = 3000,
	                  .all_bytes = 125 * MIB,
	                  .io_size = 256 * 1024};
	/* operations are shared, reads and writes have bytes of their own */
	DeviceCaps balanced = {.write_iops = 4200,
	                       .write_bytes = 196 * MIB,
	                       .all_iops = 4200,
	                       .all_bytes = INFINITY,
	                       .io_size = 256 * 1024};
	DeviceCaps only_writes = {.write_iops = 800,
	                          .write_bytes = 125 * MIB,
	                          .all_iops = INFINITY,
	                          .all_bytes = INFINITY,
	                          .io_size = 256 * 1024};

	use(&gp3, 500, 700, 1000);
	near(left(gp3, 0).write_iops, 1800, "operations that reads and WAL leave");
	near(left(gp3, 0).write_bytes, 125 * MIB - 1200 * 8192, "and bytes");
	near(left(balanced, 0).write_iops, 3000, "likewise where bytes are apart");
	near(left(balanced, 0).write_bytes, 196 * MIB - 700 * 8192,
	     "of bytes for writes what WAL leaves; reads don't count");
	near(left(only_writes, 0).write_iops, 800, "where no limit counts reads, the whole");
	near(left(only_writes, 0).write_bytes, 125 * MIB, "and all bytes");

	use(&gp3, 0, 30000, 0);
	near(left(gp3, 0).write_iops, 900, "three tenths are the worker's");
	near(left(gp3, 1).write_iops, 1800, "six, if the kernel is about to write");
	near(left(balanced, 0).write_bytes, 0.3 * 196 * MIB, "of bytes for writes as well");
	near(left(balanced, 1).write_bytes, 0.6 * 196 * MIB, "and six");

	printf("1..%d\n", tests);
	return failures == 0 ? 0 : 1;
}
