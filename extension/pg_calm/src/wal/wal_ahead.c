/*-------------------------------------------------------------------------
 *
 * wal_ahead.c
 *	  Fills the next WAL segment before it is needed, and slowly.
 *
 * A checkpoint that ends in time leaves segments to recycle.  Where it does not, since max_wal_size
 * is small for the load, whoever comes to the end of the last segment fills a new one with zeros
 * and syncs it, with the lock held that all commits wait for (xlog.c, XLogWrite, XLogFileInit).
 * That is 16 MiB in one go: 131 ms of a volume of 125 MiB/s, for all transactions, each time.
 *
 * So the cleaner looks whether the next segments are there, and has the server's own
 * XLogFileInit make the first that is missing.  Our hooks of its writes start the writeback of
 * each part and wait after it, so that it takes half of the time that is left until the segment
 * is needed, or less.  The server takes the segment as one that somebody else has filled, as its
 * checkpointer does (PreallocXlogFiles).  Who needs it earlier fills one, and ours is the next.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "wal.h"

/*
 * LOOK_MS			between looks
 * SEGMENTS_AHEAD	after the one in use that are looked for
 * NEEDED_SECONDS	within which a segment has to be needed to be filled
 * PART_OF_TIME		part of the time until then in which it is: so two segments are ahead in the
 *					end, and they are filled without a pause, as fast as WAL comes
 * FALL_MS			half-life with which a lower rate of WAL is followed
 * LEFT_SEGMENTS	space on the volume of pg_wal that is left alone
 */
#define LOOK_MS 100
#define SEGMENTS_AHEAD 4
#define NEEDED_SECONDS 5.0
#define PART_OF_TIME 0.5
#define FALL_MS 2000.0
#define LEFT_SEGMENTS 16

static bool filling = false;
static double bytes_per_second = 0; /* at which it is filled */
static void (*serve)(void) = NULL;

static bool
has_room(void)
{
	struct statvfs fs;

	return statvfs(XLOGDIR, &fs) == 0 &&
	       (double) fs.f_bavail * fs.f_frsize > (double) LEFT_SEGMENTS * wal_segment_size;
}

/*
 * To be called by the cleaner, as often as it likes.  If a segment that will be needed soon is
 * not there, it is filled; meanwhile between() is called every few milliseconds, so that
 * nobody waits for the cleaner.
 */
void
wal_ahead_tick(uint64 now_ms, void (*between)(void))
{
	static uint64 next_ms = 0;
	static uint64 last_ms = 0;
	static XLogRecPtr last = InvalidXLogRecPtr;
	static double rate = 0; /* of WAL, bytes per second */
	XLogRecPtr insert;
	XLogSegNo segment;
	TimeLineID timeline;

	if (now_ms < next_ms)
		return;
	next_ms = now_ms + LOOK_MS;
	if (!calm_flushes() || !wal_init_zero || RecoveryInProgress())
		return;
	insert = GetXLogInsertRecPtr();
	timeline = GetWALInsertionTimeLine();
	if (last_ms != 0 && now_ms > last_ms && insert >= last)
	{
		double now = (double) (insert - last) * 1000 / (now_ms - last_ms);

		/* WAL comes in bursts: a higher rate counts at once, a lower one if it stays */
		rate +=
			(now - rate) * (now > rate ? 0.5 : 1 - exp2(-(double) (now_ms - last_ms) / FALL_MS));
	}
	last = insert;
	last_ms = now_ms;

	XLByteToSeg(insert, segment, wal_segment_size);
	for (int i = 1; i <= SEGMENTS_AHEAD; i++)
	{
		uint64 left = (uint64) i * wal_segment_size - XLogSegmentOffset(insert, wal_segment_size);
		char path[MAXPGPATH];
		int fd;

		if (left > rate * NEEDED_SECONDS)
			return;
		XLogFilePath(path, timeline, segment + i, wal_segment_size);
		if (access(path, F_OK) == 0)
			continue;
		if (!has_room())
			return;
		bytes_per_second = rate * wal_segment_size / (left * PART_OF_TIME);
		serve = between;
		filling = true;
		/* on an error this process ends, and with it what it was about to do */
		fd = XLogFileInit(segment + i, timeline);
		filling = false;
		close(fd);
		last_ms = 0;
		return;
	}
}

/*
 * For the hooks of pwrite and pwritev: a part of the segment that this process fills has been
 * written.  Starts its writeback, and waits; false, with errno, if that failed.
 */
bool
wal_ahead_written(int fd, off_t offset, ssize_t length)
{
	uint64 now;
	uint64 until;

	if (!filling || *my_wait_event_info != WAIT_EVENT_WAL_INIT_WRITE)
		return true;
	/* a server that stops waits for us: then the rest goes as fast as it can */
	if (ShutdownRequestPending)
		return true;
	/* nobody else would tell of an error of this call */
	if (sync_file_range(fd, offset, length, SYNC_FILE_RANGE_WRITE) != 0 && errno != ENOSYS &&
	    errno != EOPNOTSUPP && errno != EPERM && errno != EINTR)
		return false;
	now = monotonic_ns();
	until = now + (uint64) (length / bytes_per_second * 1e9);
	while (now < until && !ShutdownRequestPending)
	{
		uint64 left_us = (until - now) / 1000;

		/*
		 * No buffer is written whose WAL is not flushed (buffer_cleaning.c).  A hint bit can
		 * still need WAL after that look; if that needs a new segment it is filled under our
		 * temporary file's name, at once, and ours is not put in place (xlog.c,
		 * InstallXLogFileSegment).  Then this process ends, unless the segment is there by now.
		 */
		filling = false;
		serve();
		filling = true;
		pg_usleep((long) Min(left_us, 2000));
		now = monotonic_ns();
	}
	return true;
}

/*
 * For the hook of fsync: a new segment has been synced, and is nobody's yet.  If it is one that
 * this process fills, its zeros don't stay in the page cache: whole pages are written over them.
 */
void
wal_ahead_synced(int fd)
{
	if (filling)
		(void) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}
