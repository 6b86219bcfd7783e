/*-------------------------------------------------------------------------
 *
 * relation_file.c
 *	  Which blocks of which relation a data file holds.
 *
 * The page map knows files by device, inode and the kernel's path of them, in which symbolic links
 * are resolved.  The server knows relations by number, and makes paths of those
 * (common/relpath.c).  So a candidate is made of what the path ends with, and it is the right one
 * if the server's own path for it leads to the same device and inode.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>
#include <unistd.h>

#include "catalog/pg_tablespace_d.h"
#include "map.h"
#include "storage/reinit.h"

/* The kernel's path of an open file, into MAXPGPATH bytes; false if it is too long, or unknown */
bool
file_path(int fd, char *path)
{
	char link[64];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, MAXPGPATH - 1);
	path[Max(length, 0)] = '\0';
	return length > 0 && length < MAXPGPATH - 1;
}

/* Digits that make an OID or a segment's number; text is moved behind them */
static bool
parse_number(const char **text, uint32 *number)
{
	char *end;
	unsigned long value;

	if (!isdigit((unsigned char) **text))
		return false;
	errno = 0;
	value = strtoul(*text, &end, 10);
	if (errno != 0 || value > PG_UINT32_MAX)
		return false;
	*text = end;
	*number = (uint32) value;
	return true;
}

static bool
is_file(const char *path, const struct stat *st)
{
	struct stat found;

	return stat(path, &found) == 0 && found.st_dev == st->st_dev && found.st_ino == st->st_ino;
}

/* The tablespace in which "DATABASE/NAME" is this file, or InvalidOid */
static Oid
find_tablespace(const char *directory_and_name, const struct stat *st)
{
	DIR *directory = AllocateDir("pg_tblspc");
	struct dirent *entry;
	Oid tablespace = InvalidOid;

	/* no checkpoint has to fail because of it */
	while (tablespace == InvalidOid &&
	       (entry = ReadDirExtended(directory, "pg_tblspc", LOG)) != NULL)
	{
		const char *name = entry->d_name;
		char path[MAXPGPATH];
		uint32 number;

		if (!parse_number(&name, &number) || *name != '\0')
			continue;
		snprintf(path, sizeof(path), "pg_tblspc/%s/%s/%s", entry->d_name,
		         TABLESPACE_VERSION_DIRECTORY, directory_and_name);
		if (is_file(path, st))
			tablespace = number;
	}
	if (directory)
		FreeDir(directory);
	return tablespace;
}

/*
 * Find out what the file behind st, which had this path, is a segment of. False if it is no file
 * of a relation that the server knows by a path of its own.
 */
bool
relation_file_identify(const char *path, const struct stat *st, RelationFile *file)
{
	const char *name = strrchr(path, '/');
	const char *directory = name;
	const char *end;
	char own_path[MAXPGPATH];
	uint32 not_used[2];
	uint32 relation;
	uint32 database;
	unsigned long segment;
	Oid tablespace;

	if (name == NULL || name == path)
		return false;
	while (directory > path && directory[-1] != '/')
		directory--;
	/* "RELATION[_FORK][.SEGMENT]" */
	end = name + 1;
	if (!CALM_IS_RELATION_FILE(end, &file->fork, not_used) || !parse_number(&end, &relation))
		return false;
	end = strchr(end, '.');
	segment = end ? strtoul(end + 1, NULL, 10) : 0;
	if (segment > MaxBlockNumber / RELSEG_SIZE)
		return false;

	if (name - directory == strlen("global") && strncmp(directory, "global", strlen("global")) == 0)
	{
		snprintf(own_path, sizeof(own_path), "global%s", name);
		if (!is_file(own_path, st))
			return false;
		tablespace = GLOBALTABLESPACE_OID;
		database = InvalidOid;
	}
	else
	{
		end = directory;
		if (!parse_number(&end, &database) || end != name)
			return false;
		snprintf(own_path, sizeof(own_path), "base/%s", directory);
		tablespace = is_file(own_path, st) ? DEFAULTTABLESPACE_OID : find_tablespace(directory, st);
		if (tablespace == InvalidOid)
			return false;
	}

	file->relation = CALM_RELATION_ID(tablespace, database, relation);
	file->first_block = (BlockNumber) segment * RELSEG_SIZE;
	file->blocks = (uint32) Min(st->st_size / BLCKSZ, RELSEG_SIZE);
	return true;
}
