/*-------------------------------------------------------------------------
 *
 * controller_test.c
 *	  Tests of the controller, without a server: by figures, and against a model of a volume.
 *
 * Prints TAP.  Build: see run_tests.sh.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

/* As a whole: what it remembers, as long as the worker lives, is to begin anew in each test */
#include "writeback/controller.c"

#define MIB (1024.0 * 1024)
#define GIB (1024.0 * MIB)
#define TICK_MS 250

static int tests = 0;
static int failures = 0;

static const DeviceCaps gp3 = {.write_iops = 3000,
                               .write_bytes = 125 * MIB,
                               .all_iops = 3000,
                               .all_bytes = 125 * MIB,
                               .io_size = 256 * 1024};

/* What there is, since the program began */
static ControllerInput input;
static ControllerOutput output;
static uint64 size = 8192; /* of an operation */
static double lowest;      /* that the device was taken to give since begin() */

static void
check(bool ok, const char *name)
{
	tests++;
	if (!ok)
		failures++;
	printf("%sok %d - %s\n", ok ? "" : "not ", tests, name);
}

static void
near(double got, double expected, const char *name)
{
	check(fabs(got - expected) <= expected / 100, name);
	if (fabs(got - expected) > expected / 100)
		printf("# got %g, expected %g\n", got, expected);
}

static void
begin(const DeviceCaps *caps)
{
	memset(&last, 0, sizeof(last));
	memset(&all, 0, sizeof(all));
	memset(&writes, 0, sizeof(writes));
	memset(&used, 0, sizeof(used));
	gap = -1;
	given = 1;
	quick_us = 0;
	slow_ms = 0;
	lowest = 1;
	memset(&input, 0, sizeof(input));
	input.now_ms = 1;
	input.caps = *caps;
	input.flush_rate = INFINITY;
	input.flusher.background_bytes = PG_UINT64_MAX;
	input.flusher.device_bytes = PG_UINT64_MAX;
}

/* One look later; operations of that size, so many per second */
static void
tick(double reads, double writes, double own)
{
	double part = TICK_MS / 1000.0;

	input.now_ms += TICK_MS;
	input.flusher.operations += (uint64) rint((reads + writes + own) * part);
	input.flusher.bytes += (uint64) rint((reads + writes + own) * part) * size;
	input.flusher.write_operations += (uint64) rint((writes + own) * part);
	input.flusher.write_bytes += (uint64) rint((writes + own) * part) * size;
	input.own_operations += (uint64) rint(own * part);
	input.own_bytes += (uint64) rint(own * part) * 8192;
	controller_follow(&input, &output);
	lowest = Min(lowest, output.given);
}

/* For so long that the past is forgotten */
static void
use(double reads, double writes, double own)
{
	for (int i = 0; i < 600; i++)
		tick(reads, writes, own);
}

static void
test_share(void)
{
	DeviceCaps balanced = {.write_iops = 4200,
	                       .write_bytes = 196 * MIB,
	                       .all_iops = 4200,
	                       .all_bytes = INFINITY,
	                       .io_size = 256 * 1024};
	DeviceCaps few_bytes = {.write_iops = 3000,
	                        .write_bytes = 22 * MIB,
	                        .all_iops = 3000,
	                        .all_bytes = 22 * MIB,
	                        .io_size = 256 * 1024};
	DeviceCaps only_writes = {.write_iops = 800,
	                          .write_bytes = 125 * MIB,
	                          .all_iops = INFINITY,
	                          .all_bytes = INFINITY,
	                          .io_size = 256 * 1024};

	begin(&gp3);
	use(500, 700, 1000);
	check(output.paced, "where reads count the worker is paced");
	near(output.share.write_iops, 1800, "to the operations that reads and WAL leave");
	near(output.share.write_bytes, 125 * MIB - 1200 * 8192, "and bytes");
	near(output.all_operations, 2200, "all that the device makes is told");
	near(output.reads, 500, "and reads");
	use(0, 30000, 0);
	near(output.share.write_iops, 900, "three tenths are the worker's");
	near(output.share.write_bytes, 37.5 * MIB, "of bytes as well");
	input.hurries = true;
	use(0, 30000, 0);
	near(output.share.write_iops, 1800, "six while WAL waits for the checkpoint to end");

	begin(&balanced);
	use(500, 700, 1000);
	near(output.share.write_iops, 3000, "likewise where bytes are apart");
	near(output.share.write_bytes, 196 * MIB - 700 * 8192, "of which reads take none");

	begin(&only_writes);
	use(500, 700, 100);
	check(!output.paced, "where no limit counts reads it is not paced");
	near(output.share.write_iops, 800, "and has the whole");

	begin(&few_bytes);
	use(0, 3000, 0);
	near(output.share.write_bytes, 15.4 * MIB, "seven of bytes that no gap is filled with");

	/* how fast it follows */
	begin(&gp3);
	use(100, 100, 0);
	for (int i = 0; i < 8; i++)
		tick(1000, 1000, 0);
	check(output.share.write_iops < 1200, "a higher use is followed within two seconds");
	for (int i = 0; i < 8; i++)
		tick(0, 0, 1000);
	check(output.share.write_iops < 1600, "a lower one is not");
}

static void
test_limit(void)
{
	begin(&gp3);
	input.unflushed = 1000000;
	tick(0, 0, 0);
	check(!output.too_much, "with no rate known and no kernel to come nothing is too much");

	input.flush_rate = 8000;
	tick(0, 0, 0);
	near(output.limit, 8000 * 8192.0, "a second of the device may wait");
	near(output.full, 3 * 8000 * 8192.0, "with three it can't go on");
	check(output.too_much, "more than that is too much");
	input.unflushed = 7000;
	tick(0, 0, 0);
	check(!output.too_much, "less is not");

	input.flusher.device_bytes = (uint64) (100 * MIB);
	input.flusher.background_bytes = (uint64) (1 * GIB);
	input.flusher.dirty_bytes = (uint64) (200 * MIB);
	tick(0, 0, 0);
	near(output.limit, 50 * MIB, "no more than half of what wakes the kernel's flusher");
	near(output.full, 100 * MIB, "at which it can't go on");
	check(output.too_much, "which is less");
	input.flusher.dirty_bytes = (uint64) (40 * MIB);
	tick(0, 0, 0);
	check(!output.too_much, "what the kernel has written does not count");
	near(output.written, 7000 * 8192.0 - 40 * MIB, "which is told");
	input.flusher.dirty_bytes = (uint64) (0.9 * GIB);
	input.unflushed = 0;
	tick(0, 0, 0);
	check(output.too_much, "with the host near where it wakes all is flushed");
}

static void
test_gap(void)
{
	DeviceCaps caps = gp3;

	begin(&gp3);
	tick(0, 0, 0);
	check(output.gap == 5, "with all to spare a gap may cost what it saves: 125 MiB/s for 3000");
	use(0, 2900, 0);
	check(output.gap == 32,
	      "with operations used up and bytes left it is up to an operation's size");
	size = 128 * 1024;
	use(0, 1000, 0);
	check(output.gap == 0, "with bytes used up and operations left none is filled");
	size = 8192;
	for (int i = 0; i < 40; i++)
		tick(0, 2900, 0);
	check(output.gap > 5, "from which it comes back within seconds");
	size = 43690;
	for (int i = 0; i < 4; i++)
		tick(0, 2900, 0);
	size = 8192;
	use(0, 100, 0);
	check(output.gap == 5, "and with little used it is as at the beginning");

	caps.write_bytes = caps.all_bytes = INFINITY;
	begin(&caps);
	use(0, 2900, 0);
	check(output.gap == 32, "where only operations are limited any gap is worth it");
	caps = gp3;
	caps.write_iops = caps.all_iops = INFINITY;
	begin(&caps);
	use(0, 2900, 0);
	check(output.gap == 0, "where only bytes are, none is");
	caps.write_iops = caps.all_iops = 1000;
	caps.write_bytes = caps.all_bytes = 1000 * 8192.0;
	begin(&caps);
	tick(0, 0, 0);
	check(output.gap == 0, "a gap that costs what it saves is not filled");

	/* limits of writes alone */
	caps = gp3;
	caps.write_iops = 800;
	caps.all_iops = caps.all_bytes = INFINITY;
	begin(&caps);
	use(5000, 300, 0);
	check(output.gap == 19, "reads use up no operations of writes");
	caps.write_iops = caps.all_iops = 4200;
	begin(&caps);
	size = 128 * 1024;
	use(1200, 0, 0);
	size = 8192;
	check(output.gap == 3, "nor bytes");
}

static void
test_sparse(void)
{
	begin(&gp3);
	input.flush_rate = 10000;
	use(0, 700, 700);
	near(output.limit, 10000 * 8192, "the pool's limit is a second of the device");
	near(output.full, 3 * 10000 * 8192, "and it is full with three");
	input.flush_rate = 1000;
	for (int i = 0; i < 4; i++)
		tick(0, 700, 700);
	check(output.limit > 9000 * 8192, "one that has become sparse may grow");
	use(0, 700, 700);
	near(output.limit, 1000 * 8192, "but not for ever");
}

/*
 * A volume and a load: pages are dirtied at random in a table, and the more of them wait the
 * denser they are.  The worker flushes what the share allows while too much waits.  The time
 * for a page falls from that of an operation to that of its bytes and its neighbours'.
 */
static void
simulate(double dirtied, double others, double *waiting, double *used)
{
	double table = 250000;
	double pool = 0;

	begin(&gp3);
	*used = 0;
	for (int i = 0; i < 1200; i++)
	{
		double density = Min(pool / table + 0.02, 1);
		double by_bytes = gp3.write_bytes / 8192 * density;
		double share;
		double flushed = 0;

		input.unflushed = (uint64) pool;
		input.flush_rate = Max(by_bytes, gp3.write_iops);
		share = output.share.write_iops / gp3.write_iops;
		if (output.too_much)
			flushed = Min(pool, input.flush_rate * share * TICK_MS / 1000);
		pool += dirtied * TICK_MS / 1000 - flushed;
		tick(0, others, flushed * 1000 / TICK_MS * gp3.write_iops / input.flush_rate);
		*used = Max(*used, i > 200 ? output.all_operations : 0);
	}
	*waiting = pool;
}

static void
test_model(void)
{
	double waiting;
	double used;

	simulate(1000, 1000, &waiting, &used);
	check(waiting < 3000 * 1.5, "a pool that can be kept small is");
	check(used <= 3000 * 1.01, "within what the volume has");
	simulate(3500, 1500, &waiting, &used);
	check(waiting > 3000 && waiting < 250000,
	      "one that can't grows as far as its density needs, and stops there");
	check(used <= 3000 * 1.1,
	      "within what the volume has, but for what others take more just then");
	simulate(3500, 2900, &waiting, &used);
	check(waiting < 250000, "likewise where others would leave it nothing");
}

/*
 * A device that gives a part of what gp3 is told to give: others make 700 operations, the worker
 * what its share allows, and flushes of WAL take 1 ms, or 6 where nothing is left.  Returns how
 * often they took 6 in the last minute of two, in percent.
 */
static double
use_device(double part, double others)
{
	double slow = 0;
	double most = gp3.all_iops * part;

	for (int i = 0; i < 480; i++)
	{
		double own = output.share.write_iops;
		bool full = own + others > most;

		if (full)
			own = Max(most - others, most / 10);
		input.wal_flushes += 100;
		input.wal_flush_us += full ? 600000 : 100000;
		tick(0, full ? most - own : others, own);
		if (full && i >= 240)
			slow += 100.0 / 240;
	}
	return slow;
}

static void
test_given(void)
{
	begin(&gp3);
	for (int i = 0; i < 80; i++)
	{
		input.now_ms += TICK_MS;
		input.own_operations += 250;
		input.wal_flushes += 100;
		input.wal_flush_us += i < 8 ? 100000 : 600000;
		controller_follow(&input, &output);
	}
	check(output.given == 1, "a device whose use is not seen is taken to give what is told");

	begin(&gp3);
	tick(0, 700, 0);
	for (int i = 0; i < 8; i++)
	{
		input.wal_flushes += 100;
		input.wal_flush_us += 100000;
		tick(0, 700, 0);
	}
	check(output.given == 1, "a device gives what it was told to, as long as nobody waits");
	check(use_device(1, 700) == 0 && output.given == 1, "likewise with the worker at work");
	check(use_device(0.5, 700) <= 10, "where it gives half, the worker keeps to that");
	check(output.given >= 0.4 && output.given <= 0.6, "which is known");
	check(use_device(1, 700) == 0 && output.given == 1, "and is the past once it gives all again");
	(void) use_device(0.02, 20);
	check(output.given >= 0.125, "an error is bounded");

	begin(&gp3);
	use_device(1, 700);
	for (int i = 0; i < 40; i++)
	{
		input.wal_flushes += 100;
		input.wal_flush_us += 600000;
		tick(0, 200, output.share.write_iops / 2);
		if (i == 12)
			check(output.given < 0.5, "flushes that are slow for another reason make it give way");
	}
	check(output.given == 1, "until that has not helped for seconds");
	begin(&gp3);
	use_device(1, 700);
	(void) use_device(0.5, 1400);
	check(lowest == 1, "where others use it up the worker does not give way to them");
	begin(&gp3);
	use_device(1, 700);
	for (int i = 0; i < 400; i++)
	{
		input.wal_flushes += 100;
		input.wal_flush_us += 600000;
		tick(0, 1000, 2000);
	}
	check(lowest == 1, "a device that is full has nothing to answer for");
}

int
main(void)
{
	test_share();
	test_sparse();
	test_limit();
	test_gap();
	test_model();
	test_given();
	printf("1..%d\n", tests);
	return failures == 0 ? 0 : 1;
}
