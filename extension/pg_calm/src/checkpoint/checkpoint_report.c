/*-------------------------------------------------------------------------
 *
 * checkpoint_report.c
 *	  Reports of checkpoints in shared memory, and the figures that follow from one.
 *
 * Reports live as long as the server's shared memory does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "checkpoint_report.h"
#include "checkpoint_stats.h"
#include "storage/shmem.h"

int calm_checkpoint_history = 100;

ReportShared *checkpoint_reports = NULL;

Size
checkpoint_stats_size(void)
{
	return MAXALIGN(add_size(offsetof(ReportShared, slots),
	                         mul_size(calm_checkpoint_history, sizeof(ReportSlot))));
}

/* Called with AddinShmemInitLock held */
void
checkpoint_stats_start(void)
{
	bool found;
	ReportShared *memory =
		ShmemInitStruct("pg_calm checkpoint reports", checkpoint_stats_size(), &found);

	if (!found)
	{
		memset(memory, 0, checkpoint_stats_size());
		memory->first_id = 1;
		pg_atomic_init_u64(&memory->buffers_written, 0);
		SpinLockInit(&memory->lock);
	}
	checkpoint_reports = memory;
}

ReportSlot *
checkpoint_report_slot(uint64 id)
{
	return &checkpoint_reports->slots[id % calm_checkpoint_history];
}

double
checkpoint_phase_ms(const CheckpointReport *report, Boundary from, Boundary to)
{
	if (report->at[from] == 0 || report->at[to] == 0 || report->at[to] < report->at[from])
		return -1;
	return (report->at[to] - report->at[from]) / 1000.0;
}

double
checkpoint_other_slru_ms(const CheckpointReport *report)
{
	double commit_ts = checkpoint_phase_ms(report, CLOG_DONE, COMMIT_TS_DONE);

	if (commit_ts < 0 || report->at[SERIAL_DONE] == 0)
		return commit_ts;
	return commit_ts + Max(checkpoint_phase_ms(report, MULTIXACT_DONE, SERIAL_DONE), 0);
}

double
checkpoint_scan_ms(const CheckpointReport *report)
{
	return checkpoint_phase_ms(report, report->at[SERIAL_DONE] != 0 ? SERIAL_DONE : MULTIXACT_DONE,
	                           SCAN_DONE);
}

double
checkpoint_drain_ms(const CheckpointReport *report)
{
	return report->drained ? report->drain_us / 1000.0 : -1;
}

double
checkpoint_fsync_ms(const CheckpointReport *report)
{
	return report->at[WRITE_DONE] != 0 ? report->fsync_us / 1000.0 : -1;
}
