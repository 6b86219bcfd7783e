/*-------------------------------------------------------------------------
 *
 * guard_lag.c
 *	  Lag of standbys, with limits by application_name.
 *
 * Their positions are those of the walsenders in shared memory, as in
 * pg_stat_replication.  Lag in time is the age of the WAL that a standby has
 * come to: when it was written here is remembered.  The server's own measure
 * (flush_lag, replay_lag) is of no use: it stands still when a standby does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>

#include "access/xlog_internal.h"
#include "base/base.h"
#include "guard.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "utils/backend_status.h"

#define LIMITS_MAX 64

/* Positions that are remembered, one a second */
#define HISTORY_SECONDS 3600

/* How often application names are read; they do not change while a standby is connected */
#define NAMES_INTERVAL_MS 10000

typedef struct LagLimit
{
	char pattern[NAMEDATALEN]; /* as in fnmatch(3) */
	double bytes;              /* 0: in seconds */
	double seconds;
} LagLimit;

typedef struct LagLimits
{
	int count;
	LagLimit limit[LIMITS_MAX];
} LagLimits;

/* A walsender that has a limit, or the last that was in its place */
typedef struct Standby
{
	int pid; /* 0: gone */
	char name[NAMEDATALEN];
	bool decodes; /* what a subscriber tells stands still while it applies a transaction */
	GuardDrain drain;
	uint64 stuck_since_ms; /* see guard_given_up */
} Standby;

static const LagLimits *limits = NULL;

static char *trim(char *text);
static bool parse_limit(char *text, LagLimit *limit);
static const LagLimit *limit_of(const char *name);
static void remember(uint64 insert, uint64 now_ms);
static double age_of(uint64 position, uint64 insert, uint64 now_ms);
static void describe(Standby *standby);
static void comes(Standby *standbys, Standby *standby, int pid);
static double rate_of(const LagLimit *limit, const GuardDrain *drain, uint64 insert, uint64 now_ms,
                      GuardReading *reading);

static char *
trim(char *text)
{
	char *end;

	while (isspace((unsigned char) *text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char) end[-1]))
		end--;
	*end = '\0';
	return text;
}

/* "pattern = 64MB", "pattern = 10s"; without a pattern for any standby */
static bool
parse_limit(char *text, LagLimit *limit)
{
	char *equals = strrchr(text, '=');
	char *value = trim(equals ? equals + 1 : text);
	const char *pattern = "*";
	int number;

	if (equals)
	{
		*equals = '\0';
		pattern = trim(text);
	}
	if (pattern[0] == '\0' || strlen(pattern) >= sizeof(limit->pattern))
	{
		GUC_check_errdetail("The pattern \"%s\" is empty or too long.", pattern);
		return false;
	}
	strlcpy(limit->pattern, pattern, sizeof(limit->pattern));
	limit->bytes = limit->seconds = 0;

	if (value[0] != '\0' && !isdigit((unsigned char) value[strlen(value) - 1]))
	{
		if (parse_int(value, &number, GUC_UNIT_KB, NULL))
			limit->bytes = (double) number * 1024;
		else if (parse_int(value, &number, GUC_UNIT_MS, NULL))
			limit->seconds = (double) number / 1000;
	}
	if (limit->bytes < 1024 * 1024 && (limit->seconds < 1 || limit->seconds > HISTORY_SECONDS))
	{
		GUC_check_errdetail(
			"\"%s\" is neither an amount from 1MB on nor a time from 1s to 1h, with its unit.",
			value);
		return false;
	}
	return true;
}

bool
guard_check_max_lag(char **newval, void **extra, GucSource source)
{
	LagLimits *parsed = CALM_GUC_MALLOC(sizeof(LagLimits));
	char *copy = strdup(*newval);
	char *rest = copy;
	char *item;
	bool valid = parsed != NULL && copy != NULL;

	if (parsed)
		parsed->count = 0;
	while (valid && (*newval)[0] != '\0' && (item = strsep(&rest, ",")) != NULL)
	{
		if (parsed->count == LIMITS_MAX)
		{
			GUC_check_errdetail("There are more than %d limits.", LIMITS_MAX);
			valid = false;
		}
		else
			valid = parse_limit(item, &parsed->limit[parsed->count++]);
	}
	free(copy);
	if (!valid)
	{
		CALM_GUC_FREE(parsed);
		return false;
	}
	*extra = parsed;
	return true;
}

void
guard_assign_max_lag(const char *newval, void *extra)
{
	limits = extra;
}

bool
guard_lag_is_limited(void)
{
	return limits != NULL && limits->count > 0;
}

/* The first that fits */
static const LagLimit *
limit_of(const char *name)
{
	for (int i = 0; i < limits->count; i++)
	{
		if (fnmatch(limits->limit[i].pattern, name, 0) == 0)
			return &limits->limit[i];
	}
	return NULL;
}

static uint64 history_position[HISTORY_SECONDS];
static uint64 history_ms[HISTORY_SECONDS];
static uint64 history_count = 0; /* ever */

static void
remember(uint64 insert, uint64 now_ms)
{
	if (history_count > 0 && now_ms < history_ms[(history_count - 1) % HISTORY_SECONDS] + 1000)
		return;
	history_position[history_count % HISTORY_SECONDS] = insert;
	history_ms[history_count % HISTORY_SECONDS] = now_ms;
	history_count++;
}

/* Seconds since WAL went past a position; 0 if it has not */
static double
age_of(uint64 position, uint64 insert, uint64 now_ms)
{
	uint64 oldest = history_count > HISTORY_SECONDS ? history_count - HISTORY_SECONDS : 0;
	uint64 low = oldest;
	uint64 high = history_count;

	if (position >= insert)
		return 0;
	/* the first that was beyond it */
	while (low < high)
	{
		uint64 middle = low + (high - low) / 2;

		if (history_position[middle % HISTORY_SECONDS] > position)
			high = middle;
		else
			low = middle + 1;
	}
	return low < history_count ? (double) (now_ms - history_ms[low % HISTORY_SECONDS]) / 1000 : 0;
}

/* application_name of its process, or "", and whether that decodes WAL, which takes a database */
static void
describe(Standby *standby)
{
	int count = pgstat_fetch_stat_numbackends();

	standby->name[0] = '\0';
	for (int i = 1; i <= count; i++)
	{
		LocalPgBackendStatus *local = CALM_LOCAL_BACKEND_STATUS(i);

		if (local == NULL || local->backendStatus.st_procpid != standby->pid)
			continue;
		strlcpy(standby->name, local->backendStatus.st_appname, NAMEDATALEN);
		standby->decodes = OidIsValid(local->backendStatus.st_databaseid);
	}
	pgstat_clear_backend_activity_snapshot();
}

/*
 * A walsender is new in its place.  A standby that comes again has been stuck since it first was:
 * else one that comes and goes would have writers wait for ever.
 */
static void
comes(Standby *standbys, Standby *standby, int pid)
{
	Standby gone = *standby;

	memset(standby, 0, sizeof(*standby));
	standby->pid = pid;
	describe(standby);
	gone.pid = 0;
	if (strcmp(gone.name, standby->name) == 0)
	{
		standby->stuck_since_ms = gone.stuck_since_ms;
		return;
	}
	for (int i = 0; i < max_wal_senders; i++)
	{
		Standby *other = &standbys[i];

		if (other->pid == 0 && other->stuck_since_ms != 0 &&
		    strcmp(other->name, standby->name) == 0)
		{
			standby->stuck_since_ms = other->stuck_since_ms;
			*other = gone;
			return;
		}
	}
}

/* What a standby allows; also fills in the reading as if it were the one */
static double
rate_of(const LagLimit *limit, const GuardDrain *drain, uint64 insert, uint64 now_ms,
        GuardReading *reading)
{
	double lag = insert > drain->position ? (double) (insert - drain->position) : 0;
	double bytes = limit->bytes;

	reading->in_seconds = limit->seconds > 0;
	if (reading->in_seconds)
	{
		reading->value = age_of(drain->position, insert, now_ms);
		reading->limit = limit->seconds;
		/* as many bytes as that time stands for at present */
		bytes = reading->value > 0 ? lag * reading->limit / reading->value : INFINITY;
	}
	else
	{
		reading->value = lag;
		reading->limit = limit->bytes;
	}
	reading->drain_rate = drain->rate;
	return isinf(bytes) ? INFINITY : guard_lag_rate(lag, bytes, drain->rate);
}

/* insert is the end of WAL */
void
guard_lag_look(uint64 insert, GuardReading *reading, uint64 now_ms)
{
	static Standby *standbys = NULL;
	static uint64 names_ms = 0;
	bool read_names = now_ms >= names_ms + NAMES_INTERVAL_MS;
	double worst = -1;

	/* At the beginning of a page the next record comes after its header, which no standby has to have */
	if (insert % wal_segment_size == SizeOfXLogLongPHD)
		insert -= SizeOfXLogLongPHD;
	else if (insert % XLOG_BLCKSZ == SizeOfXLogShortPHD)
		insert -= SizeOfXLogShortPHD;
	remember(insert, now_ms);
	if (standbys == NULL)
		standbys = calloc(max_wal_senders, sizeof(Standby));
	reading->state = GUARD_UNKNOWN;
	if (standbys == NULL)
		return;
	if (read_names)
		names_ms = now_ms;

	for (int i = 0; i < max_wal_senders; i++)
	{
		WalSnd *walsender = &WalSndCtl->walsnds[i];
		Standby *standby = &standbys[i];
		GuardReading candidate = *reading;
		const LagLimit *limit;
		XLogRecPtr position;
		bool applies;
		WalSndState state;
		double part;
		int pid;

		SpinLockAcquire(&walsender->mutex);
		pid = walsender->pid;
		state = walsender->state;
		applies = walsender->apply != 0;
		position = guard_lag_position == GUARD_LAG_REPLAY ? walsender->apply : walsender->flush;
		SpinLockRelease(&walsender->mutex);

		if (pid == 0)
			standby->pid = 0;
		else if (standby->pid != pid)
			comes(standbys, standby, pid);
		else if (read_names)
			describe(standby);
		/* no position: pg_basebackup and others that do not report one */
		if (pid == 0 || position == 0 || state == WALSNDSTATE_STARTUP ||
		    state == WALSNDSTATE_BACKUP || (limit = limit_of(standby->name)) == NULL)
			continue;
		/*
		 * nor what flushes whole segments, as backups and pg_receivewal do, or decodes, unless it
		 * is meant
		 */
		if (strcmp(limit->pattern, "*") == 0 && (!applies || standby->decodes))
			continue;

		guard_track(&standby->drain, position, now_ms);
		candidate.allowed_rate = rate_of(limit, &standby->drain, insert, now_ms, &candidate);
		part = candidate.value / candidate.limit;
		/* nobody waits for it any more: it must not hide another one that has to be waited for */
		if (guard_given_up(&standby->stuck_since_ms, candidate.allowed_rate, now_ms))
			part = LAG_PACED_FROM;
		if (part > worst)
		{
			worst = part;
			*reading = candidate;
			reading->stuck_since_ms = standby->stuck_since_ms;
			reading->state = GUARD_WATCHED;
			strlcpy(reading->object, standby->name, sizeof(reading->object));
		}
	}
}
