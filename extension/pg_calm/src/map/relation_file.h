/*-------------------------------------------------------------------------
 *
 * relation_file.h
 *	  Which blocks of which relation a data file holds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_RELATION_FILE_H
#define PG_CALM_RELATION_FILE_H

#include <sys/stat.h>

#include "base/base.h"
#include "storage/block.h"

typedef struct RelationFile
{
	CalmRelationId relation;
	ForkNumber fork;
	BlockNumber first_block; /* of this segment */
	uint32 blocks;           /* whole ones in the file when it was looked at */
} RelationFile;

/*
 * Find out what the file behind st, which had this path, is a segment of.
 * False if it is no file of a relation that the server knows by a path of its
 * own.
 */
extern bool relation_file_identify(const char *path, const struct stat *st, RelationFile *file);

#endif /* PG_CALM_RELATION_FILE_H */
