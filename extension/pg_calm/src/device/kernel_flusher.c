/*-------------------------------------------------------------------------
 *
 * kernel_flusher.c
 *	  When the kernel starts to flush by itself, and how near that is.
 *
 * The flusher writes every dirty page of an inode that was first dirtied vm.dirty_expire_centisecs
 * ago, and of all inodes once more than the background threshold is dirty (fs/fs-writeback.c,
 * wb_check_old_data_flush and wb_over_bg_thresh).  It takes pages as they are: what is scattered
 * is written scattered, and waits in the device's queue ahead of all that comes later.
 *
 * A device has a threshold of its own: the share of the background threshold that is its share of
 * what all devices wrote lately, or an eighth of what is left of it if that is more
 * (mm/page-writeback.c, __wb_calc_thresh and wb_over_bg_thresh).  So what is written back in time
 * raises the amount that may be left dirty.  An administrator may bound it from both sides, by the
 * device's min_ratio and max_ratio (/sys/class/bdi); what others have by theirs is not looked for.
 *
 * The thresholds are taken from /proc/vmstat, where the kernel has applied
 * ratio or bytes and the memory available.  nr_dirty counts whole folios, so
 * it says when the flusher wakes but not how many of our pages are dirty.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <inttypes.h>
#include <linux/major.h>
#include <unistd.h>

#include "device.h"

/* The kernel halves what it remembers of past writes in this time */
#define SHARE_HALF_LIFE_MS 3000.0

/* First number of a file; value stays if there is none ("max", no such file) */
static bool
read_number(const char *path, uint64 *value)
{
	return scan_host_file(path, "%" SCNu64, value) == 1;
}

/*
 * Bytes that our memory cgroup allows, or PG_UINT64_MAX.  Only as seen from inside a container,
 * where our group is the root of the mount: there the limit is hard to see otherwise.
 */
static uint64
memory_limit(void)
{
	uint64 v2 = PG_UINT64_MAX;
	uint64 v1 = PG_UINT64_MAX;

	(void) read_number("/sys/fs/cgroup/memory.max", &v2);
	(void) read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", &v1);
	return Min(v1, v2);
}

/* A bound that the administrator has set to what a device has of the dirty limits, 0 to 1 */
static double
device_bound(DeviceNumber device, const char *name, double otherwise)
{
	char path[80];
	uint64 value;

	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/%s_fine", device.major, device.minor, name);
	if (read_number(path, &value))
		return Min(value, 1000000) / 1e6;
	path[strlen(path) - strlen("_fine")] = '\0'; /* before Linux 6.2 */
	if (read_number(path, &value))
		return Min(value, 100) / 100.0;
	return otherwise;
}

/* Whether a name of /proc/diskstats is that of a disk, not of a partition, which is not listed there */
static bool
is_whole_disk(const char *name)
{
	char path[MAXPGPATH];

	snprintf(path, sizeof(path), "%s/sys/block/%s", calm_host_root, name);
	return access(path, F_OK) == 0;
}

/*
 * Dirty bytes on our device that wake the flusher, and what the device has done since ever: from
 * /proc/diskstats.  What loop devices write is written again by the disks that hold their files,
 * mostly not as writeback; so it is counted once.  So is what the layers below ours do.  Where that
 * can't be read it is what it was: one that began anew would look like the use of years.
 */
static void
read_device_state(KernelFlusher *flusher)
{
	static double our_writes = 0;
	static double all_writes = 0;
	static uint64 last_ours = 0;
	static uint64 last_all = 0;
	static uint64 last_ms = 0;
	double background = flusher->background_bytes;
	char line[512];
	uint64 ours = 0;
	uint64 loops = 0;
	uint64 disks = 0;
	uint64 all;
	uint64 now = monotonic_ms();
	double min_share = 0;
	double max_share = 1;
	double share;
	bool found = false;
	FILE *file;

	flusher->device_bytes = (background - Min(flusher->dirty_bytes, background)) / 8;
	file = open_host_file("/proc/diskstats");
	if (file == NULL)
		return;
	while (fgets(line, sizeof(line), file))
	{
		DeviceNumber device;
		char name[64];
		unsigned long long reads;
		unsigned long long read_sectors;
		unsigned long long writes;
		unsigned long long sectors;

		if (sscanf(line, "%u %u %63s %llu %*u %llu %*u %llu %*u %llu", &device.major, &device.minor,
		           name, &reads, &read_sectors, &writes, &sectors) != 7)
			continue;
		if (!is_whole_disk(name) || device_is_below_ours(device))
			continue;
		if (device.major == LOOP_MAJOR)
			loops += sectors;
		else
			disks += sectors;
		if (device_is_ours(device))
		{
			found = true;
			ours = sectors;
			flusher->operations = reads + writes;
			flusher->bytes = (read_sectors + sectors) * 512;
			flusher->write_operations = writes;
			flusher->write_bytes = sectors * 512;
			min_share = device_bound(device, "min_ratio", 0);
			max_share = device_bound(device, "max_ratio", 1);
		}
	}
	fclose(file);
	if (!found)
		return;
	all = Max(loops, disks);

	/* devices come and go, and their counters with them */
	if (last_ms != 0 && all >= last_all && ours >= last_ours)
	{
		double kept = exp2(-(double) (now - last_ms) / SHARE_HALF_LIFE_MS);

		our_writes = our_writes * kept + (ours - last_ours);
		all_writes = all_writes * kept + (all - last_all);
	}
	last_ours = ours;
	last_all = all;
	last_ms = now;

	share = all_writes > 0 ? our_writes / all_writes : 0;
	share = share * (1 - min_share) + min_share;
	/* the administrator has the last word, also over that eighth */
	flusher->device_bytes =
		Min(Max((uint64) (background * share), flusher->device_bytes), background * max_share);
}

/* Reads a few files of /proc and /sys */
void
kernel_flusher_read(KernelFlusher *flusher)
{
	char line[128];
	uint64 page_size = sysconf(_SC_PAGESIZE);
	uint64 limit = memory_limit();
	uint64 percent = 10;
	uint64 centiseconds = 3000;
	FILE *file;

	(void) read_number("/proc/sys/vm/dirty_expire_centisecs", &centiseconds);
	flusher->expire_ms = centiseconds * 10;
	flusher->background_bytes = PG_UINT64_MAX;
	flusher->device_bytes = PG_UINT64_MAX;
	flusher->dirty_bytes = 0;

	file = open_host_file("/proc/vmstat");
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
		else if (strcmp(name, "nr_dirty_background_threshold") == 0)
			flusher->background_bytes = pages * page_size;
	}
	fclose(file);

	/* a memory cgroup has its own threshold, by ratio of its own memory */
	(void) read_number("/proc/sys/vm/dirty_background_ratio", &percent);
	if (limit != PG_UINT64_MAX && percent > 0)
		flusher->background_bytes = Min(flusher->background_bytes, limit / 100 * percent);

	if (flusher->background_bytes != PG_UINT64_MAX)
		read_device_state(flusher);
}
