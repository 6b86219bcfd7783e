/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The background worker that writes marked pages back, and the circuit breaker.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WORKER_H
#define PG_CALM_WORKER_H

#include "writeback/writeback.h"

/* breaker.c */

extern void breaker_begin(void);
extern bool breaker_tick(const KernelFlusher *flusher, bool interrupted, uint64 now_ms);
extern const char *breaker_reason(void);

/* breaker_law.c */

/* How far it has let go */
typedef enum BreakerLevel
{
	BREAKER_ALL,         /* not at all */
	BREAKER_NO_BRIDGING, /* gaps are not bridged */
	BREAKER_STOCK,       /* nothing is flushed, and the server's hints are obeyed */
} BreakerLevel;

typedef enum BreakerCause
{
	BREAKER_FINE,
	BREAKER_SLOW_COMMITS, /* flushes of WAL take much longer while the worker writes */
	BREAKER_AMPLIFIED,    /* much more is written than was asked for while gaps are bridged */
} BreakerCause;

/* Counters, since any moment; all but now_ms may begin anew */
typedef struct BreakerInput
{
	uint64 now_ms;
	uint64 flushes;   /* of WAL */
	uint64 flush_us;  /* that they took */
	uint64 written;   /* bytes that the devices of the data directory have written, whoever asked */
	uint64 justified; /* bytes of written pages, of bridged ones, and of WAL */
	uint64 own;       /* bytes that the worker has started to write */
	uint64 bridged;   /* bytes of these that were clean */
	double in_flight_us; /* device time that the worker may have under way */
	bool interrupted;    /* somebody waits for the worker: this is no time to rest */
} BreakerInput;

/* A stretch of time */
typedef struct BreakerMeasure
{
	double flushes;
	double latency_us;    /* of a flush of WAL; below 0: there was none */
	double amplification; /* written by justified; below 0: too little to tell */
	double in_flight_us;
	bool worked;
	bool bridged;
} BreakerMeasure;

#define BREAKER_PHASES 4

typedef struct BreakerLaw
{
	BreakerLevel level;   /* for all to obey */
	BreakerLevel allowed; /* for the worker, which tries the other one now and then */
	BreakerCause cause;
	double bad;   /* what was measured: microseconds, or an amplification; while it worked */
	double good;  /* and while it rested */
	uint32 trips; /* lately */
	uint64 retry_ms;

	bool begun;
	BreakerInput from;     /* where the present stretch begins */
	BreakerCause tried;    /* what the present trial is about; BREAKER_FINE: there is none */
	BreakerLevel trial[2]; /* its even phases' level, and its odd phases' */
	int phase;
	bool settled;
	uint64 phase_ms;
	BreakerMeasure measures[BREAKER_PHASES];
	double innocent_us; /* what a flush of WAL took when it was found innocent; 0: long ago */
	uint64 trial_ms; /* when the next trial of what was found innocent is due; of other; of bytes */
	uint64 suspect_ms;
	uint64 amplified_ms;
	uint32 innocent;  /* trials since that found nothing */
	uint32 amplified; /* likewise */
	uint64 well_ms;   /* since when it has not let go */
	int windows;      /* measured since it let go */
	int no_better;    /* of these */
} BreakerLaw;

extern bool breaker_law_follow(BreakerLaw *law, const BreakerInput *input);

#endif /* PG_CALM_WORKER_H */
