/*-------------------------------------------------------------------------
 *
 * share_view.c
 *	  SQL function behind the view pg_calm_share.
 *
 * The columns are documented in the extension's script.  The file is read
 * anew, so that the view shows what the members say now; shares are computed
 * from that as each member does for itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/base.h"
#include "fmgr.h"
#include "funcapi.h"
#include "share.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

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
	int count = 0;

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
		count = share_file_read(&file, now, records, members);
		share_file_close(&file);
	}
	snprintf(name, sizeof(name), "%u:%u", device.major, device.minor);

	for (int i = 0; count > 0 && i < SHARE_SLOTS; i++)
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
