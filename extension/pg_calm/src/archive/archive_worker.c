/*-------------------------------------------------------------------------
 *
 * archive_worker.c
 *	  Background workers that copy WAL files ahead of the archiver.
 *
 * They have no database connection, and sleep until the archiver plans something (archive_jobs.c).
 * The archiver copies too, so there are pg_calm_archive.workers - 1 of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "archive.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"

PGDLLEXPORT void pg_calm_archive_worker_main(Datum argument);

void
archive_worker_register(void)
{
	if (!XLogArchivingActive() || (!ARCHIVE_IS_OURS() && calm_archive_directory[0] == '\0'))
		return;
	for (int i = 0; i < calm_archive_workers - 1; i++)
	{
		BackgroundWorker worker = {.bgw_flags = BGWORKER_SHMEM_ACCESS,
		                           .bgw_start_time = BgWorkerStart_PostmasterStart,
		                           .bgw_restart_time = 10,
		                           .bgw_main_arg = Int32GetDatum(i)};

		strlcpy(worker.bgw_library_name, "pg_calm_archive", sizeof(worker.bgw_library_name));
		strlcpy(worker.bgw_function_name, "pg_calm_archive_worker_main",
		        sizeof(worker.bgw_function_name));
		snprintf(worker.bgw_name, sizeof(worker.bgw_name), "pg_calm archive worker %d", i + 1);
		strlcpy(worker.bgw_type, "pg_calm archive worker", sizeof(worker.bgw_type));
		RegisterBackgroundWorker(&worker);
	}
}

static void
worker_exit(int code, Datum worker)
{
	archive_jobs_worker_ends(DatumGetInt32(worker));
}

void
pg_calm_archive_worker_main(Datum argument)
{
	int worker = DatumGetInt32(argument);
	uint32 wait_event = CALM_WAIT_EVENT("PgCalmArchive");

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	before_shmem_exit(worker_exit, Int32GetDatum(worker));
	archive_jobs_worker_starts(worker, MyLatch);

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (ShutdownRequestPending)
			proc_exit(1); /* 1: start us again, unless the server is going down */
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (archive_jobs_copy_one(worker))
			continue;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, -1, wait_event);
		ResetLatch(MyLatch);
	}
}
