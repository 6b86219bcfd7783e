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
	uint64 background_bytes; /* dirty bytes of the host that wake it; less if our memory cgroup
	                            has a limit */
	uint64 device_bytes;     /* dirty bytes on our device that wake it, estimated */
	uint64 freerun_bytes;    /* dirty and under writeback: above this, writers are slowed down */
	uint64 dirty_bytes;      /* dirty now, as the kernel counts */
	uint64 writeback_bytes;  /* being written now */
	uint64 operations;       /* that our devices have made, reads and writes, since ever */
	uint64 bytes;            /* in them */
	uint64 write_operations; /* of them, writes */
	uint64 write_bytes;      /* in these */
} KernelFlusher;

/*
 * Bytes that may be dirtied in addition before the kernel slows writers down,
 * less a reserve.
 */
static inline uint64
kernel_flusher_headroom(const KernelFlusher *flusher)
{
	uint64 used = flusher->dirty_bytes + flusher->writeback_bytes;
	uint64 usable = flusher->freerun_bytes / 4 * 3;

	return usable > used ? usable - used : 0;
}

extern void kernel_flusher_read_settings(KernelFlusher *flusher);
extern void kernel_flusher_read_state(KernelFlusher *flusher);

#endif /* PG_CALM_KERNEL_FLUSHER_H */
