/*-------------------------------------------------------------------------
 *
 * flush_dense.c
 *	  Regions that somebody else writes: made dense first for the kernel's flusher, and counted.
 *
 * The flusher is about to come then (flusher_guard.c).  Before the server's fsync they are only
 * counted: no process of the server maps its files.  Nothing is started here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>

#include "bridge.h"
#include "flush.h"
#include "flush_region.h"
#include "open_files.h"
#include "port/pg_bitutils.h"
#include "shared/shared.h"

uint64 flush_taken_back_pages = 0;

static void
make_dense(int fd, off_t offset, bool bridge, const PageMapBits *taken, PageMapBits *filled);
static void count_written(const PageMapBits *before, const PageMapBits *now);
static uint32 bits_span(const PageMapBits *bits, uint32 *first);

/*
 * Bridge a region and start nothing.  taken are the pages that were marked;
 * filled, which holds what earlier calls filled, is extended by what is dirty
 * now.
 */
static void
make_dense(int fd, off_t offset, bool bridge, const PageMapBits *taken, PageMapBits *filled)
{
	static BridgeRun runs[BRIDGE_MAX_RUNS];
	PageMapBits allowed;
	size_t length = flush_region_length(fd, offset);
	void *mapping;
	int nruns;

	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		filled->word[i] |= taken->word[i];
	if (length == 0)
		return;
	for (uint32 b = length / BLCKSZ; b < PAGE_MAP_REGION_BLOCKS; b++)
		bits_clear(filled, b);

	mapping = bridge && flush_policy.headroom > 0 ? flush_region_map(fd, offset, length) : NULL;
	allowed = *filled;
	if (mapping)
		bridge_allowed(fd, offset, mapping, length, filled, &allowed);
	nruns = bridge_plan(filled, &allowed, flush_policy.max_gap, runs);
	for (int r = 0; r < nruns; r++)
	{
		uint64 gap_bytes = (uint64) (runs[r].blocks - runs[r].dirty) * BLCKSZ;
		BridgeFilled bridged = {0};

		if (gap_bytes == 0 || gap_bytes > flush_policy.headroom)
			continue;
		flush_policy.headroom -= gap_bytes;
		if (flush_policy.dry_run)
			bridged.filled = runs[r].blocks - runs[r].dirty;
		else
			bridge_fill(fd, offset, filled, &runs[r], &bridged);
		flush_count(&calm_shared->counters.bridged_pages, bridged.filled);
		flush_count(&calm_shared->counters.unbridged_pages, bridged.left);
		flush_started.amplified += bridged.amplified;
		if (bridged.left > 0)
			continue;
		for (uint32 b = runs[r].first; b < runs[r].first + runs[r].blocks; b++)
			bits_set(filled, b);
	}
	if (mapping)
		munmap(mapping, length);
}

/* Somebody else writes these blocks of a region now: count what it takes */
void
flush_count_foreign(const PageMapBits *filled)
{
	static BridgeRun runs[BRIDGE_MAX_RUNS];
	int nruns = bridge_plan(filled, filled, 0, runs);

	for (int r = 0; r < nruns; r++)
	{
		uint64 bytes = (uint64) runs[r].blocks * BLCKSZ;

		flush_count(&calm_shared->counters.device_operations,
		            device_operations(&flush_policy.caps, bytes));
		flush_count(&calm_shared->counters.written_bytes, bytes);
	}
}

/* Somebody has written what is not left any more */
static void
count_written(const PageMapBits *before, const PageMapBits *now)
{
	PageMapBits written;

	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		written.word[i] = before->word[i] & ~now->word[i];
	flush_count_foreign(&written);
}

/*
 * Bridge a region and leave it to the kernel flusher, which is about to come.
 * filled is what has been left to it by earlier calls; what was written
 * meanwhile, by an fsync most likely, has gaps again.
 */
void
flush_hand_over_region(uint32 file, uint32 incarnation, uint32 number, PageMapBits *filled)
{
	OpenFile *open = open_files_get(file, incarnation);
	PageMapBits taken;
	PageMapBits known;
	uint32 pages;

	if (open == NULL)
		return;
	pages = flush_region_take(page_map_file(calm_page_map, file), number, &taken);
	if (pages == 0)
		return;
	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		known.word[i] = filled->word[i] | taken.word[i];
	flush_region_drop_written(open->fd, number, 0, PAGE_MAP_REGION_BLOCKS, &known);
	count_written(filled, &known);
	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		filled->word[i] &= known.word[i];
	make_dense(open->fd, (off_t) number * PAGE_MAP_REGION_BYTES, open->bridge, &taken, filled);
	flush_count(&calm_shared->counters.handed_pages, pages);
}

/*
 * The flusher has not come: mark again what was left to it and is still
 * dirty, or nobody would know of it until an fsync has to write it.
 */
void
flush_take_back_region(uint32 file, uint32 incarnation, uint32 number, const PageMapBits *filled)
{
	static BridgeRun runs[BRIDGE_MAX_RUNS];
	OpenFile *open = open_files_get(file, incarnation);
	PageMapBits left = *filled;
	int nruns;

	if (open == NULL)
		return;
	if (flush_policy.dry_run)
		memset(&left, 0, sizeof(left));
	else
		flush_region_drop_written(open->fd, number, 0, PAGE_MAP_REGION_BLOCKS, &left);
	count_written(filled, &left);
	nruns = bridge_plan(&left, &left, 0, runs);
	for (int r = 0; r < nruns; r++)
	{
		if (page_map_mark(calm_page_map, file, incarnation,
		                  number * PAGE_MAP_REGION_BLOCKS + runs[r].first, runs[r].blocks,
		                  page_map_now_ms()))
			flush_taken_back_pages += runs[r].blocks;
	}
}

/* How many blocks there are from the first of a set to the last one; the set has one */
static uint32
bits_span(const PageMapBits *bits, uint32 *first)
{
	uint32 low = 0;
	uint32 high = PAGE_MAP_REGION_WORDS - 1;
	uint32 last;

	while (low < high && bits->word[low] == 0)
		low++;
	while (high > low && bits->word[high] == 0)
		high--;
	*first = low * 64 + pg_rightmost_one_pos64(bits->word[low]);
	last = high * 64 + pg_leftmost_one_pos64(bits->word[high]);
	return last - *first + 1;
}

/*
 * Forget the marks of a region of a file that the caller fsyncs next, and count
 * what the fsync will find.
 */
void
flush_region_before_fsync(int fd, uint32 file_index, uint32 number)
{
	PageMapBits taken;
	uint32 marked = flush_region_take(page_map_file(calm_page_map, file_index), number, &taken);
	uint32 first;
	uint32 blocks;
	uint32 pages;

	if (marked == 0)
		return;
	blocks = bits_span(&taken, &first);
	flush_region_drop_written(fd, number, first, blocks, &taken);
	pages = bits_count(&taken);
	flush_count(&calm_shared->counters.kernel_flushed_pages, marked - pages);
	flush_count_foreign(&taken);
	flush_count(&calm_shared->counters.fsynced_pages, pages);
}
