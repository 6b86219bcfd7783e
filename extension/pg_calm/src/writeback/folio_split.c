/*-------------------------------------------------------------------------
 *
 * folio_split.c
 *	  Splits large folios of the page cache, so that a written block counts as one.
 *
 * Read-ahead fills the page cache with folios of up to 2 MiB.  The kernel
 * counts a folio as dirty as a whole when one block of it is written, so that
 * a few hundred scattered writes pass the dirty thresholds: the flusher then
 * runs without a pause, and at last writers are made to wait
 * (kernel_flusher.c).
 *
 * A large folio can be split without privileges and without I/O: madvise(2)
 * with MADV_COLD splits a folio of which the range covers only a part, if
 * nobody else has it mapped (Linux 5.4; mm/madvise.c,
 * madvise_cold_or_pageout_pte_range).  It changes no content and no dirty
 * state.  A folio that is dirty or under writeback stays as it is, so the occasion is
 * when we have written a region back of which more was dirty than was written to: once for
 * each, whoever has read the file, and whenever.
 *
 * What is named to madvise counts as cold after that, so it is one block in
 * SPLIT_STEP bytes: smaller folios are left alone.  It is a whole block: where
 * memory is short, a page of the kernel's that went alone would take its half of
 * the block with it, and cost the server a read.
 *
 * WAL segments are split too, when they have been filled with zeros and
 * synced.  Else each block of WAL that is synced counts as a whole folio
 * written to its device, the share of the data directory's device in all that
 * is written becomes tiny, and with it the dirty threshold from which the
 * flusher writes that device (mm/page-writeback.c, __wb_writeout_add and
 * __wb_calc_thresh).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bridge.h"
#include "folio_split.h"
#include "shared/shared.h"

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Folios of this size and larger are split; they are aligned to their size */
#define SPLIT_STEP (8 * BLCKSZ)

void
folio_split_file(int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return;
	for (off_t offset = 0; offset < st.st_size; offset += PAGE_MAP_REGION_BYTES)
		folio_split(fd, offset, Min(st.st_size - offset, PAGE_MAP_REGION_BYTES));
}

void
folio_split(int fd, off_t offset, size_t length)
{
	static unsigned char resident[PAGE_MAP_REGION_BYTES / 4096];
	size_t page_size = sysconf(_SC_PAGESIZE);
	size_t pages = length / page_size;
	size_t step = SPLIT_STEP / page_size;
	size_t named = Max(BLCKSZ / page_size, 1);
	char *mapping;

	if (pages == 0 || pages > sizeof(resident) || step < 2 * named)
		return;
	mapping = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, offset);
	if (mapping == MAP_FAILED)
		return;
	bridge_leave_no_trace(mapping, length);
	if (mincore(mapping, length, resident) == 0)
	{
		for (size_t page = 0; page < pages; page++)
		{
			size_t end = page;

			while (end < pages && (resident[end] & 1))
				end++;
			if (end == page)
				continue;

			/* what is not mapped here is not looked at by madvise */
			if (madvise(mapping + page * page_size, (end - page) * page_size, MADV_POPULATE_READ) ==
			    0)
			{
				for (size_t p = (page + step - 1) / step * step; p + named <= end; p += step)
					(void) madvise(mapping + p * page_size, named * page_size, MADV_COLD);
			}
			page = end;
		}
	}
	munmap(mapping, length);
}
