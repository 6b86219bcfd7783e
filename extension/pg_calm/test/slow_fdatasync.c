/*-------------------------------------------------------------------------
 *
 * slow_fdatasync.c
 *	  Preloaded by a test: fdatasync takes longer, and so do sync_file_range and the clock.
 *
 * As on a volume that answers late: by as many microseconds as SLOW_FDATASYNC_US
 * and BUSY_SYNC_FILE_RANGE_US say, after the real call.  The latter is not slept:
 * whoever waits for a device is not stopped, and looks so.  By SLOW_CLOCK_US pg_calm waits before it
 * learns the time, as if others had its processor.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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

int
sync_file_range(int fd, off_t offset, off_t length, unsigned int flags)
{
	const char *text = getenv("BUSY_SYNC_FILE_RANGE_US");
	int result = (int) syscall(SYS_sync_file_range, fd, offset, length, flags);
	struct timespec now;
	long long end = 0;

	do
	{
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (end == 0)
			end = now.tv_sec * 1000000LL + now.tv_nsec / 1000 + (text ? atoll(text) : 0);
	} while (now.tv_sec * 1000000LL + now.tv_nsec / 1000 < end);
	return result;
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	const char *text = getenv("SLOW_CLOCK_US");
	Dl_info caller;

	if (text && clock == CLOCK_MONOTONIC && dladdr(__builtin_return_address(0), &caller) != 0 &&
	    strstr(caller.dli_fname, "/pg_calm.so"))
		usleep((useconds_t) atoi(text));
	return (int) syscall(SYS_clock_gettime, clock, now);
}
