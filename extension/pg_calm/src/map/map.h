/*-------------------------------------------------------------------------
 *
 * map.h
 *	  What is written and not flushed (page_map.h, with the invariants), and whose it is.
 *
 * The map knows nothing of devices, settings or the server but its atomics and spinlocks,
 * so that its tests run it in threads.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_MAP_H
#define PG_CALM_MAP_H

#include <sys/stat.h>

#include "base/base.h"
#include "page_map.h"

/* relation_file.c */

typedef struct RelationFile
{
	CalmRelationId relation;
	ForkNumber fork;
	BlockNumber first_block; /* of this segment */
	uint32 blocks;           /* whole ones in the file when it was looked at */
} RelationFile;

extern bool file_path(int fd, char *path);
extern bool relation_file_identify(const char *path, const struct stat *st, RelationFile *file);

#endif /* PG_CALM_MAP_H */
