/*-------------------------------------------------------------------------
 *
 * flush_region.h
 *	  A region that is about to be written back: its marks, its length, its mapping.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_FLUSH_REGION_H
#define PG_CALM_FLUSH_REGION_H

#include "map/map.h"

/* Adds to one of CalmShared's counters */
extern void flush_count(pg_atomic_uint64 *counter, uint64 value);

/* Take all marked pages of a region; how many there were */
extern uint32 flush_region_take(PageMapFile *file, uint32 number, PageMapBits *bits);

/* Bytes of a region that lie within the file, in whole blocks */
extern size_t flush_region_length(int fd, off_t offset);

/* Mapping of a region to see what of it is in the page cache; NULL if not to be bridged */
extern void *flush_region_map(int fd, off_t offset, size_t length);

/*
 * Drop those of a region's blocks that are not dirty any more: somebody has
 * written them.
 */
extern void
flush_region_drop_written(int fd, uint32 number, uint32 first, uint32 blocks, PageMapBits *bits);

/* Forget the marks of a file that the caller fsyncs next, and count what the fsync will find */
extern void flush_file_before_fsync(int fd, uint32 file);

#endif /* PG_CALM_FLUSH_REGION_H */
