/*-------------------------------------------------------------------------
 *
 * archive_scan.c
 *	  Spares the archiver from reading archive_status again for every 64 files.
 *
 * The archiver reads the whole directory to find the 64 oldest files that are
 * ready, archives them, and reads it again (pgarch.c, pgarch_readyXlog).  With
 * 12,000 files that is most of what acknowledging them costs once the fsyncs
 * are gone.  So what one reading has found is kept, sorted as the archiver
 * does, and for a second readings are answered from it: with the first 64 that
 * are still ready, and then the end.  Files that were handed out and not
 * archived, because that failed or the archiver began anew, come first again.
 *
 * What became ready meanwhile is seen a second later: later segments, for
 * which that makes no difference, and timeline histories, which the server
 * wants to be first.  If archiving 64 files takes longer than a second, as it
 * does when they are copied to a slow device, nothing is answered from here.
 *
 * A reading goes to its end, where readdir returns NULL; the archiver never
 * leaves one early, but for an error of readdir, which ends it here too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog_internal.h"
#include "archive_ready_queue.h"
#include "archive_scan.h"
#include "map/map.h"

#define STATUS_DIRECTORY XLOGDIR "/archive_status"

/* As many as the archiver takes (pgarch.c, NUM_FILES_PER_DIRECTORY_SCAN) */
#define FILES_PER_READING 64

#define KEPT_MAX 65536
#define KEPT_MS 1000

/* What is done with the reading under way */
typedef enum ScanState
{
	SCAN_NONE,      /* none is under way */
	SCAN_RECORDING, /* the real one, whose files are kept */
	SCAN_ANSWERING, /* from what is kept */
	SCAN_PASSING,   /* of another directory */
} ScanState;

static ScanState state = SCAN_NONE;
static ArchiveFileName *kept = NULL;
static int kept_capacity = 0;
static int kept_count = 0;
static bool kept_all = false; /* nothing was left out for want of memory */
static int first_kept = 0;    /* those before are no longer ready */
static int next_kept = 0;     /* in the reading under way */
static uint64 kept_since_ms = 0;
static int answered = 0;

static ScanState begin_reading(DIR *directory);
static void forget_kept(void);
static void keep(const char *entry);
static struct dirent *answer(void);

static ScanState
begin_reading(DIR *directory)
{
	struct stat st;
	struct stat status;

	if (fstat(dirfd(directory), &st) != 0 || stat(STATUS_DIRECTORY, &status) != 0 ||
	    st.st_dev != status.st_dev || st.st_ino != status.st_ino)
		return SCAN_PASSING;
	answered = 0;
	next_kept = first_kept;
	if (first_kept < kept_count && page_map_now_ms() - kept_since_ms < KEPT_MS)
		return SCAN_ANSWERING;
	forget_kept();
	return SCAN_RECORDING;
}

static void
forget_kept(void)
{
	kept_since_ms = page_map_now_ms();
	kept_count = first_kept = 0;
	kept_all = true;
}

static void
keep(const char *entry)
{
	if (kept_count == kept_capacity)
	{
		int capacity = kept_capacity == 0 ? 256 : kept_capacity * 2;
		ArchiveFileName *larger =
			kept_capacity < KEPT_MAX ? realloc(kept, capacity * sizeof(ArchiveFileName)) : NULL;

		if (larger == NULL)
		{
			/* the oldest may be among those that are left out */
			kept_all = false;
			return;
		}
		kept = larger;
		kept_capacity = capacity;
	}
	if (archive_ready_name(entry, kept[kept_count]))
		kept_count++;
}

/* The next file that is still ready, or NULL */
static struct dirent *
answer(void)
{
	static struct dirent entry;

	while (answered < FILES_PER_READING && next_kept < kept_count)
	{
		char path[MAXPGPATH];
		const char *name = kept[next_kept++];

		snprintf(path, sizeof(path), STATUS_DIRECTORY "/%s.ready", name);
		if (access(path, F_OK) != 0)
		{
			if (answered == 0)
				first_kept = next_kept;
			continue;
		}
		answered++;
		snprintf(entry.d_name, sizeof(entry.d_name), "%s.ready", name);
		return &entry;
	}
	return NULL;
}

struct dirent *
archive_scan_readdir(DIR *directory, ArchiveScanReaddir real_readdir)
{
	struct dirent *entry;
	int save_errno = errno;

	if (state == SCAN_NONE)
		state = begin_reading(directory);
	if (state == SCAN_ANSWERING)
	{
		entry = answer();
		if (entry != NULL)
			return entry;
		if (answered > 0)
		{
			state = SCAN_NONE;
			errno = save_errno;
			return NULL;
		}
		/* nothing of it is left: read */
		forget_kept();
		state = SCAN_RECORDING;
	}

	/* at the end it stays as it is, which the server takes for "no error" */
	errno = save_errno;
	entry = real_readdir(directory);
	if (entry != NULL)
	{
		if (state == SCAN_RECORDING)
			keep(entry->d_name);
	}
	else
	{
		if (state == SCAN_RECORDING)
		{
			save_errno = errno;
			if (save_errno != 0 || !kept_all)
				kept_count = 0;
			if (kept_count > 0)
				qsort(kept, kept_count, sizeof(ArchiveFileName), archive_ready_compare);
			errno = save_errno;
		}
		state = SCAN_NONE;
	}
	return entry;
}
