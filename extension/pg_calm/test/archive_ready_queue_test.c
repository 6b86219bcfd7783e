/*-------------------------------------------------------------------------
 *
 * archive_ready_queue_test.c
 *	  Tests of the forecast of what is archived next, without a server: of more files than the list
 *	  has room for, those that come first.
 *
 * Prints TAP.  Build: see run_tests.sh.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <unistd.h>

#include "access/xlog_internal.h"
#include "archive/archive.h"

/* A directory of so many files, the last of which is read first */
#define FILES 200000
#define TOLD 60000 /* of which at least */
#define AHEAD 48

static DIR *open_files(const char *path);
static struct dirent *next_file(DIR *directory);
static int files_left;

#define opendir(path) open_files(path)
#define readdir(directory) next_file(directory)
#define closedir(directory) 0
#define access(path, mode) 0
#include "archive/archive_ready_queue.c"

static void
name_of(int number, ArchiveFileName name)
{
	snprintf(name, sizeof(ArchiveFileName), "00000001%08X%08X", number / 256, number % 256);
}

static DIR *
open_files(const char *path)
{
	files_left = FILES;
	return (DIR *) &files_left;
}

static struct dirent *
next_file(DIR *directory)
{
	static struct dirent entry;
	ArchiveFileName name;

	if (files_left == 0)
		return NULL;
	name_of(--files_left, name);
	snprintf(entry.d_name, sizeof(entry.d_name), "%s.ready", name);
	return &entry;
}

/* Whether the files that come after this one are told, in their order and without a gap */
static bool
tells_next(int number)
{
	static ArchiveFileName names[AHEAD];
	ArchiveFileName name;
	int count;

	name_of(number, name);
	count = archive_ready_after(name, names, AHEAD);
	for (int i = 0; i < count; i++)
	{
		name_of(number + 1 + i, name);
		if (strcmp(names[i], name) != 0)
		{
			printf("# %s, and not %s, is %d after %d\n", names[i], name, i + 1, number);
			return false;
		}
	}
	return count == AHEAD;
}

int
main(void)
{
	bool ok = tells_next(0);

	printf("1..2\n");
	printf("%sok 1 - of many files the first are told\n", ok ? "" : "not ");
	for (int number = 0; ok && number < TOLD; number += AHEAD)
		ok = tells_next(number);
	printf("%sok 2 - and those after them, without a gap\n", ok ? "" : "not ");
	return ok ? 0 : 1;
}
