/*-------------------------------------------------------------------------
 *
 * checkpoint_view.c
 *	  pg_calm_checkpoints().
 *
 * The columns are documented in the extension's script.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/base.h"
#include "checkpoint_stats.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_calm_checkpoints);

static Datum milliseconds(bool known, double us, bool *null);

static Datum
milliseconds(bool known, double us, bool *null)
{
	*null = !known;
	return Float8GetDatum(us / 1000.0);
}

Datum
pg_calm_checkpoints(PG_FUNCTION_ARGS)
{
	static const char *const statuses[] = {"running", "complete", "failed", "unknown"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	CheckpointReport *report = palloc(sizeof(CheckpointReport));
	uint64 last;

	InitMaterializedSRF(fcinfo, 0);

	SpinLockAcquire(&checkpoint_reports->lock);
	last = checkpoint_reports->last_id;
	SpinLockRelease(&checkpoint_reports->lock);

	for (uint64 id = last < CHECKPOINT_HISTORY ? 1 : last - CHECKPOINT_HISTORY + 1; id <= last;
	     id++)
	{
		Datum values[16];
		bool nulls[16] = {false};
		int c = 0;

		SpinLockAcquire(&checkpoint_reports->lock);
		*report = checkpoint_reports->reports[id % CHECKPOINT_HISTORY];
		SpinLockRelease(&checkpoint_reports->lock);
		if (report->id != id)
			continue; /* overwritten meanwhile */
		if (report->status == REPORT_RUNNING && report->buffers_written < 0)
		{
			uint64 written = pg_atomic_read_u64(&checkpoint_reports->buffers_written);

			report->buffers_written = written > 0 ? (int64) written : -1;
		}

		values[c++] = Int64GetDatum((int64) report->id);
		values[c++] = CStringGetTextDatum(report->restartpoint ? "restartpoint" : "checkpoint");
		values[c++] = CStringGetTextDatum(report->reason);
		values[c++] = CStringGetTextDatum(statuses[report->status]);
		values[c++] = TimestampTzGetDatum(report->started);
		nulls[c] = report->ended == 0;
		values[c++] = TimestampTzGetDatum(report->ended);
		values[c] = milliseconds(report->sync_started != 0, report->sync_started - report->started,
		                         &nulls[c]);
		c++;
		values[c] = milliseconds(report->sync_ended != 0, report->sync_ended - report->sync_started,
		                         &nulls[c]);
		c++;
		values[c] = milliseconds(report->drained, report->drain_us, &nulls[c]);
		c++;
		values[c] = milliseconds(report->sync_started != 0, report->fsync_us, &nulls[c]);
		c++;
		nulls[c] = report->buffers_written < 0;
		values[c++] = Int64GetDatum(report->buffers_written);
		values[c++] = Int64GetDatum((int64) report->bridged_pages);
		nulls[c] = report->unflushed_at_sync < 0;
		values[c++] = Int64GetDatum(report->unflushed_at_sync);
		values[c++] = Int64GetDatum((int64) report->files_synced);
		nulls[c] = report->slowest_file[0] == '\0';
		values[c++] = CStringGetTextDatum(report->slowest_file);
		values[c] = milliseconds(report->files_synced > 0, report->slowest_us, &nulls[c]);
		c++;
		Assert(c == lengthof(values));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
