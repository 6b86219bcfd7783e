/*-------------------------------------------------------------------------
 *
 * archive_jobs.c
 *	  Files that are being archived, shared by the archiver and its workers.
 *
 * The archiver is asked for one file at a time, and plans that one and some
 * that come after it (archive_ready_queue.c).  It and the workers take jobs
 * in that order.  What is acknowledged, and when, is the archiver's alone.
 *
 * Every job has the target that was set when it was planned.  If the settings
 * change, jobs of the old target are dropped; one that is being copied is
 * marked as stale and dropped when it is over, whatever came of it.
 *
 * A worker that exits hands its job back; so does the next archiver for one that exited.  A job of
 * a worker that is not heard of for WORKER_SILENT_MS and more is planned anew when the archiver is
 * asked for it.  No worker has to be there: the archiver copies whatever nobody has taken.
 *
 * Bandwidth is a bucket of tokens for all processes together, kept as the moment when what was
 * handed out so far is paid for.  Who has written waits until that moment, after having moved it on
 * by its own bytes.  What was not used is lost after a tenth of a second.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "archive.h"
#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "postmaster/interrupt.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/pmsignal.h"
#include "storage/procsignal.h"
#include "storage/shmem.h"
#include "utils/guc.h"

/*
 * A worker says that it is there between pieces of a file; one that has not for so long counts as
 * stuck.  The fsync of a whole file is such a piece, and over a network takes its time: that of a
 * MB may take a second more.
 */
#define WORKER_SILENT_MS 30000

/*
 * What became durable or failed so long ago is looked at again when it is asked for: the archive's
 * disk may be another one by now.  Files that share an fsync are mostly asked for sooner.
 */
#define KNOWN_MS 10000

#define BURST_NS (UINT64CONST(100) * 1000 * 1000)
#define NAP_US (20 * 1000)

typedef struct ArchiveJob
{
	ArchiveJobState state;
	bool stale; /* nobody wants it any more; being copied */
	int owner;
	int position;   /* in the plan; the lowest is taken first */
	uint64 beat_ms; /* when its owner was heard of last; only that sets it, while it copies */
	ArchiveFileName name;
	ArchiveTarget target;
	ArchiveCopyResult result;
} ArchiveJob;

typedef struct ArchiveJobsShared
{
	pg_atomic_uint64 paid_until; /* in nanoseconds of monotonic_ns */
	LWLock *lock;                /* protects all that follows */
	Latch *archiver;
	Latch *workers[ARCHIVE_WORKERS_MAX];
	ArchiveJob jobs[ARCHIVE_JOBS];
} ArchiveJobsShared;

int calm_archive_bandwidth = 0;

static ArchiveJobsShared *shared = NULL;

/* The job that this process copies */
static ArchiveJob *own_job = NULL;

/* In the archiver: jobs that the fsync of the directory under way covers */
static bool sync_covers[ARCHIVE_JOBS];

Size
archive_jobs_size(void)
{
	return MAXALIGN(sizeof(ArchiveJobsShared));
}

void
archive_jobs_start(void)
{
	bool found;
	ArchiveJobsShared *place = ShmemInitStruct("pg_calm archive jobs", archive_jobs_size(), &found);

	if (!found)
	{
		memset(place, 0, sizeof(*place));
		pg_atomic_init_u64(&place->paid_until, 0);
		place->lock = &GetNamedLWLockTranche("pg_calm archive jobs")->lock;
	}
	shared = place;
}

/* The job of a file, or NULL; the lock is held */
static ArchiveJob *
find_job(const char *name)
{
	for (int i = 0; i < ARCHIVE_JOBS; i++)
	{
		ArchiveJob *job = &shared->jobs[i];

		if (job->state != ARCHIVE_JOB_FREE && !job->stale && strcmp(job->name, name) == 0)
			return job;
	}
	return NULL;
}

static bool
same_target(const ArchiveTarget *a, const ArchiveTarget *b)
{
	return a->compression == b->compression && a->level == b->level &&
	       strcmp(a->directory, b->directory) == 0;
}

/*
 * A new archiver begins: nothing is known of what an earlier one planned.
 * Workers go on with what they copy.
 */
void
archive_jobs_forget(void)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->archiver = MyLatch;
	for (int i = 0; i < ARCHIVE_JOBS; i++)
	{
		ArchiveJob *job = &shared->jobs[i];

		if (job->state != ARCHIVE_JOB_COPYING || job->owner == ARCHIVE_OWNER_ARCHIVER)
			job->state = ARCHIVE_JOB_FREE;
	}
	LWLockRelease(shared->lock);
}

/* Plan files, in the order in which they will be asked for, and drop what is not among them */
void
archive_jobs_plan(const ArchiveFileName *names, int count, const ArchiveTarget *target)
{
	int queued = 0;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ARCHIVE_JOBS; i++)
	{
		ArchiveJob *job = &shared->jobs[i];
		int position = 0;

		if (job->state == ARCHIVE_JOB_FREE || job->stale)
			continue;
		while (position < count && strcmp(job->name, names[position]) != 0)
			position++;
		job->position = position;
		if (position < count && same_target(&job->target, target) &&
		    (position > 0 || job->state <= ARCHIVE_JOB_RENAMED ||
		     monotonic_ms() < job->beat_ms + KNOWN_MS))
			continue;
		if (job->state == ARCHIVE_JOB_COPYING)
			job->stale = true;
		else
			job->state = ARCHIVE_JOB_FREE;
	}
	for (int position = 0; position < count; position++)
	{
		if (find_job(names[position]) != NULL)
			continue;
		for (int i = 0; i < ARCHIVE_JOBS; i++)
		{
			ArchiveJob *job = &shared->jobs[i];

			if (job->state != ARCHIVE_JOB_FREE)
				continue;
			job->state = ARCHIVE_JOB_QUEUED;
			job->stale = false;
			job->position = position;
			strlcpy(job->name, names[position], sizeof(job->name));
			job->target = *target;
			queued++;
			break;
		}
	}
	for (int i = 0; i < ARCHIVE_WORKERS_MAX && queued > 0; i++)
	{
		if (shared->workers[i] != NULL)
			SetLatch(shared->workers[i]);
	}
	LWLockRelease(shared->lock);
}

/* ARCHIVE_JOB_FREE if there is none for the file */
ArchiveJobState
archive_jobs_state(const char *name)
{
	ArchiveJob *job;
	ArchiveJobState state;

	LWLockAcquire(shared->lock, LW_SHARED);
	job = find_job(name);
	state = job ? job->state : ARCHIVE_JOB_FREE;
	LWLockRelease(shared->lock);
	return state;
}

/* Try a failed one again */
void
archive_jobs_requeue(const char *name)
{
	ArchiveJob *job;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	job = find_job(name);
	if (job && job->state == ARCHIVE_JOB_FAILED)
		job->state = ARCHIVE_JOB_QUEUED;
	LWLockRelease(shared->lock);
}

/* Take the result of a job that is durable or failed, and drop it */
void
archive_jobs_finish(const char *name, ArchiveCopyResult *result)
{
	ArchiveJob *job;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	job = find_job(name);
	if (job)
	{
		*result = job->result;
		job->state = ARCHIVE_JOB_FREE;
	}
	LWLockRelease(shared->lock);
}

/* Jobs in a state that somebody wants */
int
archive_jobs_count(ArchiveJobState state)
{
	int count = 0;

	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < ARCHIVE_JOBS; i++)
		count += shared->jobs[i].state == state && !shared->jobs[i].stale;
	LWLockRelease(shared->lock);
	return count;
}

/*
 * Do without a worker that copies a file and is not heard of any more: true if the file
 * has to be planned anew.  What the worker still does to it is no harm: it is given its
 * name only if nobody has that, and only if it was WAL to the end (archive_copy.c).
 */
bool
archive_jobs_abandon(const char *name)
{
	ArchiveJob *job;
	bool abandoned = false;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	job = find_job(name);
	if (job && job->state == ARCHIVE_JOB_COPYING && job->owner != ARCHIVE_OWNER_ARCHIVER &&
	    monotonic_ms() > job->beat_ms + WORKER_SILENT_MS + wal_segment_size / 1024)
		abandoned = job->stale = true;
	LWLockRelease(shared->lock);
	return abandoned;
}

/*
 * The directory is about to be fsynced: note which jobs that covers, and return how many.  A file
 * that is renamed from now on waits for the next time.  One that went to another directory under
 * the same path has failed.  directory is NULL if it can't be opened.
 */
int
archive_jobs_sync_begins(const struct stat *directory)
{
	int count = 0;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ARCHIVE_JOBS; i++)
	{
		ArchiveJob *job = &shared->jobs[i];

		sync_covers[i] = job->state == ARCHIVE_JOB_RENAMED;
		if (sync_covers[i] && directory != NULL &&
		    (job->result.directory_device != directory->st_dev ||
		     job->result.directory_inode != directory->st_ino))
		{
			sync_covers[i] = false;
			job->state = ARCHIVE_JOB_FAILED;
			snprintf(job->result.error, sizeof(job->result.error),
			         "archive directory \"%s\" has become another one", job->target.directory);
		}
		count += sync_covers[i];
	}
	LWLockRelease(shared->lock);
	return count;
}

/* It was; error is "" or why it could not be */
void
archive_jobs_sync_ended(const char *error)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ARCHIVE_JOBS; i++)
	{
		ArchiveJob *job = &shared->jobs[i];

		if (!sync_covers[i])
			continue;
		job->state = error[0] ? ARCHIVE_JOB_FAILED : ARCHIVE_JOB_DURABLE;
		strlcpy(job->result.error, error, sizeof(job->result.error));
		job->beat_ms = monotonic_ms();
	}
	LWLockRelease(shared->lock);
}

/* What a copy has to end for.  Long ones must not hold up DROP DATABASE (pgarch.c) */
bool
archive_jobs_stopping(void)
{
	if (ProcSignalBarrierPending)
		ProcessProcSignalBarrier();
	return ShutdownRequestPending || !PostmasterIsAlive();
}

/*
 * Whether the last WAL is written, and the stop waits for the archive alone: whoever has asked for
 * it has less patience than a limit may take, and no reload is passed on any more (postmaster.c).
 */
static bool
server_is_down(void)
{
	DBState state = DB_IN_PRODUCTION;
	int fd = open(XLOG_CONTROL_FILE, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
	{
		(void) !pread(fd, &state, sizeof(state), offsetof(ControlFileData, state));
		(void) close(fd);
	}
	return state == DB_SHUTDOWNED || state == DB_SHUTDOWNED_IN_RECOVERY;
}

/* Wait until so many bytes more may be written; false if the copy is to end */
static bool
copy_may_go_on(size_t bytes)
{
	bool archiver = own_job->owner == ARCHIVE_OWNER_ARCHIVER;
	uint64 from = 0;
	uint64 now;

	/* what the archiver writes before it reads its settings is not the workers' to wait for */
	if (bytes > 0 && calm_archive_bandwidth > 0 && !(archiver && ConfigReloadPending))
	{
		uint64 until = pg_atomic_read_u64(&shared->paid_until);
		double byte = 1e9 / ((double) calm_archive_bandwidth * 1024);
		uint64 most = (uint64) ((double) Max(bytes, ARCHIVE_PIECE) * byte * calm_archive_workers);
		uint64 cost = (uint64) ((double) bytes * byte);

		do
		{
			now = monotonic_ns();
			/* each process owes a piece at most; more is of a limit that was lower */
			from = Min(until, now + most);
			from = Max(from, now > BURST_NS ? now - BURST_NS : 0);
		} while (!pg_atomic_compare_exchange_u64(&shared->paid_until, &until, from + cost));
	}
	for (;;)
	{
		own_job->beat_ms = monotonic_ms();
		if (archive_jobs_stopping())
			return false;
		/* waits by a limit that was too low end here; the archiver's own is its loop's (pgarch.c) */
		if (ConfigReloadPending)
		{
			if (archiver)
				return true;
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			return true;
		}
		now = monotonic_ns();
		if (now >= from || (archiver && server_is_down()))
			return true;
		pg_usleep((long) Min((from - now) / 1000 + 1, NAP_US));
	}
}

/* Take the first job that nobody has, and do it; false if there was none */
bool
archive_jobs_copy_one(int owner)
{
	ArchiveJob *job = NULL;
	ArchiveFileName name;
	static ArchiveTarget target;
	static ArchiveCopyResult result;
	bool ok;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < ARCHIVE_JOBS; i++)
	{
		ArchiveJob *other = &shared->jobs[i];

		if (other->state == ARCHIVE_JOB_QUEUED && (job == NULL || other->position < job->position))
			job = other;
	}
	if (job != NULL)
	{
		job->state = ARCHIVE_JOB_COPYING;
		job->owner = owner;
		job->beat_ms = monotonic_ms();
		own_job = job;
		strlcpy(name, job->name, sizeof(name));
		target = job->target;
	}
	LWLockRelease(shared->lock);
	if (job == NULL)
		return false;

	ok = archive_copy(name, &target, copy_may_go_on, &result);
	archive_stats_copied(&result);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	job->result = result;
	if (job->stale)
		job->state = ARCHIVE_JOB_FREE;
	else if (!ok && owner != ARCHIVE_OWNER_ARCHIVER && ShutdownRequestPending)
		job->state = ARCHIVE_JOB_QUEUED; /* for the archiver, which is the last to go */
	else
		job->state = ok ? ARCHIVE_JOB_RENAMED : ARCHIVE_JOB_FAILED;
	job->stale = false;
	if (owner != ARCHIVE_OWNER_ARCHIVER && shared->archiver != NULL)
		SetLatch(shared->archiver);
	LWLockRelease(shared->lock);
	return true;
}

/* A worker is there, and wants to be woken when there is something to copy */
void
archive_jobs_worker_starts(int worker, Latch *latch)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->workers[worker] = latch;
	LWLockRelease(shared->lock);
}

/* It exits, maybe in the middle of a copy */
void
archive_jobs_worker_ends(int worker)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->workers[worker] = NULL;
	for (int i = 0; i < ARCHIVE_JOBS; i++)
	{
		ArchiveJob *job = &shared->jobs[i];

		if (job->state == ARCHIVE_JOB_COPYING && job->owner == worker)
		{
			job->state = job->stale ? ARCHIVE_JOB_FREE : ARCHIVE_JOB_QUEUED;
			job->stale = false;
		}
	}
	if (shared->archiver != NULL)
		SetLatch(shared->archiver);
	LWLockRelease(shared->lock);
}

/* How many are there */
int
archive_jobs_workers(void)
{
	int count = 0;

	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < ARCHIVE_WORKERS_MAX; i++)
		count += shared->workers[i] != NULL;
	LWLockRelease(shared->lock);
	return count;
}
