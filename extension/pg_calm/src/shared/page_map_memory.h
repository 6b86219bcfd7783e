/*-------------------------------------------------------------------------
 *
 * page_map_memory.h
 *	  How much shared memory the map of unflushed pages is given.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_PAGE_MAP_MEMORY_H
#define PG_CALM_PAGE_MAP_MEMORY_H

#include "postgres.h"

#include "utils/guc.h"

/* Check hook of pg_calm.page_map_memory */
extern bool page_map_memory_check(int *newval, void **extra, GucSource source);

/*
 * Replace -1 by what the data directory's files need; once, in the postmaster,
 * before shared memory is asked for
 */
extern void page_map_memory_choose(void);

#endif /* PG_CALM_PAGE_MAP_MEMORY_H */
