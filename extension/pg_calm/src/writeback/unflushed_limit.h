/*-------------------------------------------------------------------------
 *
 * unflushed_limit.h
 *	  How much may wait to be flushed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_UNFLUSHED_LIMIT_H
#define PG_CALM_UNFLUSHED_LIMIT_H

#include "device/device.h"

/* To be called by the worker several times a second, with the pages that wait */
extern void unflushed_limit_follow(uint64 unflushed_pages, uint64 now_ms);
/* How long the kernel flusher would take for so many bytes that wait */
extern void unflushed_limit_visit(double seconds, uint64 bytes);
extern uint64 unflushed_limit_bytes(const KernelFlusher *flusher);

#endif /* PG_CALM_UNFLUSHED_LIMIT_H */
