/*-------------------------------------------------------------------------
 *
 * commit_delay.c
 *	  Fuller flushes of WAL: commits wait for those that follow.
 *
 * The server can do that: with commit_delay, whoever is about to flush WAL sleeps
 * so long before (XLogFlush in xlog.c).  The right length depends on the volume,
 * the clients and the moment, so it is found here, by commit_delay_law.c, and the
 * committing backend sets the server's own variables for its flush: when its
 * transaction is about to be committed, and back when it is.  Nothing of the
 * server's WAL is replaced, and what a commit promises is the same.
 *
 * commit_siblings is not asked, being set to 0: the server counts transactions
 * that have an ID at that instant, which a client that has just been released
 * does not yet.  Instead a backend looks at how many others have committed since
 * its own last commit: alone, it does not wait, from its second commit on.
 *
 * Who waits:
 * - commits and PREPARE TRANSACTION of clients and background workers that wrote
 *	 WAL under a transaction ID, where synchronous_commit is not off.  All its
 *	 other values flush here, and wait for a standby after.
 * - COMMIT PREPARED does not: no callback comes before its flush.  Nor does anything
 *	 else that flushes WAL (buffers that are written, checkpoints, the WAL writer, autovacuum).
 *	 They take along whoever waits, as ever.
 * - Nobody while commit_delay is set, in the session or anywhere: it is not 0 then.
 * - Nobody on a standby, where no transaction has an ID.
 *
 * What is measured: whoever flushes notes when, and how long it took.  A commit adds
 * one to a counter that all share, and notes when it came.  The governor's
 * worker puts both together every tenth of a second, and publishes the wait for the
 * next one; what it said is good for a few seconds, so that one that is gone makes
 * nobody wait.  Commits are not counted unless somebody asked for "auto" lately.
 *
 * wal_sync_method: flushes by fdatasync and fsync are seen.  With open_sync and
 * open_datasync each write is one, so there is no wait.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>
#include <sys/stat.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "commit_delay.h"
#include "commit_delay_law.h"
#include "base/base.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "shared/shared.h"
#include "port/atomics.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_FUNCTION_INFO_V1(pg_calm_wal);

/* Values of the setting that are no microseconds */
#define DELAY_OFF 0
#define DELAY_AUTO (-1)
#define LONGEST_DELAY 100000 /* as commit_delay */

/* How much longer than it is told to pg_usleep sleeps: the timer slack of prctl(2), and waking up */
#define TIMER_SLACK_US 60

/* An epoch takes so long and has so many flushes and commits, but no longer than */
#define EPOCH_MS 100
#define EPOCH_FLUSHES 25
#define EPOCH_COMMITS 50
#define LONGEST_EPOCH_MS 1000

/* Between looks with nobody who commits, or who asks */
#define IDLE_MS 1000
#define OFF_MS 10000

/* How often a session asks; how long that is good, and what the worker has said */
#define ASK_US 1000000
#define ASKED_US 15000000
#define GOOD_US 5000000

/* Part of the volume's operations that are used from which on they are short */
#define SHORT_USE 0.95

/* Last commits and flushes whose moments are known */
#define RECENT_COMMITS 4096
#define RECENT_FLUSHES 1024

/* A flush; moments are the lower half of clock_us */
typedef struct WalFlush
{
	uint64 commits; /* counted until it began */
	uint32 began_us;
	uint32 took_us;
	uint32 waited_us; /* before it began; 0: it did not */
	bool tight;       /* and only to keep a full group together */
} WalFlush;

typedef struct CommitDelayReport
{
	const char *unavailable; /* a literal: the same address in all processes */
	CommitDelayLearning learning;
	WalEpoch epoch; /* the last one */
	bool short_of_operations;
	double operations_saved;
} CommitDelayReport;

/* Each part is written by others, and has its cache lines */
typedef struct CommitDelayShared
{
	pg_atomic_uint64 commits; /* by all who commit, once each */
	char pad1[PG_CACHE_LINE_SIZE - sizeof(pg_atomic_uint64)];

	pg_atomic_uint64 flushes; /* by who flushes */
	pg_atomic_uint64 flush_us;
	pg_atomic_uint64 waits;
	pg_atomic_uint64 wait_us;
	pg_atomic_uint32 last_group; /* commits of the last flush */
	char pad2[PG_CACHE_LINE_SIZE - 4 * sizeof(pg_atomic_uint64) - sizeof(pg_atomic_uint32)];

	pg_atomic_uint64 asked_us; /* by who has "auto", once a second */
	pg_atomic_uint64 good_until_us;
	pg_atomic_uint32 measuring;
	pg_atomic_uint32 delay_us;       /* after a group that was not full; 0: nobody waits */
	pg_atomic_uint32 tight_delay_us; /* after one that was */
	pg_atomic_uint32 full_group;     /* least of a full one */
	pg_atomic_uint32 others;         /* who have to have committed since one's last commit */
	char pad3[PG_CACHE_LINE_SIZE - 2 * sizeof(pg_atomic_uint64) - 5 * sizeof(pg_atomic_uint32)];

	slock_t lock; /* protects report */
	CommitDelayReport report;
	uint32 came_us[RECENT_COMMITS];  /* place: the commit's number */
	WalFlush recent[RECENT_FLUSHES]; /* likewise */
} CommitDelayShared;

static char *calm_commit_delay = "off";
static int setting = DELAY_OFF; /* what it says: microseconds, or one of the above */
bool commit_delay_sees_fdatasync = false;

static CommitDelayShared *shared = NULL;
static uint64 last_commit = 0; /* of this backend: what the counter was then */
static bool has_committed = false;
static int own_delay = 0; /* in CommitDelay, and not the user's */
static bool own_tight = false;
static bool own_counted = false;
static uint64 flush_began = 0;
static int user_siblings = 0;

static bool check_setting(char **newval, void **extra, GucSource source);
static void assign_setting(const char *newval, void *extra);
static uint64 clock_us(void);
static void before_flush(bool prepares);
static void after_flush(void);
static void at_transaction(XactEvent event, void *argument);
static const char *why_unseen(void);
static void count_follower(WalEpoch *epoch, int32 after_us);
static void see_epoch(WalEpoch *epoch, bool waited, uint64 commits, uint64 flushes, uint64 flush_us,
                      double seconds);
static uint32 sleep_us(double wait);
static void publish(const CommitDelayLearning *learning, bool measuring);
static const char *reason_of(const CommitDelayReport *report);

static bool
check_setting(char **newval, void **extra, GucSource source)
{
	int parsed;
	int *result;

	if (pg_strcasecmp(*newval, "off") == 0)
		parsed = DELAY_OFF;
	else if (pg_strcasecmp(*newval, "auto") == 0)
		parsed = DELAY_AUTO;
	else if (!parse_int(*newval, &parsed, 0, NULL) || parsed < 0 || parsed > LONGEST_DELAY)
	{
		GUC_check_errdetail("The value must be auto, off, or microseconds from 0 to %d.",
		                    LONGEST_DELAY);
		return false;
	}
	result = CALM_GUC_MALLOC(sizeof(int));
	if (result == NULL)
		return false;
	*result = parsed;
	*extra = result;
	return true;
}

static void
assign_setting(const char *newval, void *extra)
{
	setting = *(int *) extra;
}

void
commit_delay_define_settings(void)
{
	DefineCustomStringVariable(
		"pg_calm.commit_delay",
		"Time that a commit waits before it flushes WAL, so that others are flushed along.",
		"\"auto\" waits where that was seen to bring more commits per second, and as long as brings most; \"off\" never, "
		"a number so many microseconds unless nobody else commits. Where commit_delay is set, that holds.",
		&calm_commit_delay, "off", PGC_SUSET, 0, check_setting, assign_setting, NULL);
}

void
commit_delay_request_shared_memory(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(CommitDelayShared)));
}

/* AddinShmemInitLock is held */
void
commit_delay_start_shared_memory(void)
{
	bool found;
	CommitDelayShared *memory =
		ShmemInitStruct("pg_calm commit delay", sizeof(CommitDelayShared), &found);

	if (!found)
	{
		memset(memory, 0, sizeof(CommitDelayShared));
		pg_atomic_init_u64(&memory->commits, 0);
		pg_atomic_init_u64(&memory->flushes, 0);
		pg_atomic_init_u64(&memory->flush_us, 0);
		pg_atomic_init_u64(&memory->waits, 0);
		pg_atomic_init_u64(&memory->wait_us, 0);
		pg_atomic_init_u64(&memory->asked_us, 0);
		pg_atomic_init_u64(&memory->good_until_us, 0);
		pg_atomic_init_u32(&memory->measuring, 0);
		pg_atomic_init_u32(&memory->delay_us, 0);
		pg_atomic_init_u32(&memory->tight_delay_us, 0);
		pg_atomic_init_u32(&memory->full_group, 0);
		pg_atomic_init_u32(&memory->last_group, 0);
		pg_atomic_init_u32(&memory->others, 0);
		SpinLockInit(&memory->lock);
	}
	shared = memory;
}

void
commit_delay_install(void)
{
	RegisterXactCallback(at_transaction, NULL);
}

static uint64
clock_us(void)
{
	return histogram_clock() / 1000;
}

/*
 * A transaction is about to be committed.  What comes between this and its flush
 * is short, and can't read the variables by SQL.
 */
static void
before_flush(bool prepares)
{
	uint64 now;
	uint64 number;
	uint64 others;
	int delay = setting;

	if (shared == NULL || (setting == DELAY_OFF && pg_atomic_read_u32(&shared->measuring) == 0))
		return;
	if ((MyBackendType != B_BACKEND && MyBackendType != B_BG_WORKER) || IsParallelWorker() ||
	    !enableFsync || calm_mode == CALM_MODE_OFF)
		return;
	/* as RecordTransactionCommit decides whether to flush */
	if (!prepares &&
	    (synchronous_commit == SYNCHRONOUS_COMMIT_OFF || XactLastRecEnd == InvalidXLogRecPtr ||
	     !TransactionIdIsValid(GetTopTransactionIdIfAny())))
		return;

	number = pg_atomic_fetch_add_u64(&shared->commits, 1);
	others = has_committed ? number - last_commit - 1 : 0;
	last_commit = number;
	has_committed = true;
	now = clock_us();
	shared->came_us[number % RECENT_COMMITS] = (uint32) now;
	if (setting == DELAY_AUTO && now > pg_atomic_read_u64(&shared->asked_us) + ASK_US)
		pg_atomic_write_u64(&shared->asked_us, now);

	if (setting == DELAY_OFF || CommitDelay != 0 || calm_mode != CALM_MODE_ON || others == 0)
		return;
	own_tight = false;
	if (setting == DELAY_AUTO)
	{
		if (others < pg_atomic_read_u32(&shared->others) ||
		    now > pg_atomic_read_u64(&shared->good_until_us))
			return;
		delay = (int) pg_atomic_read_u32(&shared->delay_us);
		if (delay == 0)
			return;
		own_tight =
			pg_atomic_read_u32(&shared->last_group) >= pg_atomic_read_u32(&shared->full_group);
		if (own_tight)
			delay = (int) pg_atomic_read_u32(&shared->tight_delay_us);
	}
	user_siblings = CommitSiblings;
	own_delay = delay;
	own_counted = false;
	CommitSiblings = 0;
	CommitDelay = delay;
}

/* It is committed, or has failed; before settings are restored (AtEOXact_GUC) */
static void
after_flush(void)
{
	if (own_delay == 0)
		return;
	/* but for what another module has made of it meanwhile */
	if (CommitDelay == own_delay)
		CommitDelay = 0;
	CommitSiblings = user_siblings;
	own_delay = 0;
}

static void
at_transaction(XactEvent event, void *argument)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			before_flush(event == XACT_EVENT_PRE_PREPARE);
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			after_flush();
			break;
		default:
			break;
	}
}

/*
 * WALWriteLock is held, so nobody else is here; or this is a standby's WAL receiver,
 * or its startup process after it.
 */
void
commit_delay_flush_begins(void)
{
	WalFlush *this;
	uint64 number;
	uint64 commits;
	uint64 before;

	if (shared == NULL || calm_mode == CALM_MODE_OFF)
		return;
	flush_began = clock_us();
	commits = pg_atomic_read_u64(&shared->commits);
	number = pg_atomic_read_u64(&shared->flushes);
	before = shared->recent[(number + RECENT_FLUSHES - 1) % RECENT_FLUSHES].commits;
	this = &shared->recent[number % RECENT_FLUSHES];
	this->commits = commits;
	this->began_us = (uint32) flush_began;
	this->tight = own_tight;
	this->waited_us = 0;
	/* the end of a segment is flushed apart: it is still one wait */
	if (own_delay != 0 && !own_counted)
	{
		this->waited_us = (uint32) own_delay + TIMER_SLACK_US;
		pg_atomic_fetch_add_u64(&shared->waits, 1);
		pg_atomic_fetch_add_u64(&shared->wait_us, own_delay);
		own_counted = true;
	}
	pg_atomic_write_u32(&shared->last_group, (uint32) Min(commits - before, UINT32_MAX));
}

void
commit_delay_flush_ended(void)
{
	uint64 took;
	uint64 number;

	if (flush_began == 0)
		return;
	took = clock_us() - flush_began;
	flush_began = 0;
	number = pg_atomic_read_u64(&shared->flushes);
	shared->recent[number % RECENT_FLUSHES].took_us = (uint32) took;
	pg_atomic_write_u64(&shared->flush_us, pg_atomic_read_u64(&shared->flush_us) + took);
	pg_atomic_write_u64(&shared->flushes, number + 1);
}

/* Why flushes are not seen, or NULL */
static const char *
why_unseen(void)
{
	if (calm_interpose_failure)
		return "the server's calls could not be replaced";
	if (!enableFsync)
		return "fsync is off";
	switch (CALM_WAL_SYNC_METHOD)
	{
		case CALM_WAL_SYNC_FSYNC:
			return NULL;
		case CALM_WAL_SYNC_FDATASYNC:
			return commit_delay_sees_fdatasync ? NULL : "fdatasync could not be replaced";
		default:
			return "wal_sync_method is neither fdatasync nor fsync";
	}
}

bool
commit_delay_flush_counters(uint64 *flushes, uint64 *flush_us)
{
	*flushes = pg_atomic_read_u64(&shared->flushes);
	*flush_us = pg_atomic_read_u64(&shared->flush_us);
	return calm_mode != CALM_MODE_OFF && why_unseen() == NULL;
}

/* A commit came so long after a flush, or its wait, had begun */
static void
count_follower(WalEpoch *epoch, int32 after_us)
{
	for (int step = COMMIT_DELAY_STEPS - 1; step >= 0 && after_us <= commit_delay_step(step) * 1e6;
	     step--)
		epoch->within[step]++;
}

/*
 * What was seen since an epoch began.  The last flushes stand for all.  Those who
 * write what is read here go on meanwhile: a few moments may be of other commits.
 */
static void
see_epoch(WalEpoch *epoch, bool waited, uint64 commits, uint64 flushes, uint64 flush_us,
          double seconds)
{
	uint64 last_commit_seen = pg_atomic_read_u64(&shared->commits);
	uint64 last_flush = pg_atomic_read_u64(&shared->flushes);
	uint64 oldest =
		last_commit_seen > RECENT_COMMITS / 4 * 3 ? last_commit_seen - RECENT_COMMITS / 4 * 3 : 0;
	double seen = 0;

	memset(epoch, 0, sizeof(*epoch));
	epoch->seconds = seconds;
	epoch->commits = (double) commits;
	epoch->flushes = (double) flushes;
	epoch->flush_seconds = (double) flush_us / 1e6;
	for (uint64 i = 1; i <= Min(flushes, RECENT_FLUSHES / 2); i++)
	{
		WalFlush flush = shared->recent[(last_flush - i) % RECENT_FLUSHES];
		uint64 number = flush.commits;

		if (number < oldest || number > last_commit_seen)
			break;
		seen++;
		if (!waited)
		{
			/* who came while it was under way */
			for (; number < last_commit_seen; number++)
			{
				int32 after_us =
					(int32) (shared->came_us[number % RECENT_COMMITS] - flush.began_us);

				if (after_us > (int32) flush.took_us)
					break;
				count_follower(epoch, Max(after_us, 0));
			}
		}
		else if (flush.waited_us > 0 && !flush.tight)
		{
			/* who came while it was waited for */
			epoch->waits++;
			while (number-- > oldest)
			{
				int32 before_us =
					(int32) (flush.began_us - shared->came_us[number % RECENT_COMMITS]);

				if (before_us > (int32) flush.waited_us)
					break;
				count_follower(epoch, (int32) flush.waited_us - before_us);
			}
		}
	}
	for (int step = 0; !waited && step < COMMIT_DELAY_STEPS; step++)
		epoch->within[step] *= epoch->flushes / Max(seen, 1);
}

/* What is to be slept for a wait; at least the shortest sleep */
static uint32
sleep_us(double wait)
{
	return wait > 0 ? (uint32) Max(wait * 1e6 - TIMER_SLACK_US, 1) : 0;
}

static void
publish(const CommitDelayLearning *learning, bool measuring)
{
	double full = learning->spread ? UINT32_MAX : ceil(learning->full * COMMIT_DELAY_FULL);

	pg_atomic_write_u32(&shared->others, (uint32) Max(learning->fuller / 2, 1));
	pg_atomic_write_u32(&shared->full_group, (uint32) full);
	pg_atomic_write_u32(&shared->tight_delay_us, sleep_us(learning->tight));
	pg_atomic_write_u64(&shared->good_until_us, clock_us() + GOOD_US);
	pg_atomic_write_u32(&shared->delay_us, sleep_us(learning->wait));
	pg_atomic_write_u32(&shared->measuring, measuring ? 1 : 0);
}

uint64
commit_delay_tick(uint64 now_ms)
{
	static CommitDelayReport report;
	static uint64 epoch_ms = 0;
	static uint64 commits = 0;
	static uint64 flushes = 0;
	static uint64 flush_us = 0;
	static int wal_is_on_volume = -1;
	uint64 asked = pg_atomic_read_u64(&shared->asked_us);
	uint64 new_commits;
	uint64 new_flushes;
	uint64 elapsed;

	report.unavailable = why_unseen();
	if (report.unavailable == NULL && CommitDelay != 0)
		report.unavailable = "commit_delay is set";
	if (calm_mode == CALM_MODE_OFF || report.unavailable ||
	    (setting != DELAY_AUTO && (asked == 0 || clock_us() > asked + ASKED_US)))
	{
		report.learning =
			(CommitDelayLearning){.trials = report.learning.trials, .kept = report.learning.kept};
		memset(&report.epoch, 0, sizeof(report.epoch));
		publish(&report.learning, false);
		epoch_ms = 0;
		SpinLockAcquire(&shared->lock);
		shared->report = report;
		SpinLockRelease(&shared->lock);
		return OFF_MS;
	}

	if (wal_is_on_volume < 0)
	{
		struct stat st;

		wal_is_on_volume =
			stat("pg_wal", &st) == 0 && (uint64) st.st_dev == calm_shared->device ? 1 : 0;
	}
	new_commits = pg_atomic_read_u64(&shared->commits) - commits;
	new_flushes = pg_atomic_read_u64(&shared->flushes) - flushes;
	elapsed = now_ms - epoch_ms;
	if (epoch_ms != 0 &&
	    (elapsed < EPOCH_MS || ((new_flushes < EPOCH_FLUSHES || new_commits < EPOCH_COMMITS) &&
	                            elapsed < LONGEST_EPOCH_MS)))
	{
		/* who waits relies on us */
		pg_atomic_write_u64(&shared->good_until_us, clock_us() + GOOD_US);
		return elapsed < EPOCH_MS ? EPOCH_MS - elapsed : EPOCH_MS / 4;
	}
	if (epoch_ms != 0)
	{
		bool waited = report.learning.wait > 0;

		see_epoch(&report.epoch, waited, new_commits, new_flushes,
		          pg_atomic_read_u64(&shared->flush_us) - flush_us, (double) elapsed / 1000);
		if (waited && report.learning.group > 0)
			report.operations_saved +=
				Max((double) new_commits / report.learning.group - (double) new_flushes, 0);
		SpinLockAcquire(&calm_shared->lock);
		report.short_of_operations = wal_is_on_volume == 1 && calm_shared->volume_use >= SHORT_USE;
		SpinLockRelease(&calm_shared->lock);
		commit_delay_learn(&report.learning, &report.epoch, calm_mode == CALM_MODE_ON,
		                   report.short_of_operations);
	}
	publish(&report.learning, true);
	epoch_ms = now_ms;
	commits += new_commits;
	flushes += new_flushes;
	flush_us = pg_atomic_read_u64(&shared->flush_us);
	SpinLockAcquire(&shared->lock);
	shared->report = report;
	SpinLockRelease(&shared->lock);
	return new_commits > 0 ? EPOCH_MS : IDLE_MS;
}

/* Why there is a wait, or none */
static const char *
reason_of(const CommitDelayReport *report)
{
	const CommitDelayLearning *learning = &report->learning;

	if (calm_mode == CALM_MODE_OFF)
		return "pg_calm.mode is off";
	if (report->unavailable)
		return report->unavailable;
	if (pg_atomic_read_u32(&shared->measuring) == 0)
		return "nobody asks for it";
	switch (learning->state)
	{
		case COMMIT_DELAY_IDLE:
			return "there are too few commits";
		case COMMIT_DELAY_WATCH:
			if (learning->proposed <= 0 ||
			    (learning->predicted <= 0 && !report->short_of_operations))
				return "commits do not come faster after a flush began than on the average";
			if (calm_mode != CALM_MODE_ON)
				return "pg_calm.mode is shadow";
			return learning->pause > 0 ? "it was tried lately and brought nothing" :
			                             "the gain would be small";
		case COMMIT_DELAY_TRIAL:
			return "it is tried, in turns with none";
		case COMMIT_DELAY_HELD:
			return report->short_of_operations ?
			           "flushes are fuller, and the volume is short of operations" :
			           "there are more commits per second with it";
	}
	return "unknown";
}

/* One row */
Datum
pg_calm_wal(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {"idle", "watching", "trial", "waiting"};
	CommitDelayReport *report = palloc(sizeof(CommitDelayReport));
	const CommitDelayLearning *learning = &report->learning;
	const WalEpoch *epoch = &report->epoch;
	TupleDesc tupdesc;
	Datum values[18];
	bool nulls[18] = {false};
	int column = 0;
	bool measuring = pg_atomic_read_u32(&shared->measuring) != 0;
	bool tried;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	SpinLockAcquire(&shared->lock);
	*report = shared->report;
	SpinLockRelease(&shared->lock);
	tried = measuring && learning->trials > 0;

	values[column++] = CStringGetTextDatum(measuring ? states[learning->state] : "off");
	values[column++] = CStringGetTextDatum(reason_of(report));
	values[column++] = Int32GetDatum((int32) pg_atomic_read_u32(&shared->delay_us));
	nulls[column] = !measuring || learning->proposed <= 0;
	values[column++] = Int32GetDatum((int32) sleep_us(learning->proposed));
	nulls[column] = !measuring || learning->proposed <= 0;
	values[column++] = Float8GetDatum(learning->predicted);
	nulls[column] = !tried;
	values[column++] = Float8GetDatum(exp(learning->measured) - 1);
	nulls[column] = !measuring || epoch->seconds <= 0;
	values[column++] = Float8GetDatum(epoch->commits / Max(epoch->seconds, 1e-6));
	nulls[column] = !measuring || epoch->seconds <= 0;
	values[column++] = Float8GetDatum(epoch->flushes / Max(epoch->seconds, 1e-6));
	nulls[column] = !measuring || epoch->flushes <= 0;
	values[column++] = Float8GetDatum(epoch->commits / Max(epoch->flushes, 1));
	nulls[column] = !measuring || epoch->flushes <= 0;
	values[column++] = Float8GetDatum(epoch->flush_seconds * 1000 / Max(epoch->flushes, 1));
	values[column++] = BoolGetDatum(report->short_of_operations);
	values[column++] = Int64GetDatum((int64) pg_atomic_read_u64(&shared->commits));
	values[column++] = Int64GetDatum((int64) pg_atomic_read_u64(&shared->flushes));
	values[column++] = Int64GetDatum((int64) pg_atomic_read_u64(&shared->waits));
	values[column++] = Float8GetDatum((double) pg_atomic_read_u64(&shared->wait_us) / 1000);
	values[column++] = Int64GetDatum((int64) learning->trials);
	values[column++] = Int64GetDatum((int64) learning->kept);
	values[column++] = Int64GetDatum((int64) report->operations_saved);
	Assert(column == lengthof(values));

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
