/*-------------------------------------------------------------------------
 *
 * archive_status.c
 *	  SQL function behind the view pg_calm_archive.
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
#include "archive_codec.h"
#include "archive_jobs.h"
#include "archive_stats.h"
#include "base/base.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#define STATUS_DIRECTORY XLOGDIR "/archive_status"

/* What is announced in archive_status */
typedef struct ArchiveQueue
{
	uint64 files;
	uint64 bytes;
	ArchiveFileName oldest; /* first in order of archiving, or "" */
	time_t oldest_since;    /* when that was announced */
	uint64 free_bytes;      /* of pg_wal's filesystem, for the server */
} ArchiveQueue;

PG_FUNCTION_INFO_V1(pg_calm_archive);

static Datum text_or_null(const char *text, bool *null);
static Datum time_or_null(TimestampTz time, bool *null);
static bool read_queue(ArchiveQueue *queue);

static Datum
text_or_null(const char *text, bool *null)
{
	*null = text[0] == '\0';
	return *null ? (Datum) 0 : CStringGetTextDatum(text);
}

static Datum
time_or_null(TimestampTz time, bool *null)
{
	*null = time == 0;
	return TimestampTzGetDatum(time);
}

/* Look at all that is announced; false if that can't be read */
static bool
read_queue(ArchiveQueue *queue)
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
	ArchiveQueue queue;
	TupleDesc tupdesc;
	Datum values[22];
	bool nulls[22] = {false};
	int column = 0;
	bool active = XLogArchivingActive();
	bool ours = active && strcmp(XLogArchiveLibrary, "pg_calm_archive") == 0;

	archive_must_be_loaded();
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!read_queue(&queue))
		ereport(ERROR, (errcode_for_file_access(),
		                errmsg("could not open directory \"%s\": %m", "pg_wal/archive_status")));
	archive_stats_read(counters);

	values[column++] = CStringGetTextDatum(!active ? "off" : ours ? "pg_calm" : "other");
	values[column] = text_or_null(calm_archive_directory, &nulls[column]);
	column++;
	values[column++] =
		CStringGetTextDatum(archive_codec_name((ArchiveCompression) calm_archive_compression));
	values[column++] = Int32GetDatum(ours ? archive_jobs_workers() + 1 : 0);

	values[column++] = Int64GetDatum((int64) queue.files);
	values[column++] = Int64GetDatum((int64) queue.bytes);
	values[column] = text_or_null(queue.oldest, &nulls[column]);
	column++;
	values[column] = time_or_null(
		queue.oldest_since == 0 ? 0 : time_t_to_timestamptz((pg_time_t) queue.oldest_since),
		&nulls[column]);
	column++;
	values[column++] = Int64GetDatum((int64) queue.free_bytes);
	values[column++] = Float8GetDatum(archive_stats_rate());

	values[column++] = Int64GetDatum((int64) counters->archived_files);
	values[column++] = Int64GetDatum((int64) counters->archived_bytes);
	values[column++] = Int64GetDatum((int64) counters->written_bytes);
	values[column++] = Int64GetDatum((int64) counters->existing_files);
	values[column++] = Int64GetDatum((int64) counters->failures);
	values[column++] = Int64GetDatum((int64) counters->file_syncs);
	values[column++] = Int64GetDatum((int64) counters->directory_syncs);
	values[column] = text_or_null(counters->last_file, &nulls[column]);
	column++;
	values[column] = time_or_null(counters->last_time, &nulls[column]);
	column++;
	values[column] = text_or_null(counters->error, &nulls[column]);
	column++;
	values[column] = text_or_null(counters->error_file, &nulls[column]);
	column++;
	values[column] = time_or_null(counters->error_time, &nulls[column]);
	column++;
	Assert(column == lengthof(values));

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
