/*-------------------------------------------------------------------------
 *
 * bridge_choice.c
 *	  Which gaps between dirty pages to bridge.
 *
 * Bridging a gap takes bytes and saves an operation.  No gap is bridged that
 * takes more of the one budget than it saves of the other: bridge_longest_gap.
 * With time to spare all others are, since both are worth saving.  When more
 * waits than should, only time counts, which is that of the budget that runs
 * out first:
 *
 * - When a certain set of pages has to be written (a drain), the best
 *	 threshold is the one at which max(operations / IOPS, bytes / bandwidth) is
 *	 least.
 * - When there is always more, the densest regions are written first, and
 *	 which those are changes: an index whose pages are all hit within seconds,
 *	 then a table with a page in twenty.  Whatever their densities, a gap's price
 *	 is the same in each, so there is one threshold for all; it is right if both
 *	 budgets are used up alike.  If operations are left over, it has been too
 *	 long, and if bandwidth is, too short: it follows that.  Chosen anew for what
 *	 all regions hold it would suit those that are not due for long, which made
 *	 dense ones take the whole bandwidth with two thirds of the operations left.
 *	 That says something only as long as budgets are used up: where little gets
 *	 through, behind what the kernel has queued, the few dense regions that do
 *	 look like bandwidth running out, and the threshold goes to nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "bridge_choice.h"

/* In which time what was written counts half, and the threshold follows */
#define BALANCE_HALF_LIFE_MS 1000.0

/* Least change of the threshold, so that a short one can grow */
#define BALANCE_STEP 1.0

/* Part of one of the budgets that has to be used for it to be followed */
#define BALANCE_USED 0.5

static uint32
least_time(const BridgeGaps *gaps, const DeviceCaps *caps, double most_bridged, double *seconds);

/*
 * The longest gap, in blocks, that is cheaper to write along than to leave
 * out: writing it costs bytes, leaving it out costs one more operation.  Where
 * only one budget is capped, only that one is worth saving: any gap when
 * operations are capped, none when bytes are or nothing is.
 */
uint32
bridge_longest_gap(const DeviceCaps *caps)
{
	double blocks = caps->io_size / BLCKSZ;

	if (isinf(caps->write_iops))
		return 0;
	if (!isinf(caps->write_bytes))
		/* strictly less than the break-even point */
		blocks = ceil(Min(caps->write_bytes / caps->write_iops / BLCKSZ, blocks)) - 1;
	return (uint32) Min(Max(blocks, 0), BRIDGE_MAX_GAP);
}

/*
 * The threshold with which regions with these gaps are all written soonest, if no
 * more bytes than those are bridged, and the seconds that it takes
 */
static uint32
least_time(const BridgeGaps *gaps, const DeviceCaps *caps, double most_bridged, double *seconds)
{
	uint32 longest = bridge_longest_gap(caps);
	double operations = gaps->runs;
	double bridged = 0;
	double dirty = (double) gaps->dirty_blocks * BLCKSZ;
	uint32 chosen = 0;

	*seconds = device_seconds(caps, operations, dirty);
	for (uint32 gap = 1; gap <= longest; gap++)
	{
		double bytes;
		double now;

		operations -= gaps->gaps[gap];
		bridged += (double) gaps->gaps[gap] * gap * BLCKSZ;
		if (bridged > most_bridged)
			break;
		bytes = dirty + bridged;
		/* long runs count once for each io_size */
		now = device_seconds(caps, Max(operations, bytes / caps->io_size), bytes);
		if (now <= *seconds)
		{
			*seconds = now;
			chosen = gap;
		}
	}
	return chosen;
}

/* The threshold with which regions with these gaps are all written soonest, as above */
uint32
bridge_least_time_gap(const BridgeGaps *gaps, const DeviceCaps *caps, double most_bridged)
{
	double seconds;

	return least_time(gaps, caps, most_bridged, &seconds);
}

/* How long that takes at least, if so many bytes of clean pages may be written along */
double
bridge_least_seconds(const BridgeGaps *gaps, const DeviceCaps *caps, double most_bridged)
{
	double seconds;

	(void) least_time(gaps, caps, most_bridged, &seconds);
	return seconds;
}

/*
 * The threshold with which operations and bytes are used up alike, given how
 * many of both have been written so far.  To be called several times a second
 * while there is always more to write.  gaps are those of all regions, from
 * which it starts.
 */
uint32
bridge_balanced_gap(BridgeBalance *balance, const BridgeGaps *gaps, const DeviceCaps *caps,
                    uint64 operations, uint64 bytes, uint64 now_ms)
{
	double longest = bridge_longest_gap(caps);
	double elapsed = now_ms - balance->last_ms;

	if (isinf(caps->write_iops) || isinf(caps->write_bytes))
		return bridge_longest_gap(caps); /* there is but one budget */
	if (balance->gap < 0 || elapsed > 4 * BALANCE_HALF_LIFE_MS)
	{
		balance->gap = bridge_least_time_gap(gaps, caps, INFINITY);
		balance->operations = balance->bytes = 0;
	}
	else
	{
		double kept = exp2(-elapsed / BALANCE_HALF_LIFE_MS);
		double of_operations;
		double of_bytes;

		balance->operations =
			balance->operations * kept + (double) (operations - balance->last_operations);
		balance->bytes = balance->bytes * kept + (double) (bytes - balance->last_bytes);
		/* what fades by half in that time adds up to so many seconds of it */
		of_operations =
			balance->operations * M_LN2 / (BALANCE_HALF_LIFE_MS / 1000) / caps->write_iops;
		of_bytes = balance->bytes * M_LN2 / (BALANCE_HALF_LIFE_MS / 1000) / caps->write_bytes;
		if (Max(of_operations, of_bytes) < BALANCE_USED)
			balance->gap = bridge_least_time_gap(gaps, caps, INFINITY);
		else if (of_operations > 0 && of_bytes > 0)
		{
			double follow = elapsed / BALANCE_HALF_LIFE_MS;
			double change = balance->gap * (pow(of_operations / of_bytes, follow) - 1);

			if (of_operations > of_bytes)
				change = Max(change, BALANCE_STEP * follow);
			balance->gap = Min(Max(balance->gap + change, 0), longest);
		}
	}
	balance->last_operations = operations;
	balance->last_bytes = bytes;
	balance->last_ms = now_ms;
	return (uint32) rint(Min(balance->gap, longest));
}
