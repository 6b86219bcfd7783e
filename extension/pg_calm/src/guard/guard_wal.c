/*-------------------------------------------------------------------------
 *
 * guard_wal.c
 *	  WAL on disk: how much room there is for more, and who frees it.
 *
 * Two inputs: GUARD_WAL_SPACE is the filesystem of pg_wal, GUARD_MAX_WAL
 * a limit to the WAL that recovery would need, which max_wal_size is not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/pg_control.h"
#include "base/base.h"
#include "guard.h"
#include "port/pg_crc32c.h"
#include "replication/slot.h"
#include "storage/lwlock.h"

/*
 * Part of the filesystem, up to max_wal_size, and number of segments, kept free by default; and
 * segments kept in any case: the next one is made whole, and a checkpoint makes one ahead
 */
#define RESERVE_SHARE 0.02
#define RESERVE_MAX_SHARE 0.25
#define RESERVE_SEGMENTS 4
#define RESERVE_LEAST_SEGMENTS 2

/* Checkpoints are helped, and writers paced, when so much of the space is WAL of one cycle */
#define CYCLE_SHARE 0.25

/* ... or only so much is left */
#define ROOM_SHARE 0.25

/*
 * While something other than a checkpoint keeps WAL: seconds for which the room has to last, so
 * that somebody can see to it and the rate is even meanwhile; and bytes per second that writers
 * have all the same, unless that is used up within so many seconds
 */
#define RETAINED_SECONDS 900.0
#define RETAINED_LEAST (256.0 * 1024)
#define RETAINED_LAST_SECONDS 20.0

/* Milliseconds without a file removed, after which a complete checkpoint has removed all that it will */
#define REMOVAL_MS 3000

typedef struct WalFiles
{
	uint64 free_bytes;
	uint64 total_bytes;
	uint64 ahead_bytes; /* of segments made for later */
	uint64 oldest;      /* position at which the first segment begins */
	XLogSegNo current;  /* as of which these two are known */
} WalFiles;

/* Whether one of the two inputs was pressed for space, by cycles of checkpoints */
typedef struct WalPressure
{
	uint64 redo;
	bool now;  /* in this cycle, or the one before */
	bool next; /* in this cycle */
} WalPressure;

static bool read_files(uint64 insert, WalFiles *files);
static uint64 read_completed_redo(void);
static uint64
retained_from(uint64 insert, uint64 redo, double room, uint64 *kept, char *name, uint64 *now_ms);
static void look_at_space(uint64 insert, uint64 redo, const WalFiles *files, bool running,
                          GuardReading *reading, uint64 now_ms);
static double checkpoint_rate(const GuardWal *wal, uint64 redo, bool running, WalPressure *pressure,
                              uint64 now_ms);

/*
 * False if that can't be read.  If the directory alone can't, as when the host has no descriptor
 * left, it is as at the last look, less the segments that were begun since: what is free says more.
 */
static bool
read_files(uint64 insert, WalFiles *files)
{
	struct statvfs fs;
	struct dirent *entry;
	DIR *directory;
	XLogSegNo current;
	XLogSegNo first = 0;

	if (statvfs(XLOGDIR, &fs) != 0)
		return false;
	directory = opendir(XLOGDIR);
	XLByteToSeg(insert, current, wal_segment_size);
	files->free_bytes = (uint64) fs.f_bavail * fs.f_frsize;
	files->total_bytes = (uint64) fs.f_blocks * fs.f_frsize;
	if (directory == NULL)
	{
		files->ahead_bytes -=
			Min(files->ahead_bytes, (current - files->current) * wal_segment_size);
		files->current = current;
		return files->oldest != 0;
	}
	files->current = current;
	files->ahead_bytes = 0;
	while ((entry = readdir(directory)) != NULL)
	{
		TimeLineID timeline;
		XLogSegNo segment;

		if (!IsXLogFileName(entry->d_name))
			continue;
		XLogFromFileName(entry->d_name, &timeline, &segment, wal_segment_size);
		if (segment > current)
			files->ahead_bytes += wal_segment_size;
		if (first == 0 || segment < first)
			first = segment;
	}
	(void) closedir(directory);
	files->oldest = Min(first, current) * wal_segment_size;
	return true;
}

/*
 * Redo point of the last checkpoint that has ended; 0 if that can't be read now.  Not by
 * get_controlfile: its error would end the worker, and let all writers go.
 */
static uint64
read_completed_redo(void)
{
	ControlFileData control;
	pg_crc32c crc;
	int fd = open(XLOG_CONTROL_FILE, O_RDONLY | O_CLOEXEC);
	bool whole = fd >= 0 && read(fd, &control, sizeof(control)) == sizeof(control);

	if (fd >= 0)
		(void) close(fd);
	if (!whole)
		return 0;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &control, offsetof(ControlFileData, crc));
	FIN_CRC32C(crc);
	return EQ_CRC32C(crc, control.crc) ? control.checkPointCopy.redo : 0;
}

/*
 * From where on WAL is kept for something other than crash recovery, and what
 * that is: the slot, the summarizer of WAL (17+) or the archive that is furthest behind (xlog.c,
 * KeepLogSeg; XLogArchiveCheckDone).  insert if nothing is.  Not a slot that loses its WAL before the
 * room is used up: kept becomes that from where on WAL stays all the same.  The summarizer ends each
 * file of its own at a redo point: it is behind when it has not reached the last.  now_ms becomes the
 * moment as of which that holds.
 */
static uint64
retained_from(uint64 insert, uint64 redo, double room, uint64 *kept, char *name, uint64 *now_ms)
{
	uint64 from = insert;
	uint64 look_ms = *now_ms;
	uint64 queue;
	uint64 oldest;

	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < CALM_MAX_SLOTS; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];
		uint64 restart;

		if (!slot->in_use)
			continue;
		SpinLockAcquire(&slot->mutex);
		restart = CALM_SLOT_INVALIDATED(slot) ? 0 : slot->data.restart_lsn;
		SpinLockRelease(&slot->mutex);
		if (restart != 0 && restart < from)
		{
			from = restart;
			strlcpy(name, NameStr(slot->data.name), NAMEDATALEN);
		}
	}
	LWLockRelease(ReplicationSlotControlLock);
	/* it is not kept for long that is further behind than this: lost, not full */
	if (max_slot_wal_keep_size_mb >= 0)
		from = Max(from, insert - Min(insert, (uint64) max_slot_wal_keep_size_mb * 1024 * 1024));
	*kept = from;
	/* which checkpoints see to, when there has been so much more */
	if (max_slot_wal_keep_size_mb >= 0 &&
	    ((double) max_slot_wal_keep_size_mb + max_wal_size_mb) * 1024 * 1024 <=
	        room + (double) (insert - from))
	{
		from = insert;
		name[0] = '\0';
	}

#if PG_VERSION_NUM >= 170000
	if (summarize_wal)
	{
		TimeLineID timeline;
		XLogRecPtr summarized;
		XLogRecPtr pending;
		int pid;

		/* 0 until it has begun, as after a start */
		GetWalSummarizerState(&timeline, &summarized, &pending, &pid);
		if (summarized != 0 && summarized < Min(from, redo))
		{
			from = summarized;
			strlcpy(name, "WAL summarizer", NAMEDATALEN);
		}
	}
#endif

	if (guard_archive_queue(&queue, &oldest, &look_ms) && oldest != 0 && oldest < from)
	{
		from = oldest;
		*now_ms = look_ms;
		strlcpy(name, "archive", NAMEDATALEN);
	}
	*kept = Min(*kept, from);
	return from;
}

/*
 * What checkpoints allow, and whether they have to be helped: infinity as long
 * as they free WAL early enough by themselves.  A cycle that follows one which
 * was pressed for space is paced from its beginning, so that the rate is even.
 */
static double
checkpoint_rate(const GuardWal *wal, uint64 redo, bool running, WalPressure *pressure,
                uint64 now_ms)
{
	double whole = wal->cycle + wal->room + wal->freed;
	/* a keeper that went leaves more than half, of which nothing is free yet */
	double budget = Min(whole / 2, wal->cycle + wal->room);
	double rate;
	bool large = wal->cycle >= Max(whole * CYCLE_SHARE, 2.0 * wal_segment_size);

	if (pressure->redo != redo)
	{
		pressure->now = pressure->next;
		pressure->next = false;
		pressure->redo = redo;
	}
	/* a checkpoint that runs has WAL of the cycle before it to free as well */
	if (large || ((running || wal->freed > whole / 2) && wal->room < Max(whole, 0) * ROOM_SHARE))
	{
		pressure->now = pressure->next = true;
		if (running ? !guard_checkpoint_keeps_up(wal->cycle, budget) : large)
			guard_checkpoint_hurry(now_ms, running);
	}
	if (wal->room > 0 &&
	    (!pressure->now || (running && guard_checkpoint_keeps_up(wal->cycle, budget))))
		return INFINITY;
	rate = guard_space_rate(wal, guard_checkpoint_seconds(now_ms));
	/* one that comes on is no reason to refuse, however long it takes */
	if (guard_checkpoint_comes_on(RETAINED_LEAST, now_ms))
		rate = Max(rate, Min(wal->room / RETAINED_LAST_SECONDS, RETAINED_LEAST));
	return rate;
}

/* Room on the filesystem: until a checkpoint frees some, or what retains WAL comes on */
static void
look_at_space(uint64 insert, uint64 redo, const WalFiles *files, bool running,
              GuardReading *reading, uint64 now_ms)
{
	static WalPressure pressure;
	static GuardDrain retainer;
	static char retained_by[NAMEDATALEN] = "";
	static uint64 oldest = 0;
	static uint64 removed_ms = 0; /* when a checkpoint may last have removed files */
	static double told_reserve = 0;
	char name[NAMEDATALEN] = "";
	uint64 from_ms = now_ms;
	uint64 from;
	uint64 kept;
	double reserve;
	bool retained;
	bool another; /* keeps WAL than did at the last look */
	GuardWal wal;

	if (guard_wal_space < 0)
		reserve = Min(Max(Min(files->total_bytes * RESERVE_SHARE, max_wal_size_mb * 1024.0 * 1024),
		                  (double) RESERVE_SEGMENTS * wal_segment_size),
		              files->total_bytes * RESERVE_MAX_SHARE);
	else
	{
		reserve = Max(guard_wal_space * 1024.0 * 1024,
		              (double) RESERVE_LEAST_SEGMENTS * wal_segment_size);
		if (reserve >= files->total_bytes && reserve != told_reserve)
			ereport(WARNING,
			        (errmsg("pg_calm_guard.wal_space is no less than the filesystem of pg_wal has: "
			                "nobody can write"),
			         errhint("Set it to less, or to -1.")));
		told_reserve = reserve;
	}

	wal.cycle = insert - redo;
	wal.room = (double) files->free_bytes + files->ahead_bytes + wal_segment_size -
	           insert % wal_segment_size - reserve;
	from = retained_from(insert, redo, wal.room, &kept, name, &from_ms);
	kept = Min(kept, redo);
	if (wal_keep_size_mb > 0)
		kept = Min(kept, insert - Min(insert, (uint64) wal_keep_size_mb * 1024 * 1024));
	wal.freed = kept > files->oldest ? kept - files->oldest : 0;

	reading->value = files->free_bytes + files->ahead_bytes;
	reading->limit = reserve;
	reading->drain_rate = guard_checkpoint_drain_rate();
	/* whatever checkpoints do, this WAL stays until its retainer comes on */
	retained = from < redo && wal.room < (double) (insert - from);
	if (!retained)
		reading->allowed_rate = checkpoint_rate(&wal, redo, running, &pressure, now_ms);
	/* one that is complete by its control file goes on to remove files */
	if (running || files->oldest != oldest)
		removed_ms = now_ms;
	oldest = files->oldest;
	/* what it has left behind by then is freed by the next checkpoint, which nothing else hastens */
	if (wal.freed > Max(wal.room, 2.0 * wal_segment_size) &&
	    (retained || now_ms > removed_ms + REMOVAL_MS))
		guard_checkpoint_hurry(now_ms, true);
	strlcpy(reading->object, "checkpoint", sizeof(reading->object));

	/* two that go past each other are as one */
	another = strcmp(name, retained_by) != 0 && fabs((double) from - (double) retainer.position) >
	                                                (double) BEHIND_SEGMENTS * wal_segment_size;
	if (another)
		memset(&retainer, 0, sizeof(retainer));
	strlcpy(retained_by, name, sizeof(retained_by));
	guard_track(&retainer, from, from_ms);
	guard_forecast(reading, name, another, insert - from,
	               (double) files->free_bytes + files->ahead_bytes, retained, now_ms);
	if (retained)
	{
		double rate =
			Max(wal.room / RETAINED_SECONDS, Min(wal.room / RETAINED_LAST_SECONDS, RETAINED_LEAST));

		/* what it has left behind in a leap is not free before the next checkpoint ends */
		reading->allowed_rate = Min(Max(retainer.rate, 0) + rate, guard_space_rate(&wal, INFINITY));
		reading->drain_rate = retainer.rate;
		strlcpy(reading->object, name, sizeof(reading->object));
	}
}

/* Both inputs; insert is the end of WAL */
void
guard_wal_look(uint64 insert, GuardReading *space, GuardReading *retained, uint64 now_ms)
{
	static uint64 completed_redo = 0;
	uint64 redo;
	uint64 read;
	bool running;
	static WalFiles files;

	/* in this order: a checkpoint that ends in between must not look as if it began */
	redo = GetRedoRecPtr();
	read = read_completed_redo();
	if (read != 0)
		completed_redo = read;
	if (completed_redo == 0)
		return;
	redo = Max(redo, completed_redo);
	/* which was read before */
	insert = Max(insert, redo);
	running = guard_checkpoint_look(redo, completed_redo, now_ms);

	if (space->state != GUARD_OFF)
	{
		if (read_files(insert, &files))
		{
			space->state = GUARD_WATCHED;
			look_at_space(insert, redo, &files, running, space, now_ms);
		}
		else
			space->state = GUARD_UNKNOWN;
	}
	if (retained->state != GUARD_OFF)
	{
		static WalPressure pressure;
		GuardWal wal;

		retained->value = insert - completed_redo;
		retained->limit = (double) guard_max_wal * 1024 * 1024;
		wal.cycle = insert - redo;
		wal.room = retained->limit - retained->value;
		wal.freed = redo - completed_redo;
		retained->state = GUARD_WATCHED;
		retained->drain_rate = guard_checkpoint_drain_rate();
		retained->allowed_rate = checkpoint_rate(&wal, redo, running, &pressure, now_ms);
		/* beyond it nothing ends: nobody is stopped while a checkpoint comes on */
		if (guard_checkpoint_comes_on(RETAINED_LEAST, now_ms))
			retained->allowed_rate = Max(retained->allowed_rate, RETAINED_LEAST);
		strlcpy(retained->object, "checkpoint", sizeof(retained->object));
	}
}
