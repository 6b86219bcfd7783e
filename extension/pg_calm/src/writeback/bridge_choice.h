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

extern uint32 bridge_longest_gap(const DeviceCaps *caps);
extern uint32 bridge_least_time_gap(const BridgeGaps *gaps, const DeviceCaps *caps);

#endif /* PG_CALM_BRIDGE_CHOICE_H */
