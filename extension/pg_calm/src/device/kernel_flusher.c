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
 * A device has a threshold of its own: the share of the background threshold
 * that is its share of what all devices wrote lately, or an eighth of what is
 * left of it if that is more (mm/page-writeback.c, __wb_calc_thresh and
 * wb_over_bg_thresh).  Whoever writes little is woken early; so what is
 * written back in time raises the amount that may be left dirty.  An
 * administrator may bound it from both sides, by the device's min_ratio and
 * max_ratio (/sys/class/bdi), which outlive the file system, and on a loop
 * device whoever used it before.  What is set aside for other devices is not
 * looked for: our share of the rest is overestimated by so much.
 *
 * Half way between the background threshold and the dirty limit, writers are
 * made to wait (balance_dirty_pages, dirty_freerun_ceiling).  What is under
 * writeback counts too, and a large folio counts whole when one block of it is
 * dirtied: with those, that point is reached early, and each write then costs
 * its writer the time of 2 MiB.  We must not push the host there.
 *
 * The thresholds are taken from /proc/vmstat, where the kernel has applied
 * ratio or bytes and the memory available.  nr_dirty counts whole folios, so
 * it says when the flusher wakes but not how many of our pages are dirty.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>
#include <linux/major.h>
#include <unistd.h>

#include "device.h"
#include "map/map.h"

/* The kernel halves what it remembers of past writes in this time */
#define SHARE_HALF_LIFE_MS 3000.0

static double our_writes = 0;
static double all_writes = 0;

/* First number of a file; false if there is none ("max", no such file) */
static bool
read_number(const char *path, uint64 *value)
{
	FILE *file = open_host_file(path);
	unsigned long long number;
	bool ok;

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

/* A bound that the administrator has set to what a device has of the dirty limits, 0 to 1 */
static double
device_bound(DeviceNumber device, const char *name, double otherwise)
{
	char path[80];
	uint64 value;

	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/%s_fine", device.major, device.minor, name);
	if (read_number(path, &value))
		return Min(value, 1000000) / 1e6;
	/* before Linux 6.2 */
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/%s", device.major, device.minor, name);
	if (read_number(path, &value))
		return Min(value, 100) / 100.0;
	return otherwise;
}

/*
 * Whether a line of /proc/diskstats is of a disk, not of a partition.  A host with a
 * hundred instances can have hundreds of devices, and each instance looks at all of them
 * four times a second; so a line that was one of a disk is one as long as the same device is in it.
 */
static bool
is_whole_disk(int line_number, DeviceNumber device, const char *name)
{
	static struct
	{
		DeviceNumber device;
		bool whole;
	} lines[1024];
	char path[MAXPGPATH];
	bool cached = line_number < (int) lengthof(lines);
	bool whole;

	if (cached && lines[line_number].whole && lines[line_number].device.major == device.major &&
	    lines[line_number].device.minor == device.minor)
		return true;
	/* partitions are not listed there */
	snprintf(path, sizeof(path), "%s/sys/block/%s", calm_host_root, name);
	whole = access(path, F_OK) == 0;
	if (cached)
	{
		lines[line_number].device = device;
		lines[line_number].whole = whole;
	}
	return whole;
}

/*
 * Our device's share of what is being written to all disks, from
 * /proc/diskstats.  What loop devices write is written again by the disks that
 * hold their files, mostly not as writeback; so it is counted once.  So is what the
 * layers below ours do.  What our device has done since ever goes into flusher.
 * min_share and max_share become the least that our device has, and the most that it
 * may have.
 */
static double
written_share(KernelFlusher *flusher, double *min_share, double *max_share)
{
	static uint64 last_ours = 0;
	static uint64 last_all = 0;
	static uint64 last_ms = 0;
	char line[512];
	uint64 ours = 0;
	uint64 loops = 0;
	uint64 disks = 0;
	uint64 all;
	uint64 now = monotonic_ms();
	double kept;
	double least = 1;
	bool any = false;
	int line_number = 0;
	FILE *file;

	*min_share = 0;
	*max_share = 1;
	flusher->operations = flusher->bytes = 0;
	flusher->write_operations = flusher->write_bytes = 0;
	file = open_host_file("/proc/diskstats");
	if (file == NULL)
		return 0;
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
		if (!is_whole_disk(line_number++, device, name) || device_is_below_ours(device))
			continue;
		if (device.major == LOOP_MAJOR)
			loops += sectors;
		else
			disks += sectors;
		if (device_is_ours(device))
		{
			ours += sectors;
			flusher->operations += reads + writes;
			flusher->bytes += (read_sectors + sectors) * 512;
			flusher->write_operations += writes;
			flusher->write_bytes += sectors * 512;
			least = Min(least, device_bound(device, "min_ratio", 0));
			*max_share = Min(*max_share, device_bound(device, "max_ratio", 1));
			any = true;
		}
	}
	fclose(file);
	if (any)
		*min_share = least;
	all = Max(loops, disks);

	/* devices come and go, and their counters with them */
	if (last_ms != 0 && all >= last_all && ours >= last_ours)
	{
		kept = exp2(-(double) (now - last_ms) / SHARE_HALF_LIFE_MS);
		our_writes = our_writes * kept + (ours - last_ours);
		all_writes = all_writes * kept + (all - last_all);
	}
	last_ours = ours;
	last_all = all;
	last_ms = now;
	return all_writes > 0 ? our_writes / all_writes : 0;
}

/* What changes only when an administrator changes it */
void
kernel_flusher_read_settings(KernelFlusher *flusher)
{
	uint64 value;

	flusher->expire_ms = 30000;
	if (read_number("/proc/sys/vm/dirty_expire_centisecs", &value))
		flusher->expire_ms = value * 10;
}

/* What changes all the time.  Reads a few files of /proc and /sys */
void
kernel_flusher_read_state(KernelFlusher *flusher)
{
	char line[128];
	uint64 page_size = sysconf(_SC_PAGESIZE);
	uint64 limit = memory_limit();
	uint64 percent = 10;
	uint64 limit_bytes = 0;
	FILE *file;

	flusher->background_bytes = PG_UINT64_MAX;
	flusher->freerun_bytes = PG_UINT64_MAX;
	flusher->device_bytes = PG_UINT64_MAX;
	flusher->dirty_bytes = 0;
	flusher->writeback_bytes = 0;

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
		else if (strcmp(name, "nr_writeback") == 0)
			flusher->writeback_bytes = pages * page_size;
		else if (strcmp(name, "nr_dirty_background_threshold") == 0)
			flusher->background_bytes = pages * page_size;
		else if (strcmp(name, "nr_dirty_threshold") == 0)
			limit_bytes = pages * page_size;
	}
	fclose(file);

	if (limit_bytes > 0 && flusher->background_bytes != PG_UINT64_MAX)
		flusher->freerun_bytes = (limit_bytes + flusher->background_bytes) / 2;

	/* a memory cgroup has its own threshold, by ratio of its own memory */
	(void) read_number("/proc/sys/vm/dirty_background_ratio", &percent);
	if (limit != PG_UINT64_MAX && percent > 0)
		flusher->background_bytes = Min(flusher->background_bytes, limit / 100 * percent);

	if (flusher->background_bytes != PG_UINT64_MAX)
	{
		uint64 left =
			flusher->background_bytes - Min(flusher->dirty_bytes, flusher->background_bytes);
		double min_share;
		double max_share;
		double share = written_share(flusher, &min_share, &max_share);

		share = share * (1 - min_share) + min_share;
		flusher->device_bytes = Max((uint64) (flusher->background_bytes * share), left / 8);
		/* the last word, also over that eighth */
		flusher->device_bytes =
			Min(flusher->device_bytes, (uint64) (flusher->background_bytes * max_share));
	}
}
