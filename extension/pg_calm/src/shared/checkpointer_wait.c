/*-------------------------------------------------------------------------
 *
 * checkpointer_wait.c
 *	  What the checkpointer has to see to while we make it wait, inside calls of libc.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "shared.h"
#include "postmaster/bgwriter.h"
#include "replication/syncrep.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "storage/procsignal.h"
#include "storage/shmem.h"
#include "storage/sync.h"
#include "utils/guc.h"

/*
 * The beginning of what backends and checkpointer share
 * (postmaster/checkpointer.c, CheckpointerShmemStruct; the same in 15 to 19),
 * which has no function to ask.  Only read, and only to end a wait early.
 */
typedef struct CheckpointerRequests
{
	pid_t checkpointer_pid;
	slock_t lock;
	int started;
	int done;
	int failed;
	int flags; /* of checkpoints asked for and not begun */
} CheckpointerRequests;

static const volatile CheckpointerRequests *requests = NULL;

/* At start, once PostgreSQL's shared memory exists */
void
checkpointer_wait_shmem_startup(void)
{
	void *volatile shared = NULL;

	PG_TRY();
	{
		bool found;

		shared = ShmemInitStruct("Checkpointer Data", CALM_CHECKPOINTER_SHMEM_SIZE(), &found);
		if (!found)
			shared = NULL;
	}
	PG_CATCH();
	{
		/* of another size than this version is known to have: the server is to start all the same */
		FlushErrorState();
		LWLockReleaseAll();
		LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	}
	PG_END_TRY();
	requests = shared;
}

/*
 * Flags (CHECKPOINT_*) of checkpoints that are asked for and not begun; not of
 * the one under way.  All where that can't be told: it may be one that is in a hurry.
 */
int
checkpointer_requests(void)
{
	return requests ? requests->flags : ~0;
}

/* Take changed settings over; only that, unlike the next */
void
checkpointer_obey_reload(void)
{
	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	SyncRepUpdateSyncStandbysDefined();
	UpdateFullPageWrites();
}

/*
 * Between steps of a wait that is not an idle one: what CheckpointWriteDelay does
 * (postmaster/checkpointer.c).  May close any file of the virtual file layer, and raise errors.
 */
void
checkpointer_serve_requests(void)
{
	if (ProcSignalBarrierPending)
		ProcessProcSignalBarrier();
	checkpointer_obey_reload();
	AbsorbSyncRequests();
}
