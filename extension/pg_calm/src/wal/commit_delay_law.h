/*-------------------------------------------------------------------------
 *
 * commit_delay_law.h
 *	  How long a flush of WAL should wait for commits that follow.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_COMMIT_DELAY_LAW_H
#define PG_CALM_COMMIT_DELAY_LAW_H

#include "postgres.h"

/* Lengths of wait that are looked at: commit_delay_step */
#define COMMIT_DELAY_STEPS 34

/*
 * What was seen in a stretch of time with one rule for all flushes.  Without a wait,
 * within are the commits that came so soon after a flush had begun, and before it
 * ended; with one, those that came so soon after the wait had begun, where it was
 * the longer one and lasted so long.
 */
typedef struct WalEpoch
{
	double seconds;
	double commits; /* that wait for a flush */
	double flushes;
	double flush_seconds; /* in them */
	double waits;         /* flushes that within is about, if there was a wait */
	double within[COMMIT_DELAY_STEPS];
} WalEpoch;

typedef enum CommitDelayState
{
	COMMIT_DELAY_IDLE,  /* too few commits to learn from */
	COMMIT_DELAY_WATCH, /* nobody waits */
	COMMIT_DELAY_TRIAL, /* every second epoch has a wait */
	COMMIT_DELAY_HELD,  /* all but a few have one */
} CommitDelayState;

typedef struct CommitDelayLearning
{
	CommitDelayState state;
	double wait;      /* of the epoch under way, in seconds; 0: none */
	double tight;     /* the one to keep full groups together; no longer than wait */
	bool spread;      /* the epoch is to tell that one, and waits as long for all */
	double proposed;  /* by the law */
	double predicted; /* what it gains: 0.1 is a tenth more commits per second */
	double candidate; /* tried, or held */
	double measured;  /* its gain when it was tried last */
	double group;     /* commits per flush without a wait */
	double fuller;    /* and with that of the candidate, by the law */
	double full;      /* and as seen with it */

	WalEpoch profile; /* of epochs without a wait, older ones count less */
	double rate;      /* commits per second of the last one without; */
	double rate_with; /* and with it */
	int pairs;        /* in the trial */
	int skipped;      /* likewise, that told nothing */
	double sum;
	double squares;
	double held_seconds;
	double check_seconds; /* after so many it is looked at again */
	bool changed;         /* the load did, since the gain was measured */
	double pause;         /* seconds until there may be a trial */
	double next_pause;
	uint64 trials;
	uint64 kept; /* trials that brought something */
} CommitDelayLearning;

/* Part of the mean group from which on one is full */
#define COMMIT_DELAY_FULL 0.95

/* Length of a step, in seconds */
extern double commit_delay_step(int step);

/* Whether a flush of so many commits is one for which, and after which, the tight wait does */
static inline bool
commit_delay_is_full(const CommitDelayLearning *learning, double commits)
{
	return commits >= learning->full * COMMIT_DELAY_FULL;
}

/*
 * The wait that the law proposes, in seconds, or 0; what it gains; and the commits per flush
 * with it.
 */
extern double
commit_delay_best(const WalEpoch *epoch, bool short_of_operations, double *gain, double *fuller);

/* The shortest one that keeps together those who came within a wait, as seen with it */
extern double commit_delay_tight(const WalEpoch *epoch, double wait);

/* After an epoch: sets the wait of the next one.  All zeros is how it begins. */
extern void commit_delay_learn(CommitDelayLearning *learning, const WalEpoch *epoch, bool may_wait,
                               bool short_of_operations);

#endif /* PG_CALM_COMMIT_DELAY_LAW_H */
