/*-------------------------------------------------------------------------
 *
 * error_latch.c
 *	  A writeback error seen by pg_calm reaches PostgreSQL's next fsync.
 *
 * The kernel reports a writeback error once to every file description that was open when it
 * happened, and to the first that is opened afterwards if nobody has seen it (lib/errseq.c).  The
 * checkpointer opens segments afresh to fsync them.  So if the worker waits for writeback and is
 * told of an error, the checkpointer's fsync returns success over lost data.
 *
 * An error of starting writeback, as of delayed allocation on ext4, is told to the caller only: no
 * later fsync finds anything to complain of.  Where the kernel has cachestat(2) the worker starts
 * writeback, and makes no call that consumes an error; elsewhere it also waits, with
 * sync_file_range.  Each of these calls is made between begin and end; and after every fsync of a
 * data file the caller's process waits until a call for that file that began before has ended, then
 * fails the fsync if any call saw an error.  The server then does what it does for a failed fsync.
 *
 * The fsync itself has waited for all of its file, and so for the
 * device: what is left of the call is a moment, or what a slow device makes of 256 kB,
 * unless the worker is stopped right there.  Who waits has it go on (SIGCONT).  If that does not
 * help, as under a debugger, it is not known what the call saw, and in the end the fsync fails:
 * nobody waits for ever.  A worker that runs or waits for the device is waited for as fsync
 * waits: no server shall end since a device is slow.  One that dies makes the server restart.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "errors.h"
#include "miscadmin.h"

/* Milliseconds between looks at what the other process does */
#define LOOK_NAPS 100

/* The worker is about to make a call that may consume an error of a file */
void
error_latch_begin(ErrorLatch *latch, uint64 device, uint64 inode)
{
	pg_atomic_write_u64(&latch->device, device);
	pg_atomic_write_u64(&latch->inode, inode);
	pg_atomic_write_u32(&latch->pid, (uint32) MyProcPid);
	/* a full barrier: who sees that the call has begun sees its file */
	pg_atomic_fetch_add_u32(&latch->begun, 1);
}

/* The call is over; error is its errno, or 0 */
void
error_latch_end(ErrorLatch *latch, int error)
{
	if (error != 0)
	{
		uint32 none = 0;

		pg_atomic_fetch_add_u64(&latch->errors, 1);
		(void) pg_atomic_compare_exchange_u32(&latch->error, &none, (uint32) error);
	}
	pg_atomic_fetch_add_u32(&latch->ended, 1);
}

/* Whether a process runs or waits for a device (states R and D), and is not stopped: proc(5) */
static bool
is_at_work(uint32 pid)
{
	char text[256];
	const char *state;
	ssize_t length;
	int fd;

	snprintf(text, sizeof(text), "/proc/%u/stat", pid);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT; /* a lack of descriptors tells nothing of it */
	length = read(fd, text, sizeof(text) - 1);
	(void) close(fd);
	text[Max(length, 0)] = '\0';
	/* after the name, which is in parentheses and may have some */
	state = strrchr(text, ')');
	return state && state[1] == ' ' && (state[2] == 'R' || state[2] == 'D');
}

/* Whether a call that began as number begun is under way, and may be for a file */
static bool
under_way(ErrorLatch *latch, uint32 begun, uint64 device, uint64 inode)
{
	bool same;

	pg_read_barrier();
	same = inode == 0 || (pg_atomic_read_u64(&latch->device) == device &&
	                      pg_atomic_read_u64(&latch->inode) == inode);
	/* the file of a later call is set only after this one has ended */
	pg_read_barrier();
	return (int32) (pg_atomic_read_u32(&latch->ended) - begun) < 0 && same;
}

/*
 * After an fsync of a file returned success: errno of an error that a call of ours saw
 * first, or 0; ETIMEDOUT if a call for that file has not ended while its process was
 * not at work for timeout_ms milliseconds, so that it is not known.  With inode 0, any
 * file.  There is one worker, which makes one call at a time.
 *
 * Not interruptible, like the fsync itself.  What is counted is our own naps, not
 * the clock: if the whole host stood still, the worker did, too.
 */
int
error_latch_check(ErrorLatch *latch, uint64 device, uint64 inode, int timeout_ms)
{
	uint32 begun;

	/* a call whose begin we don't see here started after the fsync returned */
	pg_memory_barrier();
	begun = pg_atomic_read_u32(&latch->begun);
	for (int naps = 0; under_way(latch, begun, device, inode); naps++)
	{
		if (naps % LOOK_NAPS == LOOK_NAPS - 1)
		{
			/* to one that is not stopped it is nothing */
			(void) kill((pid_t) pg_atomic_read_u32(&latch->pid), SIGCONT);
			if (is_at_work(pg_atomic_read_u32(&latch->pid)))
				naps = 0;
		}
		if (naps >= timeout_ms)
			return ETIMEDOUT;
		pg_usleep(1000);
	}
	pg_read_barrier();
	return (int) pg_atomic_read_u32(&latch->error);
}
