/*-------------------------------------------------------------------------
 *
 * open_files.c
 *	  Tracked files that are open to be flushed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "writeback.h"

#define MAX_OPEN_FILES 64

/* Between messages of files that can't be opened */
#define TELL_MS 60000

static OpenFile open_files[MAX_OPEN_FILES];

/*
 * close(2) of a file of a local filesystem reports no writeback error and marks none as seen
 * (fs/open.c, filp_close: ->flush, which they lack).  Most others are left alone (device.c); what
 * one that is not does report is not lost.
 */
static void
close_file(OpenFile *open)
{
	error_latch_begin(&calm_shared->error_latch, open->device, open->inode);
	error_latch_end(&calm_shared->error_latch, close(open->fd) == 0 ? 0 : errno);
	open->opened_ms = 0;
}

/* One that is there and can't be opened is left to the server's fsync, as it is; once a minute */
static void
tell_not_opened(const char *path)
{
	static uint64 told_ms = 0;

	if (told_ms != 0 && monotonic_ms() < told_ms + TELL_MS)
		return;
	told_ms = monotonic_ms();
	ereport(LOG,
	        (errcode_for_file_access(), errmsg("pg_calm: could not open file \"%s\": %m", path),
	         errdetail("What is unflushed of it is left to the next fsync.")));
}

/* Whether one more can be had.  If not, all are in flight: later */
bool
open_files_free(void)
{
	for (int i = 0; i < MAX_OPEN_FILES; i++)
	{
		if (open_files[i].references == 0)
			return true;
	}
	return false;
}

/*
 * A file descriptor of a tracked file, shared by all that is done with the
 * file within a second.  NULL if the file is gone, which also drops it from
 * the map, or if too many are in use.  Who works with it longer counts in references.
 */
OpenFile *
open_files_get(uint32 file_index, uint32 incarnation)
{
	PageMapFile *file = page_map_file(calm_page_map, file_index);
	OpenFile *slot = NULL;
	struct stat st;
	char path[PAGE_MAP_FULL_PATH];

	for (int i = 0; i < MAX_OPEN_FILES; i++)
	{
		OpenFile *open = &open_files[i];

		if (open->opened_ms != 0 && open->file == file_index && open->incarnation == incarnation)
			return open;
		if (open->opened_ms == 0 ||
		    (open->references == 0 && (slot == NULL || slot->opened_ms != 0)))
			slot = open;
	}
	if (slot == NULL)
		return NULL; /* all in flight: try again later */
	if (slot->opened_ms != 0)
		close_file(slot);

	/* the path may change under us; the check of device and inode decides */
	page_map_path(calm_page_map, file_index, path);
	slot->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (slot->fd >= 0 &&
	    (fstat(slot->fd, &st) != 0 || st.st_dev != file->device || st.st_ino != file->inode))
	{
		close_file(slot);
		slot->fd = -1;
		errno = ENOENT; /* another one by now */
	}
	if (slot->fd < 0)
	{
		if (errno != ENOENT)
			tell_not_opened(path);
		(void) page_map_retire_file(calm_page_map, file_index, incarnation, false);
		return NULL;
	}
	slot->file = file_index;
	slot->incarnation = incarnation;
	slot->device = st.st_dev;
	slot->inode = st.st_ino;
	slot->references = 0;
	slot->opened_ms = monotonic_ms();
	bridge_look_at(slot->fd);
	return slot;
}

/* Close what has not been used for a second: a dropped table would keep its space */
void
open_files_close_idle(void)
{
	uint64 now = monotonic_ms();

	for (int i = 0; i < MAX_OPEN_FILES; i++)
	{
		if (open_files[i].opened_ms != 0 && open_files[i].references == 0 &&
		    now - open_files[i].opened_ms > 1000)
			close_file(&open_files[i]);
	}
}
