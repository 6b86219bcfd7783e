/*-------------------------------------------------------------------------
 *
 * buffer_cleaning.h
 *	  Writes dirty shared buffers of chosen blocks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_BUFFER_CLEANING_H
#define PG_CALM_BUFFER_CLEANING_H

#include "map/map.h"

/*
 * Write those of a relation's blocks that are dirty in shared buffers, the way
 * the server writes them, and return their number.  Leaves out what
 * would have to wait: pages locked by others, or whose WAL is not flushed yet.
 * For the cleaner.  A failed write is an ERROR, as in the server's own writing.
 */
extern uint32 buffer_cleaning_write(const RelationFile *file, uint32 first, uint32 count);

#endif /* PG_CALM_BUFFER_CLEANING_H */
