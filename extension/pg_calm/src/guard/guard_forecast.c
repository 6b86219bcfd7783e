/*-------------------------------------------------------------------------
 *
 * guard_forecast.c
 *	  When the filesystem of pg_wal is full, if all goes on as it does.
 *
 * WAL is kept for whoever is furthest behind, a slot or the archive.  What is kept
 * grows by what is written, less what its keeper has done with; both come in bursts,
 * so that a mean over minutes counts, and that since it fell behind: a keeper that does not come
 * on at all is no less a danger between two loads.  The warning comes when it would be full within
 * hours, and that has been so for a third of the time that there is, or five minutes:
 * a burst is over by then; or at once where writers are slowed down for it.  It is repeated when
 * half of the time that was left is gone.
 *
 * In shadow mode as well: this is what the guard is loaded for before it is let hold
 * anybody.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xlog.h"
#include "base/base.h"
#include "guard.h"
#include "pgtime.h"
#include "utils/timestamp.h"

/* Seconds over which growth is a mean */
#define GROWTH_SECONDS 60.0

/* Seconds before it is full from which on there is a warning */
#define WARNED_SECONDS (4 * 3600.0)

/* For so many seconds that has to be so, and no longer than this part of the time that is left */
#define LASTS_SECONDS 300.0
#define LASTS_SHARE 0.5

static const char *clock_time(TimestampTz time);

/* As people read it; until the next call */
static const char *
clock_time(TimestampTz time)
{
	static char text[32];
	pg_time_t seconds = timestamptz_to_time_t(time);

	pg_strftime(text, sizeof(text), "%Y-%m-%d %H:%M", pg_localtime(&seconds, log_timezone));
	return text;
}

/*
 * Fill in what is to come into the reading, and warn.  kept is how much WAL the keeper, "" if
 * there is none, has there for itself, room what is left for more, both in bytes; another: it is
 * elsewhere than that of the last look; slows: writers are slowed down for it, or would be.
 */
void
guard_forecast(GuardReading *reading, const char *keeper, bool another, uint64 kept, double room,
               bool slows, uint64 now_ms)
{
	static uint64 last_ms = 0;
	static uint64 last_kept = 0;
	static double growth = 0;       /* bytes per second */
	static double grown = 0;        /* seconds of which it is the mean */
	static TimestampTz since = 0;   /* when it fell behind; 0: it is not */
	static uint64 behind_ms = 0;    /* likewise, or when another keeper did */
	static uint64 behind_kept = 0;  /* what was kept then */
	static uint64 warned_since = 0; /* when it was first to be full soon; 0: it is not */
	static double warned_at = 0;    /* seconds left at the last warning; 0: none */
	TimestampTz now = GetCurrentTimestamp();
	double elapsed = last_ms != 0 ? (double) (now_ms - last_ms) / 1000 : 0;
	double rate;
	double left;

	if (kept < (uint64) BEHIND_SEGMENTS * wal_segment_size)
		since = 0;
	else if (since == 0)
		since = now;
	if (since == 0 || another)
	{
		growth = grown = 0;
		behind_ms = now_ms;
		behind_kept = kept;
	}
	else if (elapsed > 0)
	{
		/* all that was seen counts alike until it is as long as that: a full disk can be nearer */
		grown += elapsed;
		growth += (((double) kept - (double) last_kept) / elapsed - growth) *
		          Max(1 - exp(-elapsed / GROWTH_SECONDS), elapsed / grown);
	}
	last_ms = now_ms;
	last_kept = kept;
	rate = growth;
	if (growth >= 0 && now_ms > behind_ms)
		rate = Max(rate,
		           ((double) kept - (double) behind_kept) * 1000 / (double) (now_ms - behind_ms));
	left = rate > 0 ? Max(room, 0) / rate : INFINITY;
	if (left >= WARNED_SECONDS)
	{
		if (warned_at != 0)
			ereport(LOG, (errmsg("pg_calm_guard: the filesystem of pg_wal is no longer about to be "
			                     "full")));
		warned_since = 0;
		warned_at = 0;
		return;
	}

	if (warned_since == 0)
		warned_since = now_ms;
	if (!slows && (double) (now_ms - warned_since) / 1000 < Min(LASTS_SECONDS, left * LASTS_SHARE))
		return;
	reading->behind_since = since;
	reading->full_at = TimestampTzPlusMilliseconds(now, (int64) (left * 1000));
	if (warned_at != 0 && left > warned_at / 2)
		return;
	warned_at = Max(left, 1);
	{
		char *full = pstrdup(clock_time(reading->full_at));

		ereport(
			WARNING,
			(errmsg("pg_calm_guard: at this rate the filesystem of pg_wal is full at %s", full),
		     errdetail(
				 "\"%s\" has been behind since %s, and keeps " UINT64_FORMAT
				 " MB of WAL.  %.0f MB are left for more, of which %.0f kB are used per second.",
				 keeper, clock_time(since), kept / (1024 * 1024), Max(room, 0) / (1024 * 1024),
				 rate / 1024),
		     errhint("See to \"%s\", or free space.  Full, the server ends with a PANIC.%s", keeper,
		             guard_mode == GUARD_MODE_ON ?
		                 "" :
		                 "  With pg_calm_guard.mode = on writers would be slowed down before.")));
		pfree(full);
	}
}
