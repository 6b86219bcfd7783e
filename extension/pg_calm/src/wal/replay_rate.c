/*-------------------------------------------------------------------------
 *
 * replay_rate.c
 *	  How fast crash recovery has replayed WAL.
 *
 * The time is that from the first record until replay has ended: what comes before, as syncing the
 * data directory, and the checkpoint that follows (stop_estimate.c) are as long whatever there was
 * of WAL.  A standby replays as fast as WAL comes, which tells nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "common/controldata_utils.h"
#include "wal.h"

/* Replay of less says nothing of one that takes long: a look of the worker is 250 ms */
#define LEAST_BYTES (32 << 20)

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

		from = crc_ok ? control->checkPointCopy.redo : InvalidXLogRecPtr;
		seen = from + LEAST_BYTES;
		pfree(control);
	}
	/* none until replay begins (xlogrecovery.c, PerformWalRecovery) */
	replayed = GetXLogReplayRecPtr(NULL);
	if (since_ms == 0 || replayed == InvalidXLogRecPtr)
		since_ms = now_ms;
	if (state == RECOVERY_STATE_ARCHIVE || from == InvalidXLogRecPtr || replayed <= seen ||
	    now_ms <= since_ms)
		return;
	seen = replayed;
	SpinLockAcquire(&calm_shared->lock);
	calm_shared->figures.replay_rate = (double) (replayed - from) * 1000 / (now_ms - since_ms);
	SpinLockRelease(&calm_shared->lock);
}
