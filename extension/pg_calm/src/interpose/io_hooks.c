/*-------------------------------------------------------------------------
 *
 * io_hooks.c
 *	  The calls of the server that pg_calm replaces.
 *
 * pwrite, pwritev: the page map learns what was written.
 * fsync: a data file is drained before, and an error that pg_calm saw
 *		first is reported after.  The server's fsync always happens.
 * fdatasync: flushes of WAL are timed.  Those by open_sync and open_datasync, of which each
 *		write is one, are not seen.
 * sync_file_range: the server's own flush hints are dropped for what we flush.
 * close: what is remembered of a file descriptor ends with it.  Asking the
 *		kernel at each write which file it goes to costs too much of the write.
 *
 * Which of the server's calls it is, is told by the wait event that it reports around the call
 * (storage/file/fd.c): FileWrite of md.c reports DataFileWrite or DataFileExtend; WAL, SLRU and
 * temporary files report others.  Temporary tables go through md.c too and are told by their name.
 *
 * They run in critical sections and with locks held.
 *
 * - pwrite, pwritev, fdatasync and close make the real call once, return its result and
 *	 leave errno as it did; they don't allocate, wait or raise errors.  One exception: while
 *	 the cleaner fills a WAL segment that nobody needs yet, its writes of that segment wait,
 *	 and fail where starting their writeback does (wal_ahead.c).
 * - fsync makes the real call, of the checkpointer maybe on a duplicate.  It can fail
 *	 where that did not, never the other way round.  Any process may wait in it for a
 *	 call of the worker's for the same file (error_latch.c): for as long as the worker is
 *	 at work, else FSYNC_PATIENCE_MS.  The checkpointer, which holds no lock there
 *	 (sync.c, ProcessSyncRequests), also waits for a drain, in which barriers and reloads may
 *	 raise errors.
 * - sync_file_range is left out for a hint of a data file that the worker flushes.  The
 *	 checkpointer waits instead (checkpoint_hold.c); others don't.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "wal/wal.h"
#include "writeback/writeback.h"
#include "interpose.h"

/* File descriptors that have a place of their own; those beyond share it */
#define MAX_KNOWN_FDS 8192

/* KnownFd.file */
enum
{
	FD_SMALL = -3, /* of a file that is not worth it, so far */
	FD_NO_ROOM,    /* the map was full */
	FD_IGNORED,    /* not a file to track */
	FD_UNKNOWN,
};

/*
 * Blocks of a file from which on it is tracked.  In a smaller one there is little to merge, and a
 * server can have a hundred thousand of them: they are left to the server's own hints and fsync.
 */
#define TRACKED_BLOCKS (1024 * 1024 / BLCKSZ)

/* How long an fsync waits for a call of the worker's that does not end, ms */
#define FSYNC_PATIENCE_MS (calm_worker_timeout * 5 / 2)

typedef struct KnownFd
{
	int fd;
	int32 file;         /* index in the page map + 1, or as above */
	uint32 incarnation; /* of FD_NO_ROOM: when to ask again */
} KnownFd;

static ssize_t (*real_pwrite)(int fd, const void *buffer, size_t length, off_t offset);
static ssize_t (*real_pwritev)(int fd, const struct iovec *iov, int count, off_t offset);
static int (*real_fsync)(int fd);
static int (*real_fdatasync)(int fd);
static int (*real_sync_file_range)(int fd, off_t offset, off_t length, unsigned int flags);
static int (*real_close)(int fd);

static KnownFd known_fds[MAX_KNOWN_FDS]; /* all bytes 0: descriptor 0, of which nothing is known */

/* A temporary relation's file is "tN_N..." (relpath.c); others of md.c start with a digit */
static inline bool
is_tracked_name(const char *path)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	return name[0] >= '0' && name[0] <= '9';
}

/* What is known of a descriptor, or is to be */
static inline KnownFd *
known_fd(int fd)
{
	KnownFd *known = &known_fds[(unsigned int) fd % MAX_KNOWN_FDS];

	if (unlikely(known->fd != fd))
	{
		known->fd = fd;
		known->file = FD_UNKNOWN;
	}
	return known;
}

/*
 * Find out which file a descriptor stands for, and track it.  Three system
 * calls, at the first write through a descriptor; and with the map full at one
 * in a quarter of a second, in which the worker may have made room.
 */
static KnownFd
identify(int fd)
{
	KnownFd known = {.fd = fd, .file = FD_IGNORED};
	char path[MAXPGPATH];
	struct stat st;

	if (file_path(fd, path) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_tracked_name(path))
	{
		if (st.st_dev != calm_shared->device)
			pg_atomic_write_u32(&calm_shared->other_devices, 1);
		else if (st.st_size < (off_t) TRACKED_BLOCKS * BLCKSZ)
			known.file = FD_SMALL;
		else if (page_map_keeps_path(calm_page_map, path))
		{
			/* PAGE_MAP_NO_FILE + 1 is FD_UNKNOWN */
			known.file =
				page_map_track_file(calm_page_map, st.st_dev, st.st_ino, path, &known.incarnation) +
				1;
			if (known.file == FD_UNKNOWN)
			{
				known.file = FD_NO_ROOM;
				known.incarnation = (uint32) (monotonic_ms() + CALM_LOOK_MS);
			}
		}
	}
	*known_fd(fd) = known;
	return known;
}

/*
 * The checkpointer writes in order of file and block (BufferSync), so once it has left a region it
 * will not come back to it in this checkpoint: the region can be written back.
 */
static void
checkpointer_written(uint32 file, BlockNumber block)
{
	static uint32 last_file = UINT32_MAX;
	static uint32 last_number = 0;
	uint32 number = block / PAGE_MAP_REGION_BLOCKS;

	if (file == last_file && number == last_number)
		return;
	if (last_file != UINT32_MAX)
	{
		PageMapRegion *region =
			page_map_region_of(calm_page_map, page_map_file(calm_page_map, last_file), last_number);

		/* advice: a region that has become another file's is flushed early, no more */
		if (region)
			pg_atomic_write_u32(&region->passed, 1);
	}
	last_file = file;
	last_number = number;
}

/* A data file was written to; errno is the caller's to keep */
static void
written(int fd, off_t offset, ssize_t length)
{
	KnownFd known = *known_fd(fd);
	BlockNumber block = offset / BLCKSZ;
	uint32 blocks = (offset + length - 1) / BLCKSZ - block + 1;
	uint64 now = monotonic_ms();

	if (known.file == FD_NO_ROOM && (int32) ((uint32) now - known.incarnation) < 0)
	{
		pg_atomic_fetch_add_u64(&calm_page_map->full.value, 1);
		return;
	}
	if (known.file == FD_UNKNOWN || known.file == FD_NO_ROOM ||
	    (known.file == FD_SMALL && block + blocks > TRACKED_BLOCKS))
		known = identify(fd);

	if (known.file > 0 &&
	    !page_map_mark(calm_page_map, known.file - 1, known.incarnation, block, blocks, now))
	{
		known = identify(fd);
		if (known.file > 0)
			(void) page_map_mark(calm_page_map, known.file - 1, known.incarnation, block, blocks,
			                     now);
	}
	if (known.file > 0 && MyBackendType == B_CHECKPOINTER &&
	    block < PAGE_MAP_FILE_REGIONS * PAGE_MAP_REGION_BLOCKS)
		checkpointer_written(known.file - 1, block);
}

/* After a write; length is its result, and what is returned */
static inline ssize_t
write_ended(int fd, off_t offset, ssize_t length)
{
	int save_errno = errno;
	uint32 event = *my_wait_event_info;
	bool data_file = event == WAIT_EVENT_DATA_FILE_WRITE || event == WAIT_EVENT_DATA_FILE_EXTEND;

	if (length <= 0)
		return length;
	if (MyBackendType == B_CHECKPOINTER)
		targets_pace_checkpoint(data_file);
	if (calm_page_map && data_file)
	{
		checkpoint_stats_written(length);
		if (calm_mode != CALM_MODE_OFF)
			written(fd, offset, length);
	}
	errno = save_errno;
	return wal_ahead_written(fd, offset, length) ? length : -1;
}

static ssize_t
calm_pwrite(int fd, const void *buffer, size_t length, off_t offset)
{
	return write_ended(fd, offset, real_pwrite(fd, buffer, length, offset));
}

static ssize_t
calm_pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	return write_ended(fd, offset, real_pwritev(fd, iov, count, offset));
}

/*
 * Whether a file was unlinked by the time that a drain was over.  Sync requests were
 * absorbed meanwhile, and among them can be one for a new file by the same name, which
 * this fsync would count as done.  With ENOENT the server absorbs, and opens the name
 * again if it has to (sync.c, ProcessSyncRequests); a second time would be an error to it.
 */
static bool
went_meanwhile(const struct stat *st)
{
	static uint64 told = 0;
	bool first = st->st_ino != told;

	if (st->st_nlink > 0)
		return false;
	told = st->st_ino;
	return first;
}

/*
 * A flush of WAL is over: the circuit breaker (worker/breaker.c) judges the module by how long
 * commits wait for them.  Whoever flushes holds WALWriteLock, or is a standby's WAL receiver, or
 * its startup process after it: there is never more than one, so nothing is added atomically.
 */
static void
wal_flushed(uint64 microseconds)
{
	pg_atomic_uint64 *flushes = &calm_shared->counters.wal_flushes;
	pg_atomic_uint64 *spent_us = &calm_shared->counters.wal_flush_us;

	pg_atomic_write_u64(spent_us, pg_atomic_read_u64(spent_us) + microseconds);
	pg_atomic_write_u64(flushes, pg_atomic_read_u64(flushes) + 1);
}

static int
calm_fsync(int fd)
{
	uint32 event = *my_wait_event_info;
	bool data_file =
		event == WAIT_EVENT_DATA_FILE_SYNC || event == WAIT_EVENT_DATA_FILE_IMMEDIATE_SYNC;
	int target = fd;
	int file = PAGE_MAP_NO_FILE;
	struct stat st = {0};
	uint64 started;
	uint64 microseconds;
	int result;
	int save_errno;

	checkpoint_stats_fsync_begins(event);
	if (event == WAIT_EVENT_DATA_FILE_SYNC && MyBackendType == B_CHECKPOINTER && calm_page_map)
		target = drain_before_checkpoint_fsync(fd);
	if (data_file && calm_page_map && fstat(target, &st) == 0)
	{
		if (target != fd && went_meanwhile(&st))
		{
			(void) real_close(target);
			errno = ENOENT;
			return -1;
		}
		file = page_map_begin_fsync(calm_page_map, st.st_dev, st.st_ino);
		/* in mode off, too, what was marked before has to be forgotten */
		if (file != PAGE_MAP_NO_FILE)
			flush_file_before_fsync(target, file);
	}
	started = monotonic_ns();
	/* if the server tries again at all, then with its own number, which may be closed by now */
	do
		result = real_fsync(target);
	while (result != 0 && errno == EINTR);
	save_errno = errno;
	microseconds = (monotonic_ns() - started) / 1000;
	if (event == WAIT_EVENT_WAL_SYNC && calm_shared && calm_mode != CALM_MODE_OFF)
		wal_flushed(microseconds);
	page_map_end_fsync(calm_page_map, file);
	errno = save_errno;

	/* whatever the mode is now: the latch can hold an error of when it was on */
	if (result == 0 && data_file && calm_shared)
	{
		int error =
			error_latch_check(&calm_shared->error_latch, st.st_dev, st.st_ino, FSYNC_PATIENCE_MS);

		if (error == ETIMEDOUT)
		{
			ereport(LOG,
			        (errmsg("pg_calm: the writeback worker (PID %u) is stopped in a call for a "
			                "file, so the file's fsync fails",
			                pg_atomic_read_u32(&calm_shared->worker_pid)),
			         errdetail("It is not known whether that call saw a write error.")));
			error = EIO;
		}
		if (error != 0)
		{
			errno = error;
			result = -1;
		}
	}
	/* nothing that follows may hide why it failed */
	save_errno = errno;
	checkpoint_stats_fsync_ended(target, event, result == 0, microseconds);
	/* as the worker's close (open_files.c): what it reports is not lost */
	if (target != fd && real_close(target) != 0 && result == 0)
	{
		save_errno = errno;
		result = -1;
	}
	if (result == 0 && event == WAIT_EVENT_WAL_INIT_SYNC)
		wal_ahead_synced(fd);
	errno = save_errno;
	return result;
}

static int
calm_fdatasync(int fd)
{
	uint64 started;
	int result;
	int save_errno;

	if (*my_wait_event_info != WAIT_EVENT_WAL_SYNC || calm_shared == NULL ||
	    calm_mode == CALM_MODE_OFF)
		return real_fdatasync(fd);
	started = monotonic_ns();
	result = real_fdatasync(fd);
	save_errno = errno;
	wal_flushed((monotonic_ns() - started) / 1000);
	errno = save_errno;
	return result;
}

/*
 * Whether what was written through a descriptor is flushed by the worker: it
 * works, and the file is tracked, which it is not on a device whose caps we don't
 * know, nor are all of its regions with the page map full.  If not, nobody else would do it.
 */
static bool
is_flushed_by_us(int fd, off_t offset, off_t length)
{
	KnownFd known;
	struct stat st;
	PageMapFile *file;

	if (!worker_is_flushing())
		return false;
	known = *known_fd(fd);
	if (known.file == FD_UNKNOWN)
	{
		/* written through another descriptor, that has been closed since */
		known.file =
			fstat(fd, &st) != 0 ?
				FD_IGNORED :
				page_map_find_file(calm_page_map, st.st_dev, st.st_ino, &known.incarnation) + 1;
	}
	if (known.file <= 0)
		return false;
	file = page_map_file(calm_page_map, known.file - 1);
	for (uint64 number = offset / PAGE_MAP_REGION_BYTES;
	     number <= (uint64) (offset + Max(length, 1) - 1) / PAGE_MAP_REGION_BYTES; number++)
	{
		if (number >= PAGE_MAP_FILE_REGIONS ||
		    page_map_region_of(calm_page_map, file, (uint32) number) == NULL)
			return false;
	}
	return pg_atomic_read_u32(&file->incarnation) == known.incarnation;
}

static int
calm_sync_file_range(int fd, off_t offset, off_t length, unsigned int flags)
{
	if (calm_shared && *my_wait_event_info == WAIT_EVENT_DATA_FILE_FLUSH &&
	    is_flushed_by_us(fd, offset, length) &&
	    (MyBackendType != B_CHECKPOINTER || checkpoint_hold_writes(length)))
	{
		pg_atomic_fetch_add_u64(&calm_shared->counters.suppressed_hints, 1);
		return 0;
	}
	return real_sync_file_range(fd, offset, length, flags);
}

static int
calm_close(int fd)
{
	known_fd(fd)->file = FD_UNKNOWN;
	checkpoint_stats_closing();
	return real_close(fd);
}

bool
io_hooks_install(const char **reason)
{
	const InterposeSlot slots[] = {
		{"pwrite", calm_pwrite, (void **) &real_pwrite, true},
		{"pwritev", calm_pwritev, (void **) &real_pwritev, true},
		{"fsync", calm_fsync, (void **) &real_fsync, true},
		{"fdatasync", calm_fdatasync, (void **) &real_fdatasync, false},
		{"sync_file_range", calm_sync_file_range, (void **) &real_sync_file_range, true},
		{"close", calm_close, (void **) &real_close, true},
	};

	return interpose_install(slots, lengthof(slots), reason);
}
