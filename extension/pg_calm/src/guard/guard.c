/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  Loading, settings, shared memory and worker of the guard.
 *
 * The worker looks at the inputs four times a second and sets the rate; the
 * sessions wait by themselves (guard_hold.c).  It has no database connection.
 *
 * Loaded is in shadow: it counts and tells what it would do.  It needs nothing of
 * pg_calm, which may be loaded beside it or not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "access/xlog.h"
#include "base/base.h"
#include "guard.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/*
 * Between looks; with nothing to look at; and so many times what the last one took of a processor,
 * but no longer than what WAL can use up meanwhile: well below GUARD_SILENT_MS, after which nobody
 * waits
 */
#define LOOK_INTERVAL_MS 250
#define OFF_INTERVAL_MS 10000
#define LOOK_COST_FACTOR 200
#define LONGEST_INTERVAL_MS 1000

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);
PGDLLEXPORT void pg_calm_guard_main(Datum argument);

int guard_mode = GUARD_MODE_SHADOW;
bool guard_holds_session = true;
int guard_wal_space = -1;
int guard_max_wal = 0;
int guard_archive_backlog = 0;
char *guard_max_lag = "";
int guard_lag_position = GUARD_LAG_FLUSH;
int guard_patience = 60 * 1000;
bool guard_exempt_superusers = true;

GuardShared *guard_shared = NULL;

static const struct config_enum_entry lag_position_options[] = {
	{"flush", GUARD_LAG_FLUSH, false}, {"replay", GUARD_LAG_REPLAY, false}, {NULL, 0, false}};

static const struct config_enum_entry guard_mode_options[] = {{"off", GUARD_MODE_OFF, false},
                                                              {"shadow", GUARD_MODE_SHADOW, false},
                                                              {"on", GUARD_MODE_ON, false},
                                                              {NULL, 0, false}};

static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

static void define_settings(void);
static void request_shared_memory(void);
static void start_shared_memory(void);
static void register_worker(void);
static Size shared_size(void);
static uint64 look(uint64 now_ms);

const char *
guard_input_name(GuardInput input)
{
	static const char *const names[GUARD_INPUTS] = {"wal_space", "max_wal", "lag", "archive"};

	return names[input];
}

static void
define_settings(void)
{
	DefineCustomEnumVariable(
		"pg_calm_guard.mode", "Whether writers are held.",
		"\"off\" does nothing, \"shadow\" counts and tells what would be done, \"on\" does it.",
		&guard_mode, GUARD_MODE_SHADOW, guard_mode_options, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable(
		"pg_calm_guard.hold", "Whether the session may be held.",
		"To exempt a role or a database: ALTER ROLE ... SET pg_calm_guard.hold = off.",
		&guard_holds_session, true, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm_guard.wal_space",
		"Space that writers have to leave free in the filesystem of pg_wal.",
		"They are slowed down before it is used up, and refused when it is. 0 switches that off, -1 takes 2% of the filesystem or max_wal_size, whichever is less, but at least four WAL segments.",
		&guard_wal_space, -1, -1, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm_guard.max_wal",
		"Amount of WAL since the last checkpoint's redo point that writers may make.",
		"They are slowed down so that checkpoints can keep WAL within it, which max_wal_size alone does not; it should be larger than that. 0 means unlimited.",
		&guard_max_wal, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm_guard.archive_backlog",
		"Amount of WAL waiting to be archived at which writers are slowed down.",
		"Whatever archives. 0 means unlimited.", &guard_archive_backlog, 0, 0, INT_MAX, PGC_SIGHUP,
		GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomStringVariable(
		"pg_calm_guard.max_lag", "Lag of standbys at which writers are slowed down.",
		"A list like 'near = 64MB, far* = 30s': patterns of application_name, the first one that fits counts, and an amount or a time. A single limit, or that of '*', is for all standbys: what applies no WAL, as pg_receivewal, has to be named.",
		&guard_max_lag, "", PGC_SIGHUP, 0, guard_check_max_lag, guard_assign_max_lag, NULL);
	DefineCustomEnumVariable(
		"pg_calm_guard.lag_position", "Position of a standby from which its lag is taken.",
		"\"flush\" is what it has on disk, \"replay\" what its queries see.", &guard_lag_position,
		GUARD_LAG_FLUSH, lag_position_options, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm_guard.patience",
		"Time after which something that does not drain no longer holds writers.",
		"They are released then; for want of WAL space their statements fail instead, since the server would.",
		&guard_patience, 60 * 1000, 1000, 24 * 3600 * 1000, PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL,
		NULL);
	DefineCustomBoolVariable("pg_calm_guard.exempt_superusers",
	                         "Whether superusers are never held by the guard.", NULL,
	                         &guard_exempt_superusers, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("pg_calm_guard");
}

/* A place for each PGPROC that a client's session can have; MaxBackends is set by now */
static Size
shared_size(void)
{
	return offsetof(GuardShared, holds) + (Size) MaxBackends * sizeof(GuardHold);
}

static void
request_shared_memory(void)
{
	if (previous_shmem_request)
		previous_shmem_request();
	RequestAddinShmemSpace(MAXALIGN(shared_size()));
}

static void
start_shared_memory(void)
{
	bool found;
	GuardShared *shared;

	if (previous_shmem_startup)
		previous_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("pg_calm_guard", shared_size(), &found);
	if (!found)
	{
		memset(shared, 0, shared_size());
		pg_atomic_init_u32(&shared->gate, GUARD_GATE_OPEN);
		pg_atomic_init_u64(&shared->updated_ms, 0);
		pg_atomic_init_u64(&shared->charged, 0);
		pg_atomic_init_u64(&shared->charged_cost, 0);
		SpinLockInit(&shared->lock);
		shared->allowed_rate = INFINITY;
		for (int i = 0; i < GUARD_INPUTS; i++)
			shared->readings[i].allowed_rate = INFINITY;
	}
	LWLockRelease(AddinShmemInitLock);
	guard_shared = shared;
}

void
_PG_init(void)
{
	/* later, for the views: they say what is missing */
	if (!process_shared_preload_libraries_in_progress)
		return;
	define_settings();
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
	register_worker();
	guard_hold_install();
}

/* For the views: an error if there is no shared memory */
void
guard_must_be_loaded(void)
{
	if (guard_shared == NULL)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("pg_calm_guard must be loaded via \"shared_preload_libraries\"")));
}

static void
register_worker(void)
{
	/* in recovery nobody writes; who is held is so until it is back, if that is soon */
	BackgroundWorker worker = {.bgw_flags = BGWORKER_SHMEM_ACCESS,
	                           .bgw_start_time = BgWorkerStart_RecoveryFinished,
	                           .bgw_restart_time = 1};

	strlcpy(worker.bgw_library_name, "pg_calm_guard", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "pg_calm_guard_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "pg_calm_guard", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "pg_calm_guard", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

/* Look at all inputs and set the rate; returns the milliseconds until the next look */
static uint64
look(uint64 now_ms)
{
	static GuardDrain wal;
	GuardReading readings[GUARD_INPUTS];
	bool off = guard_mode == GUARD_MODE_OFF;
	int asked = 0;
	uint64 insert = GetXLogInsertRecPtr();

	memset(readings, 0, sizeof(readings));
	for (int i = 0; i < GUARD_INPUTS; i++)
		readings[i].allowed_rate = INFINITY;
	readings[GUARD_WAL_SPACE].state = !off && guard_wal_space != 0 ? GUARD_UNKNOWN : GUARD_OFF;
	readings[GUARD_MAX_WAL].state = !off && guard_max_wal != 0 ? GUARD_UNKNOWN : GUARD_OFF;
	readings[GUARD_LAG].state = !off && guard_lag_is_limited() ? GUARD_UNKNOWN : GUARD_OFF;
	readings[GUARD_ARCHIVE].state =
		!off && guard_archive_backlog != 0 && XLogArchivingActive() ? GUARD_UNKNOWN : GUARD_OFF;

	guard_track(&wal, insert, now_ms);
	guard_wal_look(insert, &readings[GUARD_WAL_SPACE], &readings[GUARD_MAX_WAL], now_ms);
	if (readings[GUARD_LAG].state != GUARD_OFF)
		guard_lag_look(insert, &readings[GUARD_LAG], now_ms);
	if (readings[GUARD_ARCHIVE].state != GUARD_OFF)
		guard_archive_look(insert, &readings[GUARD_ARCHIVE], now_ms);
	for (int i = 0; i < GUARD_INPUTS; i++)
		asked += readings[i].state != GUARD_OFF;

	guard_decide(readings, insert, wal.rate, now_ms);
	return asked == 0 ? OFF_INTERVAL_MS : LOOK_INTERVAL_MS;
}

void
pg_calm_guard_main(Datum argument)
{
	uint32 wait_event = CALM_WAIT_EVENT("PgCalmGuard");
	uint64 next_look = 0;

	guard_shared->hold_wait_event = CALM_WAIT_EVENT("PgCalmGuardHold");
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	for (;;)
	{
		uint64 start = monotonic_ms();
		uint64 pause;

		CHECK_FOR_INTERRUPTS();
		if (ShutdownRequestPending)
			proc_exit(1); /* 1: start us again, unless the server is going down */
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			next_look = 0;
		}
		if (start >= next_look)
		{
			uint64 used = used_ns();
			uint64 interval = look(start);

			used = (used_ns() - used) * LOOK_COST_FACTOR / 1000000;
			next_look = start + Max(interval, Min(used, LONGEST_INTERVAL_MS));
		}
		pause = Max(next_look - start, 1);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, (long) pause,
		                 wait_event);
		ResetLatch(MyLatch);
	}
}
