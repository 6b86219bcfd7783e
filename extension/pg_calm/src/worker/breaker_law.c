/*-------------------------------------------------------------------------
 *
 * breaker_law.c
 *	  When the module has to let go, because it does harm.  Pure: no server, no clock.
 *
 * The module compares itself with itself at rest.  A suspicion alone says nothing: a load changes by
 * itself, a checkpoint comes, another program writes.  So the worker rests for a second, works for
 * one and rests again, and is found guilty only if each of the times in which it worked was much
 * worse than each of those in which it rested.  It ends with the first pair that does not say so.
 * What is compared:
 *
 * - How long flushes of WAL take, which commits wait for.  Somewhat longer is the price of
 *	 writing at all.  So it has to be several times as long, and longer than what may be in flight
 *	 explains.  What was found innocent is looked at again, more and more rarely as long as it is
 *	 suspected: the volume may be another one by now.
 * - How many bytes the device writes for those of pages and WAL, with and without bridging.
 *
 * Slow commits: all is let go, which is stock.  Amplification: bridging is.  If letting go has not
 * helped by half after some seconds, it was something else, and it comes back at once.  Else it
 * tries again later, each time after twice as long, in steps: flushing first, then bridging; each is
 * the same comparison from the other side.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "worker.h"

/*
 * All constants of the law.  Phases are as long as the caller needs to see anything (it looks at
 * devices four times a second); the rest is as far from what was measured on volumes that do
 * well as from those where the module did harm.
 */
#define PHASE_MS 1200     /* a phase of a trial, and a window otherwise: some hundred commits */
#define SETTLE_MS 400     /* of it, not counted: what was under way before it */
#define FLUSHES_LEAST 10  /* of WAL in a phase, if their latency is to count */
#define SUSPECT 2.0       /* times the latency that was found innocent last */
#define WORSE_LATENCY 5.0 /* times that at rest: harm, and no price */
#define PRICE 2.0 /* times what may be in flight: commits wait for that, whoever does well */
#define WORSE_AMPLIFICATION 2.0 /* times what is justified, and that at rest: 1 if all is well */
#define WRITTEN_LEAST (4 << 20) /* bytes per second, if their amplification is to count */
#define WAIT_MS 10000           /* until the next trial at first; doubled with each */
#define LONGEST_WAIT_MS 640000  /* ten minutes */
#define WINDOWS 8               /* after letting go, in half of which it has to have helped */

static BreakerMeasure
measure(const BreakerInput *from, const BreakerInput *to)
{
	BreakerMeasure m = {.latency_us = -1, .amplification = -1};
	double seconds = (to->now_ms - from->now_ms) / 1000.0;
	double written = (double) to->written - (double) from->written;
	double justified = (double) to->justified - (double) from->justified;

	m.flushes = (double) to->flushes - (double) from->flushes;
	if (m.flushes > 0)
		m.latency_us = Max(((double) to->flush_us - (double) from->flush_us) / m.flushes, 0);
	if (written >= WRITTEN_LEAST * seconds)
		m.amplification = written / Max(justified, WRITTEN_LEAST * seconds / WORSE_AMPLIFICATION);
	else if (written >= 0)
		m.amplification = 0;
	m.in_flight_us = to->in_flight_us;
	m.worked = to->own > from->own;
	m.bridged = to->bridged > from->bridged;
	return m;
}

static double
figure(BreakerCause cause, const BreakerMeasure *m)
{
	return cause == BREAKER_AMPLIFIED ? m->amplification : m->latency_us;
}

/* Whether flushes of WAL took longer than it may make them wait */
static bool
is_harm(const BreakerMeasure *worked)
{
	return worked->latency_us >= PRICE * worked->in_flight_us;
}

/* Whether it was much worse while it worked.  What is not known is no evidence. */
static bool
worse(BreakerCause cause, const BreakerMeasure *worked, const BreakerMeasure *rested)
{
	if (cause == BREAKER_AMPLIFIED)
		return worked->amplification >= WORSE_AMPLIFICATION && rested->amplification >= 0 &&
		       worked->amplification >= WORSE_AMPLIFICATION * rested->amplification;
	if (rested->flushes < FLUSHES_LEAST)
		return false;
	/* not a single one was over */
	if (worked->latency_us < 0)
		return true;
	return is_harm(worked) && worked->latency_us >= WORSE_LATENCY * rested->latency_us;
}

/* How long to wait after so many times */
static uint64
wait_ms(uint32 times)
{
	return Min((uint64) WAIT_MS << Min(times, 16), LONGEST_WAIT_MS);
}

/* first is what was measured just before, at the level of the even phases */
static void
begin_trial(BreakerLaw *law, BreakerCause cause, BreakerLevel even, BreakerLevel odd,
            const BreakerMeasure *first, const BreakerInput *input)
{
	law->tried = cause;
	law->trial[0] = even;
	law->trial[1] = odd;
	law->measures[0] = *first;
	law->phase = 1;
	law->phase_ms = input->now_ms;
	law->settled = false;
	law->allowed = odd;
}

static void
end_trial(BreakerLaw *law, const BreakerInput *input)
{
	law->tried = BREAKER_FINE;
	law->allowed = law->level;
	law->from = *input;
}

static void
found_innocent(BreakerLaw *law, const BreakerInput *input)
{
	if (law->tried == BREAKER_AMPLIFIED)
		law->amplified_ms = input->now_ms + wait_ms(law->amplified++);
	else
	{
		/* it is what it takes at present */
		law->innocent_us = law->measures[0].latency_us;
		law->suspect_ms = input->now_ms + WAIT_MS;
		law->trial_ms = input->now_ms + wait_ms(++law->innocent);
	}
	end_trial(law, input);
}

/* Found guilty: the trial's measures 0 and 2 are of work, 1 and 3 of rest */
static void
let_go(BreakerLaw *law, const BreakerInput *input)
{
	const BreakerMeasure *m = law->measures;

	law->level = law->trial[1];
	law->cause = law->tried;
	law->bad = Min(figure(law->cause, &m[0]), figure(law->cause, &m[2]));
	law->good = Max(figure(law->cause, &m[1]), figure(law->cause, &m[3]));
	law->retry_ms = input->now_ms + wait_ms(law->trips++);
	law->windows = law->no_better = 0;
	end_trial(law, input);
}

static void
come_back(BreakerLaw *law, BreakerLevel level, const BreakerInput *input)
{
	law->level = level;
	if (level == BREAKER_ALL)
	{
		law->cause = BREAKER_FINE;
		law->well_ms = input->now_ms;
	}
	/* the next step, and until it may be suspected again */
	law->retry_ms = input->now_ms + WAIT_MS;
	law->suspect_ms = input->now_ms + WAIT_MS;
	law->trial_ms = input->now_ms + wait_ms(law->trips);
	law->amplified_ms = input->now_ms + WAIT_MS;
	law->windows = WINDOWS;
	end_trial(law, input);
}

/* Another phase of a trial is over */
static void
judge(BreakerLaw *law, const BreakerInput *input)
{
	const BreakerMeasure *m = law->measures;
	bool retried = law->trial[1] < law->trial[0];
	/* of the last two phases */
	const BreakerMeasure *even = &m[(law->phase - 1) / 2 * 2];
	const BreakerMeasure *odd = &m[(law->phase - 2) / 2 * 2 + 1];
	bool guilty = retried ? worse(law->tried, odd, even) : worse(law->tried, even, odd);

	if (!guilty && retried)
		come_back(law, law->trial[1], input);
	else if (!guilty)
		found_innocent(law, input);
	else if (law->phase < BREAKER_PHASES)
	{
		law->allowed = law->trial[law->phase % 2];
		law->phase_ms = input->now_ms;
		law->settled = false;
	}
	else if (retried)
	{
		law->retry_ms = input->now_ms + wait_ms(law->trips++);
		end_trial(law, input);
	}
	/* and the first time of work with the last of rest */
	else if (worse(law->tried, &m[0], &m[3]))
		let_go(law, input);
	else
		found_innocent(law, input);
}

/* Nothing has been let go that this could be about */
static void
watch(BreakerLaw *law, const BreakerMeasure *m, const BreakerInput *input)
{
	bool slow = m->latency_us >= SUSPECT * law->innocent_us;

	/* it was for another load, or another volume */
	if (m->flushes >= FLUSHES_LEAST && m->latency_us <= law->innocent_us / SUSPECT)
		law->innocent_us = 0;
	if (law->trips > 0 && law->level == BREAKER_ALL &&
	    input->now_ms > law->well_ms + LONGEST_WAIT_MS)
		law->trips = 0;
	if (input->now_ms > law->trial_ms + LONGEST_WAIT_MS)
		law->innocent = 0;
	if (input->now_ms > law->amplified_ms + LONGEST_WAIT_MS)
		law->amplified = 0;

	if (input->interrupted)
		return;
	if (law->level == BREAKER_ALL && m->bridged && m->amplification >= WORSE_AMPLIFICATION &&
	    input->now_ms >= law->amplified_ms)
		begin_trial(law, BREAKER_AMPLIFIED, BREAKER_ALL, BREAKER_NO_BRIDGING, m, input);
	else if (m->worked && is_harm(m) && input->now_ms >= (slow ? law->suspect_ms : law->trial_ms))
		begin_trial(law, BREAKER_SLOW_COMMITS, law->level, BREAKER_STOCK, m, input);
}

/* It has let go: see whether that has helped, and try again at times */
static void
wait_for_retry(BreakerLaw *law, const BreakerMeasure *m, const BreakerInput *input)
{
	if (law->windows < WINDOWS)
	{
		law->no_better += figure(law->cause, m) > law->bad / 2;
		if (++law->windows == WINDOWS && law->no_better >= WINDOWS / 2)
		{
			come_back(law, BREAKER_ALL, input);
			law->suspect_ms = law->trial_ms = law->amplified_ms =
				input->now_ms + wait_ms(law->trips);
			return;
		}
	}
	if (input->now_ms >= law->retry_ms && !input->interrupted)
		begin_trial(law, law->cause, law->level, law->level - 1, m, input);
}

/* Take note of what happened.  True if the level has changed. */
bool
breaker_law_follow(BreakerLaw *law, const BreakerInput *input)
{
	BreakerLevel level = law->level;

	if (!law->begun || input->flushes < law->from.flushes || input->written < law->from.written ||
	    input->justified < law->from.justified || input->own < law->from.own)
	{
		if (!law->begun)
			law->trial_ms = law->suspect_ms = input->now_ms + WAIT_MS;
		law->begun = true;
		end_trial(law, input);
		return false;
	}
	if (law->tried != BREAKER_FINE)
	{
		if (input->interrupted)
		{
			/* soon: with checkpoints for WAL each trial would begin just before the next one */
			law->suspect_ms = law->amplified_ms = input->now_ms + 2 * PHASE_MS;
			law->retry_ms = Max(law->retry_ms, law->suspect_ms);
			law->trial_ms = Max(law->trial_ms, law->suspect_ms);
			end_trial(law, input);
		}
		else if (!law->settled && input->now_ms >= law->phase_ms + SETTLE_MS)
		{
			law->settled = true;
			law->from = *input;
		}
		else if (law->settled && input->now_ms >= law->phase_ms + PHASE_MS)
		{
			law->measures[law->phase++] = measure(&law->from, input);
			judge(law, input);
		}
	}
	else if (input->now_ms >= law->from.now_ms + PHASE_MS)
	{
		BreakerMeasure m = measure(&law->from, input);

		law->from = *input;
		if (law->level != BREAKER_ALL)
			wait_for_retry(law, &m, input);
		if (law->level != BREAKER_STOCK && law->tried == BREAKER_FINE)
			watch(law, &m, input);
	}
	return law->level != level;
}
