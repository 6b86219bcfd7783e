/*-------------------------------------------------------------------------
 *
 * checkpoint_stats.c
 *	  Recording what a checkpoint does, in the checkpointer, for its report; and a log line
 *	  of ours before the server's of each end.
 *
 * The server has no hook for checkpoints.  It has CheckpointStats, which the checkpointer
 * fills in as it goes, and log messages, if log_checkpoints is on: only they tell why it was
 * started, and whether it is to be fast.  What can't be seen is null in the view, never
 * guessed.  Messages are told by their untranslated format, which LogCheckpointStart and
 * LogCheckpointEnd (access/transam/xlog.c) have; the flags are words that are not translated.
 *
 * The checkpointer keeps the report under way in local memory and copies it to shared memory
 * whenever it changes, under a spinlock.  It does so in the replaced calls, that is in critical
 * sections and with locks held: nothing here allocates, waits or raises errors.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "checkpoint.h"
#include "pgstat.h"
#include "storage/proc.h"
#include "utils/backend_status.h"

ReportShared *checkpoint_reports = NULL;

static emit_log_hook_type previous_emit_log = NULL;

/* The checkpointer's: the report under way, if status is REPORT_RUNNING */
static CheckpointReport current = {.status = REPORT_UNKNOWN};

static inline bool
is_checkpointer(void)
{
	return MyBackendType == B_CHECKPOINTER && checkpoint_reports != NULL;
}

/* Show the report under way to others */
static void
publish(void)
{
	CheckpointReport *report = &checkpoint_reports->reports[current.id % CHECKPOINT_HISTORY];
	uint64 bridged = pg_atomic_read_u64(&calm_shared->counters.bridged_pages);

	SpinLockAcquire(&checkpoint_reports->lock);
	*report = current;
	report->bridged_pages = bridged - current.bridged_pages;
	SpinLockRelease(&checkpoint_reports->lock);
}

/* A checkpoint has started; flags are the server's, NULL if it does not log them */
static void
begin_report(bool restartpoint, const char *flags)
{
	const char *reason = CALM_CHECKPOINT_IS_TIMED() ? "time" : "unknown";

	if (flags)
		reason = strstr(flags, "end-of-recovery") ? "end-of-recovery" :
		         strstr(flags, "shutdown")        ? "shutdown" :
		         strstr(flags, "wal")             ? "wal" :
		         strstr(flags, "time")            ? "time" :
		                                            "requested";
	current = (CheckpointReport){.status = REPORT_RUNNING,
	                             .restartpoint = restartpoint,
	                             .started = CheckpointStats.ckpt_start_t,
	                             .unflushed_at_sync = -1};
	strlcpy(current.reason, reason, sizeof(current.reason));
	/* one of which that is not known may be so, and must not wait then */
	current.immediate = strcmp(reason, "unknown") == 0 || strcmp(reason, "shutdown") == 0 ||
	                    strcmp(reason, "end-of-recovery") == 0 ||
	                    (flags && (strstr(flags, "immediate") || strstr(flags, "fast")));
	current.bridged_pages = pg_atomic_read_u64(&calm_shared->counters.bridged_pages);
	pg_atomic_write_u64(&checkpoint_reports->buffers_written, 0);

	SpinLockAcquire(&checkpoint_reports->lock);
	current.id = ++checkpoint_reports->last_id;
	checkpoint_reports->checkpointer_waits_on = my_wait_event_info;
	SpinLockRelease(&checkpoint_reports->lock);
	publish();
}

/*
 * See what the checkpointer has written into CheckpointStats.  True if the end of the checkpoint
 * under way was seen.
 *
 * A checkpoint that the server skips because nothing happened sets the time
 * of its start and nothing else; it has none of the calls that we see, but
 * what the checkpointer does later, such as switching WAL, has.
 */
static bool
observe(void)
{
	if (CheckpointStats.ckpt_start_t != current.started)
	{
		if (CheckpointStats.ckpt_write_t == 0)
			return false;
		begin_report(RecoveryInProgress(), NULL);
	}
	if (current.status != REPORT_RUNNING)
		return false;
	if (current.sync_started != CheckpointStats.ckpt_sync_t ||
	    current.sync_ended != CheckpointStats.ckpt_sync_end_t || CheckpointStats.ckpt_end_t != 0)
	{
		current.sync_started = CheckpointStats.ckpt_sync_t;
		current.sync_ended = CheckpointStats.ckpt_sync_end_t;
		current.ended = CheckpointStats.ckpt_end_t;
		if (current.sync_started != 0)
			current.buffers_written =
				(int64) pg_atomic_read_u64(&checkpoint_reports->buffers_written);
		if (current.ended != 0)
			current.status = REPORT_COMPLETE;
		publish();
	}
	return current.status == REPORT_COMPLETE;
}

/* A data file was written to, which BufferSync does (SyncOneBuffer) */
void
checkpoint_stats_written(ssize_t bytes)
{
	if (!is_checkpointer())
		return;
	(void) observe();
	pg_atomic_fetch_add_u64(&checkpoint_reports->buffers_written, bytes / BLCKSZ);
}

void
checkpoint_stats_fsync_begins(uint32 wait_event)
{
	if (!is_checkpointer())
		return;
	(void) observe();
	/* the first data file is about to be fsynced, or pages before it drained */
	if (wait_event == WAIT_EVENT_DATA_FILE_SYNC && current.status == REPORT_RUNNING &&
	    current.sync_started != 0 && current.unflushed_at_sync < 0 && calm_mode != CALM_MODE_OFF)
	{
		current.unflushed_at_sync = (int64) page_map_unflushed(calm_page_map);
		publish();
	}
}

/* fd was fsynced in the sync phase; its name is relative to the data directory if it is there */
static void
file_synced(int fd, uint64 microseconds)
{
	char path[MAXPGPATH];

	current.files_synced++;
	current.fsync_us += microseconds;
	if (microseconds < current.slowest_us)
		return;
	current.slowest_us = microseconds;
	(void) file_path(fd, path);
	strlcpy(current.slowest_file, page_map_short_path(calm_page_map, path),
	        sizeof(current.slowest_file));
}

void
checkpoint_stats_fsync_ended(int fd, uint32 wait_event, bool ok, uint64 microseconds)
{
	if (!is_checkpointer() || current.status != REPORT_RUNNING || !ok)
		return;
	if ((wait_event == WAIT_EVENT_DATA_FILE_SYNC || wait_event == WAIT_EVENT_SLRU_FLUSH_SYNC) &&
	    current.sync_started != 0 && current.sync_ended == 0)
		file_synced(fd, microseconds);
	/* a restartpoint updates the file while it writes, too */
	else if (wait_event == WAIT_EVENT_CONTROL_FILE_SYNC_UPDATE && current.sync_ended != 0)
		current.durable = true;
	else
		return;
	publish();
}

/* After a checkpoint the checkpointer closes the files that it wrote to */
void
checkpoint_stats_closing(void)
{
	if (is_checkpointer() && current.status == REPORT_RUNNING)
		(void) observe();
}

/*
 * Whether base backups alone wait for the checkpoint, by what their sessions run: a walsender's
 * command, or a single SELECT.  A look without locks; what a session runs is set before it waits.
 * The function that tells it allocates nothing and raises no error.
 */
static bool
only_backups_wait(void)
{
	bool found = false;

	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		const volatile PGPROC *proc = &ProcGlobal->allProcs[i];
		uint32 event = proc->wait_event_info;
		int pid = proc->pid;
		char query[1024];

		if (pid == 0 ||
		    (event != WAIT_EVENT_CHECKPOINT_START && event != WAIT_EVENT_CHECKPOINT_DONE))
			continue;
		if (pgstat_get_crashed_backend_activity(pid, query, sizeof(query)) == NULL ||
		    (strncmp(query, "BASE_BACKUP", strlen("BASE_BACKUP")) != 0 &&
		     (pg_strncasecmp(query, "SELECT", strlen("SELECT")) != 0 || strchr(query, ';') ||
		      strstr(query, "pg_backup_start(") == NULL)))
			return false;
		/* who waits for the start of one waits for the next */
		found |= event == WAIT_EVENT_CHECKPOINT_DONE;
	}
	return found;
}

/* Whether it has to be as fast as possible, or may have to: base backups are in no hurry */
bool
checkpoint_stats_must_be_fast(void)
{
	return current.status != REPORT_RUNNING ||
	       (current.immediate &&
	        (strcmp(current.reason, "requested") != 0 || !only_backups_wait()));
}

void
checkpoint_stats_drained(uint64 microseconds)
{
	if (current.status != REPORT_RUNNING)
		return;
	current.drained = true;
	current.drain_us += microseconds;
	publish();
}

/* What the server's own line does not tell */
static void
log_report(void)
{
	const CheckpointReport *report = &checkpoint_reports->reports[current.id % CHECKPOINT_HISTORY];

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
		begin_report(restartpoint, flags);
	}
	else if (strncmp(id, "complete:", strlen("complete:")) == 0 && observe() &&
	         calm_mode != CALM_MODE_OFF)
		log_report();
}

void
checkpoint_stats_watch_log(void)
{
	previous_emit_log = emit_log_hook;
	emit_log_hook = watch_log;
}
