/*-------------------------------------------------------------------------
 *
 * archive_stats.h
 *	  What archiving has done, counted in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ARCHIVE_STATS_H
#define PG_CALM_ARCHIVE_STATS_H

#include "postgres.h"

#include "archive_copy.h"
#include "archive_ready_queue.h"
#include "datatype/timestamp.h"

/* Since the server started */
typedef struct ArchiveCounters
{
	uint64 archived_files; /* acknowledged to the server */
	uint64 archived_bytes; /* of these, before compression */
	uint64 written_bytes;  /* written to the archive */
	uint64 existing_files; /* found there, identical */
	uint64 failures;       /* answers to the server that a file could not be archived */
	uint64 file_syncs;
	uint64 directory_syncs;
	ArchiveFileName last_file;
	TimestampTz last_time; /* 0: none */
	ArchiveFileName error_file;
	TimestampTz error_time; /* 0: none */
	char error[1024];
} ArchiveCounters;

extern Size archive_stats_size(void);
extern void archive_stats_start(void);
extern void archive_stats_copied(const ArchiveCopyResult *result);
extern void archive_stats_directory_synced(void);
extern void archive_stats_acknowledged(const char *name, const ArchiveCopyResult *result);
extern void archive_stats_failed(const char *name, const char *error);
extern void archive_stats_read(ArchiveCounters *counters);
extern double archive_stats_rate(void);

#endif /* PG_CALM_ARCHIVE_STATS_H */
