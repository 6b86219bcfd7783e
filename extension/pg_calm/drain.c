/*-------------------------------------------------------------------------
 *
 * drain.c
 *	  What is done for a data file before PostgreSQL's fsync of it.
 *
 * fsync writes all dirty pages of the file, those too that were written
 * after the checkpoint's own.  Bridged right before, they reach the device in
 * as few operations as its caps make worth while.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>
#include <sys/stat.h>

#include "drain.h"
#include "flush.h"
#include "kernel_flusher.h"
#include "pg_calm.h"

void
drain_before_fsync(int fd, bool checkpoint)
{
	static KernelFlusher flusher;
	static uint64 next_state_ms = 0; /* a checkpoint can have thousands of small files */
	uint64 now = page_map_now_ms();
	struct stat st;
	uint32 incarnation;
	int file_index;
	PageMapFile *file;

	/* in mode off, what was marked before still has to be forgotten */
	if (page_map_unflushed(calm_page_map, 0) + page_map_unflushed(calm_page_map, 1) == 0)
		return;
	if (fstat(fd, &st) != 0)
		return;
	file_index = page_map_find_file(calm_page_map, st.st_dev, st.st_ino, &incarnation);
	if (file_index == PAGE_MAP_NO_FILE)
		return;
	file = page_map_file(calm_page_map, file_index);

	SpinLockAcquire(&calm_shared->lock);
	flush_policy.caps = calm_shared->caps;
	flush_policy.max_gap = checkpoint && calm_mode != CALM_MODE_OFF ? calm_shared->max_gap : 0;
	SpinLockRelease(&calm_shared->lock);
	flush_policy.dry_run = calm_mode != CALM_MODE_ON;
	if (now >= next_state_ms)
	{
		kernel_flusher_read_state(&flusher);
		flush_policy.headroom = kernel_flusher_headroom(&flusher);
		next_state_ms = now + 250;
	}

	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
	{
		uint32 slot = pg_atomic_read_u32(&file->region[number]);

		if (slot != 0 && page_map_region_count(page_map_region(calm_page_map, slot - 1)) > 0)
			(void) flush_region_before_fsync(fd, file_index, number);
	}
}
