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

#include "access/htup_details.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/tuplestore.h"
#include "writeback/writeback.h"

PG_FUNCTION_INFO_V1(pg_calm_status);
PG_FUNCTION_INFO_V1(pg_calm_regions);

static void
put_count(ViewRow *row, pg_atomic_uint64 *counter)
{
	row_put(row, true, Int64GetDatum((int64) pg_atomic_read_u64(counter)));
}

/* Infinity is "not capped": null in SQL */
static void
put_rate(ViewRow *row, double rate)
{
	row_put(row, !isinf(rate), Int64GetDatum(isinf(rate) ? 0 : (int64) rate));
}

static void
put_seconds(ViewRow *row, double seconds)
{
	row_put(row, !isnan(seconds), Float8GetDatum(seconds));
}

/* Whether it takes no longer than is asked for; null where nothing is, or nobody knows */
static void
put_met(ViewRow *row, double seconds, int target)
{
	row_put(row, target != 0 && !isnan(seconds), BoolGetDatum(seconds <= target));
}

/* Why the module does less than its mode says, all there is to tell; or NULL */
static const char *
worse_than_asked(const CalmFigures *figures)
{
	StringInfoData reasons;

	if (calm_interpose_failure)
		return calm_interpose_failure;
	initStringInfo(&reasons);
	if (figures->degraded[0])
		appendStringInfo(&reasons, "; %s", figures->degraded);
	/* if it does not run, it may have said why */
	if (pg_atomic_read_u32(&calm_shared->worker_pid) == 0 && reasons.len == 0)
		appendStringInfoString(&reasons, "; the writeback worker is not running");
	else if (pg_atomic_read_u32(&calm_shared->worker_pid) != 0 && !worker_is_alive())
		appendStringInfoString(&reasons, "; the writeback worker does not respond: the server's "
		                                 "flush hints are obeyed, and nothing waits for it");
	if (calm_mode == CALM_MODE_ON)
	{
		if (!enableFsync)
			appendStringInfoString(&reasons, "; fsync is off: pages are only watched");
		else if (figures->caps.source[0] && pg_atomic_read_u32(&calm_shared->capped) == 0)
			appendStringInfoString(&reasons, "; no cap of the data directory's device is known: "
			                                 "pages are only watched");
		if (calm_shared->device == 0)
			appendStringInfoString(&reasons,
			                       "; the data directory is on a network or FUSE file system, "
			                       "where a close can take a write error away: files are left as "
			                       "without pg_calm");
		else if (pg_atomic_read_u32(&calm_shared->other_devices) != 0)
			appendStringInfoString(&reasons, "; files on other devices than the data directory's "
			                                 "are left as without pg_calm");
	}
	return reasons.len > 0 ? reasons.data + 2 : NULL;
}

Datum
pg_calm_status(PG_FUNCTION_ARGS)
{
	CalmCounters *counters = &calm_shared->counters;
	CalmFigures figures = calm_figures();
	bool known = figures.caps.source[0] != '\0';
	uint64 held_from = pg_atomic_read_u64(&calm_shared->hold_from_pages);
	uint64 held_most = pg_atomic_read_u64(&calm_shared->hold_most_pages);
	ViewRow row = {0};
	TupleDesc tupdesc;
	int32 worker_pid = (int32) pg_atomic_read_u32(&calm_shared->worker_pid);
	StopEstimate stop;
	const char *degraded;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	row_put(&row, true, CStringGetTextDatum(GetConfigOption("pg_calm.mode", false, false)));
	degraded = worse_than_asked(&figures);
	row_put(&row, degraded != NULL, CStringGetTextDatum(degraded ? degraded : ""));
	put_rate(&row, figures.caps.write_iops);
	put_rate(&row, figures.caps.write_bytes);
	row_put(&row, known, Int32GetDatum((int32) figures.caps.io_size));
	row_put(&row, known, CStringGetTextDatum(figures.caps.source));
	row_put(&row, true, Int32GetDatum((int32) figures.max_gap));
	row_put(&row, held_most != 0, Float8GetDatum(figures.given));
	put_rate(&row, figures.granted.operations);
	put_rate(&row, figures.granted.bytes);
	row_put(&row, held_most != 0, Int64GetDatum((int64) held_from));
	row_put(&row, held_most != 0, Int64GetDatum((int64) held_most));

	row_put(&row, true, Int64GetDatum((int64) page_map_unflushed(calm_page_map)));
	put_count(&row, &calm_shared->in_flight_pages);
	put_count(&row, &counters->flushed_pages);
	put_count(&row, &counters->fsynced_pages);
	put_count(&row, &counters->kernel_flushed_pages);
	put_count(&row, &counters->bridged_pages);
	put_count(&row, &counters->unbridged_pages);
	put_count(&row, &counters->device_operations);
	put_count(&row, &counters->written_bytes);
	put_count(&row, &counters->suppressed_hints);
	put_count(&row, &counters->cleaned_buffers);
	put_count(&row, &counters->latency_probes);
	put_count(&row, &counters->wal_flushes);
	row_put(&row, true, Float8GetDatum(pg_atomic_read_u64(&counters->wal_flush_us) / 1000.0));
	put_count(&row, &calm_page_map->full.value);
	put_count(&row, &calm_shared->error_latch.errors);
	row_put(&row, worker_pid != 0, Int32GetDatum(worker_pid));
	stop_estimate(&stop);
	row_put(&row, true, Int64GetDatum((int64) stop.dirty_buffers));
	put_seconds(&row, stop.seconds);
	put_seconds(&row, recovery_estimate_seconds(&stop, figures.replay_rate));
	put_rate(&row, figures.replay_rate > 0 ? figures.replay_rate : INFINITY);
	put_met(&row, stop.seconds, calm_stop_target);
	put_met(&row, recovery_estimate_seconds(&stop, targets_replay_rate()), calm_recovery_target);
	put_count(&row, &counters->target_operations);
	put_count(&row, &counters->target_checkpoints);
	if (row.columns != tupdesc->natts)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("the extension pg_calm is of another version than its library"),
		                errhint("DROP EXTENSION pg_calm; CREATE EXTENSION pg_calm;")));

	PG_RETURN_DATUM(
		HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), row.values, row.nulls)));
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
			ViewRow row = {0};

			/* the entry may have come to stand for another file meanwhile */
			if (pages == 0 || pg_atomic_read_u32(&file->incarnation) != incarnation)
				continue;
			row_put(&row, true, CStringGetTextDatum(path));
			row_put(&row, true, Int32GetDatum((int32) (number * PAGE_MAP_REGION_BLOCKS)));
			row_put(&row, true, Int32GetDatum((int32) pages));
			row_put(&row, since != 0, Float8GetDatum(now < since ? 0 : (now - since) / 1000.0));
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
		}
	}
	return (Datum) 0;
}
