/*-------------------------------------------------------------------------
 *
 * status.c
 *	  SQL functions behind the views pg_calm_status and pg_calm_regions.
 *
 * The columns are documented in the extension's script.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "base/base.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "shared/shared.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"
#include "writeback/writeback.h"

PG_FUNCTION_INFO_V1(pg_calm_status);
PG_FUNCTION_INFO_V1(pg_calm_regions);

static Datum
counter_datum(pg_atomic_uint64 *counter)
{
	return Int64GetDatum((int64) pg_atomic_read_u64(counter));
}

static void
add_reason(StringInfo reasons, const char *reason)
{
	if (reasons->len > 0)
		appendStringInfoString(reasons, "; ");
	appendStringInfoString(reasons, reason);
}

/* Why the module does less than its mode says, all there is to tell; or NULL */
static const char *
worse_than_asked(const CalmShared *copy)
{
	StringInfoData reasons;

	if (calm_interpose_failure)
		return calm_interpose_failure;
	initStringInfo(&reasons);
	if (copy->degraded[0])
		add_reason(&reasons, copy->degraded);
	if (pg_atomic_read_u32(&calm_shared->worker_pid) == 0)
	{
		/* it may have said why */
		if (reasons.len == 0)
			add_reason(&reasons, "the writeback worker is not running");
	}
	else if (!worker_is_alive())
		add_reason(&reasons, "the writeback worker does not respond: the server's flush hints are "
		                     "obeyed, and nothing waits for it");
	if (calm_mode == CALM_MODE_ON)
	{
		if (copy->caps_known && pg_atomic_read_u32(&calm_shared->capped) == 0)
			add_reason(&reasons, "no cap of the data directory's device is known: pages are only "
			                     "watched");
		if (calm_shared->device == 0)
			add_reason(&reasons, "the data directory is on a network or FUSE file system, where a "
			                     "close can take a write error away: files are left as without "
			                     "pg_calm");
		else if (pg_atomic_read_u32(&calm_shared->other_devices) != 0)
			add_reason(&reasons, "files on other devices than the data directory's are left as "
			                     "without pg_calm");
	}
	return reasons.len > 0 ? reasons.data : NULL;
}

Datum
pg_calm_status(PG_FUNCTION_ARGS)
{
	CalmCounters *counters = &calm_shared->counters;
	CalmShared *copy = palloc0(sizeof(CalmShared));
	TupleDesc tupdesc;
	Datum values[31];
	bool nulls[31] = {false};
	uint64 dirty_buffers;
	double seconds;
	bool counted;
	int column = 0;
	const char *degraded;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	SpinLockAcquire(&calm_shared->lock);
	copy->caps = calm_shared->caps;
	copy->max_gap = calm_shared->max_gap;
	copy->caps_known = calm_shared->caps_known;
	memcpy(copy->degraded, calm_shared->degraded, sizeof(copy->degraded));
	SpinLockRelease(&calm_shared->lock);

	values[column++] = CStringGetTextDatum(calm_mode_name(calm_mode));
	degraded = worse_than_asked(copy);
	nulls[column] = degraded == NULL;
	values[column++] = degraded ? CStringGetTextDatum(degraded) : (Datum) 0;

	/* infinity is "not capped": null in SQL */
	nulls[column] = !copy->caps_known || isinf(copy->caps.write_iops);
	values[column] = nulls[column] ? (Datum) 0 : Int64GetDatum((int64) copy->caps.write_iops);
	column++;
	nulls[column] = !copy->caps_known || isinf(copy->caps.write_bytes);
	values[column] = nulls[column] ? (Datum) 0 : Int64GetDatum((int64) copy->caps.write_bytes);
	column++;
	nulls[column] = !copy->caps_known;
	values[column++] = Int32GetDatum((int32) copy->caps.io_size);
	nulls[column] = !copy->caps_known;
	values[column++] = CStringGetTextDatum(copy->caps.source);
	values[column++] = Int32GetDatum((int32) copy->max_gap);

	values[column++] = Int64GetDatum((int64) page_map_unflushed(calm_page_map));
	values[column++] = counter_datum(&calm_shared->in_flight_pages);
	values[column++] = counter_datum(&counters->flushed_pages);
	values[column++] = counter_datum(&counters->fsynced_pages);
	values[column++] = counter_datum(&counters->kernel_flushed_pages);
	values[column++] = counter_datum(&counters->bridged_pages);
	values[column++] = counter_datum(&counters->unbridged_pages);
	values[column++] = counter_datum(&counters->device_operations);
	values[column++] = counter_datum(&counters->written_bytes);
	values[column++] = counter_datum(&counters->suppressed_hints);
	values[column++] = counter_datum(&counters->cleaned_buffers);
	values[column++] = counter_datum(&counters->latency_probes);
	values[column++] = counter_datum(&counters->wal_flushes);
	values[column++] = Float8GetDatum(pg_atomic_read_u64(&counters->wal_flush_us) / 1000.0);
	values[column++] = counter_datum(&calm_page_map->full.value);
	values[column++] = counter_datum(&calm_shared->error_latch.errors);
	nulls[column] = pg_atomic_read_u32(&calm_shared->worker_pid) == 0;
	values[column++] = Int32GetDatum((int32) pg_atomic_read_u32(&calm_shared->worker_pid));
	seconds = stop_estimate_seconds(&dirty_buffers, &counted);
	values[column++] = Int64GetDatum((int64) dirty_buffers);
	nulls[column] = isnan(seconds);
	values[column++] = Float8GetDatum(seconds);
	nulls[column + 1] = isnan(seconds) || calm_stop_target == 0;
	values[column + 1] = BoolGetDatum(seconds <= calm_stop_target);
	seconds = recovery_estimate_seconds();
	nulls[column] = isnan(seconds);
	values[column++] = Float8GetDatum(seconds);
	column++;
	nulls[column] = isnan(seconds) || calm_recovery_target == 0;
	values[column++] = BoolGetDatum(seconds <= calm_recovery_target);
	values[column++] = counter_datum(&counters->target_operations);
	values[column++] = counter_datum(&counters->target_checkpoints);
	Assert(column == lengthof(values));

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}

Datum
pg_calm_regions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint64 now = monotonic_ms();

	InitMaterializedSRF(fcinfo, 0);

	for (uint32 f = 0; (f = page_map_next_marked(calm_page_map, f)) != PAGE_MAP_END; f++)
	{
		PageMapFile *file = page_map_file(calm_page_map, f);
		uint32 incarnation = pg_atomic_read_u32(&file->incarnation);
		char path[PAGE_MAP_FULL_PATH];

		CHECK_FOR_INTERRUPTS();
		if ((incarnation & 1) == 0)
			continue;
		page_map_path(calm_page_map, f, path);

		for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
		{
			PageMapRegion *region = page_map_region_of(calm_page_map, file, number);
			uint32 pages = region ? page_map_region_count(region) : 0;
			uint64 since = region ? pg_atomic_read_u64(&region->since) : 0;
			Datum values[4];
			bool nulls[4] = {false};

			/* the entry may have come to stand for another file meanwhile */
			if (pages == 0 || pg_atomic_read_u32(&file->incarnation) != incarnation)
				continue;
			values[0] = CStringGetTextDatum(path);
			values[1] = Int32GetDatum((int32) (number * PAGE_MAP_REGION_BLOCKS));
			values[2] = Int32GetDatum((int32) pages);
			nulls[3] = since == 0;
			values[3] = Float8GetDatum(since == 0 || now < since ? 0 : (now - since) / 1000.0);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	}
	return (Datum) 0;
}
