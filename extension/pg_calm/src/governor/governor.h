/*-------------------------------------------------------------------------
 *
 * governor.h
 *	  Slows writers down when something downstream cannot follow.
 *
 * docs/internals/governor.md has the control law and the reasons for it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_GOVERNOR_H
#define PG_CALM_GOVERNOR_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/spin.h"
#include "utils/guc.h"

/* What can be short, and so limit the writers */
typedef enum GovernorInput
{
	GOVERNOR_WAL_SPACE, /* room on the filesystem of pg_wal */
	GOVERNOR_MAX_WAL,   /* WAL since the redo point of the last checkpoint */
	GOVERNOR_LAG,       /* standbys */
	GOVERNOR_ARCHIVE,   /* WAL that waits to be archived */
} GovernorInput;

#define GOVERNOR_INPUTS (GOVERNOR_ARCHIVE + 1)

typedef enum GovernorState
{
	GOVERNOR_OFF,      /* not asked for by the settings */
	GOVERNOR_UNKNOWN,  /* can't be read at present: no limit */
	GOVERNOR_WATCHED,  /* far from its limit */
	GOVERNOR_PACING,   /* writers have a rate */
	GOVERNOR_RELEASED, /* did not drain for pg_calm.governor_patience: no limit */
	GOVERNOR_REFUSING, /* likewise, but writing on would end the server: an error */
} GovernorState;

/* An input as of the last look; values and limits in bytes, or seconds of lag */
typedef struct GovernorReading
{
	GovernorState state;
	char object[NAMEDATALEN]; /* what is behind: a standby, slot, "checkpoint", ... or "" */
	bool in_seconds;          /* value and limit */
	double value;
	double limit;
	double drain_rate;   /* bytes of WAL per second */
	double allowed_rate; /* bytes of WAL per second; infinity: any */
	uint64 releases;     /* times that patience was over */
	uint64 holds;        /* waits of sessions for its sake */
	uint64 held_us;      /* their duration, when they are over */
} GovernorReading;

/* A session that is held; in the place of its PGPROC */
typedef struct GovernorHold
{
	int pid; /* 0: not held */
	GovernorInput input;
	bool committed; /* held after its transaction, not before it */
	TimestampTz since;
} GovernorHold;

/* What the waiting sessions need to know: GovernorShared.gate */
typedef enum GovernorGate
{
	GOVERNOR_GATE_OPEN,   /* nobody waits */
	GOVERNOR_GATE_PACED,  /* who wrote waits for its turn */
	GOVERNOR_GATE_CLOSED, /* nobody begins to write either */
	GOVERNOR_GATE_REFUSE, /* who begins to write gets an error */
} GovernorGate;

typedef struct GovernorShared
{
	pg_atomic_uint32 gate;         /* GovernorGate */
	pg_atomic_uint64 updated_ms;   /* when the worker last set it */
	pg_atomic_uint64 charged;      /* bytes of WAL that sessions have owned up to */
	pg_atomic_uint64 charged_cost; /* and what they pay for them: governor_hold.c */

	slock_t lock; /* protects what follows */
	GovernorReading readings[GOVERNOR_INPUTS];
	bool shadow;           /* nobody waits: it is only counted */
	GovernorInput binding; /* the one that sets the rate */
	double wal_rate;       /* bytes per second inserted */
	double allowed_rate;   /* of all WAL */

	/*
	 * The line in which sessions wait, counted in the cost of what they have
	 * written: each takes the next ticket, and goes when that is served.
	 */
	uint32 line;       /* number of the line: a new one when the gate has been open */
	double paced_rate; /* cost per second served */
	double issued;
	double served;
	uint64 served_at_ms;

	GovernorHold holds[FLEXIBLE_ARRAY_MEMBER];
} GovernorShared;

/*
 * WAL on disk, in bytes.  cycle is what was written since the redo point that
 * the running checkpoint, or the next one, will not free; room what can still
 * be written; freed what the end of the running checkpoint will add to that.
 */
typedef struct GovernorWal
{
	double cycle;
	double room;
	double freed;
} GovernorWal;

/* What is behind, and what it has done since the last look; for governor_track */
typedef struct GovernorDrain
{
	uint64 position; /* 0: not known yet */
	uint64 at_ms;
	double rate; /* bytes per second, smoothed */
} GovernorDrain;

/* GUCs */
extern bool calm_governor;             /* whether this session can be held */
extern int calm_governor_wal_space;    /* MB; 0: off; -1: chosen from the filesystem */
extern int calm_governor_max_wal;      /* MB; 0: off */
extern int calm_governor_archive_backlog; /* MB; 0: off */
extern char *calm_governor_max_lag;    /* see governor_lag.c */
extern int calm_governor_lag_position; /* GovernorLagPosition */
extern int calm_governor_patience;     /* ms */
extern bool calm_governor_exempt_superusers;

extern GovernorShared *calm_governor_shared;

/* governor.c */
extern void governor_define_settings(void);
extern void governor_request_shared_memory(void);
extern void governor_start_shared_memory(void);
extern void governor_register_worker(void);
extern const char *governor_input_name(GovernorInput input);

/* governor_control.c: see there */
extern void governor_track(GovernorDrain *drain, uint64 position, uint64 now_ms);
extern double governor_lag_rate(double lag, double limit, double drain);
extern double governor_space_rate(const GovernorWal *wal, double seconds);
extern void governor_decide(GovernorReading *readings, double wal_rate, uint64 now_ms);

/* governor_checkpoint.c */
extern bool governor_checkpoint_look(uint64 redo, uint64 completed_redo, uint64 now_ms);
extern double governor_checkpoint_seconds(uint64 now_ms);
extern double governor_checkpoint_drain_rate(void);
extern bool governor_checkpoint_keeps_up(double cycle, double budget);
extern void governor_checkpoint_hurry(uint64 now_ms);

/* governor_wal.c */
extern void
governor_wal_look(uint64 insert, GovernorReading *space, GovernorReading *retained, uint64 now_ms);

/* governor_archive.c */
extern bool governor_archive_backlog(uint64 *bytes, uint64 now_ms);
extern void governor_archive_look(uint64 insert, GovernorReading *reading, uint64 now_ms);

/* governor_lag.c */
typedef enum GovernorLagPosition
{
	GOVERNOR_LAG_FLUSH,
	GOVERNOR_LAG_REPLAY,
} GovernorLagPosition;

extern bool governor_check_max_lag(char **newval, void **extra, GucSource source);
extern void governor_assign_max_lag(const char *newval, void *extra);
extern bool governor_lag_is_limited(void);
extern void governor_lag_look(uint64 insert, GovernorReading *reading, uint64 now_ms);

/* governor_hold.c */
extern void governor_hold_install(void);
extern bool governor_is_silent(void);

#endif /* PG_CALM_GOVERNOR_H */
