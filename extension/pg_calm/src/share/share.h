/*-------------------------------------------------------------------------
 *
 * arbiter.h
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
#ifndef PG_CALM_ARBITER_H
#define PG_CALM_ARBITER_H

#include "postgres.h"

#include "arbiter_file.h"
#include "device/device.h"

/* What a member may write per second; infinity where nothing limits */
typedef struct ArbiterGrant
{
	double operations;
	double bytes;
} ArbiterGrant;

/* GUCs */
extern char *calm_arbiter_directory; /* "": no arbiter */
extern int calm_arbiter_weight;
extern bool calm_arbiter_checkpoints; /* whether timed checkpoints are de-phased */

/* For the writeback worker */
extern void arbiter_configure(const DeviceCaps *own);
extern void arbiter_tick(uint64 now_ms, bool wants);
extern bool arbiter_limit(DeviceCaps *caps);
extern uint32 arbiter_members(void);
extern const char *arbiter_problem(void);
extern void arbiter_leave(void);

/* Functions of their arguments only */
extern double arbiter_phase(int slot);
extern ArbiterGrant arbiter_grant(const ArbiterRecord *records, const bool *members, int slot,
                                  const DeviceCaps *budget);

#endif /* PG_CALM_ARBITER_H */
