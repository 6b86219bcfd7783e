/*-------------------------------------------------------------------------
 *
 * bridge_choice.c
 *	  Which gaps between dirty pages to bridge.
 *
 * Bridging a gap takes bytes and saves an operation.  No gap is bridged that
 * takes more of the one budget than it saves of the other: bridge_longest_gap.
 * With time to spare all others are, since both are worth saving.  When more
 * waits than should, or a checkpoint waits, only time counts, which is that of the budget that
 * runs out first: bridge_least_time_gap.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "bridge_choice.h"

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
 * The threshold with which regions with these gaps are all written soonest: the one at which
 * max(operations / IOPS, bytes / bandwidth) is least.
 */
uint32
bridge_least_time_gap(const BridgeGaps *gaps, const DeviceCaps *caps)
{
	uint32 longest = bridge_longest_gap(caps);
	double operations = gaps->runs;
	double bytes = (double) gaps->dirty_blocks * BLCKSZ;
	double least = device_seconds(caps, operations, bytes);
	uint32 chosen = 0;

	for (uint32 gap = 1; gap <= longest; gap++)
	{
		double now;

		operations -= gaps->gaps[gap];
		bytes += (double) gaps->gaps[gap] * gap * BLCKSZ;
		/* long runs count once for each io_size */
		now = device_seconds(caps, Max(operations, bytes / caps->io_size), bytes);
		if (now <= least)
		{
			least = now;
			chosen = gap;
		}
	}
	return chosen;
}
