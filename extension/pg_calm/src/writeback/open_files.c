/*-------------------------------------------------------------------------
 *
 * open_files.c
 *	  Tracked files that are open to be flushed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writeback.h"
#include "shared/shared.h"

#define MAX_OPEN_FILES 16

/* Between messages of files that can't be opened */
#define TELL_MS 60000

static OpenFile open_files[MAX_OPEN_FILES];
static bool open_files_ready = false;

/*
 * close(2) of a file of a local filesystem reports no writeback error and
 * marks none as seen (fs/open.c, filp_close: ->flush, which they lack).
 */
static void
close_file(OpenFile *open)
{
	close(open->fd);
	open->fd = -1;
}

/* One that is there and can't be opened is left to the server's fsync, as it is; once a minute */
static void
tell_not_opened(const char *path)
{
	static uint64 told_ms = 0;
	int error = errno;

	if (told_ms != 0 && monotonic_ms() < told_ms + TELL_MS)
		return;
	told_ms = monotonic_ms();
	errno = error;
	ereport(LOG,
	        (errcode_for_file_access(), errmsg("pg_calm: could not open file \"%s\": %m", path),
	         errdetail("What is unflushed of it is left to the next fsync.")));
}

OpenFile *
open_files_get(uint32 file_index, uint32 incarnation)
{
	PageMapFile *file = page_map_file(calm_page_map, file_index);
	OpenFile *slot = NULL;
	struct stat st;
	char path[PAGE_MAP_FULL_PATH];

	if (!open_files_ready)
	{
		for (int i = 0; i < MAX_OPEN_FILES; i++)
			open_files[i].fd = -1;
		open_files_ready = true;
	}
	for (int i = 0; i < MAX_OPEN_FILES; i++)
	{
		OpenFile *open = &open_files[i];

		if (open->fd >= 0 && open->file == file_index && open->incarnation == incarnation)
			return open;
		if (open->fd < 0 || (open->references == 0 && (slot == NULL || slot->fd >= 0)))
			slot = open;
	}
	if (slot == NULL)
		return NULL; /* all in flight: try again later */
	if (slot->fd >= 0)
		close_file(slot);

	/* the path may change under us; the check of device and inode decides */
	page_map_path(calm_page_map, file_index, path);
	slot->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (slot->fd >= 0 &&
	    (fstat(slot->fd, &st) != 0 || st.st_dev != file->device || st.st_ino != file->inode))
	{
		close_file(slot);
		errno = ENOENT; /* another one by now */
	}
	if (slot->fd < 0)
	{
		if (errno != ENOENT)
			tell_not_opened(path);
		page_map_forget_file(calm_page_map, file_index, incarnation);
		return NULL;
	}
	slot->file = file_index;
	slot->incarnation = incarnation;
	slot->device = st.st_dev;
	slot->inode = st.st_ino;
	slot->references = 0;
	slot->opened_ms = monotonic_ms();
	slot->bridge = bridge_possible(slot->fd, path);
	return slot;
}

void
open_files_close_idle(void)
{
	uint64 now = monotonic_ms();

	for (int i = 0; open_files_ready && i < MAX_OPEN_FILES; i++)
	{
		if (open_files[i].fd >= 0 && open_files[i].references == 0 &&
		    now - open_files[i].opened_ms > 1000)
			close_file(&open_files[i]);
	}
}
