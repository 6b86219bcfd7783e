/*-------------------------------------------------------------------------
 *
 * arbiter_view.c
 *	  SQL function behind the view pg_calm_arbiter.
 *
 * The columns are documented in the extension's script.  The file is read
 * anew, so that the view shows what the members say now; shares are computed
 * from that as each member does for itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "arbiter.h"
#include "base/base.h"
#include "fmgr.h"
#include "funcapi.h"
#include "shared/shared.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_calm_arbiter);

/* No row where nothing is shared: why, if that is not as set, is in pg_calm_status.degraded */
Datum
pg_calm_arbiter(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ArbiterRecord *records = palloc(ARBITER_SLOTS * sizeof(ArbiterRecord));
	bool members[ARBITER_SLOTS];
	ArbiterFile file;
	DeviceNumber device;
	DeviceCaps ignored;
	DeviceCaps budget;
	char name[32];
	uint64 now = page_map_now_ms();
	int own_slot;
	int count = 0;

	InitMaterializedSRF(fcinfo, 0);

	SpinLockAcquire(&calm_shared->lock);
	own_slot = calm_shared->arbiter_slot;
	budget = calm_shared->arbiter_budget;
	SpinLockRelease(&calm_shared->lock);
	if (own_slot < 0 || !device_read_shared_caps(&device, &ignored))
		return (Datum) 0;

	/* nothing between open and close may raise an error */
	if (arbiter_file_open(&file, calm_arbiter_directory, device, false))
	{
		count = arbiter_file_read(&file, now, records, members);
		arbiter_file_close(&file);
	}
	snprintf(name, sizeof(name), "%u:%u", device.major, device.minor);

	for (int i = 0; count > 0 && i < ARBITER_SLOTS; i++)
	{
		ArbiterRecord *record = &records[i];
		ArbiterGrant grant;
		Datum values[13];
		bool nulls[13] = {false};
		int column = 0;

		if (!members[i])
			continue;
		grant = arbiter_grant(records, members, i, &budget);
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
		values[column++] = Float8GetDatum(arbiter_phase(i));
		values[column++] = Int64GetDatum((int64) record->device_operations);
		values[column++] = Int64GetDatum((int64) record->written_bytes);
		values[column++] =
			Float8GetDatum(now < record->heartbeat_ms ? 0 : (now - record->heartbeat_ms) / 1000.0);
		Assert(column == lengthof(values));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
