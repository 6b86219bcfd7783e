/*-------------------------------------------------------------------------
 *
 * slow_fdatasync.c
 *	  Preloaded by a test: fdatasync takes longer.
 *
 * As on a volume that answers late: by as many microseconds as SLOW_FDATASYNC_US
 * says, after the real call.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int
fdatasync(int fd)
{
	const char *text = getenv("SLOW_FDATASYNC_US");
	long long microseconds = text ? atoll(text) : 0;
	struct timespec rest = {microseconds / 1000000, microseconds % 1000000 * 1000};
	int result = (int) syscall(SYS_fdatasync, fd);

	if (result == 0)
		while (nanosleep(&rest, &rest) != 0)
			;
	return result;
}
