/*-------------------------------------------------------------------------
 *
 * archive_watch.c
 *	  How much WAL waits to be archived, and whether that will fill the disk.
 *
 * Whatever archives: WAL that is not archived is kept, until the filesystem is
 * full and the server stops.  The writeback worker looks at the queue every
 * few seconds and says so in the log when it has passed a threshold, again
 * every minute while it stays there, and once when it is over.
 *
 * Nothing else is done here.  The governor, which slows writers down if
 * pg_calm.archive_alert_action says so, reads archive_watch_backlog.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogrecovery.h"
#include "archive_stats.h"
#include "archive_watch.h"
#include "map/map.h"
#include "shared/shared.h"
#include "port/atomics.h"
#include "storage/shmem.h"

#define STATUS_DIRECTORY XLOGDIR "/archive_status"

#define LOOK_INTERVAL_MS 1000
#define ALERT_INTERVAL_MS (60 * 1000)
#define STALE_MS (60 * 1000)

/* Seconds over which the rate of WAL is taken */
#define RATE_SECONDS 60

/* An alert is over when the queue is below this part of the threshold */
#define ALERT_OVER 0.9

typedef struct ArchiveWatchShared
{
	pg_atomic_uint64 wal_rate; /* bytes per second */
	pg_atomic_uint64 pressure; /* queue by threshold, in thousandths */
	pg_atomic_uint64 queue_bytes;
	pg_atomic_uint64 threshold; /* bytes; 0: none */
	pg_atomic_uint64 looked_ms; /* when the queue was looked at; 0: never */
} ArchiveWatchShared;

int calm_archive_alert_threshold = -1;
int calm_archive_alert_action = ARCHIVE_ALERT_ONLY;

static ArchiveWatchShared *shared = NULL;

static void look_at_wal(uint64 now_ms);
static void alert(const ArchiveQueue *queue, uint64 threshold, uint64 now_ms);

Size
archive_watch_size(void)
{
	return MAXALIGN(sizeof(ArchiveWatchShared));
}

void
archive_watch_start(void)
{
	bool found;
	ArchiveWatchShared *place =
		ShmemInitStruct("pg_calm archive watch", archive_watch_size(), &found);

	if (!found)
	{
		pg_atomic_init_u64(&place->wal_rate, 0);
		pg_atomic_init_u64(&place->pressure, 0);
		pg_atomic_init_u64(&place->queue_bytes, 0);
		pg_atomic_init_u64(&place->threshold, 0);
		pg_atomic_init_u64(&place->looked_ms, 0);
	}
	shared = place;
}

/* Look at all that is announced; false if that can't be read */
bool
archive_watch_read_queue(ArchiveQueue *queue)
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

/* Bytes of WAL per second written, on a standby replayed, in the last minute */
double
archive_watch_wal_rate(void)
{
	return (double) pg_atomic_read_u64(&shared->wal_rate);
}

/* When pg_wal's filesystem is full if all stays as it is; infinity if never */
double
archive_watch_seconds_to_full(const ArchiveQueue *queue)
{
	double growth = archive_watch_wal_rate() - archive_stats_rate();

	return queue->files > 0 && growth > 0 ? (double) queue->free_bytes / growth : INFINITY;
}

/*
 * How much waits, as a part of the threshold: 0 nothing, 1 and above is an
 * alert.  0 with a threshold of 0.  Of a few seconds ago.
 */
double
archive_watch_pressure(void)
{
	return (double) pg_atomic_read_u64(&shared->pressure) / 1000;
}

/*
 * What waits and the threshold for it, 0 if there is none, in bytes.  False if
 * nobody has looked for too long to say.
 */
bool
archive_watch_backlog(uint64 *bytes, uint64 *threshold)
{
	uint64 looked_ms = pg_atomic_read_u64(&shared->looked_ms);

	*bytes = pg_atomic_read_u64(&shared->queue_bytes);
	if (threshold)
		*threshold = pg_atomic_read_u64(&shared->threshold);
	return looked_ms != 0 && page_map_now_ms() < looked_ms + STALE_MS;
}

/* Once a second: how far WAL has come */
static void
look_at_wal(uint64 now_ms)
{
	static XLogRecPtr positions[RATE_SECONDS];
	static uint64 times[RATE_SECONDS];
	static uint64 looks = 0;
	XLogRecPtr position = RecoveryInProgress() ? GetXLogReplayRecPtr(NULL) : GetXLogInsertRecPtr();
	uint64 first = looks < RATE_SECONDS ? 0 : looks % RATE_SECONDS;

	if (looks > 0 && position >= positions[first] && now_ms > times[first])
		pg_atomic_write_u64(&shared->wal_rate, (uint64) ((position - positions[first]) * 1000 /
		                                                 (now_ms - times[first])));
	positions[looks % RATE_SECONDS] = position;
	times[looks % RATE_SECONDS] = now_ms;
	looks++;
}

/* Say in the log that too much waits, or that it no longer does */
static void
alert(const ArchiveQueue *queue, uint64 threshold, uint64 now_ms)
{
	static bool alerted = false;
	static uint64 again_ms = 0;
	static ArchiveCounters counters;
	double seconds = archive_watch_seconds_to_full(queue);
	bool over = threshold != 0 && queue->bytes > threshold;

	if (over && (!alerted || now_ms >= again_ms))
	{
		char lasts[64] = "";

		archive_stats_read(&counters);
		if (!isinf(seconds))
			snprintf(lasts, sizeof(lasts), ", which lasts for %.0f s", seconds);
		ereport(
			WARNING,
			(errmsg("pg_calm: " UINT64_FORMAT " WAL files, " UINT64_FORMAT
		            " MB, wait to be archived, which is more than " UINT64_FORMAT " MB",
		            queue->files, queue->bytes / (1024 * 1024), threshold / (1024 * 1024)),
		     errdetail("The oldest is \"%s\". The filesystem of pg_wal has " UINT64_FORMAT
		               " MB left%s.%s%s",
		               queue->oldest, queue->free_bytes / (1024 * 1024), lasts,
		               counters.error_time > counters.last_time ? " Last error: " : "",
		               counters.error_time > counters.last_time ? counters.error : ""),
		     errhint(
				 "See the view pg_calm_archive. The threshold is pg_calm.archive_alert_threshold.")));
		alerted = true;
		again_ms = now_ms + ALERT_INTERVAL_MS;
	}
	else if (alerted && (threshold == 0 || (double) queue->bytes < ALERT_OVER * threshold))
	{
		ereport(LOG, (errmsg("pg_calm: " UINT64_FORMAT
		                     " MB of WAL wait to be archived, which is below the threshold again",
		                     queue->bytes / (1024 * 1024))));
		alerted = false;
	}
}

void
archive_watch_tick(uint64 now_ms)
{
	static uint64 next_look_ms = 0;
	ArchiveQueue queue;
	uint64 threshold;
	uint64 started;

	if (!XLogArchivingActive() || calm_mode == CALM_MODE_OFF || now_ms < next_look_ms)
		return;
	look_at_wal(now_ms);

	/* with many files a look takes time: not more than a hundredth of it */
	started = page_map_now_ms();
	next_look_ms = now_ms + LOOK_INTERVAL_MS;
	if (!archive_watch_read_queue(&queue))
		return;
	next_look_ms = Max(next_look_ms, now_ms + 100 * (page_map_now_ms() - started));

	threshold = calm_archive_alert_threshold < 0 ?
	                Max(queue.free_bytes, 1) :
	                (uint64) calm_archive_alert_threshold * 1024 * 1024;
	pg_atomic_write_u64(&shared->pressure,
	                    threshold == 0 ? 0 : (uint64) ((double) queue.bytes / threshold * 1000));
	pg_atomic_write_u64(&shared->queue_bytes, queue.bytes);
	pg_atomic_write_u64(&shared->threshold, threshold);
	pg_atomic_write_u64(&shared->looked_ms, page_map_now_ms());
	alert(&queue, threshold, now_ms);
}
