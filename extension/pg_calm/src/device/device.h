/*-------------------------------------------------------------------------
 *
 * device.h
 *	  What the device under the data directory can do, and what a write costs.
 *
 * - A cap is what is known, not what is hoped: infinity where nothing is, and the
 *   caller is then as the server without the module.
 * - What the kernel flusher will do is estimated from the kernel's own counts
 *   (kernel_flusher.c), never assumed from a setting of ours.
 * - Nothing here writes to a device, and nothing knows of pages.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_DEVICE_H
#define PG_CALM_DEVICE_H

#include <math.h>

#include "base/base.h"

/* Caps of the device that holds the data directory, per second; infinity where nothing caps */
typedef struct DeviceCaps
{
	double write_iops;  /* write operations */
	double write_bytes; /* bytes written */
	double all_iops;    /* operations, reads counted as well; no less than write_iops */
	double all_bytes;   /* bytes read and written; likewise */
	uint32 io_size;     /* bytes that count as one operation at most */
	char source[320];   /* where each figure came from, for people */
} DeviceCaps;

/* A block device as the kernel numbers it */
typedef struct DeviceNumber
{
	unsigned int major;
	unsigned int minor;
} DeviceNumber;

/* GUCs: 0 stands for "detect", -1 for "unlimited" */
extern int calm_iops;
extern int calm_bandwidth; /* kB per second */
extern int calm_write_iops;
extern int calm_write_bandwidth; /* kB per second */
extern int calm_io_size;         /* kB */

/* Root of the tree that /proc and /sys are read under: test_settings.c */
extern const char *calm_host_root;

extern void device_read_caps(DeviceCaps *caps);
extern bool device_read_shared_caps(const CalmRates *asked, unsigned int *major_number,
                                    unsigned int *minor_number, CalmRates *caps);
extern FILE *open_host_file(const char *path);
extern int
scan_host_file(const char *path, const char *format, ...) __attribute__((format(scanf, 2, 3)));
extern uint64 device_of_data_files(void);
extern bool device_is_ours(DeviceNumber device);
extern bool device_is_below_ours(DeviceNumber device);

/* How many operations the device counts for one contiguous write */
static inline uint32
device_operations(const DeviceCaps *caps, uint64 bytes)
{
	return (uint32) ((bytes + caps->io_size - 1) / caps->io_size);
}

/* Seconds that the device needs at least: its two budgets run side by side */
static inline double
device_seconds(const DeviceCaps *caps, double operations, double bytes)
{
	return Max(operations / caps->write_iops, bytes / caps->write_bytes);
}

/* A part of all its budgets; none stays none */
static inline DeviceCaps
device_part(const DeviceCaps *caps, double part)
{
	DeviceCaps result = *caps;

	result.write_iops *= part;
	result.write_bytes *= part;
	result.all_iops *= part;
	result.all_bytes *= part;
	return result;
}

static inline bool
device_is_capped(const DeviceCaps *caps)
{
	return !isinf(caps->write_iops) || !isinf(caps->write_bytes);
}

/* kernel_flusher.c */

typedef struct KernelFlusher
{
	uint64 expire_ms;        /* vm.dirty_expire_centisecs; 0: never */
	uint64 background_bytes; /* dirty bytes of the host that wake it; less if our memory cgroup
	                            has a limit */
	uint64 device_bytes;     /* dirty bytes on our device that wake it, estimated */
	uint64 dirty_bytes;      /* dirty now, as the kernel counts */
	uint64 operations;       /* that our devices have made, reads and writes, since ever */
	uint64 bytes;            /* in them */
	uint64 write_operations; /* of them, writes */
	uint64 write_bytes;      /* in these */
} KernelFlusher;

extern void kernel_flusher_read(KernelFlusher *flusher);

#endif /* PG_CALM_DEVICE_H */
