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

#include <sys/stat.h>
#include <sys/types.h>

#include "base/base.h"
#include "storage/latch.h"

#define ARCHIVE_WORKERS_MAX 16

/* GUCs */
extern char *calm_archive_directory; /* "": not configured */
extern int calm_archive_workers;     /* the archiver included */
extern int calm_archive_compression; /* ArchiveCompression */
extern int calm_archive_compression_level;
extern int calm_archive_bandwidth; /* kB per second; 0: no limit */

/* Whether archive_library is this one, by whatever path and with the suffix or without */
#define ARCHIVE_IS_OURS() (strstr(XLogArchiveLibrary, "pg_calm_archive") != NULL)

/* While the postmaster loads the module: have workers started, if archiving is set up */
extern void archive_worker_register(void);

/* An error if there is no shared memory */
extern void archive_must_be_loaded(void);

/* archive_ready_queue.c */

#define STATUS_DIRECTORY XLOGDIR "/archive_status"

/* A name in pg_wal, without suffix; as long as pgarch.c allows */
typedef char ArchiveFileName[MAX_XFN_CHARS + 1];

extern bool archive_ready_name(const char *entry, ArchiveFileName name);
extern int archive_ready_compare(const void *a, const void *b);
extern int archive_ready_after(const char *file, ArchiveFileName *names, int max);

/* archive_codec.c */

typedef enum ArchiveCompression
{
	ARCHIVE_COMPRESSION_NONE,
	ARCHIVE_COMPRESSION_LZ4,
	ARCHIVE_COMPRESSION_ZSTD,
} ArchiveCompression;

#define ARCHIVE_COMPRESSIONS (ARCHIVE_COMPRESSION_ZSTD + 1)

/* Most that is handed to archive_encoder_step at a time */
#define ARCHIVE_PIECE (256 * 1024)

extern const char *archive_codec_suffix(ArchiveCompression compression);
extern const char *archive_codec_name(ArchiveCompression compression);
extern bool archive_codec_available(ArchiveCompression compression);

/*
 * One process encodes one stream at a time, and decodes one.  All return false if
 * something is wrong; archive_codec_error says what.
 */
extern bool archive_encoder_begin(ArchiveCompression compression, int level, uint64 content_size);
extern bool archive_encoder_step(const void *input, size_t length, bool last, const void **output,
                                 size_t *output_length);
extern void archive_encoder_end(void);
extern bool archive_decoder_begin(ArchiveCompression compression, int fd);
extern bool archive_decoder_read(void *output, size_t capacity, size_t *length);
extern void archive_decoder_end(void);
extern const char *archive_codec_error(void);

/* archive_copy.c */

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

/* Asked after each piece, with the bytes that were written; may wait.  False ends the copy as failed */
typedef bool (*ArchiveMayGoOn)(size_t bytes);

extern bool archive_copy(const char *name, const ArchiveTarget *target, ArchiveMayGoOn may_go_on,
                         ArchiveCopyResult *result);
extern void archive_copy_remove_leftovers(const char *directory);

/* archive_jobs.c */

#define ARCHIVE_JOBS 64

/* Most that are planned: each worker may still have a job that nobody wants any more */
#define ARCHIVE_JOBS_PLANNED (ARCHIVE_JOBS - ARCHIVE_WORKERS_MAX)

/* Owner of a job that the archiver itself works on; workers count from 0 */
#define ARCHIVE_OWNER_ARCHIVER (-1)

typedef enum ArchiveJobState
{
	ARCHIVE_JOB_FREE,
	ARCHIVE_JOB_QUEUED,
	ARCHIVE_JOB_COPYING, /* its owner works on it; nobody else touches it */
	ARCHIVE_JOB_RENAMED, /* complete and synced, but for the directory */
	ARCHIVE_JOB_DURABLE, /* may be acknowledged */
	ARCHIVE_JOB_FAILED,
} ArchiveJobState;

extern Size archive_jobs_size(void);
extern void archive_jobs_start(void);

/* For the archiver */
extern void archive_jobs_forget(void);
extern void archive_jobs_plan(const ArchiveFileName *names, int count, const ArchiveTarget *target);
extern ArchiveJobState archive_jobs_state(const char *name);
extern void archive_jobs_requeue(const char *name);
extern void archive_jobs_finish(const char *name, ArchiveCopyResult *result);
extern int archive_jobs_count(ArchiveJobState state);
extern bool archive_jobs_abandon(const char *name);
extern int archive_jobs_sync_begins(const struct stat *directory);
extern void archive_jobs_sync_ended(const char *error);

/* For whoever copies: the archiver or a worker */
extern bool archive_jobs_stopping(void);
extern bool archive_jobs_copy_one(int owner);

/* Workers */
extern void archive_jobs_worker_starts(int worker, Latch *latch);
extern void archive_jobs_worker_ends(int worker);
extern int archive_jobs_workers(void);

/* archive_stats.c */

extern Size archive_stats_size(void);
extern void archive_stats_start(void);
extern void archive_stats_copied(const ArchiveCopyResult *result);
extern void archive_stats_directory_synced(void);
extern void archive_stats_acknowledged(const char *name, const ArchiveCopyResult *result);
extern void archive_stats_failed(const char *name, const char *error);

#endif /* PG_CALM_ARCHIVE_H */
