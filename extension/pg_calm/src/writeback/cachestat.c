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

struct calm_cachestat_range
{
	uint64 off;
	uint64 len;
};

int
cachestat_call(int fd, off_t offset, off_t length, struct calm_cachestat *result)
{
	struct calm_cachestat_range range = {offset, length};

	return (int) syscall(__NR_cachestat, fd, &range, result, 0);
}

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

uint32
cachestat_dirty_blocks(int fd, uint32 first, uint32 blocks)
{
	struct calm_cachestat state;

	if (cachestat_call(fd, (off_t) first * BLCKSZ, (off_t) blocks * BLCKSZ, &state) != 0)
		return blocks;
	return state.nr_dirty * sysconf(_SC_PAGESIZE) / BLCKSZ;
}
