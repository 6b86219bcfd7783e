/*-------------------------------------------------------------------------
 *
 * error_shim.c
 *	  Preloaded into the server by bench/torture-errors: what may go wrong
 *	  around sync_file_range in the writeback worker.
 *
 * PGCALM_SHIM=eat	each start of writeback is waited for, and its error thrown
 *		away: the module as it would be without care.  The harness has to find
 *		pages lost with this, or it proves nothing.
 * PGCALM_SHIM=stop	the process stops itself (SIGSTOP) after a call that returned
 *		an error, before the caller has seen it.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int
sync_file_range(int fd, off64_t offset, off64_t length, unsigned int flags)
{
	const char *what = getenv("PGCALM_SHIM");
	int result;

	if (what && strcmp(what, "eat") == 0)
	{
		(void) syscall(SYS_sync_file_range, fd, offset, length,
		               SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_BEFORE |
		                   SYNC_FILE_RANGE_WAIT_AFTER);
		return 0;
	}
	result = (int) syscall(SYS_sync_file_range, fd, offset, length, flags);
	if (result != 0 && what && strcmp(what, "stop") == 0)
	{
		int save_errno = errno;

		raise(SIGSTOP);
		errno = save_errno;
	}
	return result;
}
