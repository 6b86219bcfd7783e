/*-------------------------------------------------------------------------
 *
 * commit_delay_law_test.c
 *	  Tests of the wait before a flush of WAL without a server.
 *
 * Clients, CPUs and a volume are simulated as group commit uses them; what the law
 * learns there is compared with fixed waits.
 *
 * Prints TAP.  Build: see run_tests.sh.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "wal/commit_delay_law.h"

#define MAX_CLIENTS 256
#define MAX_CPUS 64

/* As the module and the server do it */
#define TIMER_SLACK 60e-6
#define EPOCH_SECONDS 0.1
#define EPOCH_FLUSHES 25
#define EPOCH_COMMITS 50

static int tests = 0;
static int failures = 0;

typedef struct World
{
	int clients;
	int cpus;    /* each works on one transaction at a time; 0: as many as clients, who may think */
	double work; /* CPU time of a transaction, in seconds */
	double think;      /* mean time between a client's transactions; exponential */
	double flush;      /* time of a flush with nobody else there */
	double operations; /* that the volume lets through per second; 0: any */

	int last_group;
	double now; /* when the last flush ended */
	double ready[MAX_CLIENTS];
	double cpu_free[MAX_CPUS];
	double volume_free;
	double commits;
} World;

static void
ok(bool good, const char *name, const char *format, double got, double limit)
{
	tests++;
	if (good)
		printf("ok %d - %s\n", tests, name);
	else
	{
		failures++;
		printf("not ok %d - %s: ", tests, name);
		printf(format, got, limit);
		printf("\n");
	}
}

static double
exponential(double mean)
{
	return mean > 0 ? -log(1 - drand48()) * mean : 0;
}

/* The volume does an operation, asked for at a moment: when it is let through */
static double
operation(World *world, double moment)
{
	if (world->operations <= 0)
		return moment;
	/* what was not used for long is not kept */
	world->volume_free = Max(world->volume_free, moment - 0.01) + 1 / world->operations;
	return Max(moment, world->volume_free);
}

/* A client is released: when it has its next commit */
static double
next_commit(World *world, double moment)
{
	int cpu = 0;

	moment += exponential(world->think);
	if (world->cpus == 0)
		return moment + world->work * (0.8 + 0.4 * drand48());
	for (int i = 1; i < world->cpus; i++)
	{
		if (world->cpu_free[i] < world->cpu_free[cpu])
			cpu = i;
	}
	world->cpu_free[cpu] =
		Max(world->cpu_free[cpu], moment) + world->work * (0.8 + 0.4 * drand48());
	return world->cpu_free[cpu];
}

static void
start(World *world)
{
	world->now = 0;
	world->volume_free = 0;
	world->commits = 0;
	memset(world->cpu_free, 0, sizeof(world->cpu_free));
	for (int i = 0; i < MAX_CLIENTS; i++)
		world->ready[i] = i < world->clients ? next_commit(world, 0) : INFINITY;
}

static void
came(WalEpoch *epoch, double after, double most)
{
	for (int step = 0; after > 0 && after <= most && step < COMMIT_DELAY_STEPS; step++)
	{
		if (after <= commit_delay_step(step))
			epoch->within[step]++;
	}
}

/* One flush, with a wait before it if so many others commit */
static void
flush(World *world, double wait, double others, bool counts, WalEpoch *epoch)
{
	int group[MAX_CLIENTS];
	int size = 0;
	double first = INFINITY;
	double begin;
	double end;

	for (int i = 0; i < world->clients; i++)
		first = Min(first, world->ready[i]);
	begin = Max(world->now, first);
	if (wait > 0 && world->clients - 1 >= others)
	{
		epoch->waits += counts;
		for (int i = 0; counts && i < world->clients; i++)
			came(epoch, world->ready[i] - begin, wait);
		begin += wait;
		counts = false;
	}
	end = operation(world, begin) + world->flush;
	for (int i = 0; i < world->clients; i++)
	{
		if (world->ready[i] <= begin)
			group[size++] = i;
		else if (counts)
			came(epoch, world->ready[i] - begin, end - begin);
	}
	world->last_group = size;
	for (int i = 0; i < size; i++)
		world->ready[group[i]] = next_commit(world, end);
	epoch->seconds += end - world->now;
	epoch->flushes++;
	epoch->flush_seconds += end - begin;
	epoch->commits += size;
	world->commits += size;
	world->now = end;
}

static double
run_fixed(World *world, double wait, double seconds)
{
	WalEpoch epoch = {0};

	start(world);
	while (world->now < seconds)
		flush(world, wait, 1, false, &epoch);
	return world->commits / world->now;
}

/* Go on for so long with what is learned; returns commits per second */
static double
run_learning(World *world, CommitDelayLearning *learning, double seconds, bool may_wait)
{
	double begin = world->now;
	double before = world->commits;

	while (world->now - begin < seconds)
	{
		WalEpoch epoch = {0};

		while ((epoch.seconds < EPOCH_SECONDS || epoch.flushes < EPOCH_FLUSHES ||
		        epoch.commits < EPOCH_COMMITS) &&
		       epoch.seconds < 1)
		{
			bool full = learning->wait > 0 && commit_delay_is_full(learning, world->last_group);

			flush(world, full ? learning->tight : learning->wait,
			      Max(floor(learning->fuller / 2), 1),
			      learning->wait == 0 || !full || learning->spread, &epoch);
		}
		commit_delay_learn(learning, &epoch, may_wait, false);
	}
	return (world->commits - before) / (world->now - begin);
}

/* The law on figures that are made up: flushes of 1 ms, one after the other */
static WalEpoch
epoch_of(double group, double followers, double within)
{
	WalEpoch epoch = {
		.seconds = 1, .commits = group * 1000, .flushes = 1000, .flush_seconds = 1, .waits = 1000};

	for (int step = 0; step < COMMIT_DELAY_STEPS; step++)
		epoch.within[step] = followers * 1000 * Min(commit_delay_step(step) / within, 1);
	return epoch;
}

static void
test_law(void)
{
	double gain;
	double fuller;
	double wait;
	WalEpoch epoch = epoch_of(1, 0, 1);

	wait = commit_delay_best(&epoch, false, &gain, &fuller);
	ok(wait == 0, "one client: nobody follows, no wait", "%g is not %g", wait, 0);
	epoch = epoch_of(8, 8, 1e-3);
	wait = commit_delay_best(&epoch, false, &gain, &fuller);
	ok(gain < 1e-6, "commits that come evenly gain nothing", "%g is not %g", gain, 0);
	epoch = epoch_of(8, 8, 200e-6);
	wait = commit_delay_best(&epoch, false, &gain, &fuller);
	ok(wait >= 190e-6 && wait < 240e-6, "all come back within 0.2 ms: so long a wait",
	   "%g is not %g", wait, 200e-6);
	ok(fabs(fuller - 16) < 0.01, "and twice as many commits in a flush", "%g is not %g", fuller,
	   16);
	ok(fabs(gain - (2 / (1 + wait / 1e-3) - 1)) < 1e-6, "so many more per second", "%g is not %g",
	   gain, 2 / (1 + wait / 1e-3) - 1);
	epoch.flush_seconds = 0.05;
	wait = commit_delay_best(&epoch, false, &gain, &fuller);
	ok(wait == 0, "no longer than a flush: 50 us are too short", "%g is not %g", wait, 0);
	epoch = epoch_of(8, 0.05, 200e-6);
	wait = commit_delay_best(&epoch, false, &gain, &fuller);
	ok(wait == 0, "a follower in twenty flushes is chance", "%g is not %g", wait, 0);

	epoch = epoch_of(8, 8, 1e-3);
	wait = commit_delay_best(&epoch, true, &gain, &fuller);
	ok(wait >= 800e-6, "short of operations, the longest that costs nothing", "%g is not %g", wait,
	   1e-3);
	epoch = epoch_of(8, 8, 200e-6);
	wait = commit_delay_best(&epoch, true, &gain, &fuller);
	ok(wait < 240e-6, "but what gains most if anything does", "%g is not %g", wait, 200e-6);

	epoch = epoch_of(8, 7, 150e-6);
	epoch.seconds = 2;
	wait = commit_delay_tight(&epoch, commit_delay_step(16));
	ok(wait >= 150e-6 && wait < 200e-6, "of a wait of 1 ms what all came within", "%g is not %g",
	   wait, 150e-6);
	epoch = epoch_of(8, 7, 1e-3);
	epoch.seconds = 4;
	wait = commit_delay_tight(&epoch, commit_delay_step(16));
	ok(wait == commit_delay_step(16), "all of it where the last came at its end", "%g is not %g",
	   wait, commit_delay_step(16));
}

/* Twenty seconds, those in which it learns included, against the best fixed one */
static void
test_world(const char *name, World world, bool waits)
{
	static const double fixed[] = {0, 100e-6, 400e-6, 1600e-6};
	CommitDelayLearning learning = {0};
	double best = 0;
	double learned;
	char text[200];

	for (int i = 0; i < (int) lengthof(fixed); i++)
	{
		double rate = run_fixed(&world, fixed[i] > 0 ? fixed[i] + TIMER_SLACK : 0, 10);

		best = Max(best, rate);
	}
	start(&world);
	learned = run_learning(&world, &learning, 20, true);
	snprintf(text, sizeof(text), "%s: 97 %% of the best fixed wait", name);
	ok(learned >= best * 0.97, text, "%.0f of %.0f commits per second", learned, best);
	snprintf(text, sizeof(text), "%s: %s", name, waits ? "a wait is held" : "nobody waits");
	ok((learning.state == COMMIT_DELAY_HELD) == waits, text, "wait %g, measured gain %g",
	   learning.wait, learning.measured);
}

static void
test_worlds(void)
{
	test_world("one client", (World){.clients = 1, .cpus = 2, .work = 100e-6, .flush = 1e-3},
	           false);
	test_world("2 clients", (World){.clients = 2, .cpus = 2, .work = 100e-6, .flush = 1e-3}, true);
	test_world("4 clients", (World){.clients = 4, .cpus = 2, .work = 50e-6, .flush = 1e-3}, true);
	test_world("8 clients, much work",
	           (World){.clients = 8, .cpus = 8, .work = 500e-6, .flush = 1e-3}, true);
	test_world("16 clients, slow flushes",
	           (World){.clients = 16, .cpus = 2, .work = 150e-6, .flush = 3e-3}, true);
	test_world("64 clients", (World){.clients = 64, .cpus = 8, .work = 50e-6, .flush = 1e-3}, true);
	test_world("64 clients, CPUs are what is short",
	           (World){.clients = 64, .cpus = 2, .work = 150e-6, .flush = 1e-3}, false);
	test_world("fast volume", (World){.clients = 16, .cpus = 8, .work = 150e-6, .flush = 0.1e-3},
	           false);
	test_world(
		"1000 operations per second, 8 clients",
		(World){.clients = 8, .cpus = 4, .work = 100e-6, .flush = 0.6e-3, .operations = 1000},
		true);
	test_world("clients with their own pace",
	           (World){.clients = 200, .work = 50e-6, .think = 0.1, .flush = 0.4e-3}, false);
}

/* The same server, with other clients */
static void
change_clients(World *world, int clients)
{
	for (int i = 0; i < MAX_CLIENTS; i++)
	{
		if (i >= clients)
			world->ready[i] = INFINITY;
		else if (i >= world->clients)
			world->ready[i] = next_commit(world, world->now);
	}
	world->clients = clients;
}

static void
test_changes(void)
{
	World world = {.clients = 1, .cpus = 8, .work = 100e-6, .flush = 1e-3};
	CommitDelayLearning learning = {0};
	double alone;
	double rate;

	start(&world);
	alone = run_learning(&world, &learning, 5, true);
	ok(learning.trials == 0, "one client: not even a trial", "%g is not %g",
	   (double) learning.trials, 0);
	change_clients(&world, 16);
	(void) run_learning(&world, &learning, 5, true);
	ok(learning.state == COMMIT_DELAY_HELD, "with 16 a wait is found", "wait %g, gain %g",
	   learning.wait, learning.measured);
	change_clients(&world, 1);
	rate = run_learning(&world, &learning, 1, true);
	ok(rate >= alone * 0.99, "one again: it does not wait, as nobody else commits", "%.0f of %.0f",
	   rate, alone);
	(void) run_learning(&world, &learning, 2, true);
	ok(learning.wait == 0, "and the wait is given up", "%g is not %g", learning.wait, 0);
}

/* A gain that the law sees, and that does not come: the volume takes longer for fuller flushes */
static void
test_nothing_gained(void)
{
	World world = {.clients = 8, .cpus = 8, .work = 100e-6, .flush = 1e-3};
	CommitDelayLearning learning = {0};
	uint64 early = 0;

	start(&world);
	for (int i = 0; i < 3000; i++)
	{
		WalEpoch epoch = epoch_of(4, 4, 100e-6);

		epoch.seconds = 0.1;
		epoch.commits = learning.wait > 0 ? 380 : 400;
		epoch.flushes = 100;
		epoch.flush_seconds = 0.1;
		for (int step = 0; step < COMMIT_DELAY_STEPS; step++)
			epoch.within[step] /= 10;
		commit_delay_learn(&learning, &epoch, true, false);
		if (i == 100)
			early = learning.trials;
	}
	ok(early >= 1, "a wait that should gain is tried", "%g is not %g", (double) early, 1);
	ok(learning.kept == 0, "and not kept where it loses 5 %", "%g is not %g",
	   (double) learning.kept, 0);
	ok(learning.trials <= 12, "in 300 s it is tried a dozen times at most", "%g is more than %g",
	   (double) learning.trials, 12);
}

static void
test_shadow(void)
{
	World world = {.clients = 8, .cpus = 8, .work = 100e-6, .flush = 1e-3};
	CommitDelayLearning learning = {0};

	start(&world);
	(void) run_learning(&world, &learning, 3, false);
	ok(learning.wait == 0 && learning.trials == 0, "in shadow mode nobody waits", "%g, %g trials",
	   learning.wait, (double) learning.trials);
	ok(learning.proposed > 0 && learning.predicted > 0.1, "but a wait is proposed", "%g, gain %g",
	   learning.proposed, learning.predicted);
}

int
main(void)
{
	srand48(1);
	test_law();
	test_worlds();
	test_changes();
	test_nothing_gained();
	test_shadow();
	printf("1..%d\n", tests);
	return failures > 0;
}
