/*-------------------------------------------------------------------------
 *
 * kernel_flusher.h
 *	  When the kernel starts to flush by itself, and how near that is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_KERNEL_FLUSHER_H
#define PG_CALM_KERNEL_FLUSHER_H

#include "postgres.h"

typedef struct KernelFlusher
{
	uint64 expire_ms;        /* vm.dirty_expire_centisecs; 0: never */
	uint64 interval_ms;      /* vm.dirty_writeback_centisecs; 0: never */
	uint64 background_bytes; /* dirty bytes that wake it; whole host, or
									 * our memory cgroup if that is less */
	uint64 dirty_bytes;      /* dirty now, as the kernel counts */
	uint64 writeback_bytes;  /* being written now */
} KernelFlusher;

extern void kernel_flusher_read_settings(KernelFlusher *flusher);
extern void kernel_flusher_read_state(KernelFlusher *flusher);

#endif /* PG_CALM_KERNEL_FLUSHER_H */
