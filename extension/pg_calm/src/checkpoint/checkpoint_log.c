/*-------------------------------------------------------------------------
 *
 * checkpoint_log.c
 *	  The server's log lines of checkpoints, read; and one of ours behind each.
 *
 * Messages are told by their untranslated format, which LogCheckpointStart and
 * LogCheckpointEnd (access/transam/xlog.c) have, if log_checkpoints is on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "checkpoint_report.h"
#include "checkpoint_stats.h"
#include "miscadmin.h"

static emit_log_hook_type previous_emit_log = NULL;

static void log_report(const CheckpointReport *report);
static void watch_log(ErrorData *edata);

/*
 * One line for the report that has just ended; what is not known is left out.
 * Sync is as the server logs it; what is in it follows.
 */
static void
log_report(const CheckpointReport *report)
{
	struct
	{
		const char *name;
		double ms;
	} phases[] = {
		{"slots", checkpoint_phase_ms(report, STARTED, SLOTS_DONE)},
		{"clog", checkpoint_phase_ms(report, SLOTS_DONE, CLOG_DONE)},
		{"subtrans", checkpoint_phase_ms(report, COMMIT_TS_DONE, SUBTRANS_DONE)},
		{"multixact", checkpoint_phase_ms(report, SUBTRANS_DONE, MULTIXACT_DONE)},
		{"other SLRU", checkpoint_other_slru_ms(report)},
		{"buffer scan", checkpoint_scan_ms(report)},
		{"write", checkpoint_phase_ms(report, SCAN_DONE, WRITE_DONE)},
		{"sync", checkpoint_phase_ms(report, WRITE_DONE, SYNC_DONE)},
		{"drain in sync", checkpoint_drain_ms(report)},
		{"fsync in sync", checkpoint_fsync_ms(report)},
		{"end", checkpoint_phase_ms(report, SYNC_DONE, ENDED)},
	};
	char text[1024];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < lengthof(phases); i++)
	{
		if (phases[i].ms >= 0)
			used += snprintf(text + used, sizeof(text) - used, "%s=%.3f s, ", phases[i].name,
			                 phases[i].ms / 1000);
	}
	if (report->dirty_buffers >= 0)
		used += snprintf(text + used, sizeof(text) - used, "dirty=%lld buffers, ",
		                 (long long) report->dirty_buffers);
	if (report->written_buffers >= 0)
		used += snprintf(text + used, sizeof(text) - used, "written=%lld buffers, ",
		                 (long long) report->written_buffers);
	used += snprintf(
		text + used, sizeof(text) - used, "bridged=%llu pages, device operations=%llu, ",
		(unsigned long long) report->bridged_pages, (unsigned long long) report->device_operations);
	if (report->unflushed_at_sync >= 0)
		used += snprintf(text + used, sizeof(text) - used, "unflushed at sync=%lld pages, ",
		                 (long long) report->unflushed_at_sync);
	used += snprintf(text + used, sizeof(text) - used, "sync files=%llu",
	                 (unsigned long long) report->files_synced);
	if (report->slowest_file[0])
		snprintf(text + used, sizeof(text) - used, ", slowest=%.3f s (%s)",
		         report->slowest_us / 1e6, report->slowest_file);

	ereport(LOG, (errmsg("pg_calm: %s %llu (%s): %s",
	                     report->restartpoint ? "restartpoint" : "checkpoint",
	                     (unsigned long long) report->id, report->reason, text),
	              errhidestmt(true)));
}

/*
 * The server logs a checkpoint's start and end, if log_checkpoints is on:
 * LogCheckpointStart and LogCheckpointEnd.  Messages are told by their
 * untranslated format; the flags are words that are not translated.
 */
static void
watch_log(ErrorData *edata)
{
	if (previous_emit_log)
		previous_emit_log(edata);
	if (MyBackendType != B_CHECKPOINTER || checkpoint_reports == NULL || edata->elevel != LOG ||
	    edata->message_id == NULL || edata->message == NULL)
		return;

	if (strncmp(edata->message_id, "checkpoint starting:", strlen("checkpoint starting:")) == 0 ||
	    strncmp(edata->message_id, "restartpoint starting:", strlen("restartpoint starting:")) == 0)
	{
		const char *flags = edata->message + strlen(edata->message);

		while (flags > edata->message &&
		       ((flags[-1] >= 'a' && flags[-1] <= 'z') || flags[-1] == '-' || flags[-1] == ' '))
			flags--;
		while (*flags == ' ')
			flags++;
		checkpoint_report_begin(edata->message_id[0] == 'r', flags);
	}
	else if (strncmp(edata->message_id, "checkpoint complete:", strlen("checkpoint complete:")) ==
	             0 ||
	         strncmp(edata->message_id,
	                 "restartpoint complete:", strlen("restartpoint complete:")) == 0)
	{
		if (checkpoint_report_observe())
			log_report(checkpoint_report_current());
	}
}

void
checkpoint_stats_watch_log(void)
{
	previous_emit_log = emit_log_hook;
	emit_log_hook = watch_log;
}
