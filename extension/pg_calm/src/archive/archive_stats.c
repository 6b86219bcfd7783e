/*-------------------------------------------------------------------------
 *
 * archive_stats.c
 *	  What archiving has done, counted in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "archive_stats.h"
#include "base/base.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

/* Seconds over which the rate is taken */
#define RATE_SECONDS 60

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

void
archive_stats_read(ArchiveCounters *counters)
{
	SpinLockAcquire(&shared->lock);
	*counters = shared->counters;
	SpinLockRelease(&shared->lock);
}

/* Bytes of WAL per second acknowledged in the last minute, or since the server started */
double
archive_stats_rate(void)
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
