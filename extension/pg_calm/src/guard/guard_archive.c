/*-------------------------------------------------------------------------
 *
 * guard_archive.c
 *	  WAL that waits to be archived, whatever archives.
 *
 * The queue is what archive_status announces: NNN.ready for each file.  With many
 * of them a look takes time; so there is one a second at most, and one in five seconds at least:
 * up to there no more than a hundredth of the time is spent on them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "base/base.h"
#include "guard.h"
#include "postmaster/pgarch.h"

#define STATUS_DIRECTORY XLOGDIR "/archive_status"

/*
 * Between looks; and so many times what the last one took of a processor at least, but no longer
 * than what the rates stand that are made of it: the shortest patience is a second, the usual one
 * a minute
 */
#define LOOK_INTERVAL_MS 1000
#define LOOK_COST_FACTOR 100
#define LONGEST_INTERVAL_MS 5000

typedef struct Queue
{
	uint64 bytes;  /* of the files that are announced; those of a few kB count as segments */
	uint64 oldest; /* position at which the first of the segments begins; 0: there is none */
} Queue;

static bool read_queue(Queue *queue);

/* False if that can't be read */
static bool
read_queue(Queue *queue)
{
	DIR *directory = opendir(STATUS_DIRECTORY);
	struct dirent *entry;

	if (directory == NULL)
		return false;
	memset(queue, 0, sizeof(*queue));
	while ((entry = readdir(directory)) != NULL)
	{
		const char *suffix = strrchr(entry->d_name, '.');

		/* the conditions are those of pgarch.c, pgarch_readyXlog */
		if (suffix != NULL && strcmp(suffix, ".ready") == 0 &&
		    suffix - entry->d_name >= MIN_XFN_CHARS && suffix - entry->d_name <= MAX_XFN_CHARS)
		{
			char name[MAX_XFN_CHARS + 1];

			queue->bytes += (uint64) wal_segment_size;
			strlcpy(name, entry->d_name, suffix - entry->d_name + 1);
			if (IsXLogFileName(name))
			{
				TimeLineID timeline;
				XLogSegNo segment;

				XLogFromFileName(name, &timeline, &segment, wal_segment_size);
				if (queue->oldest == 0 || segment * wal_segment_size < queue->oldest)
					queue->oldest = segment * wal_segment_size;
			}
		}
	}
	(void) closedir(directory);
	return true;
}

bool
guard_archive_queue(uint64 *bytes, uint64 *oldest, uint64 *now_ms)
{
	static uint64 look_ms = 0;
	static uint64 next_look_ms = 0;
	static Queue queue;
	static bool known = false;

	if (!XLogArchivingActive())
		return false;
	if (*now_ms >= next_look_ms)
	{
		uint64 used = used_ns();

		known = read_queue(&queue);
		used = (used_ns() - used) * LOOK_COST_FACTOR / 1000000;
		look_ms = *now_ms;
		next_look_ms = look_ms + Max(LOOK_INTERVAL_MS, Min(used, LONGEST_INTERVAL_MS));
	}
	*now_ms = look_ms;
	*bytes = queue.bytes;
	*oldest = queue.oldest;
	return known;
}

/* insert is the end of WAL */
void
guard_archive_look(uint64 insert, GuardReading *reading, uint64 now_ms)
{
	static GuardDrain archived;
	/* in whole segments, as it goes */
	uint64 end = insert - insert % wal_segment_size;
	uint64 queue;
	uint64 oldest;

	/* between looks nothing is known of what it does: a rate that fell then would be our doing */
	if (!guard_archive_queue(&queue, &oldest, &now_ms))
		return;
	/* not what has been written less the queue: each new segment counts before it is announced */
	guard_track(&archived, oldest != 0 ? oldest : end, now_ms);
	reading->state = GUARD_WATCHED;
	reading->value = (double) queue;
	reading->limit = (double) guard_archive_backlog * 1024 * 1024;
	reading->drain_rate = archived.rate;
	reading->allowed_rate = guard_lag_rate(reading->value, reading->limit, archived.rate);
	strlcpy(reading->object, "archive", sizeof(reading->object));
}
