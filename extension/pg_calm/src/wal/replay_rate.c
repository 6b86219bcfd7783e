/*-------------------------------------------------------------------------
 *
 * replay_rate.c
 *	  How fast crash recovery has replayed WAL.
 *
 * The time is that until replay has ended.  The checkpoint that follows takes what it has to write,
 * whatever there was of WAL (stop_estimate.c).  A standby replays as fast as WAL comes, which tells
 * nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "common/controldata_utils.h"
#include "wal.h"

void
replay_rate_tick(uint64 now_ms)
{
	static bool over = false;
	static XLogRecPtr from = InvalidXLogRecPtr;
	static uint64 since_ms = 0;
	static XLogRecPtr seen = InvalidXLogRecPtr;
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

		from = seen = crc_ok ? control->checkPointCopy.redo : InvalidXLogRecPtr;
		since_ms = now_ms;
		pfree(control);
	}
	/* none as long as nothing was replayed */
	replayed = GetXLogReplayRecPtr(NULL);
	if (state == RECOVERY_STATE_ARCHIVE || from == InvalidXLogRecPtr || replayed <= seen ||
	    now_ms <= since_ms)
		return;
	seen = replayed;
	SpinLockAcquire(&calm_shared->lock);
	calm_shared->figures.replay_rate = (double) (replayed - from) * 1000 / (now_ms - since_ms);
	SpinLockRelease(&calm_shared->lock);
}
