/*-------------------------------------------------------------------------
 *
 * checkpoint_view.c
 *	  pg_calm_checkpoints() and pg_calm_reset().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/base.h"
#include "checkpoint_files.h"
#include "checkpoint_report.h"
#include "checkpoint_stats.h"
#include "fmgr.h"
#include "funcapi.h"
#include "shared/shared.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_calm_checkpoints);
PG_FUNCTION_INFO_V1(pg_calm_reset);

/* Difference of two moments in values[column], values[column + 1] */
static void
put_wal_span(const WalMoment *from, const WalMoment *to, Datum *values, bool *nulls)
{
	bool known = from->known && to->known && to->position >= from->position;
	bool images =
		known && from->full_page_images >= 0 && to->full_page_images >= from->full_page_images;

	nulls[0] = !known;
	values[0] = Int64GetDatum(known ? (int64) (to->position - from->position) : 0);
	nulls[1] = !images;
	values[1] = Int64GetDatum(images ? to->full_page_images - from->full_page_images : 0);
}

static void
put_ms(double ms, Datum *value, bool *null)
{
	*null = ms < 0;
	*value = Float8GetDatum(ms);
}

static void
put_count(int64 count, Datum *value, bool *null)
{
	*null = count < 0;
	*value = Int64GetDatum(count);
}

Datum
pg_calm_checkpoints(PG_FUNCTION_ARGS)
{
	static const char *const statuses[] = {"running", "complete", "failed", "unknown"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ReportSlot *copy = palloc(sizeof(ReportSlot));
	const CheckpointReport *report = &copy->report;
	uint64 first;
	uint64 last;

	InitMaterializedSRF(fcinfo, 0);

	SpinLockAcquire(&checkpoint_reports->lock);
	first = checkpoint_reports->first_id;
	last = checkpoint_reports->last_id;
	SpinLockRelease(&checkpoint_reports->lock);
	if (last >= (uint64) calm_checkpoint_history)
		first = Max(first, last - calm_checkpoint_history + 1);

	for (uint64 id = first; id <= last; id++)
	{
		Datum values[39];
		bool nulls[39] = {false};
		int c = 0;

		SpinLockAcquire(&checkpoint_reports->lock);
		memcpy(copy, checkpoint_report_slot(id), sizeof(ReportSlot));
		/* the server's count comes at the end of the phase */
		if (id == checkpoint_reports->last_id && report->status == REPORT_RUNNING &&
		    report->at[SCAN_DONE] != 0 && report->at[WRITE_DONE] == 0)
			copy->report.written_buffers =
				(int64) pg_atomic_read_u64(&checkpoint_reports->buffers_written);
		SpinLockRelease(&checkpoint_reports->lock);
		if (report->id != id)
			continue; /* overwritten meanwhile */

		values[c++] = Int64GetDatum((int64) report->id);
		values[c++] = CStringGetTextDatum(report->restartpoint ? "restartpoint" : "checkpoint");
		values[c++] = CStringGetTextDatum(report->reason);
		nulls[c] = report->flags[0] == '\0';
		values[c++] = CStringGetTextDatum(report->flags);
		values[c++] = CStringGetTextDatum(statuses[report->status]);
		values[c++] = CStringGetTextDatum(calm_mode_name(report->mode));
		values[c++] = TimestampTzGetDatum(report->at[STARTED]);
		nulls[c] = report->at[ENDED] == 0;
		values[c++] = TimestampTzGetDatum(report->at[ENDED]);
		put_ms(checkpoint_phase_ms(report, STARTED, ENDED), &values[c], &nulls[c]), c++;
		put_ms(checkpoint_phase_ms(report, STARTED, SLOTS_DONE), &values[c], &nulls[c]), c++;
		put_ms(checkpoint_phase_ms(report, SLOTS_DONE, CLOG_DONE), &values[c], &nulls[c]), c++;
		put_ms(checkpoint_phase_ms(report, COMMIT_TS_DONE, SUBTRANS_DONE), &values[c], &nulls[c]),
			c++;
		put_ms(checkpoint_phase_ms(report, SUBTRANS_DONE, MULTIXACT_DONE), &values[c], &nulls[c]),
			c++;
		put_ms(checkpoint_other_slru_ms(report), &values[c], &nulls[c]), c++;
		put_ms(checkpoint_scan_ms(report), &values[c], &nulls[c]), c++;
		put_ms(checkpoint_phase_ms(report, SCAN_DONE, WRITE_DONE), &values[c], &nulls[c]), c++;
		put_ms(checkpoint_phase_ms(report, WRITE_DONE, SYNC_DONE), &values[c], &nulls[c]), c++;
		put_ms(checkpoint_drain_ms(report), &values[c], &nulls[c]), c++;
		put_ms(checkpoint_fsync_ms(report), &values[c], &nulls[c]), c++;
		put_ms(checkpoint_phase_ms(report, SYNC_DONE, ENDED), &values[c], &nulls[c]), c++;
		put_count(report->dirty_buffers, &values[c], &nulls[c]), c++;
		put_count(report->written_buffers, &values[c], &nulls[c]), c++;
		put_count((int64) report->bridged_pages, &values[c], &nulls[c]), c++;
		put_count((int64) report->device_operations, &values[c], &nulls[c]), c++;
		put_count(report->unflushed_at_sync, &values[c], &nulls[c]), c++;
		put_count(report->undrained, &values[c], &nulls[c]), c++;
		put_count((int64) report->files_synced, &values[c], &nulls[c]), c++;
		nulls[c] = report->slowest_file[0] == '\0';
		values[c++] = CStringGetTextDatum(report->slowest_file);
		put_ms(report->files_synced > 0 ? report->slowest_us / 1000.0 : -1, &values[c], &nulls[c]),
			c++;
		put_wal_span(&copy->wal[1], &copy->wal[2], &values[c], &nulls[c]), c += 2;
		put_wal_span(&copy->wal[2], &copy->wal[3], &values[c], &nulls[c]), c += 2;
		put_wal_span(&copy->wal[0], &copy->wal[2], &values[c], &nulls[c]), c += 2;
		put_wal_span(&copy->wal[2], &copy->wal[4], &values[c], &nulls[c]), c += 2;
		put_count(report->wal_flushes_known ? (int64) report->wal_flushes : -1, &values[c],
		          &nulls[c]),
			c++;
		put_ms(report->wal_flushes_known ? report->wal_flush_us / 1000.0 : -1, &values[c],
		       &nulls[c]),
			c++;
		Assert(c == lengthof(values));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Forget the reports of checkpoints that are over, and all that was counted */
Datum
pg_calm_reset(PG_FUNCTION_ARGS)
{
	SpinLockAcquire(&checkpoint_reports->lock);
	checkpoint_reports->first_id = checkpoint_reports->last_id + 1;
	if (checkpoint_reports->last_id > 0 &&
	    checkpoint_report_slot(checkpoint_reports->last_id)->report.status == REPORT_RUNNING)
		checkpoint_reports->first_id = checkpoint_reports->last_id;
	SpinLockRelease(&checkpoint_reports->lock);
	checkpoint_files_reset();
	histogram_reset();
	PG_RETURN_VOID();
}
