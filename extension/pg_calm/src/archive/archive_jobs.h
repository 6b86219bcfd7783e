/*-------------------------------------------------------------------------
 *
 * archive_jobs.h
 *	  Files that are being archived, shared by the archiver and its workers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ARCHIVE_JOBS_H
#define PG_CALM_ARCHIVE_JOBS_H

#include "postgres.h"

#include <sys/stat.h>

#include "archive.h"
#include "archive_copy.h"
#include "archive_ready_queue.h"
#include "storage/latch.h"

#define ARCHIVE_JOBS 64

/* Most that are planned: each worker may still have a job that nobody wants any more */
#define ARCHIVE_JOBS_PLANNED (ARCHIVE_JOBS - ARCHIVE_WORKERS_MAX)

/* Owner of a job that the archiver itself works on; workers count from 0 */
#define ARCHIVE_OWNER_ARCHIVER (-1)

typedef enum ArchiveJobState
{
	ARCHIVE_JOB_FREE,
	ARCHIVE_JOB_QUEUED,
	ARCHIVE_JOB_COPYING, /* its owner works on it; nobody else touches it */
	ARCHIVE_JOB_RENAMED, /* complete and synced, but for the directory */
	ARCHIVE_JOB_DURABLE, /* may be acknowledged */
	ARCHIVE_JOB_FAILED,
} ArchiveJobState;

extern Size archive_jobs_size(void);
extern void archive_jobs_start(void);

/* For the archiver */
extern void archive_jobs_forget(void);
extern void archive_jobs_plan(const ArchiveFileName *names, int count, const ArchiveTarget *target);
extern ArchiveJobState archive_jobs_state(const char *name);
extern void archive_jobs_requeue(const char *name);
extern bool archive_jobs_finish(const char *name, ArchiveCopyResult *result);
extern int archive_jobs_queued(void);
extern bool archive_jobs_abandon(const char *name);
extern int archive_jobs_renamed(void);
extern int archive_jobs_sync_begins(const struct stat *directory);
extern void archive_jobs_sync_ended(const char *error);

/* For whoever copies: the archiver or a worker */
extern bool archive_jobs_copy_one(int owner);

/* Workers */
extern void archive_jobs_worker_starts(int worker, Latch *latch);
extern void archive_jobs_worker_ends(int worker);
extern int archive_jobs_workers(void);

#endif /* PG_CALM_ARCHIVE_JOBS_H */
