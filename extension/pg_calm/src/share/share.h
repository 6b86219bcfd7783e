/*-------------------------------------------------------------------------
 *
 * share.h
 *	  One budget for the instances that share a device.
 *
 * - Members meet in a file in which each writes to a slot of its own; none waits for
 *   another, and one that was not heard of is not counted.
 * - Nothing in that file is trusted: what is out of its range is not there.
 * - A member that can't take part flushes by its own caps and says so.
 * - Shares of those that flush exceed what the device is known to take by least shares at most.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_SHARE_H
#define PG_CALM_SHARE_H

#include "postgres.h"

#include "base/base.h"

/* Instances that can share a device; the file is never longer than so many slots */
#define SHARE_SLOTS 512

/* pg_calm_share.weight, from 1 */
#define SHARE_WEIGHT_MAX 1000

/* One slot of the file: what a member says of itself, in the host's byte order */
typedef struct ShareRecord
{
	uint32 magic;                 /* also the version of this struct; 0: no member */
	uint32 weight;                /* 1 to SHARE_WEIGHT_MAX */
	uint64 heartbeat_ms;          /* monotonic_ms when it was written */
	uint64 bytes_per_second;      /* own cap; 0: none */
	uint32 operations_per_second; /* own cap; 0: none */
	int32 pid;                    /* of the worker, in its own namespace; for people */
	uint32 wants;                 /* 1: has something to flush now */
	char name[44];                /* cluster_name or directory, printable ASCII; for people */
} ShareRecord;

StaticAssertDecl(sizeof(ShareRecord) == 80, "the size of a slot is the file's format");

/* Our slot in the file; -1: none yet */
extern int share_slot;

/* Why the file could not be opened, read or written; "" */
extern char share_problem[160];

extern bool share_file_open(const char *directory, unsigned int major, unsigned int minor);
extern void share_file_close(void);
extern bool share_file_exchange(ShareRecord *own, ShareRecord *records);
extern void share_file_leave(void);

#endif /* PG_CALM_SHARE_H */
