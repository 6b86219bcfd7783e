/*-------------------------------------------------------------------------
 *
 * governor_status.c
 *	  The governor's state, as SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "funcapi.h"
#include "governor.h"
#include "miscadmin.h"
#include "shared/shared.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(pg_calm_governor);
PG_FUNCTION_INFO_V1(pg_calm_governor_holds);

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
pg_calm_governor(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {"off",    "unknown",  "watched",
	                                     "pacing", "released", "refusing"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	GovernorReading readings[GOVERNOR_INPUTS];
	GovernorInput binding;
	GovernorGate gate;
	double wal_rate;
	double allowed_rate;

	InitMaterializedSRF(fcinfo, 0);
	SpinLockAcquire(&calm_governor_shared->lock);
	memcpy(readings, calm_governor_shared->readings, sizeof(readings));
	binding = calm_governor_shared->binding;
	wal_rate = calm_governor_shared->wal_rate;
	allowed_rate = calm_governor_shared->allowed_rate;
	SpinLockRelease(&calm_governor_shared->lock);
	gate = (GovernorGate) pg_atomic_read_u32(&calm_governor_shared->gate);

	for (int i = 0; i < GOVERNOR_INPUTS; i++)
	{
		const GovernorReading *reading = &readings[i];
		bool known = reading->state >= GOVERNOR_WATCHED;
		Datum values[14];
		bool nulls[14] = {false};
		int column = 0;

		values[column++] = CStringGetTextDatum(governor_input_name((GovernorInput) i));
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
		values[column++] = BoolGetDatum(gate != GOVERNOR_GATE_OPEN && binding == i);
		values[column++] = Float8GetDatum(wal_rate);
		values[column] = rate_or_null(allowed_rate, &nulls[column]);
		column++;
		values[column++] = Int64GetDatum((int64) reading->holds);
		values[column++] = Float8GetDatum((double) reading->held_us / 1000);
		values[column++] = Int64GetDatum((int64) reading->releases);
		Assert(column == lengthof(values));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* The sessions that are held */
Datum
pg_calm_governor_holds(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	TimestampTz now = GetCurrentTimestamp();

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < MaxBackends; i++)
	{
		GovernorHold hold;
		Datum values[5];
		bool nulls[5] = {false};

		SpinLockAcquire(&calm_governor_shared->lock);
		hold = calm_governor_shared->holds[i];
		SpinLockRelease(&calm_governor_shared->lock);
		if (hold.pid == 0 || BackendPidGetProc(hold.pid) == NULL)
			continue;
		values[0] = Int32GetDatum(hold.pid);
		values[1] = CStringGetTextDatum(governor_input_name(hold.input));
		values[2] = CStringGetTextDatum(hold.committed ? "committed" : "before statement");
		values[3] = TimestampTzGetDatum(hold.since);
		values[4] = Float8GetDatum((double) Max(now - hold.since, 0) / 1000);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
