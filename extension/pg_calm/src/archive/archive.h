/*-------------------------------------------------------------------------
 *
 * archive.h
 *	  The archive module: archive_library = 'pg_calm'.
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

#include "archive_stats.h"
#include "archive_watch.h"
#include "archive_worker.h"

#define ARCHIVE_WORKERS_MAX 16

/* GUCs */
extern char *calm_archive_directory; /* "": not configured */
extern int calm_archive_workers;     /* the archiver included */
extern int calm_archive_compression; /* ArchiveCompression */
extern int calm_archive_compression_level;

extern void archive_define_settings(void);
extern void archive_request_shared_memory(void);
extern void archive_start_shared_memory(void);

#endif /* PG_CALM_ARCHIVE_H */
