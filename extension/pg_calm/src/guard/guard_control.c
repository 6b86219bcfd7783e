/*-------------------------------------------------------------------------
 *
 * guard_control.c
 *	  The control law: from what drains and what is left to a rate of WAL.
 *
 * Nothing here reads anything but its arguments and the settings.
 *
 * Lag of standbys, and the archive's backlog.  What is behind follows the end of WAL at a
 * distance x and comes on at a measured rate D (smoothed over 3 s).  Up to half of the limit L
 * there is no rate, so that D is bounded by the bottleneck and not by us.  From there on
 *
 *		rate = max(D + g (L - x), D / 2),  g = LAG_GAIN
 *
 * At the limit that is the drain rate itself, so x settles at L.  With dx/dt = rate - D = g (L
 * - x) and a delay T in the loop (looks, smoothing, the line: about 2 s) it is stable for g T <
 * pi/2 and does not overshoot for g T < 1/e.  The gain does not depend on L: a proportional
 * band of L / 2 would have a gain of 2 D / L, which oscillates where the limit is worth less
 * than a few seconds of the drain.  The floor of D / 2 lets a backlog far beyond the limit
 * shrink without stopping everyone.
 *
 * Writers take less than they are given: one who is busy with the next transaction is not in
 * the line.  So the rate is multiplied by a factor between 1/2 and 2 that goes towards allowed /
 * written within some 10 s while sessions are held.
 *
 * WAL space.  Checkpoints free WAL in one step at their end, too late to steer by.  So the room
 * that is left is spread over the time until then:
 *
 *		rate = max(B/2 - c, R/4) / t,  at most R / t, and at most R / 2 s
 *
 * R is the room (free space and segments recycled ahead, less the reserve), c the WAL since the
 * redo point of the running checkpoint, F what its end will free, B = c + R + F, t the time
 * until its end.  WAL of a cycle is freed only at the end of the next one, so two cycles have
 * to fit: each gets B/2.  A cycle beyond its half still gets a quarter of the remaining room
 * over t: the rate falls with the room, but is never zero while there is some.  R / 2 s holds
 * whatever t is: a wrong estimate makes writers slow, not the disk full.  t is measured by the
 * marks that BufferSync has left and the rate at which they go; the fsync phase is taken to
 * last as long as the last one, and beyond that half as long again as it has.
 *
 * As long as a checkpoint keeps up with its schedule and the schedule's end fits into B/2, and
 * into c + R where a slot that went left most of B to be freed, there is no limit.  If it does
 * not fit, the guard makes it hurry (RequestCheckpoint), and asks for
 * one when a quarter of B is WAL of one cycle.  Only from there on are writers paced.  WAL that
 * a slot or the archive retains is not freed by checkpoints: if the room is less than that, the
 * rate is that at which its retainer comes on, and what has the room last for 15 minutes; R / 2 s
 * holds here, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/base.h"
#include "guard.h"

/* Seconds over which a drain rate is smoothed */
#define DRAIN_SECONDS 3.0

/*
 * Bytes per second of rate for each byte off the limit of lag.  The loop is stable for gains below
 * pi / (2 * delay) and does not overshoot below 1 / (e * delay); the delay is that of the
 * smoothing, the look and the line, about 2 s in all.
 */
#define LAG_GAIN 0.18

/* Part of its drain rate that something keeps writers at, however far behind it is */
#define LAG_LEAST 0.5

/* Part of the room that may be used until a checkpoint ends, even if it is behind */
#define ROOM_SHARE 0.25

/* Never more than the room would last for this many seconds */
#define ROOM_SECONDS 2.0

/* An input that allows less than this does not drain: bytes per second */
#define STUCK_RATE (64.0 * 1024)

/* A released or refusing one is obeyed again from here on */
#define RESUMED_RATE (4 * STUCK_RATE)

/*
 * Seconds over which WAL is compared with what sessions pay for it: for inputs
 * that follow WAL, and for those to which only a mean over a checkpoint matters,
 * so that full-page images do not move the rate of transactions
 */
#define COST_SECONDS 2.0
#define COST_SECONDS_MEAN 60.0

/* ... and how far that mean may be off: a load of another kind must not take it for its own */
#define COST_FACTOR 2.0

/*
 * Writers write less than they may: a session that is busy with its next transaction doesn't wait,
 * and gives away its turn.  Inputs that follow WAL give out more by this factor at most, found
 * within so many seconds, since a proportional law would settle below its limit otherwise.
 */
#define TAKEN_SECONDS 10.0
#define TAKEN_FACTOR 2.0

/* Sessions get at least this part of the rate if others write as well */
#define PACED_LEAST 0.25

/*
 * Note how far something has come.  Where that is put together from looks at
 * different moments it can seem to go back, which must not be lost to the mean.
 */
void
guard_track(GuardDrain *drain, uint64 position, uint64 now_ms)
{
	if (drain->position != 0 && now_ms > drain->at_ms)
	{
		double seconds = (double) (now_ms - drain->at_ms) / 1000;
		double rate = ((double) position - (double) drain->position) / seconds;

		drain->rate += (rate - drain->rate) * (1 - exp(-seconds / DRAIN_SECONDS));
	}
	else if (drain->position != 0)
		return;
	drain->position = position;
	drain->at_ms = now_ms;
}

/*
 * Rate for something that follows WAL at a distance (lag, in bytes) and comes
 * on at a rate of its own: at the limit exactly that rate, below it a little
 * more, above it less.
 */
double
guard_lag_rate(double lag, double limit, double drain)
{
	if (lag <= limit * LAG_PACED_FROM)
		return INFINITY;
	drain = Max(drain, 0);
	return Max(drain + LAG_GAIN * (limit - lag), drain * LAG_LEAST);
}

/*
 * Rate until the running checkpoint ends in so many seconds (infinity: not known, 0: it needs no
 * pacing).  WAL that is written in this cycle is freed at the end of the next one, so that both
 * together must not need more than there is: half of it for each.
 */
double
guard_space_rate(const GuardWal *wal, double seconds)
{
	double half = (wal->cycle + wal->room + wal->freed) / 2;
	double rate;

	if (wal->room <= 0)
		return 0;
	rate = wal->room / ROOM_SECONDS;
	if (seconds > 0 && !isinf(seconds))
		rate = Min(rate, Min(Max(half - wal->cycle, wal->room * ROOM_SHARE), wal->room) /
		                     Max(seconds, 1));
	return rate;
}

/* Whether an input follows WAL itself, byte by byte.  The others wait for checkpoints */
static bool
follows_wal(GuardInput input)
{
	return input == GUARD_LAG || input == GUARD_ARCHIVE;
}

/* Cost of a byte of WAL that sessions write, over about so many seconds; 1 if there is no telling */
static double
cost_of_wal(GuardInput input, uint64 charged, uint64 charged_cost, double seconds)
{
	static uint64 last_charged = 0;
	static uint64 last_cost = 0;
	static double wal[2] = {0, 0};
	static double cost[2] = {0, 0};
	static const double smoothing[2] = {COST_SECONDS, COST_SECONDS_MEAN};
	double now;
	double mean;

	for (int i = 0; i < 2; i++)
	{
		double kept = exp(-seconds / smoothing[i]);

		wal[i] = wal[i] * kept + (double) (charged - last_charged);
		cost[i] = cost[i] * kept + (double) (charged_cost - last_cost);
	}
	last_charged = charged;
	last_cost = charged_cost;
	if (wal[0] < 1 || wal[1] < 1)
		return 1;
	now = cost[0] / wal[0];
	mean = cost[1] / wal[1];
	return follows_wal(input) ? now : Min(Max(mean, now / COST_FACTOR), now * COST_FACTOR);
}

/*
 * What to give out for each byte per second that is to be written.  Only looks in which sessions
 * were held count: who writes less of his own accord does not collect a right to write more.
 */
static double
given_per_taken(GuardInput input, double allowed, double wal_rate, uint64 holds, double seconds)
{
	static double factor = 1;
	static GuardInput last_input = GUARD_WAL_SPACE;
	static uint64 last_holds = 0;

	if (isinf(allowed) || allowed <= 0 || input != last_input)
		factor = 1;
	else if (holds > last_holds)
		factor += (1 - wal_rate / allowed) * seconds / TAKEN_SECONDS;
	factor = Min(Max(factor, 1 / TAKEN_FACTOR), TAKEN_FACTOR);
	last_input = input;
	last_holds = holds;
	return follows_wal(input) ? factor : 1;
}

/* Whether what allows this rate has not drained for guard_patience; *since_ms is its memory, 0 at first */
bool
guard_given_up(uint64 *since_ms, double allowed_rate, uint64 now_ms)
{
	bool given_up = *since_ms != 0 && now_ms - *since_ms >= (uint64) guard_patience;

	if (allowed_rate >= (given_up ? RESUMED_RATE : STUCK_RATE))
		*since_ms = 0;
	else if (*since_ms == 0)
		*since_ms = now_ms;
	return *since_ms != 0 && now_ms - *since_ms >= (uint64) guard_patience;
}

/*
 * From what each input allows to what the sessions are told: patience, the
 * smallest of the rates, and the part of it that is left to those who wait.
 */
void
guard_decide(GuardReading *readings, uint64 insert, double wal_rate, uint64 now_ms)
{
	static const char *const done[2][2] = {{"would release", "releases"},
	                                       {"would refuse", "refuses"}};
	static uint64 stuck_since_ms[GUARD_INPUTS];
	static GuardDrain unpaced; /* WAL that nobody waits for */
	static bool was_open = true;
	static GuardState states[GUARD_INPUTS];
	static uint64 releases[GUARD_INPUTS];
	static char objects[GUARD_INPUTS][NAMEDATALEN];
	static double total = 1e15; /* of WAL, for "unpaced": can go back, as charges come in lumps */
	static uint64 last_ms = 0;
	static uint64 last_charged = 0;
	static uint64 last_insert = 0;
	GuardShared *shared = guard_shared;
	uint64 charged = pg_atomic_read_u64(&shared->charged);
	uint64 charged_cost = pg_atomic_read_u64(&shared->charged_cost);
	GuardGate gate = GUARD_GATE_OPEN;
	GuardInput binding = GUARD_WAL_SPACE;
	double allowed = INFINITY;
	double paced;
	uint64 holds;
	double seconds = last_ms != 0 && now_ms > last_ms ? (double) (now_ms - last_ms) / 1000 : 0;

	for (int i = 0; i < GUARD_INPUTS; i++)
	{
		GuardReading *reading = &readings[i];
		uint64 *since = &stuck_since_ms[i];

		/* others than that standby may have been looked at before */
		if (i == GUARD_LAG)
			*since = reading->stuck_since_ms;
		if (reading->state == GUARD_OFF || reading->state == GUARD_UNKNOWN)
		{
			if (states[i] == GUARD_PACING && reading->state == GUARD_UNKNOWN)
				ereport(
					LOG,
					(errmsg("pg_calm_guard: the guard has lost its input %s, and releases writers",
				            guard_input_name((GuardInput) i)),
				     errdetail("Writers were held for \"%s\".", objects[i])));
			*since = 0;
			reading->allowed_rate = INFINITY;
		}
		else
		{
			bool over = states[i] == GUARD_RELEASED || states[i] == GUARD_REFUSING;

			reading->state = isinf(reading->allowed_rate) ? GUARD_WATCHED : GUARD_PACING;
			if (guard_given_up(since, reading->allowed_rate, now_ms))
			{
				bool refuse = i == GUARD_WAL_SPACE;

				reading->state = refuse ? GUARD_REFUSING : GUARD_RELEASED;
				if (!over)
				{
					releases[i]++;
					ereport(
						LOG,
						(errmsg(
							 "pg_calm_guard: \"%s\" (%s) has not drained for %d s: the guard %s writers",
							 reading->object, guard_input_name((GuardInput) i),
							 guard_patience / 1000, done[refuse][guard_mode == GUARD_MODE_ON]),
					     errdetail(
							 "At %.0f of at most %.0f %s, draining %.0f kB per second.",
							 reading->in_seconds ? reading->value : reading->value / (1024 * 1024),
							 reading->in_seconds ? reading->limit : reading->limit / (1024 * 1024),
							 reading->in_seconds ? "s" : "MB", reading->drain_rate / 1024),
					     errhint("See the view pg_calm_guard.")));
				}
			}
		}
		states[i] = reading->state;
		strlcpy(objects[i], reading->object, sizeof(objects[i]));
		reading->releases = releases[i];

		if (reading->state == GUARD_REFUSING)
		{
			gate = GUARD_GATE_REFUSE;
			binding = (GuardInput) i;
			allowed = 0;
		}
		else if (reading->state == GUARD_PACING && reading->allowed_rate < allowed)
		{
			allowed = reading->allowed_rate;
			binding = (GuardInput) i;
			/* what closed it is not over because something else allows less */
			gate = Max(gate, i == GUARD_WAL_SPACE && allowed < STUCK_RATE ? GUARD_GATE_CLOSED :
			                                                                GUARD_GATE_PACED);
		}
	}

	/*
	 * The part of WAL that no session has owned up to comes from those that
	 * are exempt, or are in long transactions.  Not by the smoothed rate, which is
	 * still that of before when a gate has closed.  Up to then nobody owned up to anything.
	 */
	if (last_ms != 0)
		total += (double) insert - (double) last_insert - (double) (charged - last_charged);
	if (gate == GUARD_GATE_OPEN || was_open)
		memset(&unpaced, 0, sizeof(unpaced));
	was_open = gate == GUARD_GATE_OPEN;
	guard_track(&unpaced, (uint64) total, now_ms);
	last_ms = now_ms;
	last_charged = charged;
	last_insert = insert;
	SpinLockAcquire(&shared->lock);
	holds = shared->readings[binding].holds;
	SpinLockRelease(&shared->lock);
	paced = Max(allowed - Max(unpaced.rate, 0), allowed * PACED_LEAST) *
	        given_per_taken(binding, allowed, wal_rate, holds, seconds) *
	        cost_of_wal(binding, charged, charged_cost, seconds);

	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < GUARD_INPUTS; i++)
	{
		readings[i].drain_rate = Max(readings[i].drain_rate, 0);
		readings[i].holds = shared->readings[i].holds;
		readings[i].held_us = shared->readings[i].held_us;
		shared->readings[i] = readings[i];
	}
	shared->shadow = guard_mode != GUARD_MODE_ON;
	shared->binding = binding;
	shared->wal_rate = wal_rate;
	shared->allowed_rate = allowed;
	if (gate == GUARD_GATE_OPEN)
	{
		shared->line++;
		shared->issued = 0;
		shared->served = 0;
	}
	else if (shared->served_at_ms != 0 && now_ms > shared->served_at_ms)
		shared->served += shared->paced_rate * (double) (now_ms - shared->served_at_ms) / 1000;
	shared->served_at_ms = now_ms;
	shared->paced_rate = isinf(paced) ? 0 : paced;
	SpinLockRelease(&shared->lock);

	/* not when the look began: one that took seconds is as new as any */
	pg_atomic_write_u64(&shared->updated_ms, monotonic_ms());
	pg_atomic_write_u32(&shared->gate, gate);
}
