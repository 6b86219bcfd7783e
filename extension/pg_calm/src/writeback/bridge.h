/*-------------------------------------------------------------------------
 *
 * bridge.h
 *	  Re-dirties clean pages between dirty ones, so that they are written as one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_BRIDGE_H
#define PG_CALM_BRIDGE_H

#include "map/map.h"
#include "port/pg_bitutils.h"

/* A stretch of blocks of a region that is to be written in one go */
typedef struct BridgeRun
{
	uint32 first; /* block within the region */
	uint32 blocks;
	uint32 dirty; /* of these, the ones that were dirty before */
} BridgeRun;

/* A region can't have more runs than every other block */
#define BRIDGE_MAX_RUNS (PAGE_MAP_REGION_BLOCKS / 2)

/* Longest gap that is ever considered, in blocks */
#define BRIDGE_MAX_GAP 512

/* What came of a run's gaps, in blocks */
typedef struct BridgeFilled
{
	uint32 filled;    /* dirty now */
	uint32 left;      /* clean as before: the run is written in pieces */
	uint32 breaks;    /* gaps that these are in */
	uint32 amplified; /* gaps with which more became dirty than they have */
} BridgeFilled;

extern const char *bridge_refusal(void);
extern bool bridge_possible(int fd, const char *path);
extern unsigned long bridge_refused_filesystem(void);
extern int
bridge_plan(const PageMapBits *dirty, const PageMapBits *allowed, uint32 max_gap, BridgeRun *runs);
extern void bridge_allowed(int fd, off_t offset, void *mapping, size_t length,
                           const PageMapBits *dirty, PageMapBits *allowed);
extern void bridge_leave_no_trace(void *mapping, size_t length);
extern void bridge_fill(int fd, off_t region, const PageMapBits *dirty, const BridgeRun *run,
                        BridgeFilled *filled);

static inline bool
bits_test(const PageMapBits *bits, uint32 block)
{
	return (bits->word[block / 64] >> (block % 64)) & 1;
}

static inline void
bits_set(PageMapBits *bits, uint32 block)
{
	bits->word[block / 64] |= UINT64CONST(1) << (block % 64);
}

static inline void
bits_clear(PageMapBits *bits, uint32 block)
{
	bits->word[block / 64] &= ~(UINT64CONST(1) << (block % 64));
}

static inline uint32
bits_count(const PageMapBits *bits)
{
	uint32 count = 0;

	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		count += pg_popcount64(bits->word[i]);
	return count;
}

#endif /* PG_CALM_BRIDGE_H */
