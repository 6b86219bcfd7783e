/*-------------------------------------------------------------------------
 *
 * synchronous_flush.c
 *	  Preloaded by the lab's contestant flush-checkpointer-sync: the checkpointer
 *	  waits for what it starts to write by sync_file_range.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By its title; what is read before that is set says nothing yet, and children inherit what is known */
static int
is_checkpointer(void)
{
	static int known = -1;
	char title[256] = "";
	int fd;

	if (known < 0)
	{
		fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, title, sizeof(title) - 1) < 0)
			title[0] = 0;
		if (fd >= 0)
			close(fd);
		if (strncmp(title, "postgres: ", 10) == 0)
			known = strstr(title, "checkpointer") != NULL;
	}
	return known > 0;
}

int
sync_file_range(int fd, off64_t offset, off64_t length, unsigned int flags)
{
	if (is_checkpointer())
		flags |= SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
	return (int) syscall(SYS_sync_file_range, fd, offset, length, flags);
}
