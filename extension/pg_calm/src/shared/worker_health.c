/*-------------------------------------------------------------------------
 *
 * worker_health.c
 *	  Background workers: how they begin, and whether they can be relied on.
 *
 * pg_calm leaves out the server's flush hints and has checkpoints wait, because the writeback
 * worker does something better meanwhile.  It may be stopped, or hang in the kernel, where a
 * device does not answer or its queue is full; then nobody flushes.  So it says in each of its
 * steps that it is there, and who is not heard of for two seconds does not count.
 *
 * One that rests takes a step each second, one that works ten, unless it waits in the device's
 * queue.  No longer: a checkpoint that waited in vain is late, and then writes without a pause.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shared.h"
#include "storage/ipc.h"
#include "utils/guc.h"

/* For the postmaster: start a process of ours, and start it again if it ends */
void
background_register(const char *name, const char *function, int flags, BgWorkerStartTime start)
{
	BackgroundWorker worker = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS | flags, .bgw_start_time = start, .bgw_restart_time = 5};

	strlcpy(worker.bgw_library_name, "pg_calm", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, function, sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, name, sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, name, sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

void
background_begin(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	(void) signal(SIGINT, SIG_IGN); /* there is no query to cancel */
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
}

/* What each turn of such a process begins with; true if the settings may have changed */
bool
background_turn(void)
{
	CHECK_FOR_INTERRUPTS();
	if (ShutdownRequestPending)
		proc_exit(1); /* 1: start us again, unless the server is going down */
	if (!ConfigReloadPending)
		return false;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	return true;
}

/* What the worker has found last, all of the same moment */
CalmFigures
calm_figures(void)
{
	CalmFigures figures;

	SpinLockAcquire(&calm_shared->lock);
	figures = calm_shared->figures;
	SpinLockRelease(&calm_shared->lock);
	return figures;
}

/* Whether the writeback worker exists and has been heard of lately */
bool
worker_is_alive(void)
{
	return pg_atomic_read_u32(&calm_shared->worker_pid) != 0 &&
	       monotonic_ms() < pg_atomic_read_u64(&calm_shared->worker_beat_ms) + calm_worker_timeout;
}

/*
 * Whether what is written is flushed, as opposed to watched.  Without a known cap there is no
 * telling what would be better than stock; where the circuit breaker (worker/breaker.c) has let
 * go, stock is better.  Without fsync stock flushes nothing.
 */
bool
calm_flushes(void)
{
	return calm_mode == CALM_MODE_ON && enableFsync && calm_shared->device != 0 &&
	       pg_atomic_read_u32(&calm_shared->capped) != 0 &&
	       pg_atomic_read_u32(&calm_shared->let_go) == 0;
}

/* Whether the worker does it.  Whoever leaves out what stock does, or waits, has to ask. */
bool
worker_is_flushing(void)
{
	return calm_flushes() && worker_is_alive();
}
