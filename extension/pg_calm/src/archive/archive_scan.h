/*-------------------------------------------------------------------------
 *
 * archive_scan.h
 *	  Spares the archiver from reading archive_status again for every 64 files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ARCHIVE_SCAN_H
#define PG_CALM_ARCHIVE_SCAN_H

#include "postgres.h"

#include <dirent.h>

typedef struct dirent *(*ArchiveScanReaddir)(DIR *directory);

/* For the replaced readdir, in the archiver: see archive_scan.c */
extern struct dirent *archive_scan_readdir(DIR *directory, ArchiveScanReaddir real_readdir);

#endif /* PG_CALM_ARCHIVE_SCAN_H */
