/*-------------------------------------------------------------------------
 *
 * small_filesystem.c
 *	  Preloaded by a test: the filesystem of pg_wal looks to have 64 MB, less what
 *	  its segments take.  A look at it takes PG_CALM_SLOW_LOOK milliseconds, in which it waits.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SEGMENT_BYTES (1024UL * 1024)
#define SEGMENTS 64

int
statvfs(const char *path, struct statvfs *buffer)
{
	int (*real)(const char *, struct statvfs *) = dlsym(RTLD_NEXT, "statvfs");
	int result = real(path, buffer);
	DIR *directory;
	struct dirent *entry;
	unsigned long used = 0;

	if (result != 0 || strcmp(path, "pg_wal") != 0 || (directory = opendir(path)) == NULL)
		return result;
	if (getenv("PG_CALM_SLOW_LOOK") != NULL)
		usleep((unsigned) atoi(getenv("PG_CALM_SLOW_LOOK")) * 1000);
	while ((entry = readdir(directory)) != NULL)
		used += strlen(entry->d_name) == 24;
	closedir(directory);
	buffer->f_frsize = SEGMENT_BYTES;
	buffer->f_blocks = SEGMENTS;
	buffer->f_bavail = used < SEGMENTS ? SEGMENTS - used : 0;
	return result;
}
