/*-------------------------------------------------------------------------
 *
 * archive_copy.h
 *	  Copies one WAL file to the archive, durably, and never over another.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ARCHIVE_COPY_H
#define PG_CALM_ARCHIVE_COPY_H

#include "postgres.h"

#include <sys/stat.h>
#include <sys/types.h>

#include "archive_codec.h"

/* Where to and how */
typedef struct ArchiveTarget
{
	char directory[MAXPGPATH];
	ArchiveCompression compression;
	int level; /* 0: the library's default */
} ArchiveTarget;

typedef struct ArchiveCopyResult
{
	bool existing;        /* was in the archive, identical */
	uint64 source_bytes;  /* length of the WAL file */
	uint64 written_bytes; /* written to the archive; 0 if existing */
	uint32 file_syncs;
	dev_t directory_device; /* the directory that now has the file */
	ino_t directory_inode;
	char error[1024]; /* what failed, or "" */
} ArchiveCopyResult;

/* Asked between pieces: true ends the copy as failed */
typedef bool (*ArchiveInterrupted)(void);

extern bool archive_copy(const char *name, const ArchiveTarget *target,
                         ArchiveInterrupted interrupted, ArchiveCopyResult *result);
extern bool archive_copy_is_pg_wal(const struct stat *directory);
extern void archive_copy_remove_leftovers(const char *directory);

#endif /* PG_CALM_ARCHIVE_COPY_H */
