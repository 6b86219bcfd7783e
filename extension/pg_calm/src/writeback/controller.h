/*-------------------------------------------------------------------------
 *
 * controller.h
 *	  How much the worker writes, how much may wait, and when a checkpoint's writes are held.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CONTROLLER_H
#define PG_CALM_CONTROLLER_H

#include "device/device.h"

/* What is known, four times a second.  Rates are per second, sizes in bytes. */
typedef struct ControllerInput
{
	uint64 now_ms;
	DeviceCaps caps;         /* of the device, or our share of it */
	uint64 operations;       /* of the device, reads and writes, since ever */
	uint64 bytes;            /* in these */
	uint64 write_operations; /* of these, writes */
	uint64 write_bytes;      /* in these */
	uint64 own_operations;   /* started by the worker, since ever */
	uint64 own_bytes;        /* in these */
	uint64 unflushed;        /* marked pages */
	double
		flush_rate; /* at which the device takes them, scattered as they are; INFINITY: not known */
	uint64 dirty;   /* of the host, as the kernel counts */
	uint64 background;        /* from which its flusher writes; PG_UINT64_MAX: never */
	uint64 device_background; /* likewise, of our device */
	bool wal_waits;           /* WAL has asked for the next checkpoint before this one has ended */
} ControllerInput;

/* What follows from it */
typedef struct ControllerOutput
{
	DeviceCaps share; /* rates that the worker keeps to */
	bool paced;       /* ... because others draw on the same budget */
	uint64 limit;     /* bytes that may wait; more is flushed whatever its age */
	uint64 full;      /* with which it can't go on */
	bool too_much;    /* more than the limit waits */
	uint64 written;   /* bytes of what is marked that the kernel has written already, at least */
	uint32 gap;       /* longest gap between dirty pages to fill, in blocks */
	double all_operations; /* per second that the device makes */
	double reads;          /* of these */
	double all_bytes;      /* per second */
} ControllerOutput;

extern void controller_follow(const ControllerInput *input, ControllerOutput *output);
extern void controller_forget(void);

#endif /* PG_CALM_CONTROLLER_H */
