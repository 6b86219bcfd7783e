/*-------------------------------------------------------------------------
 *
 * wal_cache.c
 *	  Keeps WAL that nobody will read from taking the page cache.
 *
 * What is written to WAL stays in the page cache: up to max_wal_size of it, and segments are
 * recycled, so that each page of them looks as if it was in use.  On a host with little memory
 * that evicts pages of tables, which then have to be read from the volume again.
 *
 * The server itself drops a segment from the cache only with wal_level = minimal, since archiver
 * and walsenders could read it from there (xlog.c, XLogFileClose).  Whether there are any can be
 * seen: so WAL is dropped
 * - not while there is a walsender or a replication slot,
 * - not while there is a prepared transaction, whose record is read when it is committed
 *	 or rolled back (twophase.c, XlogReadTwoPhaseData),
 * - not with summarize_wal (17+), which reads all of it,
 * - with archiving, when its segment has been archived.
 *
 * What is dropped has been flushed, so it is clean and nothing is written.
 * Pages are written whole, so nothing has to be read when a segment is used
 * again.  Crash recovery reads WAL from the volume then, as after a power loss.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/twophase.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "replication/slot.h"
#include "replication/walsender_private.h"
#include "storage/proc.h"
#include "wal.h"

/* Dropped by one call at most, and least: a call takes a millisecond for some 16 MB */
#define MOST_BYTES (64 * 1024 * 1024)
#define LEAST_BYTES (1024 * 1024)

bool calm_drop_wal_cache = true;

/*
 * Each prepared transaction has a PGPROC of its own, without a process, to which its
 * locks belong until it is over, that of its number at least (twophase.c,
 * MarkAsPreparing; lock.c, PostPrepare_Locks).
 */
static bool
has_prepared(void)
{
	for (int i = 0; i < max_prepared_xacts; i++)
	{
		for (int partition = 0; partition < NUM_LOCK_PARTITIONS; partition++)
		{
			if (CALM_HAS_LOCKS(&PreparedXactProcs[i], partition))
				return true;
		}
	}
	return false;
}

/* Whether somebody reads WAL, or may by a slot or a prepared transaction; a look, without locks */
static bool
has_readers(void)
{
	if (CALM_SUMMARIZES_WAL() || has_prepared())
		return true;
	for (int i = 0; i < max_wal_senders; i++)
	{
		if (WalSndCtl->walsnds[i].pid != 0)
			return true;
	}
	for (int i = 0; i < CALM_MAX_SLOTS; i++)
	{
		if (ReplicationSlotCtl->replication_slots[i].in_use)
			return true;
	}
	return false;
}

/* Whether the archiver has done with a segment */
static bool
is_archived(XLogSegNo segment, TimeLineID timeline)
{
	char name[MAXFNAMELEN];
	char path[MAXPGPATH];

	XLogFileName(name, timeline, segment, wal_segment_size);
	StatusFilePath(path, name, ".done");
	if (access(path, F_OK) == 0)
		return true;
	/* recycled meanwhile */
	XLogFilePath(path, timeline, segment, wal_segment_size);
	return access(path, F_OK) != 0;
}

static void
drop(XLogSegNo segment, TimeLineID timeline, off_t offset, off_t length)
{
	char path[MAXPGPATH];
	int fd;

	XLogFilePath(path, timeline, segment, wal_segment_size);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOATIME);
	if (fd < 0)
		return; /* recycled meanwhile */
	(void) posix_fadvise(fd, offset, length, POSIX_FADV_DONTNEED);
	close(fd);
}

/*
 * For the writeback worker, several times a second.  Drops what has been flushed
 * since the last call from the page cache, unless a standby, a slot or the
 * archiver may read it.  Reads, writes and waits for nothing.
 */
void
wal_cache_tick(void)
{
	static XLogRecPtr dropped = InvalidXLogRecPtr; /* all before it is */
	XLogRecPtr flushed;
	TimeLineID timeline;
	uint64 budget = MOST_BYTES;

	if (!calm_drop_wal_cache || !enableFsync || !calm_flushes() || RecoveryInProgress() ||
	    has_readers())
	{
		dropped = InvalidXLogRecPtr;
		return;
	}
	flushed = GetFlushRecPtr(&timeline);
	if (dropped == InvalidXLogRecPtr)
		dropped = flushed - flushed % LEAST_BYTES;
	while (budget > 0)
	{
		XLogSegNo segment;
		uint64 offset = XLogSegmentOffset(dropped, wal_segment_size);
		uint64 length = Min(budget, wal_segment_size - offset);

		if (flushed < dropped + LEAST_BYTES)
			break;
		XLByteToSeg(dropped, segment, wal_segment_size);
		if (XLogArchivingActive())
		{
			if (flushed < dropped + length || !is_archived(segment, timeline))
				break;
		}
		length = Min(length, (flushed - dropped) / LEAST_BYTES * LEAST_BYTES);
		drop(segment, timeline, offset, length);
		dropped += length;
		budget -= length;
	}
}
