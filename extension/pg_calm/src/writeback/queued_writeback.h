/*-------------------------------------------------------------------------
 *
 * queued_writeback.h
 *	  How much of our data files the kernel has queued for a device.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_QUEUED_WRITEBACK_H
#define PG_CALM_QUEUED_WRITEBACK_H

#include "postgres.h"

/*
 * Bytes of the files in the page map that are under writeback on a device
 * (st_dev), whoever started it, in whole folios.  0 if the kernel can't tell,
 * and for files that are in no page map.  May be of a look that took place a moment ago: looks take a
 * small part of the time at most.  Opens and closes files, one at a time.
 * Never fails, and takes no part in the kernel's error reporting.
 */
extern uint64 queued_writeback_bytes(uint64 device);

/* The next call of queued_writeback_bytes() is to look, however short a time ago that was done */
extern void queued_writeback_forget(void);

#endif /* PG_CALM_QUEUED_WRITEBACK_H */
