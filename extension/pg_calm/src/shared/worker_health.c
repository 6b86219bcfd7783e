/*-------------------------------------------------------------------------
 *
 * worker_health.c
 *	  Whether the background workers can be relied on.
 *
 * pg_calm leaves out the server's flush hints and has checkpoints wait, because the
 * writeback worker does something better meanwhile.
 * A process ID says that it exists.  It may be stopped all the same, or hang in
 * the kernel, where a device does not answer or its queue is full; then nobody
 * flushes.  So it says in each of its steps that it is there, and who is not
 * heard of for five seconds does not count.
 *
 * A worker that works takes a step at least every tenth of a second, or is in
 * a few calls that start up to 4 MiB, for which it waits only if the device's queue
 * is full.  Five seconds are as long as the kernel's flusher waits
 * between its own looks (vm.dirty_writeback_centisecs): what was not hinted at
 * for so long nobody else would have begun to write by age, either.
 *
 * Where no cap of the device is known the module only looks, as in mode shadow:
 * there is no telling what would be better than what stock does.  Where the circuit breaker
 * (worker/breaker.c) has let go, what stock does is better.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "map/map.h"
#include "shared.h"

void
worker_health_begin(void)
{
	worker_health_beat(monotonic_ms());
	pg_atomic_write_u32(&calm_shared->worker_pid, (uint32) MyProcPid);
}

void
worker_health_beat(uint64 now_ms)
{
	pg_atomic_write_u64(&calm_shared->worker_beat_ms, now_ms);
}

void
worker_health_end(void)
{
	pg_atomic_write_u32(&calm_shared->worker_pid, 0);
}

bool
worker_is_alive(void)
{
	return pg_atomic_read_u32(&calm_shared->worker_pid) != 0 &&
	       monotonic_ms() < pg_atomic_read_u64(&calm_shared->worker_beat_ms) + calm_worker_timeout;
}

bool
calm_flushes(void)
{
	return calm_mode == CALM_MODE_ON && calm_shared->device != 0 &&
	       pg_atomic_read_u32(&calm_shared->capped) != 0 &&
	       pg_atomic_read_u32(&calm_shared->let_go) == 0;
}

bool
worker_is_flushing(void)
{
	return calm_flushes() && worker_is_alive();
}
