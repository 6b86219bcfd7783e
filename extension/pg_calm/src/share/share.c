/*-------------------------------------------------------------------------
 *
 * share.c
 *	  One budget for the instances that share a device.
 *
 * Each instance paces its writeback by the caps that it knows.  Where many lie
 * on one device that has a cap of its own, the sum of what they think they may
 * write is far more than the device takes; then all of them queue there, and
 * with them every WAL write.  So the writeback workers of instances with the
 * same pg_calm_share.directory tell each other that they exist, by a small
 * file for each device (share_file.c), and each computes its own share.
 * There is no daemon, and nobody decides for others.
 *
 * The share: the device's budget is divided among the members that have
 * something to flush, by weight; what a member can't use because of a cap of
 * its own goes to the others (share_grant).  A member that has nothing to
 * flush takes nothing.
 *
 * Whatever the file says, a share is never less than FLOOR_OPERATIONS and
 * FLOOR_BYTES.  If the file can't be used the instance goes on alone, with the
 * caps it knows, and says so once.
 *
 * Checkpoints started by time are de-phased.  The checkpointer starts one
 * checkpoint_timeout after the start of the last, whatever caused that, so one
 * that is requested at the right moment moves all that follow.  The worker
 * requests it, spread like a timed one, at the phase of its slot on the host's
 * monotonic clock; phases are those of van der Corput's sequence, which are
 * spread evenly for any number of members and never change while a member
 * keeps its slot.
 *
 * The view reads the file anew, so that it shows what the members say now, and computes
 * shares from that as each member does for itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xlog.h"
#include "base/base.h"
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

/* How far a checkpoint's start may be from its phase, as a part of the interval */
#define PHASE_TOLERANCE (1.0 / 16)

/* Intervals between requests at least: checkpoints caused by WAL keep no phase */
#define REQUEST_INTERVALS 4

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

/* What the view needs to know */
typedef struct ShareState
{
	slock_t lock; /* protects all */
	int slot;     /* ours in the file; -1: none */
	ShareDevice device;
	CalmRates budget; /* of all instances on it */
} ShareState;

static char *calm_share_directory = ""; /* nothing is shared */
static ShareState *share_state = NULL;  /* not loaded at the server's start */

static const CalmCore *share_core = NULL;

static int weight = 100;
static char *caps_text = "";
static CalmRates asked = {INFINITY, INFINITY};

static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

/* Of the writeback worker, in whose process all that follows is done */
static ShareFile file = {-1, ""};
static int own_slot = -1;    /* -1: none yet */
static bool settled = false; /* our record was seen in it */
static uint32 conflicts = 0; /* slots lost to others since the last that was kept */
static uint64 identity = 0;
static uint64 joined_ms = 0;
static uint32 member_count = 1;
static ShareDevice device;
static CalmRates budget; /* of all instances on it */
static CalmRates grant = {INFINITY, INFINITY};
static char warned[sizeof(((ShareFile *) 0)->problem)] = "";

static ShareRecord records[SHARE_SLOTS];
static bool members[SHARE_SLOTS];

/* A relative path would mean another directory to each instance */
static bool
check_directory(char **newval, void **extra, GucSource source)
{
	if ((*newval)[0] != '\0' && !is_absolute_path(*newval))
	{
		GUC_check_errdetail("The path must be absolute, or empty for no sharing.");
		return false;
	}
	return true;
}

/* "OPERATIONS", or "OPERATIONS, BYTES"; or empty */
static bool
parse_caps(const char *text, CalmRates *rates)
{
	const char *comma = strchr(text, ',');
	char first[32];
	int operations;
	int kilobytes;

	rates->operations = INFINITY;
	rates->bytes = INFINITY;
	if (text[0] == '\0')
		return true;
	strlcpy(first, text, Min(sizeof(first), comma ? comma - text + 1 : sizeof(first)));
	if (!parse_int(first, &operations, 0, NULL) || operations < 10)
		return false;
	rates->operations = operations;
	if (comma != NULL)
	{
		if (!parse_int(comma + 1, &kilobytes, GUC_UNIT_KB, NULL) || kilobytes < 10)
			return false;
		rates->bytes = kilobytes * 1024.0;
	}
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
assign_caps(const char *newval, void *extra)
{
	(void) parse_caps(newval, &asked);
}

/* For other processes of the server */
static void
publish(void)
{
	SpinLockAcquire(&share_state->lock);
	share_state->slot = settled ? own_slot : -1;
	share_state->device = device;
	share_state->budget = budget;
	SpinLockRelease(&share_state->lock);
}

/* Alone, with the caps that are known */
static void
go_solo(void)
{
	share_file_close(&file);
	own_slot = -1;
	settled = false;
	member_count = 1;
	grant.operations = INFINITY;
	grant.bytes = INFINITY;
	if (file.problem[0] && strcmp(file.problem, warned) != 0)
	{
		ereport(
			WARNING,
			(errmsg("pg_calm_share: the device's budget is not shared: %s", file.problem),
		     errdetail("This instance paces its writeback by its own caps."),
		     errhint(
				 "\"pg_calm_share.directory\" must belong to root or the server's user and be closed to others; a file in it that is damaged can be removed at any time.")));
	}
	strlcpy(warned, file.problem, sizeof(warned));
	publish();
}

/* The settings may have changed, or the file may have: look at both anew */
static void
configure(void)
{
	ShareFile found;

	if (!share_core->read_shared_caps(&asked, &device.major, &device.minor, &budget))
	{
		snprintf(file.problem, sizeof(file.problem), "the data directory's device is not known");
		go_solo();
		return;
	}
	/* opened again, since it may have been removed, or given to somebody else */
	if (!share_file_open(&found, calm_share_directory, device, true))
	{
		strlcpy(file.problem, found.problem, sizeof(file.problem));
		go_solo();
		return;
	}
	share_file_close(&file);
	/* what was wrong stays told until a look at the file went well */
	file.fd = found.fd;
	while (identity == 0)
	{
		if (!pg_strong_random(&identity, sizeof(identity)))
			identity = (uint64) MyProcPid << 32 | (uint32) monotonic_ms();
		joined_ms = monotonic_ms();
	}
}

/* A free slot: the first, or one of the next if others want it, too; -1: none */
static int
free_slot(void)
{
	uint32 skip = 0;
	int last = -1;

	if (conflicts > 0)
		skip = (uint32) (identity >> (conflicts % 32)) % (2 * conflicts + 1);
	for (int i = 0; i < SHARE_SLOTS; i++)
	{
		if (members[i])
			continue;
		last = i;
		if (skip-- == 0)
			break;
	}
	return last;
}

static void
fill_record(ShareRecord *record, const CalmShare *call)
{
	const char *name = cluster_name;

	memset(record, 0, sizeof(*record));
	record->weight = weight;
	record->identity = identity;
	record->heartbeat_ms = call->now_ms;
	record->started_ms = joined_ms;
	if (!isinf(call->own.operations))
		record->operations_per_second = (uint32) call->own.operations;
	if (!isinf(call->own.bytes))
		record->bytes_per_second = (uint64) call->own.bytes;
	record->device_operations = call->device_operations;
	record->written_bytes = call->written_bytes;
	record->pid = MyProcPid;
	record->wants = call->wants ? 1 : 0;
	if (name == NULL || name[0] == '\0')
	{
		const char *slash = strrchr(DataDir, '/');

		name = slash ? slash + 1 : DataDir;
	}
	strlcpy(record->name, name, sizeof(record->name));
}

/*
 * Keep the slot if the record in it is ours or none, else look for another.
 * Must be called with what share_file_read found a moment ago.  False with
 * file.problem if there is none.
 */
static bool
take_slot(const CalmShare *call)
{
	if (own_slot >= 0 && members[own_slot] && records[own_slot].identity != identity)
	{
		/* somebody else has it; two that choose at the same time meet here */
		own_slot = -1;
		settled = false;
		conflicts++;
	}
	else if (own_slot >= 0 && members[own_slot])
	{
		settled = true;
		conflicts = 0;
	}
	if (own_slot < 0)
		own_slot = free_slot();
	if (own_slot < 0)
	{
		snprintf(file.problem, sizeof(file.problem), "all %d slots are taken", SHARE_SLOTS);
		return false;
	}
	fill_record(&records[own_slot], call);
	members[own_slot] = true;
	return share_file_write(&file, own_slot, &records[own_slot]);
}

/*
 * Max-min fair by weight: each gets its weight's part of the whole, or its
 * limit if that is less, and what is left is divided again among the others.
 * Returns what entry mine gets.
 */
static double
divide(double whole, const double *limits, const double *weights, int count, int mine)
{
	bool done[SHARE_SLOTS] = {false};

	if (isinf(whole))
		return limits[mine];
	for (;;)
	{
		double sum = 0;
		int least = mine; /* whose limit is the least for its weight */

		for (int i = 0; i < count; i++)
		{
			if (done[i])
				continue;
			sum += weights[i];
			if (limits[i] / weights[i] < limits[least] / weights[least])
				least = i;
		}
		if (limits[least] > whole / sum * weights[least])
			return whole / sum * weights[mine];
		if (least == mine)
			return limits[mine];
		done[least] = true;
		whole -= limits[least];
	}
}

/* What the member in a slot may write per second, as if it had something to */
static CalmRates
share_grant(const ShareRecord *all, const bool *is_member, int slot, const CalmRates *whole)
{
	static double operations[SHARE_SLOTS];
	static double bytes[SHARE_SLOTS];
	static double weights[SHARE_SLOTS];
	CalmRates result;
	int count = 0;
	int mine = 0;

	for (int i = 0; i < SHARE_SLOTS; i++)
	{
		if (!is_member[i] || (!all[i].wants && i != slot))
			continue;
		if (i == slot)
			mine = count;
		operations[count] =
			all[i].operations_per_second > 0 ? all[i].operations_per_second : INFINITY;
		bytes[count] = all[i].bytes_per_second > 0 ? all[i].bytes_per_second : INFINITY;
		weights[count] = all[i].weight;
		count++;
	}
	result.operations = divide(whole->operations, operations, weights, count, mine);
	result.bytes = divide(whole->bytes, bytes, weights, count, mine);
	result.operations = Max(result.operations, FLOOR_OPERATIONS);
	result.bytes = Max(result.bytes, FLOOR_BYTES);
	return result;
}

/*
 * The part of an interval at which the member in a slot starts its checkpoints,
 * 0 to 1: the digits of the slot's number in binary, mirrored at the point.
 */
static double
share_phase(int slot)
{
	double phase = 0;
	double part = 0.5;

	for (; slot > 0; slot >>= 1, part /= 2)
		phase += (slot & 1) * part;
	return phase;
}

/*
 * See when checkpoints start, and request one if they start at another phase
 * than that of our slot.
 */
static void
dephase_checkpoints(uint64 now_ms)
{
	static XLogRecPtr last_redo = InvalidXLogRecPtr;
	static uint64 last_start_ms = 0;   /* of a checkpoint, as far as seen */
	static uint64 last_request_ms = 0; /* 0: none */
	static int request_slot = -1;      /* slot that it was made for */
	uint64 interval = (uint64) CheckPointTimeout * 1000;
	uint64 phase = (uint64) (share_phase(own_slot) * interval);
	uint64 tolerance = Max((uint64) (interval * PHASE_TOLERANCE), 1000);
	uint64 ahead; /* from the last start to the next moment of our phase */
	XLogRecPtr redo;

	if (RecoveryInProgress() || member_count < 2)
		return;
	redo = GetRedoRecPtr();
	if (redo != last_redo || last_start_ms == 0)
	{
		/* the checkpointer starts its clock when the server does */
		last_redo = redo;
		last_start_ms = now_ms;
	}

	ahead = (phase + interval - last_start_ms % interval) % interval;
	if (ahead <= tolerance || interval - ahead <= tolerance)
		return; /* the timed ones are where they should be */
	if (last_request_ms != 0 && request_slot == own_slot &&
	    now_ms < last_request_ms + REQUEST_INTERVALS * interval)
		return;
	if (now_ms < last_start_ms + ahead || now_ms > last_start_ms + ahead + tolerance)
		return;
	last_request_ms = now_ms;
	request_slot = own_slot;
	ereport(DEBUG1, (errmsg_internal("pg_calm_share: requesting a checkpoint at phase %.3f",
	                                 share_phase(own_slot))));
	RequestCheckpoint(CHECKPOINT_CAUSE_TIME);
}

/* Say that we are there, and whether there is something to flush; see who else is, and compute our share */
static void
meet(const CalmShare *call)
{
	if (!share_file_read(&file, call->now_ms, records, members) || !take_slot(call))
	{
		go_solo();
		return;
	}
	file.problem[0] = '\0';
	warned[0] = '\0';
	member_count = 0;
	for (int i = 0; i < SHARE_SLOTS; i++)
		member_count += members[i];
	grant = share_grant(records, members, own_slot, &budget);
	publish();
	if (settled)
		dephase_checkpoints(call->now_ms);
}

/* Give up the slot, so that the others need not wait to see that we are gone */
static void
leave(void)
{
	if (file.fd >= 0 && own_slot >= 0)
		share_file_clear(&file, own_slot, identity);
	file.problem[0] = '\0';
	go_solo();
}

/* CalmCore.share */
static void
share(CalmShare *call)
{
	if (call->leaves || calm_share_directory[0] == '\0')
		leave();
	else
	{
		if (call->settings_read)
			configure();
		if (file.fd >= 0)
			meet(call);
	}
	call->granted = grant;
	call->members = Max(member_count, 1);
	call->problem = file.problem[0] ? file.problem : NULL;
	/* who may not use all operations shall not pay for that with the others' bytes */
	if (member_count > 1 && !isinf(budget.operations) && !isinf(budget.bytes))
		call->granted.bytes = Min(call->granted.bytes, Min(grant.operations, call->own.operations) /
		                                                   budget.operations * budget.bytes);
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
		share_state->slot = -1;
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
	                           "All of them name the same one. Empty for no sharing.",
	                           &calm_share_directory, "", PGC_SIGHUP, 0, check_directory, NULL,
	                           NULL);
	DefineCustomIntVariable(
		"pg_calm_share.weight", "Part of a shared device's budget, relative to the others'.", NULL,
		&weight, 100, SHARE_WEIGHT_MIN, SHARE_WEIGHT_MAX, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomStringVariable(
		"pg_calm_share.caps", "What the shared device takes of all instances together.",
		"Write operations and bytes per second, like \"3000, 125MB\", or operations alone. Empty: the limits of control groups "
		"that others are in as well, or pg_calm.write_iops and pg_calm.write_bandwidth.",
		&caps_text, "", PGC_SIGHUP, 0, check_caps, assign_caps, NULL);
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
	ShareRecord *records = palloc(SHARE_SLOTS * sizeof(ShareRecord));
	bool members[SHARE_SLOTS];
	ShareFile file;
	ShareDevice device;
	CalmRates budget;
	char name[32];
	uint64 now = monotonic_ms();
	int own_slot;
	bool read = false;

	if (share_state == NULL)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("pg_calm_share must be loaded via \"shared_preload_libraries\"")));
	InitMaterializedSRF(fcinfo, 0);

	SpinLockAcquire(&share_state->lock);
	own_slot = share_state->slot;
	budget = share_state->budget;
	device = share_state->device;
	SpinLockRelease(&share_state->lock);
	if (own_slot < 0)
		return (Datum) 0;

	/* nothing between open and close may raise an error */
	if (share_file_open(&file, calm_share_directory, device, false))
	{
		read = share_file_read(&file, now, records, members);
		share_file_close(&file);
	}
	snprintf(name, sizeof(name), "%u:%u", device.major, device.minor);

	for (int i = 0; read && i < SHARE_SLOTS; i++)
	{
		ShareRecord *record = &records[i];
		CalmRates grant;
		Datum values[13];
		bool nulls[13] = {false};
		int column = 0;

		if (!members[i])
			continue;
		grant = share_grant(records, members, i, &budget);
		values[column++] = CStringGetTextDatum(name);
		values[column++] = Int32GetDatum(i);
		values[column++] = BoolGetDatum(i == own_slot);
		values[column++] = CStringGetTextDatum(record->name);
		values[column++] = Int32GetDatum(record->pid);
		values[column++] = Int32GetDatum((int32) record->weight);
		values[column++] = BoolGetDatum(record->wants != 0);
		nulls[column] = isinf(grant.operations);
		values[column] = nulls[column] ? (Datum) 0 : Int64GetDatum((int64) grant.operations);
		column++;
		/* what is beyond the range of the type is as good as no limit */
		nulls[column] = grant.bytes >= (double) PG_INT64_MAX;
		values[column] = nulls[column] ? (Datum) 0 : Int64GetDatum((int64) grant.bytes);
		column++;
		values[column++] = Float8GetDatum(share_phase(i));
		values[column++] = Int64GetDatum((int64) record->device_operations);
		values[column++] = Int64GetDatum((int64) record->written_bytes);
		values[column++] =
			Float8GetDatum(now < record->heartbeat_ms ? 0 : (now - record->heartbeat_ms) / 1000.0);
		Assert(column == lengthof(values));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
