/*-------------------------------------------------------------------------
 *
 * share.h
 *	  One budget for the instances that share a device.
 *
 * - Members meet in a file in which each writes to a slot of its own; none waits for
 *   another, and one that was not heard of is not counted.
 * - Nothing in that file is trusted: what is out of its range is not there.
 * - A member that can't take part flushes by its own caps and says so.
 * - Shares are of what the device is known to take: the sum never exceeds it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_SHARE_H
#define PG_CALM_SHARE_H

#include "postgres.h"

#include "base/base.h"
#include "port/pg_crc32c.h"

/* Instances that can share a device; the file is never longer than so many slots */
#define SHARE_SLOTS 512

#define SHARE_NAME_SIZE 40

/* pg_calm_share.weight */
#define SHARE_WEIGHT_MIN 1
#define SHARE_WEIGHT_MAX 1000

/* A block device as the kernel numbers it */
typedef struct ShareDevice
{
	unsigned int major;
	unsigned int minor;
} ShareDevice;

/*
 * One slot of the file, 128 bytes: what a member says of itself.  Fields are
 * in the host's byte order, since the file never leaves the host.  Nothing in
 * it is trusted: share_file_read returns only records whose fields are
 * within their ranges.
 */
typedef struct ShareRecord
{
	uint32 magic;                 /* also the version of this struct */
	uint32 weight;                /* SHARE_WEIGHT_MIN to _MAX */
	uint8 boot_id[16];            /* /proc/sys/kernel/random/boot_id */
	uint64 identity;              /* random, of the process */
	uint64 heartbeat_ms;          /* monotonic_ms when it was written */
	uint64 started_ms;            /* the same when the member joined */
	uint64 bytes_per_second;      /* own cap; 0: none */
	uint64 device_operations;     /* as in pg_calm_status, for people */
	uint64 written_bytes;         /* likewise */
	uint32 operations_per_second; /* own cap; 0: none */
	int32 pid;                    /* of the worker, in its own namespace; for people */
	uint32 wants;                 /* 1: has something to flush now */
	char name[SHARE_NAME_SIZE];   /* cluster_name or directory, printable ASCII; for people */
	pg_crc32c crc;                /* of all before */
} ShareRecord;

StaticAssertDecl(sizeof(ShareRecord) == 128, "the size of a slot is the file's format");

/* An open file; -1: none */
typedef struct ShareFile
{
	int fd;
	char problem[160]; /* why it could not be opened, read or written; "" */
} ShareFile;

extern bool
share_file_open(ShareFile *file, const char *directory, ShareDevice device, bool create);
extern void share_file_close(ShareFile *file);
extern bool share_file_read(ShareFile *file, uint64 now_ms, ShareRecord *records, bool *members);
extern bool share_file_write(ShareFile *file, int slot, ShareRecord *record);
extern void share_file_clear(ShareFile *file, int slot, uint64 identity);

#endif /* PG_CALM_SHARE_H */
