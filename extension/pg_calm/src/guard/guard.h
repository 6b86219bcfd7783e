/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  Slows writers down when something downstream cannot follow.
 *
 * guard_control.c has the control law and the reasons for it.
 *
 * - Nobody waits for ever: an input that does not drain lets go after the patience, or
 *	  refuses where the server would end.  A worker that is not heard of holds nobody.
 * - Nobody waits with a lock that others queue behind (of this server: whoever waits for an answer
 *	  through postgres_fdw or dblink has locks of its own); who frees space is not held.
 * - In shadow everything is done but the waiting, and the server is left as it is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_GUARD_H
#define PG_CALM_GUARD_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/spin.h"
#include "utils/guc.h"

/* A worker that is not heard of for so long holds nobody */
#define GUARD_SILENT_MS 5000

/* GUC mode */
typedef enum GuardMode
{
	GUARD_MODE_OFF,
	GUARD_MODE_SHADOW, /* all is counted and told, nobody is held */
	GUARD_MODE_ON,
} GuardMode;

/* What can be short, and so limit the writers */
typedef enum GuardInput
{
	GUARD_WAL_SPACE, /* room on the filesystem of pg_wal */
	GUARD_MAX_WAL,   /* WAL since the redo point of the last checkpoint */
	GUARD_LAG,       /* standbys */
	GUARD_ARCHIVE,   /* WAL that waits to be archived */
} GuardInput;

#define GUARD_INPUTS (GUARD_ARCHIVE + 1)

typedef enum GuardState
{
	GUARD_OFF,      /* not asked for by the settings */
	GUARD_UNKNOWN,  /* can't be read at present: no limit */
	GUARD_WATCHED,  /* far from its limit */
	GUARD_PACING,   /* writers have a rate */
	GUARD_RELEASED, /* did not drain for pg_calm_guard.patience: no limit */
	GUARD_REFUSING, /* likewise, but writing on would end the server: an error */
} GuardState;

/* An input as of the last look; values and limits in bytes, or seconds of lag */
typedef struct GuardReading
{
	GuardState state;
	char object[NAMEDATALEN]; /* what is behind: a standby, slot, "checkpoint", ... or "" */
	bool in_seconds;          /* value and limit */
	double value;
	double limit;
	double drain_rate;     /* bytes of WAL per second */
	double allowed_rate;   /* bytes of WAL per second; infinity: any */
	uint64 releases;       /* times that patience was over */
	uint64 stuck_since_ms; /* of GUARD_LAG: since when that standby has not drained; 0: it does */
	uint64 holds;          /* waits of sessions for its sake */
	uint64 held_us;        /* their duration, when they are over */
	TimestampTz
		behind_since; /* of GUARD_WAL_SPACE: the object, if it is full soon for its sake; else 0 */
	TimestampTz full_at; /* when; 0: not to be foreseen */
} GuardReading;

/* A session that is held; in the place of its PGPROC */
typedef struct GuardHold
{
	int pid; /* 0: not held */
	GuardInput input;
	bool committed; /* held after its transaction, not before it */
	TimestampTz since;
} GuardHold;

/* What the waiting sessions need to know: GuardShared.gate */
typedef enum GuardGate
{
	GUARD_GATE_OPEN,   /* nobody waits */
	GUARD_GATE_PACED,  /* who wrote waits for its turn */
	GUARD_GATE_CLOSED, /* nobody begins to write either */
	GUARD_GATE_REFUSE, /* who begins to write gets an error */
} GuardGate;

typedef struct GuardShared
{
	pg_atomic_uint32 gate;         /* GuardGate */
	pg_atomic_uint64 updated_ms;   /* when the worker last set it */
	pg_atomic_uint64 charged;      /* bytes of WAL that sessions have owned up to */
	pg_atomic_uint64 charged_cost; /* and what they pay for them: guard_hold.c */
	uint32 hold_wait_event; /* of who is held; the worker asks for it: it may be refused (17+) */

	slock_t lock; /* protects what follows */
	GuardReading readings[GUARD_INPUTS];
	bool shadow;         /* nobody waits: it is only counted */
	GuardInput binding;  /* the one that sets the rate */
	double wal_rate;     /* bytes per second inserted */
	double allowed_rate; /* of all WAL */

	/*
	 * The line in which sessions wait, counted in the cost of what they have
	 * written: each takes the next ticket, and goes when that is served.
	 */
	uint32 line;       /* number of the line: a new one when the gate has been open */
	double paced_rate; /* cost per second served */
	double issued;
	double served;
	uint64 served_at_ms;

	GuardHold holds[FLEXIBLE_ARRAY_MEMBER];
} GuardShared;

/*
 * WAL on disk, in bytes.  cycle is what was written since the redo point that
 * the running checkpoint, or the next one, will not free; room what can still
 * be written; freed what the end of the running checkpoint will add to that.
 */
typedef struct GuardWal
{
	double cycle;
	double room;
	double freed;
} GuardWal;

/* Part of the limit of lag from which on there is a rate */
#define LAG_PACED_FROM 0.5

/* What is behind, and what it has done since the last look; for guard_track */
typedef struct GuardDrain
{
	uint64 position; /* 0: not known yet */
	uint64 at_ms;
	double rate; /* bytes per second, smoothed */
} GuardDrain;

/* GUCs */
extern int guard_mode;            /* GuardMode */
extern bool guard_holds_session;  /* whether this session can be held */
extern int guard_wal_space;       /* MB; 0: off; -1: chosen from the filesystem */
extern int guard_max_wal;         /* MB; 0: off */
extern int guard_archive_backlog; /* MB; 0: off */
extern char *guard_max_lag;       /* see guard_lag.c */
extern int guard_lag_position;    /* GuardLagPosition */
extern int guard_patience;        /* ms */
extern bool guard_exempt_superusers;

extern GuardShared *guard_shared;

/* guard.c */
extern void guard_must_be_loaded(void);
extern const char *guard_input_name(GuardInput input);

/* guard_control.c: see there */
extern void guard_track(GuardDrain *drain, uint64 position, uint64 now_ms);
extern double guard_lag_rate(double lag, double limit, double drain);
extern bool guard_given_up(uint64 *since_ms, double allowed_rate, uint64 now_ms);
extern double guard_space_rate(const GuardWal *wal, double seconds);
extern void guard_decide(GuardReading *readings, uint64 insert, double wal_rate, uint64 now_ms);

/* guard_checkpoint.c */
extern bool guard_checkpoint_look(uint64 redo, uint64 completed_redo, uint64 now_ms);
extern double guard_checkpoint_seconds(uint64 now_ms);
extern double guard_checkpoint_drain_rate(void);
extern bool guard_checkpoint_comes_on(double least, uint64 now_ms);
extern bool guard_checkpoint_keeps_up(double cycle, double budget);
extern void guard_checkpoint_hurry(uint64 now_ms, bool at_once);

/* guard_wal.c */
extern void
guard_wal_look(uint64 insert, GuardReading *space, GuardReading *retained, uint64 now_ms);

/* guard_archive.c */

/*
 * What waits, in bytes, and where its first segment begins, 0 if there is none, as of a moment ago:
 * now_ms becomes that; false if there is no telling
 */
extern bool guard_archive_queue(uint64 *bytes, uint64 *oldest, uint64 *now_ms);
extern void guard_archive_look(uint64 insert, GuardReading *reading, uint64 now_ms);

/* guard_forecast.c */

/* Segments that are kept when something is said to be behind at all: one is always under way */
#define BEHIND_SEGMENTS 2

extern void guard_forecast(GuardReading *reading, const char *keeper, bool another, uint64 kept,
                           double room, bool slows, uint64 now_ms);

/* guard_lag.c */
typedef enum GuardLagPosition
{
	GUARD_LAG_FLUSH,
	GUARD_LAG_REPLAY,
} GuardLagPosition;

extern bool guard_check_max_lag(char **newval, void **extra, GucSource source);
extern void guard_assign_max_lag(const char *newval, void *extra);
extern bool guard_lag_is_limited(void);
extern void guard_lag_look(uint64 insert, GuardReading *reading, uint64 now_ms);

/* guard_hold.c */
extern void guard_hold_install(void);
extern bool guard_is_silent(void);

#endif /* PG_CALM_GUARD_H */
