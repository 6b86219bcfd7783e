/*-------------------------------------------------------------------------
 *
 * breaker_law_test.c
 *	  Tests of the circuit breaker's law on a simulated volume, without a server.
 *
 * Clients commit, the worker writes what they dirty, and what both ask for stands in one queue,
 * first in, first out.  Prints TAP.  Build: see run_tests.sh.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "worker/worker.h"

#define STEP_MS 10
#define LOOK_MS 250
#define SEEDS 20

/* Operations per second, and bytes of one */
#define CAPACITY 3000.0
#define PAGE 8192.0

typedef struct Volume
{
	BreakerLaw law;
	BreakerInput counters;
	uint32 random;
	double backlog; /* operations */
	double pending; /* pages that the worker has to write */
	double flushes; /* with fractions */
	double commits;
	/* the load, and what is wrong */
	int clients;
	double capacity;
	double others;        /* operations per second of another program */
	double others_queue;  /* seconds that it keeps in the queue at most */
	double pages;         /* dirtied by a commit */
	double amplification; /* of what is written with bridges */
	double worker_queue;  /* seconds that the worker keeps in it at most */
	double worker_rate;   /* part of the capacity that it takes at most */
	uint64 at_level[3];   /* milliseconds */
	uint64 rested;        /* likewise, by the worker alone, to see what that brings */
	uint32 changes;
} Volume;

static int tests = 0;
static int failures = 0;

static void
check(bool passed, const char *format, ...)
{
	va_list arguments;

	tests++;
	failures += !passed;
	printf("%sok %d - ", passed ? "" : "not ", tests);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
}

/* 0 to 1 */
static double
chance(Volume *volume)
{
	volume->random = volume->random * 1664525 + 1013904223;
	return (volume->random >> 8) / 16777216.0;
}

static Volume
healthy(uint32 seed)
{
	Volume volume = {.random = seed * 7919 + 1,
	                 .clients = 8,
	                 .capacity = CAPACITY,
	                 .others_queue = 0.1,
	                 .pages = 1.5,
	                 .amplification = 1,
	                 .worker_queue = 0.005,
	                 .worker_rate = 0.6};

	volume.counters.now_ms = 1000;
	volume.counters.in_flight_us = 5000;
	return volume;
}

static void
step(Volume *volume)
{
	double seconds = STEP_MS / 1000.0;
	double wait = volume->backlog / volume->capacity;
	double latency = (0.0005 + wait) * (0.8 + 0.4 * chance(volume));
	double commits = volume->clients / (latency + 0.0015) * seconds;
	double flushes = Min(commits, seconds / latency);
	double pages = commits * volume->pages;
	double worker = 0;
	double asked = 0;
	double written = flushes * PAGE;

	volume->backlog += flushes + commits * 0.2;
	if (wait < volume->others_queue)
	{
		volume->backlog += volume->others * seconds;
		written += volume->others * seconds * PAGE;
	}
	volume->pending += pages;
	if (volume->law.level == BREAKER_STOCK)
	{
		/* hints, page by page */
		volume->backlog += pages * 0.9;
		written += pages * PAGE;
		volume->pending -= pages;
	}
	if (volume->law.allowed != BREAKER_STOCK && wait < volume->worker_queue)
	{
		bool bridges = volume->law.allowed == BREAKER_ALL;
		double operations_per_page = bridges ? 0.35 : 0.9;
		double bytes_per_page = PAGE * (bridges ? 2 : 1);

		worker =
			Min(volume->pending, volume->worker_rate * CAPACITY * seconds / operations_per_page);
		volume->pending -= worker;
		asked = worker * bytes_per_page;
		/* operations are of 256 kB at most, and bandwidth is 125 MiB/s */
		volume->backlog +=
			Max(worker * operations_per_page,
		        asked * (bridges ? volume->amplification : 1) / (125 << 20) * volume->capacity);
		written += asked * (bridges ? volume->amplification : 1);
		if (bridges)
			volume->counters.bridged += (uint64) (asked / 2);
	}
	volume->backlog = Max(volume->backlog - volume->capacity * seconds, 0);

	volume->flushes += flushes;
	volume->commits += commits;
	volume->counters.flushes = (uint64) volume->flushes;
	volume->counters.flush_us += (uint64) (flushes * latency * 1e6);
	volume->counters.written += (uint64) written;
	volume->counters.justified += (uint64) (flushes * PAGE + Max(pages * PAGE, asked));
	volume->counters.own += (uint64) asked;
	volume->counters.now_ms += STEP_MS;
	volume->at_level[volume->law.level] += STEP_MS;
	if (volume->law.allowed > volume->law.level)
		volume->rested += STEP_MS;
	if (volume->counters.now_ms % LOOK_MS == 0)
		volume->changes += breaker_law_follow(&volume->law, &volume->counters);
}

static void
run(Volume *volume, double seconds)
{
	for (double t = 0; t < seconds * 1000; t += STEP_MS)
		step(volume);
}

static double
larger(double a, double b)
{
	return a > b ? a : b;
}

/* As run, until it has let go that far; how long that took, or infinity */
static double
until(Volume *volume, BreakerLevel level, double most)
{
	for (double t = 0; t < most * 1000; t += STEP_MS)
	{
		step(volume);
		if (volume->law.level == level)
			return t / 1000;
	}
	return INFINITY;
}

/* An ordinary hour: all that a load, a server and its neighbours do by themselves */
static void
ordinary_hour(Volume *volume)
{
	for (int minute = 0; minute < 60; minute++)
	{
		static const int clients[] = {0, 1, 2, 8, 8, 8, 32};

		for (int part = 0; part < 6; part++)
		{
			volume->clients = clients[(int) (chance(volume) * lengthof(clients))];
			/* a checkpoint writes, a vacuum or a backup reads */
			volume->pages = part < 2 ? 4 : 1.5;
			volume->others = chance(volume) < 0.3 ? 1500 * chance(volume) : 0;
			run(volume, 5 + 10 * chance(volume));
		}
	}
}

static void
test_healthy(void)
{
	uint32 changes = 0;
	double lost = 0;

	for (uint32 seed = 0; seed < SEEDS; seed++)
	{
		Volume volume = healthy(seed);

		ordinary_hour(&volume);
		changes += volume.changes;
		lost = larger(lost, (double) volume.at_level[BREAKER_STOCK] +
		                        (double) volume.at_level[BREAKER_NO_BRIDGING]);
	}
	check(changes == 0, "in %d ordinary hours nothing is let go (%u changes, %.0f s in one)", SEEDS,
	      changes, lost / 1000);
}

static void
test_amplification(void)
{
	double slowest = 0;
	double back = 0;
	bool stayed = true;

	for (uint32 seed = 0; seed < SEEDS; seed++)
	{
		Volume volume = healthy(seed);

		run(&volume, 20 + 60 * chance(&volume));
		volume.amplification = 30;
		slowest = larger(slowest, until(&volume, BREAKER_NO_BRIDGING, 60));
		/* for as long as it lasts it is tried again seldom */
		run(&volume, 600);
		stayed = stayed && volume.at_level[BREAKER_ALL] < 150 * 1000;
		volume.amplification = 1;
		back = larger(back, until(&volume, BREAKER_ALL, 3600));
	}
	check(slowest <= 8, "bridging that amplifies is let go within 8 s: %.1f", slowest);
	check(stayed, "and not taken up while it does");
	check(back <= 660, "it is taken up when it does not, by the longest wait: %.0f s", back);
}

/* The worker knows no share, fills a deep queue, and has something to write */
static void
be_greedy(Volume *volume)
{
	volume->worker_queue = 0.2;
	volume->worker_rate = 10;
	volume->pending = 1e9;
}

static void
test_greedy_worker(void)
{
	double slowest = 0;
	double back = 0;
	double commits = INFINITY;

	for (uint32 seed = 0; seed < SEEDS; seed++)
	{
		Volume volume = healthy(seed);
		double before;

		run(&volume, 20 + 60 * chance(&volume));
		be_greedy(&volume);
		slowest = larger(slowest, until(&volume, BREAKER_STOCK, 60));
		before = volume.commits;
		run(&volume, 8);
		commits = Min(commits, (volume.commits - before) / 8);
		volume.worker_queue = 0.005;
		volume.worker_rate = 0.6;
		volume.pending = 0;
		back = larger(back, until(&volume, BREAKER_ALL, 3600));
	}
	check(slowest <= 8, "a worker that makes commits wait is let go within 8 s: %.1f", slowest);
	check(commits > 500, "commits go on as without it: %.0f per second", commits);
	check(back <= 660, "it comes back: %.0f s", back);
}

/* Letting go does not help, so it must not last */
static void
test_not_its_fault(void)
{
	double flood = 0;
	double slow = 0;

	for (uint32 seed = 0; seed < SEEDS; seed++)
	{
		Volume volume = healthy(seed);

		run(&volume, 20 + 60 * chance(&volume));
		volume.others = 20000;
		run(&volume, 300);
		flood = larger(flood, (double) volume.at_level[BREAKER_STOCK]);

		volume = healthy(seed);
		run(&volume, 20 + 60 * chance(&volume));
		volume.capacity = CAPACITY / 4;
		run(&volume, 300);
		slow = larger(slow, (double) volume.at_level[BREAKER_STOCK]);
	}
	check(flood <= 30 * 1000, "another's flood is not blamed on it for long: %.0f of 300 s",
	      flood / 1000);
	check(slow <= 60 * 1000, "nor is a volume that has become slow: %.0f of 300 s", slow / 1000);
}

/* What was found innocent is left alone, but not for good */
static void
test_innocent(void)
{
	double rested = 0;
	double slowest = 0;

	for (uint32 seed = 0; seed < SEEDS; seed++)
	{
		Volume volume = healthy(seed);

		/* it goes on writing a little, whatever stands in the queue */
		volume.others = 20000;
		volume.worker_queue = 1;
		volume.worker_rate = 0.1;
		run(&volume, 600);
		rested = larger(rested, (double) volume.rested);
		volume.others = 0;
		volume.worker_queue = 0.005;
		run(&volume, 20);
		be_greedy(&volume);
		slowest = larger(slowest, until(&volume, BREAKER_STOCK, 60));
	}
	check(rested <= 20 * 1000, "it rests seldom while another is to blame: %.0f of 600 s",
	      rested / 1000);
	check(slowest <= 8, "and is suspected again at once when that is over: %.1f s", slowest);
}

/* Whatever was found long ago, and however often a checkpoint's drain comes between */
static void
test_found_again(void)
{
	double slowest = 0;
	uint32 forgotten = 0;
	uint32 tripped = 0;

	for (uint32 seed = 0; seed < SEEDS; seed++)
	{
		Volume volume = healthy(seed);

		run(&volume, 20);
		/* as after hours in which it was suspected again and again */
		volume.law.innocent = volume.law.amplified = 10;
		run(&volume, 700);
		volume.amplification = 30;
		slowest = larger(slowest, until(&volume, BREAKER_NO_BRIDGING, 60));
		forgotten += volume.law.innocent == 0 && volume.law.amplified == 0;

		volume = healthy(seed);
		run(&volume, 20);
		volume.amplification = 30;
		run(&volume, 1.5); /* a trial has begun */
		for (int checkpoint = 0; checkpoint < 30; checkpoint++)
		{
			volume.counters.interrupted = true;
			run(&volume, 0.5);
			volume.counters.interrupted = false;
			run(&volume, 10.5);
			if (volume.changes > 0)
			{
				tripped++;
				break;
			}
		}
	}
	check(forgotten == SEEDS, "after a long calm time all is new: %u of %d times", forgotten,
	      SEEDS);
	check(slowest <= 30, "harm is found soon after it: %.1f s", slowest);
	check(tripped == SEEDS, "and with a checkpoint each 11 s: %u of %d times", tripped, SEEDS);
}

/* It does harm, but the server would do as much: a volume that has almost none left to give */
static void
test_does_not_help(void)
{
	double stock = 0;
	uint32 changes = 0;

	for (uint32 seed = 0; seed < SEEDS; seed++)
	{
		Volume volume = healthy(seed);

		run(&volume, 20);
		volume.capacity = CAPACITY / 15;
		volume.pages = 8;
		volume.worker_queue = 0.2;
		volume.pending = 1e9;
		run(&volume, 600);
		changes += volume.changes;
		stock = larger(stock, (double) volume.at_level[BREAKER_STOCK]);
	}
	check(changes >= 2 * SEEDS, "where it does harm all is let go, and taken up: %u changes",
	      changes);
	check(stock <= 120 * 1000, "soon, where that does not help: %.0f of 600 s", stock / 1000);
}

/* What nobody can tell is no reason */
static void
test_unknown(void)
{
	Volume volume = healthy(1);

	volume.clients = 0;
	volume.pending = 1e6;
	volume.worker_queue = 1;
	volume.worker_rate = 10;
	run(&volume, 600);
	check(volume.changes == 0, "nobody commits, so nobody waits");

	volume = healthy(2);
	run(&volume, 60);
	volume.amplification = 30;
	(void) until(&volume, BREAKER_NO_BRIDGING, 60);
	volume.clients = 0;
	check(until(&volume, BREAKER_ALL, 60) <= 60, "and it is taken up again when nobody does");

	volume = healthy(3);
	volume.counters.interrupted = true;
	volume.amplification = 30;
	run(&volume, 120);
	check(volume.changes == 0 && volume.law.tried == BREAKER_FINE,
	      "nothing is tried while somebody waits for the worker");
}

int
main(void)
{
	test_healthy();
	test_amplification();
	test_greedy_worker();
	test_not_its_fault();
	test_innocent();
	test_found_again();
	test_does_not_help();
	test_unknown();
	printf("1..%d\n", tests);
	return failures > 0;
}
