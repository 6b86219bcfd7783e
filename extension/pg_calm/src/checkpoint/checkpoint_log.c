/*-------------------------------------------------------------------------
 *
 * checkpoint_log.c
 *	  The server's log lines of checkpoints, read; and one of ours before each end.
 *
 * Messages are told by their untranslated format, which LogCheckpointStart and
 * LogCheckpointEnd (access/transam/xlog.c) have, if log_checkpoints is on; the flags are words
 * that are not translated.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "checkpoint.h"
#include "miscadmin.h"
#include "shared/shared.h"

static emit_log_hook_type previous_emit_log = NULL;

/* What the server's own line does not tell */
static void
log_report(const CheckpointReport *report)
{
	ereport(LOG, (errmsg("pg_calm: %s %llu (%s): bridged=%llu pages, unflushed at sync=%lld pages, "
	                     "drain=%.3f s, fsync=%.3f s, slowest=%.3f s (%s)",
	                     report->restartpoint ? "restartpoint" : "checkpoint",
	                     (unsigned long long) report->id, report->reason,
	                     (unsigned long long) report->bridged_pages,
	                     (long long) Max(report->unflushed_at_sync, 0), report->drain_us / 1e6,
	                     report->fsync_us / 1e6, report->slowest_us / 1e6,
	                     report->slowest_file[0] ? report->slowest_file : "none"),
	              errhidestmt(true)));
}

static void
watch_log(ErrorData *edata)
{
	const char *id = edata->message_id;
	CheckpointReport report;
	bool restartpoint;

	if (previous_emit_log)
		previous_emit_log(edata);
	if (MyBackendType != B_CHECKPOINTER || checkpoint_reports == NULL || edata->elevel != LOG ||
	    id == NULL || edata->message == NULL)
		return;
	restartpoint = strncmp(id, "restartpoint ", strlen("restartpoint ")) == 0;
	if (!restartpoint && strncmp(id, "checkpoint ", strlen("checkpoint ")) != 0)
		return;
	id = strchr(id, ' ') + 1;
	if (strncmp(id, "starting:", strlen("starting:")) == 0)
	{
		/* the words at the end */
		const char *flags = edata->message + strlen(edata->message);

		while (flags > edata->message &&
		       ((flags[-1] >= 'a' && flags[-1] <= 'z') || flags[-1] == '-' || flags[-1] == ' '))
			flags--;
		checkpoint_stats_begin(restartpoint, flags);
	}
	else if (strncmp(id, "complete:", strlen("complete:")) == 0 &&
	         checkpoint_stats_observe(&report) && calm_mode != CALM_MODE_OFF)
		log_report(&report);
}

void
checkpoint_stats_watch_log(void)
{
	previous_emit_log = emit_log_hook;
	emit_log_hook = watch_log;
}
