/*-------------------------------------------------------------------------
 *
 * folio_split.h
 *	  Splits large folios of the page cache, so that a written block counts as one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_FOLIO_SPLIT_H
#define PG_CALM_FOLIO_SPLIT_H

#include "postgres.h"

/*
 * Split the clean large folios of a stretch of a file, of a region at most.  Reads nothing:
 * what is not in the page cache is not touched (but for a page that is evicted between two
 * calls).
 */
extern void folio_split(int fd, off_t offset, size_t length);

/* Split those of a file that has just been synced */
extern void folio_split_file(int fd);

#endif /* PG_CALM_FOLIO_SPLIT_H */
