/*-------------------------------------------------------------------------
 *
 * cachestat.c
 *	  What of a file is dirty and under writeback: cachestat(2), Linux 6.5.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "writeback.h"

#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif

/* The call itself: 0, or -1 and errno */
int
cachestat_call(int fd, off_t offset, off_t length, struct calm_cachestat *result)
{
	uint64 range[] = {offset, length}; /* struct cachestat_range */

	return (int) syscall(__NR_cachestat, fd, range, result, 0);
}

/* Whether the kernel has it.  Then writeback can be confirmed without consuming errors */
bool
cachestat_works(void)
{
	static int works = -1;

	if (works < 0)
	{
		struct calm_cachestat result;

		/* a missing call is ENOSYS, or EPERM under a container's seccomp filter */
		works = cachestat_call(-1, 0, 0, &result) != 0 && errno == EBADF;
	}
	return works > 0;
}

/* Blocks that are dirty, or as many as the folios are long that are */
uint32
cachestat_dirty_blocks(const struct calm_cachestat *state)
{
	return state->nr_dirty * sysconf(_SC_PAGESIZE) / BLCKSZ;
}
