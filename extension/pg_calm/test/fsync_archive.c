/*-------------------------------------------------------------------------
 *
 * fsync_archive.c
 *	  An archive module for a test: it fsyncs a file and archives nothing.
 *
 * For each WAL file, "fsync_me" in the data directory is fsynced by the
 * server's own function if it is there, as basic_archive does with its copies.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "base/compat.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

static bool
fsync_archive_check_configured(CALM_ARCHIVE_STATE)
{
	return true;
}

static bool
fsync_archive_file(CALM_ARCHIVE_STATE_AND const char *file, const char *path)
{
	if (access("fsync_me", F_OK) == 0)
		fsync_fname("fsync_me", false);
	return true;
}

CALM_DEFINE_ARCHIVE_MODULE(fsync_archive_check_configured, fsync_archive_file, NULL);
