/*-------------------------------------------------------------------------
 *
 * checkpoint_view.c
 *	  pg_calm_checkpoints(), whose columns the extension's script documents.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "checkpoint.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_calm_checkpoints);

static void
put_us(ViewRow *row, bool known, int64 microseconds)
{
	row_put(row, known, Float8GetDatum(microseconds / 1000.0));
}

/*
 * The newest one seems to run, and another has begun or the checkpointer idles: it ended and made
 * no call after that from which that could be learnt, since log_checkpoints is off and it had
 * no data file open.  Or it failed.
 */
static ReportStatus
status_of(const CheckpointReport *report, bool newest)
{
	const volatile uint32 *event = checkpoint_reports->checkpointer_waits_on;

	if (report->status != REPORT_RUNNING || (newest && *event != WAIT_EVENT_CHECKPOINTER_MAIN))
		return report->status;
	return report->durable ? REPORT_COMPLETE : enableFsync ? REPORT_FAILED : REPORT_UNKNOWN;
}

Datum
pg_calm_checkpoints(PG_FUNCTION_ARGS)
{
	static const char *const statuses[] = {"running", "complete", "failed", "unknown"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	CheckpointReport *r = palloc(sizeof(CheckpointReport));
	uint64 last;

	InitMaterializedSRF(fcinfo, 0);

	SpinLockAcquire(&checkpoint_reports->lock);
	last = checkpoint_reports->last_id;
	SpinLockRelease(&checkpoint_reports->lock);

	for (uint64 id = last - Min(last, CHECKPOINT_HISTORY) + 1; id <= last; id++)
	{
		ViewRow row = {0};
		bool synced;

		SpinLockAcquire(&checkpoint_reports->lock);
		*r = checkpoint_reports->reports[id % CHECKPOINT_HISTORY];
		SpinLockRelease(&checkpoint_reports->lock);
		if (r->id != id)
			continue; /* overwritten meanwhile */
		synced = r->sync_started != 0;
		/* published when the sync phase begins */
		if (r->status == REPORT_RUNNING && !synced)
			r->buffers_written = (int64) pg_atomic_read_u64(&checkpoint_reports->buffers_written);

		row_put(&row, true, Int64GetDatum((int64) id));
		row_put(&row, true, CStringGetTextDatum(r->restartpoint ? "restartpoint" : "checkpoint"));
		row_put(&row, true, CStringGetTextDatum(r->reason));
		row_put(&row, true, CStringGetTextDatum(statuses[status_of(r, id == last)]));
		row_put(&row, true, TimestampTzGetDatum(r->started));
		row_put(&row, r->ended != 0, TimestampTzGetDatum(r->ended));
		put_us(&row, synced, r->sync_started - r->started);
		put_us(&row, r->sync_ended != 0, r->sync_ended - r->sync_started);
		put_us(&row, r->drained, (int64) r->drain_us);
		put_us(&row, synced, (int64) r->fsync_us);
		row_put(&row, synced || r->buffers_written > 0, Int64GetDatum(r->buffers_written));
		row_put(&row, true, Int64GetDatum((int64) r->bridged_pages));
		row_put(&row, r->unflushed_at_sync >= 0, Int64GetDatum(r->unflushed_at_sync));
		row_put(&row, true, Int64GetDatum((int64) r->files_synced));
		row_put(&row, r->slowest_file[0] != '\0', CStringGetTextDatum(r->slowest_file));
		put_us(&row, r->files_synced > 0, (int64) r->slowest_us);
		Assert(row.columns == rsinfo->setDesc->natts);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}
