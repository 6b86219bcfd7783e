/*-------------------------------------------------------------------------
 *
 * archive.c
 *	  The archive module: archive_library = 'pg_calm_archive'.
 *
 * The server's archiver asks for one file at a time, in order, and waits for the answer.  Here that
 * file and those that will be asked for next are copied at the same time, by the archiver itself
 * and by background workers (archive_jobs.c, archive_worker.c).  The answer for a file is given
 * when it is durable in the archive: its content was fsynced before it got its name, and the
 * directory after.  One fsync of the directory serves all files that were renamed before it; there
 * is one for every 2 * pg_calm_archive.workers files as long as there is a backlog.  No file waits
 * for another one's copy: that may take a worker as long as its storage hangs.
 *
 * If no worker is there, as after a shutdown has stopped them, the archiver copies everything.
 *
 * No errors are raised: before 17 the archiver would exit.
 *
 * It needs nothing of pg_calm, which may be loaded beside it or not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"

/* Files that are planned for each worker */
#define FILES_AHEAD 4

/* ... and that share an fsync of the directory */
#define FILES_SYNCED 2

static bool loaded = false; /* at the server's start, so that there is shared memory */

char *calm_archive_directory = "";
int calm_archive_workers = 2;
int calm_archive_compression = ARCHIVE_COMPRESSION_NONE;
int calm_archive_compression_level = 0;

static const struct config_enum_entry compression_options[] = {
	{"none", ARCHIVE_COMPRESSION_NONE, false},
	{"lz4", ARCHIVE_COMPRESSION_LZ4, false},
	{"zstd", ARCHIVE_COMPRESSION_ZSTD, false},
	{NULL, 0, false}};

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

/*
 * What the directory is shows when it is used (archive_copy.c).  Not here: this runs in every process
 * of the server at each reload, and all of them would hang with the archive's file system.
 */
static bool
check_directory(char **newval, void **extra, GucSource source)
{
	if ((*newval)[0] == '\0')
		return true;
	if ((*newval)[0] != '/')
	{
		GUC_check_errdetail("The directory must be an absolute path.");
		return false;
	}
	if (strlen(*newval) + 64 >= MAXPGPATH)
	{
		GUC_check_errdetail("The directory is too long.");
		return false;
	}
	return true;
}

static bool
check_compression(int *newval, void **extra, GucSource source)
{
	if (archive_codec_available((ArchiveCompression) *newval))
		return true;
	GUC_check_errdetail("pg_calm_archive was built without %s.",
	                    archive_codec_name((ArchiveCompression) *newval));
	GUC_check_errhint("Install the library's development files and build pg_calm again.");
	return false;
}

static void
define_settings(void)
{
	DefineCustomStringVariable(
		"pg_calm_archive.directory", "Directory to which WAL files are archived.",
		"Used with archive_library = 'pg_calm_archive'. An absolute path; empty: archiving is not configured.",
		&calm_archive_directory, "", PGC_SIGHUP, 0, check_directory, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm_archive.workers", "Number of WAL files that are archived at the same time.",
		"The archiver itself is one of the workers; the others take a place in max_worker_processes each.",
		&calm_archive_workers, 2, 1, ARCHIVE_WORKERS_MAX, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("pg_calm_archive.compression", "Compression of archived WAL segments.",
	                         "Timeline and backup history files are never compressed.",
	                         &calm_archive_compression, ARCHIVE_COMPRESSION_NONE,
	                         compression_options, PGC_SIGHUP, 0, check_compression, NULL, NULL);
	DefineCustomIntVariable("pg_calm_archive.compression_level",
	                        "Level of compression of archived WAL segments.",
	                        "0 takes the library's default.", &calm_archive_compression_level, 0, 0,
	                        19, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_calm_archive.bandwidth",
	                        "Kilobytes per second that may be written to the archive.",
	                        "All workers together; 0 means unlimited.", &calm_archive_bandwidth, 0,
	                        0, INT_MAX, PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	MarkGUCPrefixReserved("pg_calm_archive");
}

static void
request_shared_memory(void)
{
	if (previous_shmem_request)
		previous_shmem_request();
	RequestAddinShmemSpace(archive_jobs_size());
	RequestAddinShmemSpace(archive_stats_size());
	RequestNamedLWLockTranche("pg_calm archive jobs", 1);
}

static void
start_shared_memory(void)
{
	if (previous_shmem_startup)
		previous_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	archive_jobs_start();
	archive_stats_start();
	LWLockRelease(AddinShmemInitLock);
	loaded = true;
}

/* Loaded later, by the archiver or for the views, it says what is missing and does nothing */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	define_settings();
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
	archive_worker_register();
}

/* For the views */
void
archive_must_be_loaded(void)
{
	if (!loaded)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("pg_calm_archive must be loaded via \"shared_preload_libraries\"")));
}

static bool
archive_check_configured(CALM_ARCHIVE_STATE)
{
	static const ArchiveTarget nowhere = {0};

	if (!loaded)
	{
		CALM_ARCHIVE_NOT_CONFIGURED("\"%s\" is not in \"shared_preload_libraries\".",
		                            "pg_calm_archive");
		return false;
	}
	if (calm_archive_directory[0] != '\0')
		return true;
	/* a pause, in which the disk may be replaced: what it had counts no more */
	archive_jobs_plan(NULL, 0, &nowhere);
	CALM_ARCHIVE_NOT_CONFIGURED("\"%s\" is not set.", "pg_calm_archive.directory");
	return false;
}

/* Make all files durable that were renamed so far */
static void
sync_directory(const ArchiveTarget *target)
{
	char error[MAXPGPATH + 128] = "";
	int fd = open(target->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		snprintf(error, sizeof(error), "could not open archive directory \"%s\": %m",
		         target->directory);
	if (archive_jobs_sync_begins(error[0] == '\0' ? &st : NULL) > 0)
	{
		if (error[0] == '\0')
		{
			/* as in fd.c, a filesystem that can't sync directories is no error */
			if (fsync(fd) != 0 && errno != EBADF && errno != EINVAL)
				snprintf(error, sizeof(error), "could not fsync archive directory \"%s\": %m",
				         target->directory);
			archive_stats_directory_synced();
		}
		archive_jobs_sync_ended(error);
	}
	if (fd >= 0)
		(void) close(fd);
}

/* Archive a file: true when it is durable in the archive */
static bool
archive_file(CALM_ARCHIVE_STATE_AND const char *file, const char *path)
{
	static bool started = false;
	static ArchiveTarget target;
	static ArchiveFileName names[ARCHIVE_JOBS_PLANNED];
	static ArchiveCopyResult result;
	int ahead = Min(calm_archive_workers * FILES_AHEAD, ARCHIVE_JOBS_PLANNED);
	static bool failing = false; /* what was copied ahead would grow old: it is forgotten */
	bool tried = false;
	bool waited = false;
	bool ok = false;
	int count = 1;

	if (!started)
	{
		started = true;
		archive_jobs_forget();
	}
	if (strcmp(target.directory, calm_archive_directory) != 0)
	{
		strlcpy(target.directory, calm_archive_directory, sizeof(target.directory));
		archive_copy_remove_leftovers(target.directory);
	}
	target.compression = (ArchiveCompression) calm_archive_compression;
	target.level = calm_archive_compression_level;

	strlcpy(names[0], file, sizeof(names[0]));
	if (calm_archive_workers > 1 && !failing)
		count += archive_ready_after(file, names + 1, ahead - 1);
	archive_jobs_plan(names, count, &target);

	for (;;)
	{
		ArchiveJobState state = archive_jobs_state(file);

		if (state == ARCHIVE_JOB_DURABLE)
		{
			archive_jobs_finish(file, &result);
			archive_stats_acknowledged(file, &result);
			ok = true;
			break;
		}
		if (archive_jobs_stopping())
			break;
		if (state == ARCHIVE_JOB_FAILED)
		{
			/* what failed ahead of time may work now */
			if (!tried)
			{
				archive_jobs_requeue(file);
				tried = true;
				continue;
			}
			archive_jobs_finish(file, &result);
			archive_stats_failed(file, result.error);
			ereport(WARNING,
			        (errmsg("pg_calm_archive: could not archive WAL file \"%s\": %s", file,
			                result.error),
			         errhint("The server tries again. WAL is kept until it is archived.")));
			break;
		}
		if (state == ARCHIVE_JOB_RENAMED &&
		    (ConfigReloadPending || archive_jobs_count(ARCHIVE_JOB_QUEUED) == 0 ||
		     archive_jobs_count(ARCHIVE_JOB_RENAMED) >= FILES_SYNCED * calm_archive_workers))
		{
			sync_directory(&target);
			tried = true;
			continue;
		}
		if (state == ARCHIVE_JOB_QUEUED)
			tried = true;
		/* with new settings to read, which only the server's loop does, nothing is copied ahead */
		if ((state == ARCHIVE_JOB_QUEUED || !ConfigReloadPending) &&
		    archive_jobs_copy_one(ARCHIVE_OWNER_ARCHIVER))
			continue;
		if (archive_jobs_abandon(file))
		{
			archive_jobs_plan(names, count, &target);
			continue;
		}
		/* a worker sets the latch when it is done */
		if (archive_jobs_state(file) == state)
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1000,
			                 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		waited = true;
	}

	failing = !ok;
	/* the archiver may have been woken for something else meanwhile */
	if (waited)
		SetLatch(MyLatch);
	return ok;
}

/* No callback at the end: workers finish what they are copying, and the next archiver finds it */
CALM_DEFINE_ARCHIVE_MODULE(archive_check_configured, archive_file);
