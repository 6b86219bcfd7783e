/*-------------------------------------------------------------------------
 *
 * commit_delay_law.c
 *	  How long a flush of WAL should wait for commits that follow.
 *
 * One process at a time flushes WAL, for itself and for all whose commit record
 * is there when it begins (group commit; XLogFlush in xlog.c).  Who comes later
 * has to wait for that flush to end and for the next one.  If the flush began a
 * time d later, all who are there wait d longer, and those who come within d
 * need not wait for the next.
 *
 * Law.  Let g be the commits that one flush takes along, T the time from one
 * flush to the next, and a(d) the commits that come within d after a flush began.
 * Without a wait there are g / T commits per second, with it
 *
 *		(g + a(d)) / (T + d)
 *
 * which is more if, and only if,
 *
 *		a(d) / d > g / T
 *
 * that is, if commits come faster right after a flush began than they come on the
 * average.  That is so where clients who were released together come back
 * together: with a flush of F, n clients, and a time Z < F in which a client comes
 * back, they fall into two groups, and each flush takes half of them, n / 2 in
 * F.  With d = Z it takes all of them, n in F + Z.  The gain, 2F / (F + Z), is near
 * two where the flush is what all wait for, and nothing with Z >= F.  It is nothing,
 * too,
 * - with one client: nobody comes while it waits for its flush, a = 0;
 * - where commits come evenly, be it because many clients send what they send at
 *	 their own pace or because the CPUs let them come one by one: a(d) / d = g / T;
 * - where the flush is fast, since only those who come before it has ended are
 *	 counted, and d is no longer than it.
 *
 * As to latency the condition is the same.  To wait dt longer costs (g + a) dt, one dt
 * for each who is there; it spares those who come in dt a flush and the wait before
 * it, T + d.  So nobody waits longer than those who follow gain by it.
 *
 * Groups that are together.  Once all clients are in one group, nobody is there
 * when a flush ends.  The wait then begins when the first of them comes back, so it
 * need not be Z, but only the time within which the others follow.  That is seen while
 * there is a wait w: of the commits g that a flush takes along, all but
 * a(w) - a(t) would have been there with a wait t < w, so that there are
 *
 *		(g - (a(w) - a(t))) / (T - (w - t))
 *
 * commits per second.  The t with most of them is the tight wait.  It would never
 * bring them together, so after a flush that was not full, the next one waits w.
 *
 * F is what a flush was seen to take.  A volume that lets through so many
 * operations per second and no more makes it as long as its share of them is
 * short, so the same law holds there.  Where reads and data are short of operations,
 * each flush spared is one of them that is not made to wait.  There, of the waits
 * that gain the same by the law, or nothing, the longest is taken, and it is kept if it
 * costs nothing.
 *
 * What is proposed is tried: an epoch with the wait between two without, and
 * again, until the mean of the gains is clear of its own error.  If there is a gain,
 * the wait is held, and looked at again after 2 s, more seldom with time, and when the
 * load changes.  If not, the next trial comes after a pause, twice as long each time.
 *
 * This file knows neither the server nor a clock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "commit_delay_law.h"

/* The first step in seconds: less can't be slept, see commit_delay.c.  Four steps double it. */
#define FIRST_STEP 64e-6

/* Least of an epoch to say anything */
#define LEAST_COMMITS 50
#define LEAST_FLUSHES 10

/* Fewer in a flush are chance */
#define LEAST_FOLLOWERS 0.1

/* Gains by the law that differ by less are the same */
#define INDIFFERENT 0.02

/* Profiles of more than so many commits forget half of them with each epoch */
#define PROFILE_COMMITS 1000

/* And those of fewer tell too little for a trial */
#define TRIAL_COMMITS 500

/* A gain by the law worth a trial; its error is some hundredths with PROFILE_COMMITS */
#define TRIAL_GAIN 0.05

/* A gain that was measured and is worth to be held; where operations are short; and to go on with it */
#define KEEP_GAIN 0.01
#define KEEP_GAIN_SHORT (-0.01)
#define HYSTERESIS 0.01

/* Pairs of epochs in a trial that succeeds, and in any; and what a single one's gain is wrong by at least */
#define LEAST_PAIRS 3
#define MOST_PAIRS 8
#define LEAST_ERROR 0.02

/* Seconds between two looks at a wait that is held, doubled each time; at least if the load changes */
#define FIRST_CHECK 2
#define LONGEST_CHECK 10
#define CHANGE_SECONDS 1

/* Commits per second that differ by so much, as a logarithm, are another load */
#define CHANGE 0.3

/* Seconds after a trial that brought nothing */
#define FIRST_PAUSE 1
#define LONGEST_PAUSE 60

static void follow(WalEpoch *profile, const WalEpoch *epoch);
static void begin_wait(CommitDelayLearning *learning);
static void tighten(CommitDelayLearning *learning, const WalEpoch *epoch);
static void give_up(CommitDelayLearning *learning);
static void judge_pair(CommitDelayLearning *learning, double gain, double commits, double least);

double
commit_delay_step(int step)
{
	return FIRST_STEP * exp2(step / 4.0);
}

double
commit_delay_best(const WalEpoch *epoch, bool short_of_operations, double *gain, double *fuller)
{
	double group = epoch->commits / epoch->flushes;
	double cycle = epoch->seconds / epoch->flushes;
	double flush = epoch->flush_seconds / epoch->flushes;
	double most = 0;
	double best = 0;

	*gain = 0;
	*fuller = group;
	/* first what gains most; short of operations, then the longest that gains as much, nearly */
	for (int pass = 0; pass < (short_of_operations ? 2 : 1); pass++)
	{
		for (int step = 0; step < COMMIT_DELAY_STEPS; step++)
		{
			double wait = commit_delay_step(step);
			double followers = epoch->within[step] / epoch->flushes;
			double more = (group + followers) / (cycle + wait) * cycle / group - 1;

			if (wait > flush)
				break;
			if (followers < LEAST_FOLLOWERS ||
			    (pass == 0 ? more <= most : more < most - INDIFFERENT))
				continue;
			if (pass == 0)
				most = more;
			best = wait;
			*gain = more;
			*fuller = group + followers;
		}
	}
	return best;
}

double
commit_delay_tight(const WalEpoch *epoch, double wait)
{
	double group = epoch->commits / epoch->flushes;
	double cycle = epoch->seconds / epoch->flushes;
	double all = 0;
	double most = 0;
	double tight = wait;

	if (epoch->waits <= 0)
		return wait;
	for (int step = 0; step < COMMIT_DELAY_STEPS && commit_delay_step(step) <= wait * 1.001; step++)
		all = epoch->within[step] / epoch->waits;
	for (int step = 0; step < COMMIT_DELAY_STEPS && commit_delay_step(step) <= wait * 1.001; step++)
	{
		double shorter = commit_delay_step(step);
		double rate =
			(group - (all - epoch->within[step] / epoch->waits)) / (cycle - (wait - shorter));

		if (rate > most)
		{
			most = rate;
			tight = shorter;
		}
	}
	return tight;
}

static void
follow(WalEpoch *profile, const WalEpoch *epoch)
{
	double kept = profile->commits > PROFILE_COMMITS ? 0.5 : 1;

	/* another load */
	if (profile->commits > 0 &&
	    fabs(log(epoch->commits / epoch->seconds * profile->seconds / profile->commits)) > CHANGE)
		kept = 0;
	profile->seconds = profile->seconds * kept + epoch->seconds;
	profile->commits = profile->commits * kept + epoch->commits;
	profile->flushes = profile->flushes * kept + epoch->flushes;
	profile->flush_seconds = profile->flush_seconds * kept + epoch->flush_seconds;
	for (int step = 0; step < COMMIT_DELAY_STEPS; step++)
		profile->within[step] = profile->within[step] * kept + epoch->within[step];
}

/* The next epoch waits, and is to tell how close commits come */
static void
begin_wait(CommitDelayLearning *learning)
{
	learning->wait = learning->candidate;
	learning->tight = learning->candidate;
	learning->spread = true;
}

/* It has told */
static void
tighten(CommitDelayLearning *learning, const WalEpoch *epoch)
{
	learning->tight = commit_delay_tight(epoch, learning->wait);
	learning->full = epoch->commits / epoch->flushes;
	learning->spread = false;
}

static void
give_up(CommitDelayLearning *learning)
{
	learning->state = COMMIT_DELAY_WATCH;
	learning->wait = 0;
	learning->next_pause = Max(learning->next_pause, FIRST_PAUSE);
	learning->pause = learning->next_pause;
	learning->next_pause = Min(learning->next_pause * 2, LONGEST_PAUSE);
}

/* What one epoch with the wait has gained, against those around it */
static void
judge_pair(CommitDelayLearning *learning, double gain, double commits, double least)
{
	double mean;
	double variance;
	double error;

	learning->pairs++;
	learning->sum += gain;
	learning->squares += gain * gain;
	mean = learning->sum / learning->pairs;
	variance = (learning->squares - learning->pairs * mean * mean) / Max(learning->pairs - 1, 1);
	/* three epochs, the neighbours half each, of commits that come by chance */
	variance = Max(variance, Max(1.5 / commits, LEAST_ERROR * LEAST_ERROR));
	error = sqrt(variance / learning->pairs);
	learning->measured = mean;
	learning->wait = learning->candidate;
	if (learning->pairs >= LEAST_PAIRS && mean - error >= least)
	{
		learning->state = COMMIT_DELAY_HELD;
		learning->kept++;
		learning->held_seconds = 0;
		learning->check_seconds = FIRST_CHECK;
		learning->changed = false;
		learning->next_pause = FIRST_PAUSE;
	}
	else if (mean + 2 * error < least || learning->pairs >= MOST_PAIRS)
		give_up(learning);
}

void
commit_delay_learn(CommitDelayLearning *learning, const WalEpoch *epoch, bool may_wait,
                   bool short_of_operations)
{
	bool waited = learning->wait > 0;
	double least = short_of_operations ? KEEP_GAIN_SHORT : KEEP_GAIN;
	double rate = epoch->commits / Max(epoch->seconds, 1e-6);

	learning->pause = Max(learning->pause - epoch->seconds, 0);
	if (epoch->commits < LEAST_COMMITS || epoch->flushes < LEAST_FLUSHES)
	{
		learning->state = COMMIT_DELAY_IDLE;
		learning->wait = 0;
		learning->proposed = 0;
		memset(&learning->profile, 0, sizeof(learning->profile));
		return;
	}
	if (learning->state == COMMIT_DELAY_IDLE)
		learning->state = COMMIT_DELAY_WATCH;
	if (!waited)
	{
		double fuller;

		follow(&learning->profile, epoch);
		learning->group = learning->profile.commits / learning->profile.flushes;
		learning->proposed = commit_delay_best(&learning->profile, short_of_operations,
		                                       &learning->predicted, &fuller);
		if (learning->proposed > 0 && learning->state != COMMIT_DELAY_TRIAL)
		{
			learning->candidate = learning->proposed;
			learning->fuller = fuller;
		}
	}
	if (!may_wait)
	{
		learning->state = COMMIT_DELAY_WATCH;
		learning->wait = 0;
		return;
	}

	switch (learning->state)
	{
		case COMMIT_DELAY_IDLE:
		case COMMIT_DELAY_WATCH:
			if (learning->proposed > 0 && learning->pause <= 0 &&
			    learning->profile.commits >= TRIAL_COMMITS &&
			    (short_of_operations || learning->predicted >= TRIAL_GAIN))
			{
				learning->state = COMMIT_DELAY_TRIAL;
				learning->trials++;
				learning->pairs = 0;
				learning->skipped = 0;
				learning->sum = 0;
				learning->squares = 0;
				learning->rate = rate;
				begin_wait(learning);
			}
			break;
		case COMMIT_DELAY_TRIAL:
			if (waited && learning->spread)
				tighten(learning, epoch);
			else if (waited)
			{
				learning->rate_with = rate;
				learning->wait = 0;
			}
			else
			{
				/* a load that changed meanwhile tells nothing of the wait */
				if (fabs(log(rate / learning->rate)) <= CHANGE / 2)
					judge_pair(learning, log(learning->rate_with / sqrt(learning->rate * rate)),
					           epoch->commits, least);
				else if (++learning->skipped > MOST_PAIRS)
					give_up(learning);
				else
					learning->wait = learning->candidate;
				learning->rate = rate;
			}
			break;
		case COMMIT_DELAY_HELD:
			if (waited && learning->spread)
				tighten(learning, epoch);
			else if (waited)
			{
				if (fabs(log(rate / learning->rate_with)) > CHANGE)
				{
					learning->changed = true;
					learning->rate_with = rate;
				}
				else
					learning->rate_with = (learning->rate_with + rate) / 2;
				learning->held_seconds += epoch->seconds;
				if (learning->held_seconds >=
				    (learning->changed ? CHANGE_SECONDS : learning->check_seconds))
					learning->wait = 0;
			}
			else
			{
				double gain = log(learning->rate_with / rate);

				learning->rate = rate;
				learning->measured = learning->changed ? gain : (learning->measured + gain) / 2;
				if (learning->measured < least - HYSTERESIS ||
				    (learning->proposed <= 0 && learning->measured < TRIAL_GAIN))
					give_up(learning);
				else
				{
					learning->held_seconds = 0;
					learning->check_seconds = learning->changed ?
					                              FIRST_CHECK :
					                              Min(learning->check_seconds * 2, LONGEST_CHECK);
					learning->changed = false;
					begin_wait(learning);
				}
			}
			break;
	}
}
