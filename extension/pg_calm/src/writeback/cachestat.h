/*-------------------------------------------------------------------------
 *
 * cachestat.h
 *	  What of a file is dirty and under writeback: cachestat(2), Linux 6.5.
 *
 * It takes no part in the kernel's reporting of errors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CACHESTAT_H
#define PG_CALM_CACHESTAT_H

#include "postgres.h"

/* Linux 6.5, include/uapi/linux/mman.h; not in the headers of Debian 12 */
struct calm_cachestat
{
	uint64 nr_cache;
	uint64 nr_dirty;
	uint64 nr_writeback;
	uint64 nr_evicted;
	uint64 nr_recently_evicted;
};

/* Whether the kernel has it.  Then writeback can be confirmed without consuming errors */
extern bool cachestat_works(void);

/* The call itself: 0, or -1 and errno */
extern int cachestat_call(int fd, off_t offset, off_t length, struct calm_cachestat *result);

/* How many blocks of a file are dirty, from one on; all if the kernel can't tell */
extern uint32 cachestat_dirty_blocks(int fd, uint32 first, uint32 blocks);

#endif /* PG_CALM_CACHESTAT_H */
