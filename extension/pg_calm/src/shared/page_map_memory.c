/*-------------------------------------------------------------------------
 *
 * page_map_memory.c
 *	  How much shared memory the map of unflushed pages is given.
 *
 * pg_calm.page_map_memory = -1 leaves it to this file: the map gets room for
 * twice the files that the data directory has when the server starts, and for
 * unflushed pages in every 8 MB of its large relations.  Both are had from the
 * names of the files alone: one that ends in ".N" is a segment, and the one before it
 * is full.  So nothing is opened, and a start reads directories that recovery and
 * the first sessions read as well.
 *
 * It is never less than MEMORY_MIN, which is enough for 142,987 files or 630 GB, nor more than
 * MEMORY_MAX: pages of the map that nothing was put into are not touched, but
 * huge pages and vm.overcommit_memory = 2 reserve them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>

#include "common/relpath.h"
#include "map/map.h"
#include "page_map_memory.h"
#include "pg_calm.h"
#include "storage/fd.h"
#include "utils/guc.h"

#define MEMORY_MIN (48 * 1024)   /* kB */
#define MEMORY_MAX (1024 * 1024) /* kB */

/* What the data directory has */
typedef struct DataFiles
{
	uint64 files;
	uint64 segments; /* of these, beyond the first of their relation */
} DataFiles;

static void count_files(const char *path, DataFiles *found);
static void count_databases(const char *path, DataFiles *found);
static int choose_memory(void);

/* In the postmaster, and what its children got from it: kB, or 0 if the setting tells it */
static int chosen = 0;

/*
 * Check hook.  -1 stays until the data directory can be looked at, and means
 * what was chosen then from there on: a reload of the file changes nothing.
 */
bool
page_map_memory_check(int *newval, void **extra, GucSource source)
{
	if (*newval == -1)
	{
		if (chosen > 0)
			*newval = chosen;
		return true;
	}
	if (*newval < 1024)
	{
		GUC_check_errdetail("The value must be -1 (sized at start) or at least 1MB.");
		return false;
	}
	return true;
}

/* In the postmaster, before shared memory is asked for */
void
page_map_memory_choose(void)
{
	char value[32];

	if (calm_page_map_memory != -1)
		return;
	chosen = choose_memory();
	snprintf(value, sizeof(value), "%dkB", chosen);
	SetConfigOption("pg_calm.page_map_memory", value, PGC_POSTMASTER, PGC_S_DYNAMIC_DEFAULT);

	/* as for wal_buffers (XLOGShmemSize): the file said -1, which is stronger than a default */
	if (calm_page_map_memory == -1)
		SetConfigOption("pg_calm.page_map_memory", value, PGC_POSTMASTER, PGC_S_OVERRIDE);
}

static int
choose_memory(void)
{
	DataFiles found = {0, 0};
	struct dirent *entry;
	DIR *directory;
	Size bytes;

	count_files("global", &found);
	count_databases("base", &found);
	directory = AllocateDir("pg_tblspc");
	while (directory && (entry = ReadDirExtended(directory, "pg_tblspc", LOG)) != NULL)
	{
		char path[MAXPGPATH];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "pg_tblspc/%s/%s", entry->d_name,
		         TABLESPACE_VERSION_DIRECTORY);
		count_databases(path, &found);
	}
	if (directory)
		FreeDir(directory);

	bytes = page_map_budget(2 * found.files, found.segments * PAGE_MAP_FILE_REGIONS);
	return (int) Min(Max((bytes + 1023) / 1024, MEMORY_MIN), MEMORY_MAX);
}

/* Directories of databases, each with files of relations */
static void
count_databases(const char *path, DataFiles *found)
{
	DIR *directory = AllocateDir(path);
	struct dirent *entry;

	/* one that is missing or can't be read is the server's to complain of */
	while (directory && (entry = ReadDirExtended(directory, path, LOG)) != NULL)
	{
		char database[MAXPGPATH * 2];

		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		snprintf(database, sizeof(database), "%s/%s", path, entry->d_name);
		count_files(database, found);
	}
	if (directory)
		FreeDir(directory);
}

static void
count_files(const char *path, DataFiles *found)
{
	DIR *directory = AllocateDir(path);
	struct dirent *entry;

	while (directory && (entry = ReadDirExtended(directory, path, LOG)) != NULL)
	{
		/* relations are numbers; temporary ones, t3_16384, have no fsync and are not tracked */
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		found->files++;
		if (strchr(entry->d_name, '.') != NULL)
			found->segments++;
	}
	if (directory)
		FreeDir(directory);
}
