/*-------------------------------------------------------------------------
 *
 * device.c
 *	  What the device under the data directory can do, and what a write costs.
 *
 * A capped volume has two budgets, operations and bytes per second, and a
 * write takes from both.  The figures come from the settings, else from the
 * limits that the block cgroup controller applies to the device:
 *
 * v2: io.max of our own group and all its ancestors
 *	   (Documentation/admin-guide/cgroup-v2.rst)
 * v1: blkio.throttle.write_iops_device and write_bps_device, likewise.  The
 *	   root group has limits of its own in v1, and they hold for every I/O that
 *	   no other group is charged with, the kernel flusher's included
 *	   (Documentation/admin-guide/cgroup-v1/blkio-controller.rst)
 *
 * Both name whole disks, so a partition is looked up as its disk, and a
 * device-mapper or md device also as the devices below it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "device.h"

/* A contiguous write is never counted as one operation beyond this */
#define MAX_IO_SIZE (4 * 1024 * 1024)

/* How many devices one data directory can lie on, side by side or in layers */
#define MAX_DEVICES 16

int calm_iops = 0;
int calm_bandwidth = 0;
int calm_write_iops = 0;
int calm_write_bandwidth = 0;
int calm_io_size = 0;
const char *calm_host_root = "";

typedef struct DeviceSet
{
	int count;
	DeviceNumber device[MAX_DEVICES];
} DeviceSet;

/* A limit per second, and where it was found; infinity: nowhere */
typedef struct CgroupLimit
{
	double value;
	char source[96];
} CgroupLimit;

typedef struct CgroupLimits
{
	CgroupLimit iops;
	CgroupLimit bytes;
	bool flusher_limited; /* the kernel flusher's writes are, too */
} CgroupLimits;

static const CgroupLimits no_limits = {.iops = {INFINITY, "no cap found"},
                                       .bytes = {INFINITY, "no cap found"}};

/* Where the block controller is mounted */
typedef struct CgroupMount
{
	bool v2;
	char root[MAXPGPATH]; /* the group that is seen at path */
	char path[MAXPGPATH];
} CgroupMount;

/* What device_read_caps found last: all of them, and the uppermost disk */
static DeviceSet our_devices;
static DeviceNumber our_disk = {UINT_MAX, UINT_MAX};

static bool
same_device(DeviceNumber a, DeviceNumber b)
{
	return a.major == b.major && a.minor == b.minor;
}

static bool
is_among(const DeviceSet *set, DeviceNumber device)
{
	for (int i = 0; i < set->count; i++)
	{
		if (same_device(set->device[i], device))
			return true;
	}
	return false;
}

/*
 * Absence of a file is an answer, not an error, so nothing is reported.
 * Plain stdio: the files are not the server's, and are open for an instant.
 */
FILE *
open_host_file(const char *path)
{
	char full[MAXPGPATH];

	snprintf(full, sizeof(full), "%s%s", calm_host_root, path);
	return fopen(full, "re");
}

/* Read fields, as scanf does, that such a file begins with: how many there are */
int
scan_host_file(const char *path, const char *format, ...)
{
	FILE *file = open_host_file(path);
	va_list fields;
	int count;

	if (file == NULL)
		return 0;
	va_start(fields, format);
	count = vfscanf(file, format, fields);
	va_end(fields);
	fclose(file);
	return Max(count, 0);
}

/* A partition's disk is the parent directory in sysfs; false if it is none */
static bool
disk_of_partition(DeviceNumber *device)
{
	char path[MAXPGPATH];
	DeviceNumber disk;
	unsigned int number;

	/* an NVMe disk lies in its controller's directory, which has a device number as well */
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", device->major, device->minor);
	if (scan_host_file(path, "%u", &number) != 1)
		return false;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/../dev", device->major, device->minor);
	if (scan_host_file(path, "%u:%u", &disk.major, &disk.minor) != 2)
		return false;
	*device = disk;
	return true;
}

/* What a device-mapper or md device is made of: how many, at most MAX_DEVICES */
static int
devices_below(const DeviceNumber *device, DeviceNumber *below)
{
	char path[MAXPGPATH];
	struct dirent *entry;
	int count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/sys/dev/block/%u:%u/slaves", calm_host_root, device->major,
	         device->minor);
	dir = opendir(path);
	if (dir == NULL)
		return 0;
	while (count < MAX_DEVICES && (entry = readdir(dir)) != NULL)
	{
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/slaves/%.64s/dev", device->major,
		         device->minor, entry->d_name);
		if (scan_host_file(path, "%u:%u", &below[count].major, &below[count].minor) == 2)
			count++;
	}
	closedir(dir);
	return count;
}

static void
add_device(DeviceSet *set, DeviceNumber device)
{
	DeviceNumber disk = device;
	DeviceNumber below[MAX_DEVICES];
	int count;

	if (set->count >= MAX_DEVICES || is_among(set, device))
		return;
	set->device[set->count++] = device;
	if (disk_of_partition(&disk))
		add_device(set, disk);
	count = devices_below(&device, below);
	for (int i = 0; i < count; i++)
		add_device(set, below[i]);
}

static void
find_devices(DeviceSet *set)
{
	struct stat st;

	set->count = 0;
	/* base/ rather than the directory itself: it may be a mount of its own */
	if (stat("base", &st) != 0)
		return;
	our_disk = (DeviceNumber){major(st.st_dev), minor(st.st_dev)};
	add_device(set, our_disk);
	(void) disk_of_partition(&our_disk);
}

/*
 * Whether close(2) writes a file there, and takes a write error from whoever calls fsync
 * next: of a network (fs/nfs/file.c, nfs_file_flush) or another process (fs/fuse/file.c,
 * fuse_flush).  Nothing of ours opens and closes files there.
 */
static bool
flushes_at_close(long type)
{
	switch ((uint32) type)
	{
		case 0x6969:     /* NFS */
		case 0x517B:     /* SMB */
		case 0xFF534D42: /* CIFS */
		case 0xFE534D42: /* SMB2 */
		case 0x65735546: /* FUSE */
		case 0x01021997: /* 9P */
		case 0x00C36400: /* Ceph */
		case 0x5346414F: /* AFS */
			return true;
		default:
			return false;
	}
}

/*
 * st_dev of the data directory's files; for the postmaster, at start.  0 where they must not
 * be touched, since close(2) of a file there can take a write error away.
 *
 * By a file that there always is: where file systems are stacked, directories
 * can have other numbers than files (Documentation/filesystems/overlayfs.rst).
 */
uint64
device_of_data_files(void)
{
	struct statfs fs;
	struct stat st;

	if (statfs("base", &fs) == 0 && flushes_at_close(fs.f_type))
		return 0;
	if (stat("base/1/PG_VERSION", &st) == 0 || stat("base", &st) == 0)
		return st.st_dev;
	return 0;
}

static void
lower(CgroupLimit *limit, double value, const char *source)
{
	if (value > 0 && value < limit->value)
	{
		limit->value = value;
		strlcpy(limit->source, source, sizeof(limit->source));
	}
}

/* What a setting says: -1 for no limit, 0 for nothing */
static void
override(CgroupLimit *limit, int setting, double unit, const char *source)
{
	if (setting == 0)
		return;
	limit->value = setting > 0 ? setting * unit : INFINITY;
	strlcpy(limit->source, source, sizeof(limit->source));
}

static bool
is_limited(const CgroupLimits *limits)
{
	return !isinf(limits->iops.value) || !isinf(limits->bytes.value);
}

/*
 * A group's limit of our devices.  Lines are "major:minor value" in v1, and
 * "major:minor rbps=max wbps=N riops=max wiops=N" in v2.
 */
static void
read_limit(const DeviceSet *set, CgroupLimits *limits, const CgroupMount *mount, const char *group,
           bool iops)
{
	const char *key = iops ? "wiops=" : "wbps=";
	char path[MAXPGPATH];
	char source[96];
	char line[256];
	FILE *file;

	if (mount->v2)
		snprintf(path, sizeof(path), "%s%s/io.max", mount->path, group);
	else
		snprintf(path, sizeof(path), "%s%s/blkio.throttle.write_%s_device", mount->path, group,
		         iops ? "iops" : "bps");
	file = open_host_file(path);
	if (file == NULL)
		return;
	snprintf(source, sizeof(source), "cgroup v%d %.64s", mount->v2 ? 2 : 1, group[0] ? group : "/");
	/* writeback is charged to who dirtied the page (Documentation/admin-guide/cgroup-v2.rst) */
	if (mount->v2)
		limits->flusher_limited = true;
	while (fgets(line, sizeof(line), file))
	{
		DeviceNumber device;
		int offset;
		const char *value;

		if (sscanf(line, "%u:%u%n", &device.major, &device.minor, &offset) != 2 ||
		    !is_among(set, device))
			continue;
		/* the flusher belongs to no group but the root */
		if (group[0] == '\0')
			limits->flusher_limited = true;
		value = mount->v2 ? strstr(line + offset, key) : line + offset;
		/* "max" converts to 0, which is ignored */
		if (value)
			lower(iops ? &limits->iops : &limits->bytes,
			      strtod(mount->v2 ? value + strlen(key) : value, NULL), source);
	}
	fclose(file);
}

static void
read_group(const DeviceSet *set, CgroupLimits *limits, const CgroupMount *mount, const char *group)
{
	read_limit(set, limits, mount, group, true);
	read_limit(set, limits, mount, group, false);
}

/* A group and all its ancestors up to the root of the mount */
static void
walk_groups(const DeviceSet *set, CgroupLimits *limits, const CgroupMount *mount, const char *group)
{
	char path[MAXPGPATH];
	size_t root_length = strlen(mount->root);

	/* what the mount shows may start below the root (a container's view) */
	if (strcmp(mount->root, "/") != 0 && strncmp(group, mount->root, root_length) == 0 &&
	    (group[root_length] == '/' || group[root_length] == '\0'))
		group += root_length;
	strlcpy(path, strcmp(group, "/") == 0 ? "" : group, sizeof(path));

	for (;;)
	{
		char *slash;

		read_group(set, limits, mount, path);
		slash = strrchr(path, '/');
		if (slash == NULL)
			break;
		*slash = '\0';
	}
}

/* Our group from /proc/self/cgroup, lines "id:controllers:path" */
static bool
cgroup_of(bool v2, char *group, size_t size)
{
	char line[MAXPGPATH + 64];
	FILE *file = open_host_file("/proc/self/cgroup");
	bool found = false;

	if (file == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), file))
	{
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (path == NULL)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		found = v2 ? controllers[1] == '\0' : strstr(controllers, "blkio") != NULL;
		if (found)
			strlcpy(group, path, size);
	}
	fclose(file);
	return found;
}

/* The next mount of the controller, of /proc/self/mountinfo: proc_pid_mountinfo(5) */
static bool
next_mount(FILE *file, CgroupMount *mount)
{
	char line[4096];

	while (fgets(line, sizeof(line), file))
	{
		char type[32];
		char super_options[1024];
		char *separator = strstr(line, " - ");

		/* %1023s: MAXPGPATH is 1024 */
		if (separator == NULL ||
		    sscanf(line, "%*d %*d %*u:%*u %1023s %1023s", mount->root, mount->path) != 2 ||
		    sscanf(separator, " - %31s %*s %1023s", type, super_options) != 2)
			continue;
		mount->v2 = strcmp(type, "cgroup2") == 0;
		if (mount->v2 || (strcmp(type, "cgroup") == 0 && strstr(super_options, "blkio")))
			return true;
	}
	return false;
}

/*
 * Limits of our own group and all above it, on all mounts of the controller; or only of those that
 * hold for others as well: of the root group in v1, of all above our own in v2, if any is mounted.
 */
static void
read_cgroups(const DeviceSet *set, CgroupLimits *limits, bool of_others)
{
	CgroupMount mount;
	char group[MAXPGPATH];
	FILE *file = open_host_file("/proc/self/mountinfo");

	if (file == NULL)
		return;
	while (next_mount(file, &mount))
	{
		if (of_others && !mount.v2)
		{
			if (strcmp(mount.root, "/") == 0)
				read_group(set, limits, &mount, "");
			continue;
		}
		if (!cgroup_of(mount.v2, group, sizeof(group)))
			continue;
		if (of_others)
		{
			char *parent_end = strrchr(group, '/');

			if (parent_end == NULL || strcmp(group, mount.root) == 0)
				continue;
			*parent_end = '\0';
		}
		walk_groups(set, limits, &mount, group);
	}
	fclose(file);
}

/*
 * The kernel splits a write into requests of queue/max_sectors_kb, and each
 * counts as an operation of the cap.
 */
static uint32
detect_io_size(const DeviceSet *set)
{
	uint32 result = MAX_IO_SIZE;

	for (int i = 0; i < set->count; i++)
	{
		char path[MAXPGPATH];
		unsigned int kilobytes;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/max_sectors_kb",
		         set->device[i].major, set->device[i].minor);
		if (scan_host_file(path, "%u", &kilobytes) == 1 && kilobytes >= BLCKSZ / 1024)
			result = Min(result, Min(kilobytes, MAX_IO_SIZE / 1024) * 1024);
	}
	return result;
}

/*
 * Find the caps in force.  Reads a dozen small files: for a background
 * process every few seconds, not for the write path.
 */
void
device_read_caps(DeviceCaps *caps)
{
	DeviceSet *set = &our_devices;
	CgroupLimits limits = no_limits;
	const char *size_source = "device";
	bool flusher_is_free;

	find_devices(set);
	if (calm_write_iops == 0 || calm_write_bandwidth == 0)
		read_cgroups(set, &limits, false);

	caps->io_size = detect_io_size(set);
	if (calm_io_size > 0)
	{
		caps->io_size = calm_io_size * 1024;
		size_source = "pg_calm.io_size";
	}
	override(&limits.iops, calm_write_iops, 1, "pg_calm.write_iops");
	override(&limits.bytes, calm_write_bandwidth, 1024, "pg_calm.write_bandwidth");
	caps->all_iops = calm_iops > 0 ? calm_iops : INFINITY;
	caps->all_bytes = calm_bandwidth > 0 ? calm_bandwidth * 1024.0 : INFINITY;
	lower(&limits.iops, caps->all_iops, "pg_calm.iops");
	lower(&limits.bytes, caps->all_bytes, "pg_calm.bandwidth");
	/* caps that the settings name are a volume's, which the flusher does not escape */
	flusher_is_free = calm_write_iops <= 0 && calm_write_bandwidth <= 0 && calm_iops <= 0 &&
	                  calm_bandwidth <= 0 && !limits.flusher_limited && is_limited(&limits);
	caps->write_iops = limits.iops.value;
	caps->write_bytes = limits.bytes.value;
	snprintf(caps->source, sizeof(caps->source),
	         "operations: %s; bandwidth: %s; operation size: %s%s", limits.iops.source,
	         limits.bytes.source, size_source,
	         flusher_is_free ? "; the kernel flusher is not held to them" : "");
}

/* Whether this is what the data directory's file system lies on, or the disk of that */
bool
device_is_ours(DeviceNumber device)
{
	return same_device(our_disk, device);
}

/* Whether this one does, once more, what that one has done */
bool
device_is_below_ours(DeviceNumber device)
{
	return !device_is_ours(device) && is_among(&our_devices, device);
}

/*
 * Replace a device by the one that it lies on: a partition by its disk, a device-mapper or md
 * device by the first of those that it is made of, a loop device by what holds its file.  False if
 * it lies on none, as far as can be seen.
 */
static bool
device_below(DeviceNumber *device)
{
	char path[MAXPGPATH];
	char backing[MAXPGPATH];
	DeviceNumber below[MAX_DEVICES];
	struct stat st;
	int count;

	if (disk_of_partition(device))
		return true;

	count = devices_below(device, below);
	if (count > 0)
	{
		/* the least number, so that all who lie on the same devices choose the same */
		*device = below[0];
		for (int i = 1; i < count; i++)
		{
			if (below[i].major < device->major ||
			    (below[i].major == device->major && below[i].minor < device->minor))
				*device = below[i];
		}
		return true;
	}

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/loop/backing_file", device->major,
	         device->minor);
	/* it may be in a directory that is closed to us: then the loop device is the last we see */
	if (scan_host_file(path, "%1023[^\n]", backing) != 1 || backing[0] != '/' ||
	    stat(backing, &st) != 0)
		return false;
	if (!S_ISBLK(st.st_mode))
		st.st_rdev = st.st_dev;
	*device = (DeviceNumber){major(st.st_rdev), minor(st.st_rdev)};
	return true;
}

/*
 * The device that other instances may lie on as well, and its caps, which then hold for all of
 * them together.  That is the lowest of the layers below the data directory that a control group
 * caps in which others are, too; if there is none, or caps are asked for, the lowest of
 * all.  False if the data directory is on no device.
 *
 * Caps that are neither found nor asked for (infinity) are pg_calm.write_iops and
 * write_bandwidth, if set: what is set there is a volume's.
 */
bool
device_read_shared_caps(const CalmRates *asked, unsigned int *major_number,
                        unsigned int *minor_number, CalmRates *caps)
{
	CgroupLimits limits = no_limits;
	DeviceSet set = {.count = 1};
	DeviceNumber *layer = &set.device[0];
	bool is_asked = !isinf(asked->operations) || !isinf(asked->bytes);
	struct stat st;

	if (stat("base", &st) != 0)
		return false;
	*layer = (DeviceNumber){major(st.st_dev), minor(st.st_dev)};
	for (int i = 0;; i++)
	{
		CgroupLimits found = no_limits;

		read_cgroups(&set, &found, true);
		if (i == 0 || is_limited(&found) || is_asked || !is_limited(&limits))
		{
			*major_number = layer->major;
			*minor_number = layer->minor;
			limits = found;
		}
		if (i >= MAX_DEVICES || !device_below(layer))
			break;
	}

	caps->operations = !isinf(asked->operations) ? asked->operations : limits.iops.value;
	if (isinf(caps->operations) && calm_write_iops > 0)
		caps->operations = calm_write_iops;
	caps->bytes = !isinf(asked->bytes) ? asked->bytes : limits.bytes.value;
	if (isinf(caps->bytes) && calm_write_bandwidth > 0)
		caps->bytes = calm_write_bandwidth * 1024.0;
	return true;
}
