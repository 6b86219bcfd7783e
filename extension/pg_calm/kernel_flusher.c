/*-------------------------------------------------------------------------
 *
 * kernel_flusher.c
 *	  When the kernel starts to flush by itself, and how near that is.
 *
 * The flusher writes every dirty page of an inode that was first dirtied
 * vm.dirty_expire_centisecs ago, and of all inodes once more than the
 * background threshold is dirty (fs/fs-writeback.c, wb_check_old_data_flush
 * and wb_over_bg_thresh).  It takes pages as they are: what is scattered is
 * written scattered, and waits in the device's queue ahead of all that comes
 * later.
 *
 * The thresholds are taken from /proc/vmstat, where the kernel has applied
 * ratio or bytes and the memory available.  nr_dirty counts whole folios, so
 * it says when the flusher wakes but not how many of our pages are dirty.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "device.h"
#include "kernel_flusher.h"

static bool read_number(const char *path, uint64 *value);
static uint64 memory_limit(void);

/* First number of a file; false if there is none ("max", no such file) */
static bool
read_number(const char *path, uint64 *value)
{
	char full[MAXPGPATH];
	FILE *file;
	unsigned long long number;
	bool ok;

	snprintf(full, sizeof(full), "%s%s", calm_host_root ? calm_host_root : "", path);
	file = fopen(full, "re");
	if (file == NULL)
		return false;
	ok = fscanf(file, "%llu", &number) == 1;
	fclose(file);
	if (ok)
		*value = number;
	return ok;
}

/*
 * Bytes that our memory cgroup allows, or PG_UINT64_MAX.  Only as seen from
 * inside a container, where our group is the root of the mount: there the
 * limit is hard to see otherwise.
 */
static uint64
memory_limit(void)
{
	uint64 limit = PG_UINT64_MAX;
	uint64 value;

	if (read_number("/sys/fs/cgroup/memory.max", &value))
		limit = value;
	if (read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", &value))
		limit = Min(limit, value);
	return limit;
}

/* What changes only when an administrator changes it */
void
kernel_flusher_read_settings(KernelFlusher *flusher)
{
	uint64 value;

	flusher->expire_ms = 30000;
	if (read_number("/proc/sys/vm/dirty_expire_centisecs", &value))
		flusher->expire_ms = value * 10;
	flusher->interval_ms = 5000;
	if (read_number("/proc/sys/vm/dirty_writeback_centisecs", &value))
		flusher->interval_ms = value * 10;
}

/* What changes all the time.  Reads one file of /proc */
void
kernel_flusher_read_state(KernelFlusher *flusher)
{
	char path[MAXPGPATH];
	char line[128];
	uint64 page_size = sysconf(_SC_PAGESIZE);
	uint64 limit = memory_limit();
	uint64 percent = 10;
	FILE *file;

	flusher->background_bytes = PG_UINT64_MAX;
	flusher->dirty_bytes = 0;
	flusher->writeback_bytes = 0;

	snprintf(path, sizeof(path), "%s/proc/vmstat", calm_host_root ? calm_host_root : "");
	file = fopen(path, "re");
	if (file == NULL)
		return;
	while (fgets(line, sizeof(line), file))
	{
		char name[64];
		unsigned long long pages;

		if (sscanf(line, "%63s %llu", name, &pages) != 2)
			continue;
		if (strcmp(name, "nr_dirty") == 0)
			flusher->dirty_bytes = pages * page_size;
		else if (strcmp(name, "nr_writeback") == 0)
			flusher->writeback_bytes = pages * page_size;
		else if (strcmp(name, "nr_dirty_background_threshold") == 0)
			flusher->background_bytes = pages * page_size;
	}
	fclose(file);

	/* a memory cgroup has its own threshold, by ratio of its own memory */
	(void) read_number("/proc/sys/vm/dirty_background_ratio", &percent);
	if (limit != PG_UINT64_MAX && percent > 0)
		flusher->background_bytes = Min(flusher->background_bytes, limit / 100 * percent);
}
