/*-------------------------------------------------------------------------
 *
 * share.c
 *	  One budget for the instances that share a device.
 *
 * Each instance paces its writeback by the caps that it knows.  Where many lie on one device
 * that has a cap of its own, all of them queue there, and with them every WAL write.  So the
 * writeback workers of instances with the same pg_calm_share.directory tell each other that they
 * exist, by a small file for each device (share_file.c), and each computes its own share: the
 * device's budget is divided among the members that have something to flush, by weight; what a
 * member can't use because of a cap of its own goes to the others.
 *
 * Whatever the file says, a share is at least FLOOR_OPERATIONS and FLOOR_BYTES, or an equal part.
 * If the file can't be used the instance goes on alone, with the caps it knows, and says so once.
 *
 * Checkpoints started by time are de-phased.  The checkpointer starts one
 * checkpoint_timeout after the start of the last, whatever caused that, so one
 * that is requested at the right moment moves all that follow.  The worker
 * requests it, spread like a timed one, at the phase of its slot on the host's
 * monotonic clock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xlog.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "postmaster/bgwriter.h"
#include "share.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/tuplestore.h"

/* Least share: without it, whoever may write to the file could starve us */
#define FLOOR_OPERATIONS 10.0
#define FLOOR_BYTES (1024.0 * 1024.0)

/*
 * How far a checkpoint's start may be from its phase, as a part of the interval; and intervals
 * between requests at least: checkpoints caused by WAL keep no phase
 */
#define PHASE_TOLERANCE (1.0 / 16)
#define REQUEST_INTERVALS 4

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

typedef struct ShareDevice
{
	unsigned int major;
	unsigned int minor;
	CalmRates budget; /* of all instances on it */
	int slot;         /* ours; -1: none */
} ShareDevice;

/* For the view */
typedef struct ShareState
{
	slock_t lock; /* protects all, of records one at a time */
	ShareDevice device;
	ShareRecord records[SHARE_SLOTS];
} ShareState;

static char *directory = ""; /* nothing is shared */
static int weight = 100;
static char *caps_text = "";

static ShareState *share_state = NULL; /* not loaded at the server's start */
static const CalmCore *share_core = NULL;
static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

/* Of the writeback worker, in whose process all that follows is done but the view */
static ShareRecord records[SHARE_SLOTS];
static uint32 member_count = 1;
static ShareDevice device;
static CalmRates grant = {INFINITY, INFINITY};
static char warned[sizeof(share_problem)] = "";

/* A relative path would mean another directory to each instance */
static bool
check_directory(char **newval, void **extra, GucSource source)
{
	if ((*newval)[0] == '\0' || is_absolute_path(*newval))
		return true;
	GUC_check_errdetail("The path must be absolute, or empty for no sharing.");
	return false;
}

/* "OPERATIONS", or "OPERATIONS, BYTES"; or empty */
static bool
parse_caps(const char *text, CalmRates *rates)
{
	const char *comma = strchr(text, ',');
	char first[32];
	int operations;
	int kilobytes;

	*rates = (CalmRates){INFINITY, INFINITY};
	if (text[0] == '\0')
		return true;
	strlcpy(first, text, Min(sizeof(first), comma ? comma - text + 1 : sizeof(first)));
	if (!parse_int(first, &operations, 0, NULL) || operations < 10)
		return false;
	rates->operations = operations;
	if (comma == NULL)
		return true;
	if (!parse_int(comma + 1, &kilobytes, GUC_UNIT_KB, NULL) || kilobytes < 10)
		return false;
	rates->bytes = kilobytes * 1024.0;
	return true;
}

static bool
check_caps(char **newval, void **extra, GucSource source)
{
	CalmRates rates;

	if (parse_caps(*newval, &rates))
		return true;
	GUC_check_errdetail("Neither empty nor like \"3000\" or \"3000, 125MB\": write operations "
	                    "per second, and bytes per second; 10 and 10kB at least.");
	return false;
}

static void
copy_records(ShareRecord *to, const ShareRecord *from)
{
	for (int i = 0; i < SHARE_SLOTS; i++)
	{
		SpinLockAcquire(&share_state->lock);
		to[i] = from[i];
		SpinLockRelease(&share_state->lock);
	}
}

/* For other processes of the server */
static void
publish(void)
{
	device.slot = share_slot;
	if (share_slot >= 0)
		copy_records(share_state->records, records);
	SpinLockAcquire(&share_state->lock);
	share_state->device = device;
	SpinLockRelease(&share_state->lock);
}

/* Alone, with the caps that are known */
static void
go_solo(void)
{
	share_file_leave();
	member_count = 1;
	grant = (CalmRates){INFINITY, INFINITY};
	if (share_problem[0] && strcmp(share_problem, warned) != 0)
		ereport(WARNING,
		        (errmsg("pg_calm_share: the device's budget is not shared: %s", share_problem),
		         errdetail("This instance paces its writeback by its own caps."),
		         errhint("\"pg_calm_share.directory\" must belong to root or the server's user and "
		                 "be closed to others; a file in it that is damaged can be removed at any "
		                 "time.")));
	strlcpy(warned, share_problem, sizeof(warned));
	publish();
}

/*
 * Divide a whole among the members that have something to flush, and the one in the slot.  Max-min
 * fair by weight: each gets its weight's part, or its limit if that is less, and what is left is
 * divided again among the others.  What comes in as limits goes out as shares.
 */
static void
divide(const ShareRecord *all, int slot, double whole, double *shares)
{
	bool done[SHARE_SLOTS];

	for (int i = 0; i < SHARE_SLOTS; i++)
		done[i] = all[i].magic == 0 || (!all[i].wants && i != slot);
	for (;;)
	{
		double sum = 0;
		int least = -1; /* whose limit is the least for its weight */

		for (int i = 0; i < SHARE_SLOTS; i++)
		{
			if (done[i])
				continue;
			sum += all[i].weight;
			if (least < 0 || shares[i] / all[i].weight < shares[least] / all[least].weight)
				least = i;
		}
		if (least < 0)
			return;
		done[least] = true;
		shares[least] = Min(shares[least], whole / sum * all[least].weight);
		whole = isinf(whole) ? whole : whole - shares[least];
	}
}

static CalmRates
share_grant(const ShareRecord *all, int slot, const CalmRates *whole)
{
	double operations[SHARE_SLOTS];
	double bytes[SHARE_SLOTS];
	int members = 0;

	for (int i = 0; i < SHARE_SLOTS; i++)
	{
		operations[i] = all[i].operations_per_second > 0 ? all[i].operations_per_second : INFINITY;
		bytes[i] = all[i].bytes_per_second > 0 ? all[i].bytes_per_second : INFINITY;
		members += all[i].magic != 0;
	}
	divide(all, slot, whole->operations, operations);
	/* whose own cap of operations is less shall not pay for that with the others' bytes */
	for (int i = 0; i < SHARE_SLOTS && members > 1 && !isinf(whole->operations); i++)
		if (operations[i] == all[i].operations_per_second)
			bytes[i] = Min(bytes[i], operations[i] / whole->operations * whole->bytes);
	divide(all, slot, whole->bytes, bytes);
	return (CalmRates){Max(operations[slot], Min(FLOOR_OPERATIONS, whole->operations / members)),
	                   Max(bytes[slot], Min(FLOOR_BYTES, whole->bytes / members))};
}

/*
 * The part of an interval at which the member in a slot starts its checkpoints, 0 to 1: the digits
 * of the slot's number in binary, mirrored at the point (van der Corput's sequence), which is
 * spread evenly for any number of members.
 */
static double
share_phase(int slot)
{
	double phase = 0;

	for (double part = 0.5; slot > 0; slot >>= 1, part /= 2)
		phase += (slot & 1) * part;
	return phase;
}

/* See when checkpoints start, and request one if that is at another phase than that of our slot */
static void
dephase_checkpoints(uint64 now_ms)
{
	static XLogRecPtr redo = InvalidXLogRecPtr;
	static bool is_off = false;
	static uint64 next_request_ms = 0;
	uint64 interval = (uint64) CheckPointTimeout * 1000;
	uint64 tolerance = (uint64) (interval * PHASE_TOLERANCE);
	/* the last moment of our phase was so long ago */
	uint64 since = (now_ms + interval - (uint64) (share_phase(share_slot) * interval)) % interval;

	if (RecoveryInProgress() || member_count < 2)
		return;
	/* the checkpointer starts its clock when the server does */
	if (redo != GetRedoRecPtr())
		is_off = Min(since, interval - since) > tolerance;
	redo = GetRedoRecPtr();
	if (is_off && since <= tolerance && now_ms >= next_request_ms)
	{
		next_request_ms = now_ms + REQUEST_INTERVALS * interval;
		RequestCheckpoint(CHECKPOINT_CAUSE_TIME);
	}
}

/* Say that we are there, and whether there is something to flush; see who else is, and compute our share */
static void
meet(const CalmShare *call)
{
	ShareRecord own = {.weight = weight,
	                   .heartbeat_ms = call->now_ms,
	                   .operations_per_second =
	                       isinf(call->own.operations) ? 0 : (uint32) call->own.operations,
	                   .bytes_per_second = isinf(call->own.bytes) ? 0 : (uint64) call->own.bytes,
	                   .pid = MyProcPid,
	                   .wants = call->wants};

	strlcpy(own.name, cluster_name[0] ? cluster_name : strrchr(DataDir, '/') + 1, sizeof(own.name));
	if (!share_file_exchange(&own, records))
	{
		go_solo();
		return;
	}
	share_problem[0] = '\0';
	warned[0] = '\0';
	member_count = 0;
	for (int i = 0; i < SHARE_SLOTS; i++)
		member_count += records[i].magic != 0;
	grant = share_grant(records, share_slot, &device.budget);
	publish();
	dephase_checkpoints(call->now_ms);
}

/* CalmCore.share */
static void
share(CalmShare *call)
{
	CalmRates asked;

	if (call->leaves || directory[0] == '\0')
	{
		share_problem[0] = '\0';
		go_solo();
	}
	else if (call->settings_read && parse_caps(caps_text, &asked) &&
	         !share_core->read_shared_caps(&asked, &device.major, &device.minor, &device.budget))
	{
		strlcpy(share_problem, "the data directory's device is not known", sizeof(share_problem));
		go_solo();
	}
	/* opened again, since it may have been removed, or given to somebody else */
	else if (call->settings_read && !share_file_open(directory, device.major, device.minor))
		go_solo();
	else
		meet(call);
	call->granted = grant;
	call->members = member_count;
	call->problem = share_problem[0] ? share_problem : NULL;
}

static void
request_shared_memory(void)
{
	if (previous_shmem_request)
		previous_shmem_request();
	RequestAddinShmemSpace(MAXALIGN(sizeof(ShareState)));
}

static void
start_shared_memory(void)
{
	bool found;
	CalmCore *core = *find_rendezvous_variable(CALM_CORE_NAME);

	if (previous_shmem_startup)
		previous_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	share_state = ShmemInitStruct("pg_calm_share", sizeof(ShareState), &found);
	if (!found)
	{
		memset(share_state, 0, sizeof(ShareState));
		share_state->device.slot = -1;
		SpinLockInit(&share_state->lock);
	}
	LWLockRelease(AddinShmemInitLock);

	/* all libraries are loaded by now, in whichever order */
	if (core == NULL || core->version != CALM_CORE_VERSION)
		ereport(WARNING,
		        (errmsg("pg_calm_share is loaded but has no effect: %s",
		                core ? "pg_calm is of another version" : "pg_calm is not loaded"),
		         errhint("Add pg_calm to \"shared_preload_libraries\", of the same version.")));
	else
	{
		core->share = share;
		share_core = core;
	}
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	DefineCustomStringVariable("pg_calm_share.directory",
	                           "Directory by which instances that share a device share its budget.",
	                           "All of them name the same one. Empty for no sharing.", &directory,
	                           "", PGC_SIGHUP, 0, check_directory, NULL, NULL);
	DefineCustomIntVariable("pg_calm_share.weight",
	                        "Part of a shared device's budget, relative to the others'.", NULL,
	                        &weight, 100, 1, SHARE_WEIGHT_MAX, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomStringVariable(
		"pg_calm_share.caps", "What the shared device takes of all instances together.",
		"Write operations and bytes per second, like \"3000, 125MB\", or operations alone. Empty: the limits of control groups "
		"that others are in as well, or pg_calm.write_iops and pg_calm.write_bandwidth.",
		&caps_text, "", PGC_SIGHUP, 0, check_caps, NULL, NULL);
	MarkGUCPrefixReserved("pg_calm_share");
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
}

PG_FUNCTION_INFO_V1(pg_calm_share);

/* No row where nothing is shared: why, if that is not as set, is in pg_calm_status.degraded */
Datum
pg_calm_share(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ShareRecord *all = palloc(sizeof(share_state->records));
	ShareDevice seen;
	uint64 now = monotonic_ms();

	if (share_state == NULL)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("pg_calm_share must be loaded via \"shared_preload_libraries\"")));
	InitMaterializedSRF(fcinfo, 0);

	SpinLockAcquire(&share_state->lock);
	seen = share_state->device;
	SpinLockRelease(&share_state->lock);
	copy_records(all, share_state->records);

	for (int i = 0; seen.slot >= 0 && i < SHARE_SLOTS; i++)
	{
		const ShareRecord *record = &all[i];
		ViewRow row = {0};
		CalmRates rates;

		if (record->magic == 0)
			continue;
		rates = share_grant(all, i, &seen.budget);
		row_put(&row, true, CStringGetTextDatum(psprintf("%u:%u", seen.major, seen.minor)));
		row_put(&row, true, Int32GetDatum(i));
		row_put(&row, true, BoolGetDatum(i == seen.slot));
		row_put(&row, true, CStringGetTextDatum(record->name));
		row_put(&row, true, Int32GetDatum(record->pid));
		row_put(&row, true, Int32GetDatum((int32) record->weight));
		row_put(&row, true, BoolGetDatum(record->wants != 0));
		/* what is beyond the range of the type is as good as no limit */
		row_put(&row, !isinf(rates.operations), Int64GetDatum((int64) Min(rates.operations, 1e18)));
		row_put(&row, rates.bytes < 1e18, Int64GetDatum((int64) Min(rates.bytes, 1e18)));
		row_put(&row, true, Float8GetDatum(share_phase(i)));
		row_put(
			&row, true,
			Float8GetDatum(now < record->heartbeat_ms ? 0 : (now - record->heartbeat_ms) / 1000.0));
		Assert(row.columns == rsinfo->setDesc->natts);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}
