/*-------------------------------------------------------------------------
 *
 * archive_ack.h
 *	  Acknowledging archived WAL without an fsync storm.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ARCHIVE_ACK_H
#define PG_CALM_ARCHIVE_ACK_H

#include "postgres.h"

/* Whose acknowledgements are deferred */
typedef enum ArchiveDefer
{
	ARCHIVE_DEFER_OFF,
	ARCHIVE_DEFER_AUTO, /* ours: archive_library = 'pg_calm' */
	ARCHIVE_DEFER_ON,   /* any archiver's */
} ArchiveDefer;

extern int calm_archive_defer_status_sync; /* GUC; ArchiveDefer */

extern Size archive_ack_size(void);
extern void archive_ack_start(void);

/* To be called where the server uses our archive module; for ARCHIVE_DEFER_AUTO */
extern void archive_ack_own_library(void);

/* Whether the archiver archives with us */
extern bool archive_ack_is_own_library(void);

/*
 * For the replaced calls: allocate nothing, raise no error.  See archive_ack.c.
 */
extern bool archive_ack_skips_fsync(int fd);
extern bool archive_ack_rename_begins(const char *old_path, const char *new_path);
extern void archive_ack_rename_ended(bool ok);
extern bool archive_ack_before_removal(const char *path);

/* Renames deferred, and fsyncs of the directory made for them, since the server started */
extern uint64 archive_ack_deferred_renames(void);
extern uint64 archive_ack_directory_syncs(void);

/* Why WAL is neither recycled nor removed since an fsync failed, or "" */
extern const char *archive_ack_failure(void);

#endif /* PG_CALM_ARCHIVE_ACK_H */
