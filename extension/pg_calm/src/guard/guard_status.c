/*-------------------------------------------------------------------------
 *
 * guard_status.c
 *	  The guard's state, as SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "funcapi.h"
#include "guard.h"
#include "miscadmin.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_calm_guard);
PG_FUNCTION_INFO_V1(pg_calm_guard_holds);

static Datum rate_or_null(double rate, bool *null);

/* Infinity is shown as null: no limit */
static Datum
rate_or_null(double rate, bool *null)
{
	*null = isinf(rate);
	return Float8GetDatum(rate);
}

/* The inputs, one row each, and what they are good for together */
Datum
pg_calm_guard(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {"off",    "unknown",  "watched",
	                                     "pacing", "released", "refusing"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	GuardReading readings[GUARD_INPUTS];
	GuardInput binding;
	GuardGate gate;
	bool silent;
	double wal_rate;
	double allowed_rate;

	guard_must_be_loaded();
	InitMaterializedSRF(fcinfo, 0);
	SpinLockAcquire(&guard_shared->lock);
	memcpy(readings, guard_shared->readings, sizeof(readings));
	binding = guard_shared->binding;
	wal_rate = guard_shared->wal_rate;
	allowed_rate = guard_shared->allowed_rate;
	SpinLockRelease(&guard_shared->lock);
	gate = (GuardGate) pg_atomic_read_u32(&guard_shared->gate);
	silent = guard_is_silent();

	for (int i = 0; i < GUARD_INPUTS; i++)
	{
		GuardReading *reading = &readings[i];
		bool known;
		Datum values[16];
		bool nulls[16] = {false};
		int column = 0;

		/* what a worker that does not respond has said is of no effect */
		if (silent && reading->state != GUARD_OFF)
			reading->state = GUARD_UNKNOWN;
		known = reading->state >= GUARD_WATCHED;
		values[column++] = CStringGetTextDatum(guard_input_name((GuardInput) i));
		values[column++] = CStringGetTextDatum(states[reading->state]);
		nulls[column] = !known || reading->object[0] == '\0';
		values[column++] = CStringGetTextDatum(reading->object);
		nulls[column] = !known;
		values[column++] = CStringGetTextDatum(reading->in_seconds ? "s" : "bytes");
		nulls[column] = !known;
		values[column++] = Float8GetDatum(reading->value);
		nulls[column] = !known;
		values[column++] = Float8GetDatum(reading->limit);
		nulls[column] = !known;
		values[column++] = Float8GetDatum(reading->drain_rate);
		values[column] = rate_or_null(reading->allowed_rate, &nulls[column]);
		column++;
		values[column++] = BoolGetDatum(gate != GUARD_GATE_OPEN && binding == i);
		values[column++] = Float8GetDatum(wal_rate);
		values[column] = rate_or_null(allowed_rate, &nulls[column]);
		column++;
		values[column++] = Int64GetDatum((int64) reading->holds);
		values[column++] = Float8GetDatum((double) reading->held_us / 1000);
		values[column++] = Int64GetDatum((int64) reading->releases);
		nulls[column] = reading->behind_since == 0;
		values[column++] = TimestampTzGetDatum(reading->behind_since);
		nulls[column] = reading->full_at == 0;
		values[column++] = TimestampTzGetDatum(reading->full_at);
		Assert(column == lengthof(values));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* The sessions that are held */
Datum
pg_calm_guard_holds(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	TimestampTz now = GetCurrentTimestamp();

	guard_must_be_loaded();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < MaxBackends; i++)
	{
		GuardHold hold;
		Datum values[5];
		bool nulls[5] = {false};

		SpinLockAcquire(&guard_shared->lock);
		hold = guard_shared->holds[i];
		SpinLockRelease(&guard_shared->lock);
		if (hold.pid == 0 || BackendPidGetProc(hold.pid) == NULL)
			continue;
		values[0] = Int32GetDatum(hold.pid);
		values[1] = CStringGetTextDatum(guard_input_name(hold.input));
		values[2] = CStringGetTextDatum(hold.committed ? "committed" : "before statement");
		values[3] = TimestampTzGetDatum(hold.since);
		values[4] = Float8GetDatum((double) Max(now - hold.since, 0) / 1000);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
