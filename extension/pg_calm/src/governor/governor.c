/*-------------------------------------------------------------------------
 *
 * governor.c
 *	  The governor's settings, shared memory and worker.
 *
 * The worker looks at the inputs four times a second and sets the rate; the
 * sessions wait by themselves (governor_hold.c).  It is a process of its own,
 * since the writeback worker may wait for the device just when the governor is
 * needed.  It has no database connection.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "access/xlog.h"
#include "base/base.h"
#include "governor.h"
#include "miscadmin.h"
#include "map/map.h"
#include "shared/shared.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* Between looks; with nothing to look at; and after a look that took long, so often its time */
#define LOOK_INTERVAL_MS 250
#define OFF_INTERVAL_MS 10000
#define LOOK_COST_FACTOR 50

PGDLLEXPORT void pg_calm_governor_main(Datum argument);

bool calm_governor = true;
int calm_governor_wal_space = 0;
int calm_governor_max_wal = 0;
int calm_governor_archive_backlog = 0;
char *calm_governor_max_lag = "";
int calm_governor_lag_position = GOVERNOR_LAG_FLUSH;
int calm_governor_patience = 60 * 1000;
bool calm_governor_exempt_superusers = true;

GovernorShared *calm_governor_shared = NULL;

static const struct config_enum_entry lag_position_options[] = {
	{"flush", GOVERNOR_LAG_FLUSH, false}, {"replay", GOVERNOR_LAG_REPLAY, false}, {NULL, 0, false}};

static Size shared_size(void);
static uint64 look(uint64 now_ms);
static void worker_exit(int code, Datum argument);

const char *
governor_input_name(GovernorInput input)
{
	static const char *const names[GOVERNOR_INPUTS] = {"wal_space", "max_wal", "lag", "archive"};

	return names[input];
}

void
governor_define_settings(void)
{
	DefineCustomBoolVariable(
		"pg_calm.governor", "Whether the governor may hold the session.",
		"To exempt a role or a database: ALTER ROLE ... SET pg_calm.governor = off.",
		&calm_governor, true, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.governor_wal_space",
		"Space that writers have to leave free in the filesystem of pg_wal.",
		"They are slowed down before it is used up, and refused when it is. 0 switches that off, -1 takes 2% of the filesystem, but at least four WAL segments.",
		&calm_governor_wal_space, 0, -1, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.governor_max_wal",
		"Amount of WAL since the last checkpoint's redo point that writers may make.",
		"They are slowed down so that checkpoints can keep WAL within it, which max_wal_size alone does not; it should be larger than that. 0 means unlimited.",
		&calm_governor_max_wal, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.governor_archive_backlog",
		"Amount of WAL waiting to be archived at which writers are slowed down.",
		"Whatever archives. 0 means unlimited.", &calm_governor_archive_backlog, 0, 0, INT_MAX,
		PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomStringVariable(
		"pg_calm.governor_max_lag", "Lag of standbys at which writers are slowed down.",
		"A list like 'near = 64MB, far* = 30s': patterns of application_name, the first one that fits counts, and an amount or a time. A single limit is for all.",
		&calm_governor_max_lag, "", PGC_SIGHUP, 0, governor_check_max_lag, governor_assign_max_lag,
		NULL);
	DefineCustomEnumVariable("pg_calm.governor_lag_position",
	                         "Position of a standby from which its lag is taken.",
	                         "\"flush\" is what it has on disk, \"replay\" what its queries see.",
	                         &calm_governor_lag_position, GOVERNOR_LAG_FLUSH, lag_position_options,
	                         PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.governor_patience",
		"Time after which something that does not drain no longer holds writers.",
		"They are released then; for want of WAL space their statements fail instead, since the server would.",
		&calm_governor_patience, 60 * 1000, 1000, 24 * 3600 * 1000, PGC_SIGHUP, GUC_UNIT_MS, NULL,
		NULL, NULL);
	DefineCustomBoolVariable(
		"pg_calm.governor_exempt_superusers", "Whether superusers are never held by the governor.",
		NULL, &calm_governor_exempt_superusers, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* A place for each PGPROC that a client's session can have; MaxBackends is set by now */
static Size
shared_size(void)
{
	return offsetof(GovernorShared, holds) + (Size) MaxBackends * sizeof(GovernorHold);
}

void
governor_request_shared_memory(void)
{
	RequestAddinShmemSpace(MAXALIGN(shared_size()));
}

/* AddinShmemInitLock is held */
void
governor_start_shared_memory(void)
{
	bool found;
	GovernorShared *shared = ShmemInitStruct("pg_calm governor", shared_size(), &found);

	if (!found)
	{
		memset(shared, 0, shared_size());
		pg_atomic_init_u32(&shared->gate, GOVERNOR_GATE_OPEN);
		pg_atomic_init_u64(&shared->updated_ms, 0);
		pg_atomic_init_u64(&shared->charged, 0);
		pg_atomic_init_u64(&shared->charged_cost, 0);
		SpinLockInit(&shared->lock);
		shared->allowed_rate = INFINITY;
		for (int i = 0; i < GOVERNOR_INPUTS; i++)
			shared->readings[i].allowed_rate = INFINITY;
	}
	calm_governor_shared = shared;
}

void
governor_register_worker(void)
{
	/* in recovery nobody writes */
	BackgroundWorker worker = {.bgw_flags = BGWORKER_SHMEM_ACCESS,
	                           .bgw_start_time = BgWorkerStart_RecoveryFinished,
	                           .bgw_restart_time = 5};

	strlcpy(worker.bgw_library_name, "pg_calm", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "pg_calm_governor_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "pg_calm governor", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "pg_calm governor", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

/* Look at all inputs and set the rate; returns the milliseconds until the next look */
static uint64
look(uint64 now_ms)
{
	static GovernorDrain wal;
	GovernorReading readings[GOVERNOR_INPUTS];
	bool off = calm_mode == CALM_MODE_OFF;
	int asked = 0;
	uint64 insert = GetXLogInsertRecPtr();

	memset(readings, 0, sizeof(readings));
	for (int i = 0; i < GOVERNOR_INPUTS; i++)
		readings[i].allowed_rate = INFINITY;
	readings[GOVERNOR_WAL_SPACE].state =
		!off && calm_governor_wal_space != 0 ? GOVERNOR_UNKNOWN : GOVERNOR_OFF;
	readings[GOVERNOR_MAX_WAL].state =
		!off && calm_governor_max_wal != 0 ? GOVERNOR_UNKNOWN : GOVERNOR_OFF;
	readings[GOVERNOR_LAG].state =
		!off && governor_lag_is_limited() ? GOVERNOR_UNKNOWN : GOVERNOR_OFF;
	readings[GOVERNOR_ARCHIVE].state =
		!off && calm_governor_archive_backlog != 0 && XLogArchivingActive() ? GOVERNOR_UNKNOWN :
		                                                                      GOVERNOR_OFF;

	governor_track(&wal, insert, now_ms);
	governor_wal_look(insert, &readings[GOVERNOR_WAL_SPACE], &readings[GOVERNOR_MAX_WAL], now_ms);
	if (readings[GOVERNOR_LAG].state != GOVERNOR_OFF)
		governor_lag_look(insert, &readings[GOVERNOR_LAG], now_ms);
	if (readings[GOVERNOR_ARCHIVE].state != GOVERNOR_OFF)
		governor_archive_look(insert, &readings[GOVERNOR_ARCHIVE], now_ms);
	for (int i = 0; i < GOVERNOR_INPUTS; i++)
		asked += readings[i].state != GOVERNOR_OFF;

	governor_decide(readings, wal.rate, now_ms);
	return asked == 0 ? OFF_INTERVAL_MS : LOOK_INTERVAL_MS;
}

/* Without us nobody is to wait */
static void
worker_exit(int code, Datum argument)
{
	pg_atomic_write_u32(&calm_governor_shared->gate, GOVERNOR_GATE_OPEN);
}

void
pg_calm_governor_main(Datum argument)
{
	uint32 wait_event = CALM_WAIT_EVENT("PgCalmGovernor");
	uint64 next_look = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	before_shmem_exit(worker_exit, (Datum) 0);

	for (;;)
	{
		uint64 start = page_map_now_ms();
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
			uint64 interval = look(start);
			uint64 took = page_map_now_ms() - start;

			next_look = start + Min(Max(interval, LOOK_COST_FACTOR * took), OFF_INTERVAL_MS);
		}
		pause = Max(next_look - start, 1);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, (long) pause,
		                 wait_event);
		ResetLatch(MyLatch);
	}
}
