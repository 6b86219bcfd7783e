/*-------------------------------------------------------------------------
 *
 * arbiter.c
 *	  One budget for the instances that share a device.
 *
 * Each instance paces its writeback by the caps that it knows.  Where many lie
 * on one device that has a cap of its own, the sum of what they think they may
 * write is far more than the device takes; then all of them queue there, and
 * with them every WAL write.  So the writeback workers of instances with the
 * same pg_calm.arbiter_directory tell each other that they exist, by a small
 * file for each device (arbiter_file.c), and each computes its own share.
 * There is no daemon, and nobody decides for others.
 *
 * The share: the device's budget is divided among the members that have
 * something to flush, by weight; what a member can't use because of a cap of
 * its own goes to the others (arbiter_grant).  A member that has nothing to
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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xlog.h"
#include "arbiter.h"
#include "miscadmin.h"
#include "map/map.h"
#include "shared/shared.h"
#include "postmaster/bgwriter.h"
#include "utils/guc.h"

/* How often the own record is written and the others' are read */
#define TICK_MS 250

/* Least share: without it, whoever may write to the file could starve us */
#define FLOOR_OPERATIONS 10.0
#define FLOOR_BYTES (1024.0 * 1024.0)

/* How far a checkpoint's start may be from its phase, as a part of the interval */
#define PHASE_TOLERANCE (1.0 / 16)

/* Intervals between requests at least: checkpoints caused by WAL keep no phase */
#define REQUEST_INTERVALS 4

char *calm_arbiter_directory = NULL;
int calm_arbiter_weight = 100;
bool calm_arbiter_checkpoints = true;

static ArbiterFile file = {-1, ""};
static int own_slot = -1;    /* -1: none yet */
static bool settled = false; /* our record was seen in it */
static uint32 conflicts = 0; /* slots lost to others since the last that was kept */
static uint64 identity = 0;
static uint64 joined_ms = 0;
static uint64 next_tick_ms = 0;
static uint32 member_count = 1;
static DeviceCaps own_caps;
static DeviceCaps budget;
static ArbiterGrant grant = {INFINITY, INFINITY};
static char warned[sizeof(((ArbiterFile *) 0)->problem)] = "";

static ArbiterRecord records[ARBITER_SLOTS];
static bool members[ARBITER_SLOTS];

static void go_solo(void);
static void publish(void);
static int free_slot(void);
static void fill_record(ArbiterRecord *record, uint64 now_ms, bool wants);
static void take_slot(uint64 now_ms, bool wants);
static double
divide(double whole, const double *limits, const double *weights, int count, int mine);
static void dephase_checkpoints(uint64 now_ms);

/* Alone, with the caps that are known */
static void
go_solo(void)
{
	arbiter_file_close(&file);
	own_slot = -1;
	settled = false;
	member_count = 1;
	grant.operations = INFINITY;
	grant.bytes = INFINITY;
	if (file.problem[0] && strcmp(file.problem, warned) != 0)
	{
		ereport(
			WARNING,
			(errmsg("pg_calm: the device's budget is not shared: %s", file.problem),
		     errdetail("This instance paces its writeback by its own caps."),
		     errhint(
				 "\"pg_calm.arbiter_directory\" must belong to root or the server's user and be closed to others; a file in it that is damaged can be removed at any time.")));
	}
	strlcpy(warned, file.problem, sizeof(warned));
	publish();
}

/* For other processes of the server */
static void
publish(void)
{
	SpinLockAcquire(&calm_shared->lock);
	calm_shared->arbiter_slot = settled ? own_slot : -1;
	calm_shared->arbiter_budget = budget;
	SpinLockRelease(&calm_shared->lock);
}

/*
 * The settings may have changed, or the file may have: look at both anew.  own
 * are the caps of this instance.
 */
void
arbiter_configure(const DeviceCaps *own)
{
	ArbiterFile found;
	DeviceNumber device;

	own_caps = *own;
	if (calm_arbiter_directory == NULL || calm_arbiter_directory[0] == '\0' ||
	    calm_mode != CALM_MODE_ON)
	{
		arbiter_leave();
		return;
	}
	if (!device_read_shared_caps(&device, &budget))
	{
		file.problem[0] = '\0';
		snprintf(file.problem, sizeof(file.problem), "the data directory's device is not known");
		go_solo();
		return;
	}
	/* opened again, since it may have been removed, or given to somebody else */
	if (!arbiter_file_open(&found, calm_arbiter_directory, device, true))
	{
		strlcpy(file.problem, found.problem, sizeof(file.problem));
		go_solo();
		return;
	}
	arbiter_file_close(&file);
	/* what was wrong stays told until a look at the file went well */
	file.fd = found.fd;
	if (identity == 0)
	{
		while (identity == 0)
		{
			if (!pg_strong_random(&identity, sizeof(identity)))
				identity = (uint64) MyProcPid << 32 | (uint32) page_map_now_ms();
		}
		joined_ms = page_map_now_ms();
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
	for (int i = 0; i < ARBITER_SLOTS; i++)
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
fill_record(ArbiterRecord *record, uint64 now_ms, bool wants)
{
	const char *name = cluster_name;

	memset(record, 0, sizeof(*record));
	record->weight = calm_arbiter_weight;
	record->identity = identity;
	record->heartbeat_ms = now_ms;
	record->started_ms = joined_ms;
	if (!isinf(own_caps.write_iops))
		record->operations_per_second = (uint32) own_caps.write_iops;
	if (!isinf(own_caps.write_bytes))
		record->bytes_per_second = (uint64) own_caps.write_bytes;
	record->device_operations = pg_atomic_read_u64(&calm_shared->counters.device_operations);
	record->written_bytes = pg_atomic_read_u64(&calm_shared->counters.written_bytes);
	record->pid = MyProcPid;
	record->wants = wants ? 1 : 0;
	if (name == NULL || name[0] == '\0')
	{
		const char *slash = strrchr(DataDir, '/');

		name = slash ? slash + 1 : DataDir;
	}
	strlcpy(record->name, name, sizeof(record->name));
}

/*
 * Keep the slot if the record in it is ours or none, else look for another.
 * Must be called with what arbiter_file_read found a moment ago.
 */
static void
take_slot(uint64 now_ms, bool wants)
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
		snprintf(file.problem, sizeof(file.problem), "all %d slots are taken", ARBITER_SLOTS);
		go_solo();
		return;
	}
	fill_record(&records[own_slot], now_ms, wants);
	if (!arbiter_file_write(&file, own_slot, &records[own_slot]))
	{
		go_solo();
		return;
	}
	members[own_slot] = true;
}

/*
 * Say that we are there, and whether there is something to flush; see who else
 * is, and compute our share.  To be called often; does something each TICK_MS.
 */
void
arbiter_tick(uint64 now_ms, bool wants)
{
	if (file.fd < 0 || now_ms < next_tick_ms)
		return;
	next_tick_ms = now_ms + TICK_MS;

	if (arbiter_file_read(&file, now_ms, records, members) < 0)
	{
		go_solo();
		return;
	}
	take_slot(now_ms, wants);
	if (own_slot < 0)
		return;

	file.problem[0] = '\0';
	warned[0] = '\0';
	member_count = 0;
	for (int i = 0; i < ARBITER_SLOTS; i++)
		member_count += members[i];
	grant = arbiter_grant(records, members, own_slot, &budget);
	publish();
	if (settled && calm_arbiter_checkpoints)
		dephase_checkpoints(now_ms);
}

/*
 * Max-min fair by weight: each gets its weight's part of the whole, or its
 * limit if that is less, and what is left is divided again among the others.
 * Returns what entry mine gets.
 */
static double
divide(double whole, const double *limits, const double *weights, int count, int mine)
{
	bool done[ARBITER_SLOTS] = {false};
	bool again = true;
	double left = whole;

	if (isinf(whole))
		return limits[mine];
	while (again)
	{
		double sum = 0;

		again = false;
		for (int i = 0; i < count; i++)
			sum += done[i] ? 0 : weights[i];
		for (int i = 0; i < count; i++)
		{
			if (done[i] || limits[i] > left / sum * weights[i])
				continue;
			if (i == mine)
				return limits[i];
			done[i] = true;
			left -= limits[i];
			again = true;
			/* the others' parts have grown: compute them anew */
			break;
		}
		if (!again)
			return left / sum * weights[mine];
	}
	return limits[mine];
}

/* What the member in a slot may write per second, as if it had something to */
ArbiterGrant
arbiter_grant(const ArbiterRecord *all, const bool *is_member, int slot, const DeviceCaps *whole)
{
	static double operations[ARBITER_SLOTS];
	static double bytes[ARBITER_SLOTS];
	static double weights[ARBITER_SLOTS];
	ArbiterGrant result;
	int count = 0;
	int mine = 0;

	for (int i = 0; i < ARBITER_SLOTS; i++)
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
	result.operations = divide(whole->write_iops, operations, weights, count, mine);
	result.bytes = divide(whole->write_bytes, bytes, weights, count, mine);
	result.operations = Max(result.operations, FLOOR_OPERATIONS);
	result.bytes = Max(result.bytes, FLOOR_BYTES);
	return result;
}

/*
 * Reduce caps to our share.  False if there is nobody to share with: then they
 * are those of the device, or our own if these are less, and need no pacing
 * but by what is in flight.
 */
bool
arbiter_limit(DeviceCaps *caps)
{
	if (own_slot < 0)
		return false;
	caps->write_iops = Min(caps->write_iops, grant.operations);
	caps->write_bytes = Min(caps->write_bytes, grant.bytes);
	/* who may not use all operations shall not pay for that with the others' bytes */
	if (member_count > 1 && !isinf(budget.write_iops) && !isinf(budget.write_bytes))
		caps->write_bytes =
			Min(caps->write_bytes, caps->write_iops / budget.write_iops * budget.write_bytes);
	return member_count > 1;
}

/* Members on the device, this instance included */
uint32
arbiter_members(void)
{
	return Max(member_count, 1);
}

/* Why there is no sharing although the directory is set, or NULL */
const char *
arbiter_problem(void)
{
	return file.problem[0] ? file.problem : NULL;
}

/* Give up the slot, so that the others need not wait to see that we are gone */
void
arbiter_leave(void)
{
	if (file.fd >= 0 && own_slot >= 0)
		arbiter_file_clear(&file, own_slot, identity);
	file.problem[0] = '\0';
	go_solo();
}

/*
 * The part of an interval at which the member in a slot starts its checkpoints,
 * 0 to 1: the digits of the slot's number in binary, mirrored at the point.
 */
double
arbiter_phase(int slot)
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
	uint64 phase = (uint64) (arbiter_phase(own_slot) * interval);
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
	ereport(DEBUG1, (errmsg_internal("pg_calm: requesting a checkpoint at phase %.3f",
	                                 arbiter_phase(own_slot))));
	RequestCheckpoint(CHECKPOINT_CAUSE_TIME);
}
