/*-------------------------------------------------------------------------
 *
 * archive_stats.c
 *	  What archiving has done, counted in shared memory, and the SQL function
 *	  behind the view pg_calm_archive.
 *
 * The columns are documented in the extension's script.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "access/htup_details.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "archive.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* Seconds over which the rate is taken */
#define RATE_SECONDS 60

/* Since the server started */
typedef struct ArchiveCounters
{
	uint64 archived_files; /* acknowledged to the server */
	uint64 archived_bytes; /* of these, before compression */
	uint64 written_bytes;  /* written to the archive */
	uint64 existing_files; /* found there, identical */
	uint64 failures;       /* answers to the server that a file could not be archived */
	uint64 file_syncs;
	uint64 directory_syncs;
	ArchiveFileName last_file;
	TimestampTz last_time; /* 0: none */
	ArchiveFileName error_file;
	TimestampTz error_time; /* 0: none */
	char error[1024];
} ArchiveCounters;

typedef struct ArchiveStatsShared
{
	slock_t lock; /* protects all */
	ArchiveCounters counters;
	/* bytes acknowledged in a second of monotonic_ms, by second modulo */
	uint64 second[RATE_SECONDS];
	uint64 bytes[RATE_SECONDS];
	uint64 first_second; /* when the server started */
} ArchiveStatsShared;

static ArchiveStatsShared *shared = NULL;

Size
archive_stats_size(void)
{
	return MAXALIGN(sizeof(ArchiveStatsShared));
}

void
archive_stats_start(void)
{
	bool found;
	ArchiveStatsShared *place =
		ShmemInitStruct("pg_calm archive statistics", archive_stats_size(), &found);

	if (!found)
	{
		memset(place, 0, sizeof(*place));
		SpinLockInit(&place->lock);
		place->first_second = monotonic_ms() / 1000;
	}
	shared = place;
}

/* A copy is over, by whichever process */
void
archive_stats_copied(const ArchiveCopyResult *result)
{
	SpinLockAcquire(&shared->lock);
	shared->counters.written_bytes += result->written_bytes;
	shared->counters.file_syncs += result->file_syncs;
	SpinLockRelease(&shared->lock);
}

void
archive_stats_directory_synced(void)
{
	SpinLockAcquire(&shared->lock);
	shared->counters.directory_syncs++;
	SpinLockRelease(&shared->lock);
}

/* The server is told that a file is archived */
void
archive_stats_acknowledged(const char *name, const ArchiveCopyResult *result)
{
	uint64 second = monotonic_ms() / 1000;
	int place = second % RATE_SECONDS;
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&shared->lock);
	shared->counters.archived_files++;
	shared->counters.archived_bytes += result->source_bytes;
	shared->counters.existing_files += result->existing;
	strlcpy(shared->counters.last_file, name, sizeof(shared->counters.last_file));
	shared->counters.last_time = now;
	if (shared->second[place] != second)
	{
		shared->second[place] = second;
		shared->bytes[place] = 0;
	}
	shared->bytes[place] += result->source_bytes;
	SpinLockRelease(&shared->lock);
}

/* The server is told that it could not be archived */
void
archive_stats_failed(const char *name, const char *error)
{
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&shared->lock);
	shared->counters.failures++;
	strlcpy(shared->counters.error_file, name, sizeof(shared->counters.error_file));
	strlcpy(shared->counters.error, error, sizeof(shared->counters.error));
	shared->counters.error_time = now;
	SpinLockRelease(&shared->lock);
}

/* Bytes of WAL per second acknowledged in the last minute, or since the server started */
static double
rate(void)
{
	uint64 now = monotonic_ms() / 1000;
	uint64 seconds;
	uint64 sum = 0;

	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < RATE_SECONDS; i++)
	{
		if (shared->bytes[i] > 0 && now - shared->second[i] < RATE_SECONDS)
			sum += shared->bytes[i];
	}
	seconds = now - shared->first_second;
	SpinLockRelease(&shared->lock);
	return (double) sum / (double) Min(Max(seconds, 1), RATE_SECONDS);
}

PG_FUNCTION_INFO_V1(pg_calm_archive);

/* What is announced in archive_status */
typedef struct ArchiveQueue
{
	uint64 files;
	uint64 bytes;
	ArchiveFileName oldest; /* first in order of archiving, or "" */
	time_t oldest_since;    /* when that was announced */
	uint64 free_bytes;      /* of pg_wal's filesystem, for the server */
} ArchiveQueue;

static void
add_count(ViewRow *row, uint64 count)
{
	row_put(row, true, Int64GetDatum((int64) count));
}

static void
add_text(ViewRow *row, const char *text)
{
	row_put(row, text[0] != '\0', CStringGetTextDatum(text));
}

static void
add_time(ViewRow *row, TimestampTz time)
{
	row_put(row, time != 0, TimestampTzGetDatum(time));
}

/* Look at all that is announced; false if that can't be read */
static bool
look_at_queue(ArchiveQueue *queue)
{
	DIR *directory = opendir(STATUS_DIRECTORY);
	struct dirent *entry;
	struct statvfs fs;
	char path[MAXPGPATH];
	struct stat st;

	memset(queue, 0, sizeof(*queue));
	if (directory == NULL)
		return false;
	while ((entry = readdir(directory)) != NULL)
	{
		ArchiveFileName name;

		if (!archive_ready_name(entry->d_name, name))
			continue;
		queue->files++;
		if (IsXLogFileName(name) || IsPartialXLogFileName(name))
			queue->bytes += (uint64) wal_segment_size;
		else
		{
			snprintf(path, sizeof(path), XLOGDIR "/%s", name);
			if (stat(path, &st) == 0)
				queue->bytes += (uint64) st.st_size;
		}
		if (queue->oldest[0] == '\0' || archive_ready_compare(name, queue->oldest) < 0)
			strlcpy(queue->oldest, name, sizeof(queue->oldest));
	}
	(void) closedir(directory);

	if (queue->files > 0)
	{
		snprintf(path, sizeof(path), STATUS_DIRECTORY "/%s.ready", queue->oldest);
		if (stat(path, &st) == 0)
			queue->oldest_since = st.st_mtime;
	}
	if (statvfs(XLOGDIR, &fs) == 0)
		queue->free_bytes = (uint64) fs.f_bavail * fs.f_frsize;
	return true;
}

Datum
pg_calm_archive(PG_FUNCTION_ARGS)
{
	ArchiveCounters *counters = palloc(sizeof(ArchiveCounters));
	ViewRow row = {0};
	ArchiveQueue queue;
	TupleDesc tupdesc;
	bool active = XLogArchivingActive();
	bool ours = active && ARCHIVE_IS_OURS();

	archive_must_be_loaded();
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!look_at_queue(&queue))
		ereport(ERROR, (errcode_for_file_access(),
		                errmsg("could not open directory \"%s\": %m", "pg_wal/archive_status")));
	SpinLockAcquire(&shared->lock);
	*counters = shared->counters;
	SpinLockRelease(&shared->lock);

	add_text(&row, !active ? "off" : ours ? "pg_calm" : "other");
	add_text(&row, calm_archive_directory);
	add_text(&row, archive_codec_name((ArchiveCompression) calm_archive_compression));
	row_put(&row, true, Int32GetDatum(ours ? archive_jobs_workers() + 1 : 0));

	add_count(&row, queue.files);
	add_count(&row, queue.bytes);
	add_text(&row, queue.oldest);
	add_time(&row, queue.oldest_since == 0 ? 0 : time_t_to_timestamptz(queue.oldest_since));
	add_count(&row, queue.free_bytes);
	row_put(&row, true, Float8GetDatum(rate()));

	add_count(&row, counters->archived_files);
	add_count(&row, counters->archived_bytes);
	add_count(&row, counters->written_bytes);
	add_count(&row, counters->existing_files);
	add_count(&row, counters->failures);
	add_count(&row, counters->file_syncs);
	add_count(&row, counters->directory_syncs);
	add_text(&row, counters->last_file);
	add_time(&row, counters->last_time);
	add_text(&row, counters->error);
	add_text(&row, counters->error_file);
	add_time(&row, counters->error_time);
	Assert(row.columns == tupdesc->natts);

	PG_RETURN_DATUM(
		HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), row.values, row.nulls)));
}
