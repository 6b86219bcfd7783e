/*-------------------------------------------------------------------------
 *
 * cleaner.c
 *	  Writes dirty shared buffers of regions that are about to be flushed.
 *
 * What flushing a region costs depends on its density, and most of its dirty pages are still in
 * shared buffers when its turn comes.  Written along they cost the device next to nothing, and
 * when the clock hand comes to them they are clean: so a backend that needs a buffer writes none,
 * and no page gets dirty in a region that was just flushed.
 *
 * The writeback worker chooses regions and asks for them a few at a time; this process writes
 * what is dirty of each (buffer_cleaning.c), and the worker flushes it right after.  Writing
 * buffers takes what the worker, which begins with the postmaster, does not have: a place in the
 * signalling of process barriers, so that files of dropped databases are closed, a resource owner,
 * and a consistent database.
 *
 * Where there is no cleaner, as in crash recovery, or it does not answer in time, regions are
 * flushed as they are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog_internal.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinval.h"
#include "storage/smgr.h"
#include "utils/resowner.h"
#include "wal/wal.h"
#include "writeback.h"

/* CleanerRegion.state */
enum
{
	REGION_FREE,    /* as in memory of zeros */
	REGION_ASKED,   /* the cleaner's turn */
	REGION_CLEANED, /* the worker's */
};

/* Between looks while nobody wakes us, and after which files are closed */
#define IDLE_MS 1000

/*
 * Between looks while pages wait to be flushed, for WAL comes as well then; and after which a
 * region is flushed as it is
 */
#define WAITING_MS 100

PGDLLEXPORT void pg_calm_cleaner_main(Datum argument);

static bool
is_alive(void)
{
	CleanerShared *shared = &calm_shared->cleaner;

	return calm_clean_buffers != 0 && pg_atomic_read_u32(&shared->pid) != 0 &&
	       monotonic_ms() < pg_atomic_read_u64(&shared->beat_ms) + calm_worker_timeout;
}

/* A region that nobody has asked for, or NULL */
static CleanerRegion *
free_region(void)
{
	for (int i = 0; i < CLEANER_REGIONS; i++)
	{
		if (pg_atomic_read_u32(&calm_shared->cleaner.region[i].state) == REGION_FREE)
			return &calm_shared->cleaner.region[i];
	}
	return NULL;
}

/* For the writeback worker: whether another region may be asked for */
bool
cleaner_is_free(void)
{
	return is_alive() && free_region() != NULL;
}

/* ... and whether there is one that has not been fetched */
bool
cleaner_is_asked(void)
{
	for (int i = 0; i < CLEANER_REGIONS; i++)
	{
		if (pg_atomic_read_u32(&calm_shared->cleaner.region[i].state) != REGION_FREE)
			return true;
	}
	return false;
}

/*
 * Ask for a region to be cleaned, unless it has been asked for.  False if that is not to be had
 * now, for there is no cleaner or too much is asked for.  Whoever asks has to fetch it.
 */
bool
cleaner_ask(uint32 file, uint32 incarnation, uint32 number)
{
	CleanerShared *shared = &calm_shared->cleaner;
	CleanerRegion *region;
	PGPROC *process;

	for (int i = 0; i < CLEANER_REGIONS; i++)
	{
		region = &shared->region[i];
		if (pg_atomic_read_u32(&region->state) != REGION_FREE && region->file == file &&
		    region->number == number)
			return true;
	}
	region = is_alive() ? free_region() : NULL;
	if (region == NULL)
		return false;
	region->file = file;
	region->incarnation = incarnation;
	region->number = number;
	region->since_ms = monotonic_ms();
	pg_write_barrier();
	pg_atomic_write_u32(&region->state, REGION_ASKED);
	process = BackendPidGetProc((int) pg_atomic_read_u32(&shared->pid));
	if (process)
		SetLatch(&process->procLatch);
	return true;
}

/*
 * A region that is clean, or has waited long enough; false if there is none.  Of the latter
 * the cleaner may still write buffers; that costs a few pages marked anew.
 */
bool
cleaner_fetch(uint32 *file, uint32 *incarnation, uint32 *number)
{
	CleanerRegion *oldest = NULL;

	for (int i = 0; i < CLEANER_REGIONS; i++)
	{
		CleanerRegion *region = &calm_shared->cleaner.region[i];
		uint32 state = pg_atomic_read_u32(&region->state);

		if (state == REGION_FREE ||
		    (state == REGION_ASKED && monotonic_ms() < region->since_ms + WAITING_MS))
			continue;
		if (oldest == NULL || region->since_ms < oldest->since_ms)
			oldest = region;
	}
	if (oldest == NULL)
		return false;
	pg_read_barrier();
	*file = oldest->file;
	*incarnation = oldest->incarnation;
	*number = oldest->number;
	pg_atomic_write_u32(&oldest->state, REGION_FREE);
	return true;
}

/* When the worker begins: nobody will fetch what was asked for before */
void
cleaner_forget(void)
{
	for (int i = 0; i < CLEANER_REGIONS; i++)
		pg_atomic_write_u32(&calm_shared->cleaner.region[i].state, REGION_FREE);
}

/*
 * Which blocks a file in the page map holds; false if that can't be told.  A file's name can become
 * another's only after a checkpoint, or with a barrier (sync.c, SyncPostCheckpoint;
 * dbcommands.c); whatever is written is a buffer of the relation that is named.
 */
static bool
identify(uint32 index, uint32 incarnation, RelationFile *relation)
{
	PageMapFile *file = page_map_file(calm_page_map, index);
	char path[PAGE_MAP_FULL_PATH];
	struct stat st;

	page_map_path(calm_page_map, index, path);
	return stat(path, &st) == 0 && st.st_dev == file->device && st.st_ino == file->inode &&
	       pg_atomic_read_u32(&file->incarnation) == incarnation &&
	       relation_file_identify(path, &st, relation);
}

/* Write what is dirty of the regions that were asked for; whether there were any */
static bool
serve_requests(void)
{
	bool any = false;

	for (int i = 0; i < CLEANER_REGIONS; i++)
	{
		CleanerRegion *region = &calm_shared->cleaner.region[i];
		RelationFile relation;
		uint32 asked = REGION_ASKED;

		if (pg_atomic_read_u32(&region->state) != REGION_ASKED)
			continue;
		pg_read_barrier();
		if (identify(region->file, region->incarnation, &relation))
			pg_atomic_fetch_add_u64(&calm_shared->counters.cleaned_buffers,
			                        buffer_cleaning_write(&relation,
			                                              region->number * PAGE_MAP_REGION_BLOCKS,
			                                              PAGE_MAP_REGION_BLOCKS));
		/*
		 * Unless it has been fetched meanwhile.  If the worker has already asked
		 * for another one in its place, that is flushed as it is.
		 */
		(void) pg_atomic_compare_exchange_u32(&region->state, &asked, REGION_CLEANED);
		any = true;
	}
	return any;
}

/* While a WAL segment is filled (wal_ahead.c) */
static void
serve(void)
{
	uint32 event = *my_wait_event_info;

	pg_atomic_write_u64(&calm_shared->cleaner.beat_ms, monotonic_ms());
	CHECK_FOR_INTERRUPTS();
	(void) serve_requests();
	(void) targets_tick(monotonic_ms());
	pgstat_report_wait_start(event);
}

static void
cleaner_exit(int code, Datum argument)
{
	char path[MAXPGPATH];

	pg_atomic_write_u32(&calm_shared->cleaner.pid, 0);
	/* the segment that it was filling, if a write of data failed meanwhile (wal_ahead.c) */
	snprintf(path, MAXPGPATH, XLOGDIR "/xlogtemp.%d", (int) MyProcPid);
	(void) unlink(path);
#if PG_VERSION_NUM < 160000
	AbortBufferIO(); /* of a write that failed: before the pin goes with the resource owner */
#endif
}

void
pg_calm_cleaner_main(Datum argument)
{
	CleanerShared *shared = &calm_shared->cleaner;
	uint32 wait_event = CALM_WAIT_EVENT("PgCalmCleaner");
	uint64 smgr_closed_ms = monotonic_ms();

	background_begin();
	/* to no database: for process barriers and invalidations */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	CreateAuxProcessResourceOwner();
	before_shmem_exit(cleaner_exit, (Datum) 0);
	pg_atomic_write_u64(&shared->beat_ms, monotonic_ms());
	pg_atomic_write_u32(&shared->pid, (uint32) MyProcPid);

	for (;;)
	{
		pg_atomic_write_u64(&shared->beat_ms, monotonic_ms());
		(void) background_turn();
		/* others must not wait for us to hear of their invalidations */
		if (catchupInterruptPending)
		{
			ProcessCatchupInterrupt();
			CurrentResourceOwner = AuxProcessResourceOwner;
		}
		/* as the background writer: or files of dropped relations would be kept open */
		if (monotonic_ms() >= smgr_closed_ms + IDLE_MS)
		{
			CALM_CLOSE_RELATIONS();
			/* no transaction does it here: its writes would be missing in pg_stat_io (16+) */
			(void) pgstat_report_stat(true);
			smgr_closed_ms = monotonic_ms();
		}

		wal_ahead_tick(monotonic_ms(), serve);
		if (serve_requests() || targets_tick(monotonic_ms()))
			continue;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
		                 calm_flushes() && page_map_unflushed(calm_page_map) > 0 ? WAITING_MS :
		                                                                           IDLE_MS,
		                 wait_event);
		ResetLatch(MyLatch);
	}
}
