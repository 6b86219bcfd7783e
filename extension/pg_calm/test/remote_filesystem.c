/*-------------------------------------------------------------------------
 *
 * remote_filesystem.c
 *	  Preloaded by a test: the data directory's files look to be on NFS.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <linux/magic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

int
statfs(const char *path, struct statfs *buffer)
{
	int result = (int) syscall(SYS_statfs, path, buffer);

	if (result == 0 && strcmp(path, "base") == 0)
		buffer->f_type = NFS_SUPER_MAGIC;
	return result;
}
