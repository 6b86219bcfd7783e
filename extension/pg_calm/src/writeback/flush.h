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
	uint64 amplified; /* gaps with which more became dirty than they have */
} FlushStarted;

extern FlushStarted flush_started;

/* Marked again by flush_take_back_region() since the worker began; nobody has written to them */
extern uint64 flush_taken_back_pages;

extern const char *flush_refused(void);
extern bool flush_start_region(uint32 file, uint32 incarnation, uint32 number);
extern bool flush_busy(void);
extern bool flush_advance(void);
extern bool flush_in_flight(void);
extern uint64 flush_in_flight_bytes(void);
extern uint64 flush_pause_ms(void);
extern void
flush_hand_over_region(uint32 file, uint32 incarnation, uint32 number, PageMapBits *filled);
extern void
flush_take_back_region(uint32 file, uint32 incarnation, uint32 number, const PageMapBits *filled);
extern uint64 flush_taken_pages(void);
extern void flush_count_foreign(const PageMapBits *filled);
extern void flush_region_before_fsync(int fd, uint32 file, uint32 number);

#endif /* PG_CALM_FLUSH_H */
