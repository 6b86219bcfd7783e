/*-------------------------------------------------------------------------
 *
 * archive.h
 *	  The archive module: archive_library = 'pg_calm'.
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

extern void archive_define_settings(void);
extern void archive_request_shared_memory(void);
extern void archive_start_shared_memory(void);

#endif /* PG_CALM_ARCHIVE_H */
