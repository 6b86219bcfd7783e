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
#include "share_file.h"
#include "storage/spin.h"

/* What the views need to know */
typedef struct ShareState
{
	slock_t lock; /* protects all */
	int slot;     /* ours in the file; -1: none */
	ShareDevice device;
	CalmRates budget; /* of all instances on it */
} ShareState;

extern char *calm_share_directory; /* GUC; "": nothing is shared */
extern ShareState *share_state;    /* shared memory; NULL: not loaded at the server's start */

/* Functions of their arguments only */
extern double share_phase(int slot);
extern CalmRates
share_grant(const ShareRecord *records, const bool *members, int slot, const CalmRates *budget);

#endif /* PG_CALM_SHARE_H */
