/*-------------------------------------------------------------------------
 *
 * breaker.c
 *	  Lets go of what the module does where that does harm.
 *
 * The law is in breaker_law.c; here are its inputs, which others count anyway, and who obeys it.
 * While the law tries what a rest would bring, only the worker rests: nobody else shall
 * do for a second what he would not do otherwise.  When it has let go, all that
 * asks calm_flushes() is as without the module.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "worker.h"

static BreakerLaw law;
static char reason[256] = "";

/* When the worker begins: nothing is let go */
void
breaker_begin(void)
{
	memset(&law, 0, sizeof(law));
	reason[0] = '\0';
	flush_policy.bridges = true;
	flush_policy.rests = false;
	pg_atomic_write_u32(&calm_shared->let_go, 0);
}

/*
 * Bytes that there is a reason to write, since any moment: of pages when they are marked or when
 * they are taken, whichever are more just then, of clean pages that are bridged, and of WAL, of
 * which each flush writes a page that is not full.
 */
static uint64
justified_bytes(uint64 wal_flushes)
{
	static uint64 sum = 0;
	static uint64 last_marked = 0;
	static uint64 last_taken = 0;
	static uint64 last_wal = 0;
	CalmCounters *counters = &calm_shared->counters;
	uint64 taken = pg_atomic_read_u64(&counters->flushed_pages) +
	               pg_atomic_read_u64(&counters->fsynced_pages) +
	               pg_atomic_read_u64(&counters->kernel_flushed_pages) +
	               pg_atomic_read_u64(&calm_shared->in_flight_pages);
	uint64 marked = taken + page_map_unflushed(calm_page_map);
	uint64 wal = (RecoveryInProgress() ? GetXLogReplayRecPtr(NULL) : GetXLogWriteRecPtr()) +
	             wal_flushes * XLOG_BLCKSZ;
	uint64 pages = 0;

	/* either can be less than it was: pages that were marked again, or forgotten with their file */
	if (marked > last_marked)
		pages = marked - last_marked;
	if (taken > last_taken)
		pages = Max(pages, taken - last_taken);
	if (last_wal != 0)
		sum += pages * BLCKSZ + (wal > last_wal ? wal - last_wal : 0);
	last_marked = marked;
	last_taken = taken;
	last_wal = wal;
	return sum + pg_atomic_read_u64(&counters->bridged_pages) * BLCKSZ;
}

static void
describe(void)
{
	const char *what = law.level == BREAKER_STOCK ? "nothing is flushed" : "gaps are not bridged";

	if (law.level == BREAKER_ALL)
		reason[0] = '\0';
	else if (law.cause == BREAKER_AMPLIFIED)
		snprintf(
			reason, sizeof(reason),
			"circuit breaker: %s, since the device wrote %.1f times what pages and WAL account "
			"for while they were, and %.1f times while they were not",
			what, law.bad, law.good);
	else
		snprintf(
			reason, sizeof(reason),
			"circuit breaker: %s, since flushes of WAL took %.1f ms while the worker wrote, and "
			"%.1f ms while it rested",
			what, law.bad / 1000, law.good / 1000);
}

static void
say(BreakerLevel before, uint64 now_ms)
{
	int seconds = law.retry_ms > now_ms ? (int) ((law.retry_ms - now_ms) / 1000) : 0;

	if (law.level < before)
		ereport(LOG, (errmsg("pg_calm: circuit breaker: pages are flushed%s again",
		                     law.level == BREAKER_ALL ? " and gaps bridged" : "")));
	else
		ereport(LOG, (errmsg("pg_calm: %s", reason),
		              errdetail("%s It tries again in %d s, and less and less often.",
		                        law.level == BREAKER_STOCK ?
		                            "The server's flush hints are obeyed, as without the module." :
		                            "Pages are flushed.",
		                        seconds),
		              errhint("Compare pg_calm.iops, pg_calm.bandwidth and pg_calm.io_size with "
		                      "what the volume allows.")));
}

/*
 * To be called whenever flusher has been read, a few times a second.  Sets what flush_policy
 * allows, and CalmShared.let_go.  interrupted: somebody waits for the worker.  True if
 * breaker_reason() has changed.
 */
bool
breaker_tick(const KernelFlusher *flusher, bool interrupted, uint64 now_ms)
{
	BreakerLevel before = law.level;
	BreakerInput input = {.now_ms = now_ms, .interrupted = interrupted};
	bool changed;

	if (calm_mode != CALM_MODE_ON || pg_atomic_read_u32(&calm_shared->capped) == 0)
	{
		changed = reason[0] != '\0';
		breaker_begin();
		return changed;
	}
	input.flushes = pg_atomic_read_u64(&calm_shared->counters.wal_flushes);
	input.flush_us = pg_atomic_read_u64(&calm_shared->counters.wal_flush_us);
	input.written = flusher->write_bytes;
	input.justified = justified_bytes(input.flushes);
	input.in_flight_us = flush_policy.in_flight * 1e6;
	input.own = flush_started.bytes;
	input.bridged = pg_atomic_read_u64(&calm_shared->counters.bridged_pages) * BLCKSZ;

	changed = breaker_law_follow(&law, &input);
	if (changed)
	{
		describe();
		pg_atomic_write_u32(&calm_shared->let_go, law.level == BREAKER_STOCK);
		say(before, now_ms);
	}
	flush_policy.bridges = law.allowed < BREAKER_NO_BRIDGING;
	flush_policy.rests = law.allowed == BREAKER_STOCK;
	return changed;
}

/* Why something is let go, or NULL */
const char *
breaker_reason(void)
{
	return reason[0] ? reason : NULL;
}
