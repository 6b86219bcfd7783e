/*-------------------------------------------------------------------------
 *
 * archive_ready_queue.c
 *	  Which files the server will ask to archive next.
 *
 * The archiver asks for one file at a time, in the order of pgarch.c,
 * ready_file_comparator: timeline histories first, then by name.  What is in
 * archive_status/NNN.ready after the file at hand will be asked for next.  It
 * is a forecast: if the server asks for another file, that one is archived.
 *
 * The directory is read as a whole, sorted, and read again when the list is
 * nearly used up; with a backlog of many files that is rarely, and never so
 * often that it takes more than a hundredth of a core.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <unistd.h>

#include "access/xlog_internal.h"
#include "archive.h"

/* Names kept of one reading, the first ones */
#define QUEUE_KEPT 65536

static ArchiveFileName *queue = NULL; /* room for twice as many */
static int queue_length = 0;
static uint64 next_reading_ms = 0;

/*
 * If a directory entry announces a file to archive, its name.  The conditions
 * are those of pgarch.c, pgarch_readyXlog.
 */
bool
archive_ready_name(const char *entry, ArchiveFileName name)
{
	int length = (int) strlen(entry) - (int) strlen(".ready");

	if (length < MIN_XFN_CHARS || length > MAX_XFN_CHARS ||
	    strspn(entry, VALID_XFN_CHARS) < (size_t) length || strcmp(entry + length, ".ready") != 0)
		return false;
	memcpy(name, entry, length);
	name[length] = '\0';
	return true;
}

/* For qsort: names in the order of pgarch.c, ready_file_comparator */
int
archive_ready_compare(const void *a, const void *b)
{
	const char *left = a;
	const char *right = b;
	bool left_history = IsTLHistoryFileName(left);
	bool right_history = IsTLHistoryFileName(right);

	if (left_history != right_history)
		return left_history ? -1 : 1;
	return strcmp(left, right);
}

/* The rest is found when these are done */
static void
keep_first(void)
{
	qsort(queue, queue_length, sizeof(ArchiveFileName), archive_ready_compare);
	queue_length = Min(queue_length, QUEUE_KEPT);
}

/* False if the directory can't be read: then there is no forecast */
static bool
read_queue(void)
{
	uint64 start_ns = used_ns();
	DIR *directory = NULL;
	struct dirent *entry;

	if (queue == NULL)
		queue = malloc(2 * QUEUE_KEPT * sizeof(ArchiveFileName));
	if (queue != NULL)
		directory = opendir(STATUS_DIRECTORY);
	queue_length = 0;
	if (directory == NULL)
		return false;
	while ((entry = readdir(directory)) != NULL)
	{
		/* they come in any order */
		if (queue_length == 2 * QUEUE_KEPT)
			keep_first();
		if (archive_ready_name(entry->d_name, queue[queue_length]))
			queue_length++;
	}
	(void) closedir(directory);
	keep_first();
	next_reading_ms = monotonic_ms() + Max(10, 100 * (used_ns() - start_ns) / 1000000);
	return true;
}

/* Index of the first name after a file */
static int
position_after(const char *file)
{
	int low = 0;
	int high = queue_length;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (archive_ready_compare(queue[middle], file) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Names of the files that come after the one at hand, up to max.  Returns how
 * many; each was announced when it was looked at last.
 */
int
archive_ready_after(const char *file, ArchiveFileName *names, int max)
{
	int count = 0;
	int position = position_after(file);

	if (queue_length - position < max && monotonic_ms() >= next_reading_ms && read_queue())
		position = position_after(file);
	for (; position < queue_length && count < max; position++)
	{
		char path[MAXPGPATH];

		snprintf(path, sizeof(path), STATUS_DIRECTORY "/%s.ready", queue[position]);
		if (access(path, F_OK) == 0)
			strlcpy(names[count++], queue[position], sizeof(ArchiveFileName));
	}
	return count;
}
