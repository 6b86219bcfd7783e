/*-------------------------------------------------------------------------
 *
 * governor_queue_test.c
 *	  Tests of what writers may do behind a queue of the kernel's, without a server.
 *
 * Prints TAP.  Build: see run_tests.sh.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "governor/governor.h"
#include "shared/shared.h"
#include "writeback/queued_writeback.h"

#define MIB (1024.0 * 1024)

/* What writers make dirty in a second, and how much may be unflushed */
#define USUAL (15 * MIB)
#define LIMIT (180 * MIB)

/* What governor_queue.c has from elsewhere.  Files can't be asked here: all writeback counts as ours. */
static CalmShared shared;
CalmShared *calm_shared = &shared;
static char no_root[] = "";
const char *calm_host_root = no_root;

bool
cachestat_works(void)
{
	return false;
}

uint64
queued_writeback_bytes_now(uint64 device)
{
	(void) device;
	abort();
}

static int tests = 0;
static int failures = 0;
static KernelFlusher flusher;
static const DeviceCaps caps = {.write_iops = 800,
                                .write_bytes = 125 * MIB,
                                .all_iops = INFINITY,
                                .all_bytes = INFINITY,
                                .io_size = 256 * 1024};

/* The share that writers get at a look: so much is queued, was written since the last look, and is unflushed */
static double
look(double second, double queued_mib, double written_mib, double unflushed_mib)
{
	uint64 now_ms = (uint64) (second * 1000);
	bool known;
	double queue;

	flusher.writeback_bytes = (uint64) (queued_mib * MIB);
	flusher.write_bytes += (uint64) (written_mib * MIB);
	queue = governor_queue_seconds(&flusher, &caps, &known, now_ms);
	return governor_queue_share(queue, known, unflushed_mib * MIB, LIMIT, USUAL, now_ms);
}

static void
is(double got, double expected, const char *name)
{
	tests++;
	if (got == expected || fabs(got - expected) < 0.01)
		printf("ok %d - %s\n", tests, name);
	else
	{
		failures++;
		printf("not ok %d - %s: got %g, expected %g\n", tests, name, got, expected);
	}
}

int
main(void)
{
	double share;

	/* the device is at its operations, as scattered as it gets */
	flusher.writes_per_second = 800;
	flusher.written_per_second = 8 * MIB;

	is(look(1, 0, 0, 30), INFINITY, "nobody is held where nothing is queued");

	is(look(10, 300, 0, 30), 0.6, "until it is known what the device makes of a queue: most");
	is(look(11, 180, 120, 30), INFINITY, "a dense queue holds nobody a second later");

	(void) look(20, 0, 8, 30);
	is(look(30, 200, 0, 30), 0.6, "a scattered queue begins likewise");
	is(look(31, 194, 6, 30), 0.25, "and is known a second later: least");
	is(look(32, 190, 4, 60), 0.25, "as long as it is there");
	is(look(33, 0, 190, 150), 0.6, "gone, until the worker has caught up: most");
	is(look(34, 0, 100, 100), INFINITY, "and then nobody is held");

	is(look(40, 400, 0, 30), INFINITY, "what lasts longer than a hold may is not waited for");
	(void) look(45, 0, 400, 30);

	is(look(50, 40, 0, 30), INFINITY, "nor what there is room for");
	(void) look(55, 0, 40, 30);

	/* a queue that never gets less */
	share = look(100, 200, 0, 100);
	for (int second = 101; second < 130; second++)
	{
		double now = look(second, 200, 8, 100);

		share = Max(share, now);
	}
	is(share, 0.6, "a hold lasts");
	is(look(130, 200, 8, 100), INFINITY, "but no longer than half a minute");
	is(look(189, 200, 8 * 59, 100), INFINITY, "and then there is none for a minute");
	is(look(191, 200, 8 * 2, 100), 0.25, "after which there is");

	printf("1..%d\n", tests);
	return failures == 0 ? 0 : 1;
}
