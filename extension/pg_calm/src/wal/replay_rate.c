/*-------------------------------------------------------------------------
 *
 * replay_rate.c
 *	  How fast crash recovery has replayed WAL.
 *
 * What counts is how long the server was away: so the time is that until it takes writes, the
 * checkpoint at the end of recovery included.  A standby replays as fast as WAL comes, which tells
 * nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "wal.h"
#include "shared/shared.h"

void
replay_rate_tick(uint64 now_ms)
{
	static bool over = false;
	static XLogRecPtr from = InvalidXLogRecPtr;
	static uint64 since_ms = 0;
	RecoveryState state;
	XLogRecPtr replayed;

	if (over)
		return;
	state = GetRecoveryState();
	over = state != RECOVERY_STATE_CRASH;
	if (from == InvalidXLogRecPtr && !over)
	{
		/* the worker begins with the postmaster, long before a checkpoint moves it */
		bool crc_ok;
		ControlFileData *control = get_controlfile(DataDir, &crc_ok);

		from = crc_ok ? control->checkPointCopy.redo : InvalidXLogRecPtr;
		since_ms = now_ms;
		pfree(control);
	}
	/* none as long as nothing was replayed */
	replayed = GetXLogReplayRecPtr(NULL);
	if (state == RECOVERY_STATE_ARCHIVE || from == InvalidXLogRecPtr || replayed <= from ||
	    now_ms <= since_ms)
		return;
	SpinLockAcquire(&calm_shared->lock);
	calm_shared->replay_rate = (double) (replayed - from) * 1000 / (now_ms - since_ms);
	SpinLockRelease(&calm_shared->lock);
}
