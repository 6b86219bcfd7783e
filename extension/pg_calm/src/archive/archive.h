/*-------------------------------------------------------------------------
 *
 * archive.h
 *	  The archive module: archive_library = 'pg_calm_archive'.
 *
 * - A segment is acknowledged when it is durable in the archive under its name, its
 *   directory entry with it; a status file is removed or renamed only after that.
 * - A file in the archive with another content is never replaced.
 * - What is copied ahead or by other processes counts for nothing until the
 *   archiver has asked for it.
 * - A crash between any two calls leaves a segment that is archived again, never one
 *   that is missing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ARCHIVE_H
#define PG_CALM_ARCHIVE_H

#include "postgres.h"

#define ARCHIVE_WORKERS_MAX 16

/* GUCs */
extern char *calm_archive_directory; /* "": not configured */
extern int calm_archive_workers;     /* the archiver included */
extern int calm_archive_compression; /* ArchiveCompression */
extern int calm_archive_compression_level;

/* An error if there is no shared memory */
extern void archive_must_be_loaded(void);

#endif /* PG_CALM_ARCHIVE_H */
