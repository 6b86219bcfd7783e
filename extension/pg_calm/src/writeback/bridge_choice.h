/*-------------------------------------------------------------------------
 *
 * bridge_choice.h
 *	  Which gaps between dirty pages to bridge.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_BRIDGE_CHOICE_H
#define PG_CALM_BRIDGE_CHOICE_H

#include "bridge.h"
#include "device/device.h"

/* A threshold that follows what is being written */
typedef struct BridgeBalance
{
	double gap;             /* blocks; below 0: none yet */
	double operations;      /* written lately, fading */
	double bytes;           /* likewise */
	uint64 last_operations; /* as given last */
	uint64 last_bytes;
	uint64 last_ms;
} BridgeBalance;

extern uint32 bridge_longest_gap(const DeviceCaps *caps);
extern uint32
bridge_least_time_gap(const BridgeGaps *gaps, const DeviceCaps *caps, double most_bridged);
extern double
bridge_least_seconds(const BridgeGaps *gaps, const DeviceCaps *caps, double most_bridged);
extern uint32
bridge_balanced_gap(BridgeBalance *balance, const BridgeGaps *gaps, const DeviceCaps *caps,
                    uint64 operations, uint64 bytes, uint64 now_ms);

#endif /* PG_CALM_BRIDGE_CHOICE_H */
