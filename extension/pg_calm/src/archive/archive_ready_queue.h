/*-------------------------------------------------------------------------
 *
 * archive_ready_queue.h
 *	  Which files the server will ask to archive next.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ARCHIVE_READY_QUEUE_H
#define PG_CALM_ARCHIVE_READY_QUEUE_H

#include "postgres.h"

#include "base/base.h"

/* A name in pg_wal, without suffix; as long as pgarch.c allows */
typedef char ArchiveFileName[MAX_XFN_CHARS + 1];

extern bool archive_ready_name(const char *entry, ArchiveFileName name);
extern int archive_ready_compare(const void *a, const void *b);
extern int archive_ready_after(const char *file, ArchiveFileName *names, int max);

#endif /* PG_CALM_ARCHIVE_READY_QUEUE_H */
