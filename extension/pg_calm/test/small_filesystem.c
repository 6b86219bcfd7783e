/*-------------------------------------------------------------------------
 *
 * small_filesystem.c
 *	  Preloaded by a test: the filesystem of pg_wal looks to have 64 MB, or as many
 *	  as PG_CALM_FILESYSTEM_MB says, less what its segments take.  A look at it takes
 *	  PG_CALM_SLOW_LOOK milliseconds, in which it waits.
 *	  With PG_CALM_SLOW_QUEUE one at archive_status takes so many milliseconds of a processor.
 *	  While there is a file PG_CALM_HELD_SYNC no fsync of a table ends.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SEGMENT_BYTES (1024UL * 1024)
#define SEGMENTS 64

DIR *
opendir(const char *path)
{
	DIR *(*real)(const char *) = dlsym(RTLD_NEXT, "opendir");
	const char *name = strrchr(path, '/');
	const char *slow = getenv("PG_CALM_SLOW_QUEUE");

	if (slow != NULL && name != NULL && strcmp(name, "/archive_status") == 0)
	{
		clock_t end = clock() + atoi(slow) * (CLOCKS_PER_SEC / 1000);

		while (clock() < end)
			;
	}
	return real(path);
}

int
fsync(int fd)
{
	const char *held = getenv("PG_CALM_HELD_SYNC");
	char path[4096] = "";
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (held != NULL && readlink(link, path, sizeof(path) - 1) > 0 &&
	    strstr(path, "/base/") != NULL)
		while (access(held, F_OK) == 0)
			usleep(10000);
	return (int) syscall(SYS_fsync, fd);
}

int
statvfs(const char *path, struct statvfs *buffer)
{
	int (*real)(const char *, struct statvfs *) = dlsym(RTLD_NEXT, "statvfs");
	int result = real(path, buffer);
	DIR *directory;
	struct dirent *entry;
	unsigned long used = 0;
	unsigned long segments = SEGMENTS;

	if (result != 0 || strcmp(path, "pg_wal") != 0 || (directory = opendir(path)) == NULL)
		return result;
	if (getenv("PG_CALM_SLOW_LOOK") != NULL)
		usleep((unsigned) atoi(getenv("PG_CALM_SLOW_LOOK")) * 1000);
	while ((entry = readdir(directory)) != NULL)
		used += strlen(entry->d_name) == 24;
	closedir(directory);
	buffer->f_frsize = SEGMENT_BYTES;
	if (getenv("PG_CALM_FILESYSTEM_MB") != NULL)
		segments = strtoul(getenv("PG_CALM_FILESYSTEM_MB"), NULL, 10);
	buffer->f_blocks = segments;
	buffer->f_bavail = used < segments ? segments - used : 0;
	return result;
}
