/*-------------------------------------------------------------------------
 *
 * flush.h
 *	  Writes regions of data files back: bridge, start, confirm.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_FLUSH_H
#define PG_CALM_FLUSH_H

#include "bridge.h"
#include "device/device.h"
#include "map/map.h"

/* What may be in flight, and how dense writes are made; set by the worker */
typedef struct FlushPolicy
{
	DeviceCaps caps;
	uint32 max_gap;        /* longest gap to bridge, in blocks */
	double in_flight;      /* seconds of device time that may be in flight, but one run at least */
	uint64 max_bytes;      /* that is so many bytes */
	uint32 max_operations; /* likewise */
	bool paced;            /* keep to the rates of caps, as a share of a device */
	bool arbitrated;       /* that is shared with other instances */
	uint64 headroom;       /* bytes that may still be dirtied by making regions dense */
	bool dry_run;          /* count what would be done */
	bool bridges;          /* gaps may be bridged; and nothing is started: worker/breaker.h */
	bool rests;
} FlushPolicy;

extern FlushPolicy flush_policy;

/* What has been started since the worker began */
typedef struct FlushStarted
{
	uint64 operations;
	uint64 bytes;
} FlushStarted;

extern FlushStarted flush_started;

extern const char *flush_refused(void);
extern bool flush_start_region(uint32 file, uint32 incarnation, uint32 number);
extern bool flush_busy(void);
extern bool flush_advance(void);
extern bool flush_in_flight(void);
extern uint64 flush_pause_ms(void);
extern uint64 flush_taken_pages(void);

#endif /* PG_CALM_FLUSH_H */
