/*-------------------------------------------------------------------------
 *
 * open_files.h
 *	  Tracked files that are open to be flushed.
 *
 * For the writeback worker.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_OPEN_FILES_H
#define PG_CALM_OPEN_FILES_H

#include "postgres.h"

typedef struct OpenFile
{
	int fd; /* -1: unused */
	uint32 file;
	uint32 incarnation;
	uint64 device; /* st_dev and st_ino */
	uint64 inode;
	int references; /* runs in flight, region worked on */
	uint64 opened_ms;
	bool bridge; /* its filesystem allows it */
} OpenFile;

/*
 * A file descriptor of a tracked file, shared by all that is done with the
 * file within a second.  NULL if the file is gone, which also drops it from
 * the map, or if too many are in use.  Who works with it longer counts in references.
 */
extern OpenFile *open_files_get(uint32 file, uint32 incarnation);

/* Close what has not been used for a second: a dropped table would keep its space */
extern void open_files_close_idle(void);

#endif /* PG_CALM_OPEN_FILES_H */
