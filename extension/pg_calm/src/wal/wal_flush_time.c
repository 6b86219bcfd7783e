/*-------------------------------------------------------------------------
 *
 * wal_flush_time.c
 *	  How long flushes of WAL take.
 *
 * They are what commits wait for, and so what the circuit breaker (worker/breaker.c) judges
 * the module by.  Whoever flushes holds WALWriteLock, or is a standby's WAL receiver, or its
 * startup process after it: there is never more than one, so the counters are written
 * without an atomic addition.  Flushes by open_sync and open_datasync, of which each
 * write is one, are not seen.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/base.h"
#include "shared/shared.h"
#include "wal.h"

static uint64 began = 0; /* 0: not timed */

void
wal_flush_begins(void)
{
	began = calm_shared && calm_mode != CALM_MODE_OFF ? monotonic_ns() : 0;
}

void
wal_flush_ended(void)
{
	pg_atomic_uint64 *flushes = &calm_shared->counters.wal_flushes;
	pg_atomic_uint64 *spent_us = &calm_shared->counters.wal_flush_us;

	if (began == 0)
		return;
	pg_atomic_write_u64(spent_us, pg_atomic_read_u64(spent_us) + (monotonic_ns() - began) / 1000);
	pg_atomic_write_u64(flushes, pg_atomic_read_u64(flushes) + 1);
	began = 0;
}
