/*-------------------------------------------------------------------------
 *
 * archive_status.c
 *	  SQL functions behind the views pg_calm_archive and
 *	  pg_calm_archive_histogram.
 *
 * The columns are documented in the extension's script.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xlog.h"
#include "archive.h"
#include "archive_codec.h"
#include "archive_jobs.h"
#include "archive_stats.h"
#include "archive_watch.h"
#include "base/base.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_calm_archive);
PG_FUNCTION_INFO_V1(pg_calm_archive_histogram);

static Datum text_or_null(const char *text, bool *null);
static Datum time_or_null(TimestampTz time, bool *null);

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

Datum
pg_calm_archive(PG_FUNCTION_ARGS)
{
	ArchiveCounters *counters = palloc(sizeof(ArchiveCounters));
	ArchiveQueue queue;
	TupleDesc tupdesc;
	Datum values[25];
	bool nulls[25] = {false};
	int column = 0;
	bool active = XLogArchivingActive();
	bool ours = active && strcmp(XLogArchiveLibrary, "pg_calm") == 0;
	double seconds;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!archive_watch_read_queue(&queue))
		ereport(ERROR, (errcode_for_file_access(),
		                errmsg("could not open directory \"%s\": %m", "pg_wal/archive_status")));
	archive_stats_read(counters);
	seconds = archive_watch_seconds_to_full(&queue);

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
	values[column++] = Float8GetDatum(archive_watch_wal_rate());
	values[column++] = Float8GetDatum(archive_stats_rate());
	nulls[column] = isinf(seconds);
	values[column++] = Float8GetDatum(seconds);
	values[column++] = BoolGetDatum(archive_watch_pressure() > 1);

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

Datum
pg_calm_archive_histogram(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ArchiveCounters *counters = palloc(sizeof(ArchiveCounters));

	InitMaterializedSRF(fcinfo, 0);
	archive_stats_read(counters);
	for (int bucket = 0; bucket < ARCHIVE_STATS_BUCKETS; bucket++)
	{
		bool last = bucket == ARCHIVE_STATS_BUCKETS - 1;
		Datum values[3];
		bool nulls[3] = {false, last, false};

		if (counters->histogram[bucket] == 0)
			continue;
		values[0] = Int64GetDatum(bucket == 0 ? 0 : INT64CONST(1) << (bucket - 1));
		values[1] = Int64GetDatum(INT64CONST(1) << bucket);
		values[2] = Int64GetDatum((int64) counters->histogram[bucket]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
