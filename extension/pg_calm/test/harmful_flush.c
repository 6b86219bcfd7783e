/*-------------------------------------------------------------------------
 *
 * harmful_flush.c
 *	  Preloaded by a test: what the worker writes does harm, as the test says.
 *
 * HARMFUL_FLUSH names a file that all processes map, and whose first byte the test
 * writes:
 * - 'a' (amplification): the device says that each gap that is made dirty by madvise(2) has had a
 *	 megabyte written;
 * - 'd' (delay): for a third of a second after the worker has started to write, each
 *	 fdatasync takes a tenth of a second longer;
 * - 'i' (interruption): each second call of the worker that starts to write is ended by a signal;
 * - 's' (slow): each call of the worker that starts to write takes 20 ms longer.
 *
 * The device is one that only the worker writes to: beside that file, in one with .diskstats after its
 * name, is its line of /proc/diskstats, which begins as HARMFUL_DEVICE says.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct control
{
	volatile char fault;
	char pad[7];
	volatile int64_t started_ns; /* when the worker wrote last */
};

static struct control *control = NULL;
static int diskstats = -1;

static int64_t
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

__attribute__((constructor)) static void
map_control(void)
{
	const char *path = getenv("HARMFUL_FLUSH");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *mapping;

	if (fd < 0)
		return;
	mapping = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapping != MAP_FAILED)
		control = mapping;
	close(fd);
}

/* The worker alone does this */
static void
count_written(int64_t bytes)
{
	static int64_t writes = 0;
	static int64_t written = 0;
	char path[4096];
	char line[256];
	int length;
	int save_errno = errno;

	if (diskstats < 0)
	{
		snprintf(path, sizeof(path), "%s.diskstats", getenv("HARMFUL_FLUSH"));
		diskstats = open(path, O_WRONLY | O_CLOEXEC);
	}
	writes++;
	written += bytes;
	length = snprintf(line, sizeof(line), "%s 0 0 0 0 %lld 0 %lld 0 0 0 0\n",
	                  getenv("HARMFUL_DEVICE"), (long long) writes, (long long) (written / 512));
	if (diskstats >= 0 && pwrite(diskstats, line, (size_t) length, 0) < 0)
		perror("diskstats");
	errno = save_errno;
}

int
madvise(void *address, size_t length, int advice)
{
	int result = (int) syscall(SYS_madvise, address, length, advice);

	if (result == 0 && advice == MADV_POPULATE_WRITE && control && control->fault == 'a')
		count_written(1 << 20);
	return result;
}

/* By its title, which is set when it begins */
static int
is_worker(void)
{
	static int known = -1;
	char title[64] = "";
	int fd;

	if (known < 0)
	{
		fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, title, sizeof(title) - 1) < 0)
			title[0] = 0;
		if (fd >= 0)
			close(fd);
		known = strstr(title, "pg_calm writeback worker") != NULL;
	}
	return known;
}

int
sync_file_range(int fd, off64_t offset, off64_t length, unsigned int flags)
{
	static unsigned int calls = 0;
	struct timespec rest = {0, 20000000};
	int result;

	if (control && is_worker())
	{
		if (control->fault == 'i' && calls++ % 2 == 0)
		{
			errno = EINTR;
			return -1;
		}
		control->started_ns = now_ns();
		count_written(length);
	}
	result = (int) syscall(SYS_sync_file_range, fd, offset, length, flags);
	if (result == 0 && flags == SYNC_FILE_RANGE_WRITE && control && control->fault == 's' &&
	    is_worker())
		(void) nanosleep(&rest, NULL);
	return result;
}

int
fdatasync(int fd)
{
	struct timespec rest = {0, 100000000};
	int result = (int) syscall(SYS_fdatasync, fd);

	if (control && control->fault == 'd' && now_ns() - control->started_ns < 333000000)
		(void) nanosleep(&rest, NULL);
	return result;
}
