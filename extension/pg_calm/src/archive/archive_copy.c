/*-------------------------------------------------------------------------
 *
 * archive_copy.c
 *	  Copies one WAL file to the archive, durably, and never over another.
 *
 * The copy is written under a temporary name, fsynced, and renamed with
 * RENAME_NOREPLACE (or linked, where a filesystem knows only that), which
 * fails if the name is taken, by whomever and whenever.  The directory's fsync
 * is the caller's: one for several files.  Then the file may be acknowledged.
 *
 * If the archive has the file already, in any compression, its content has to be the same: it is
 * synced, read back from the device, and accepted.  Otherwise it is refused, and so is what is no
 * copy at all: pg_wal itself as the archive, by whatever path, or the WAL file under a second name.
 * What is in the archive under a final name is never written to, and never removed.
 *
 * A temporary name has the system identifier, a number for the data directory and a random one in
 * it, so that nobody on any host writes under it, too.  Its file is locked (flock(2)) meanwhile.
 * Leftovers of a crash are removed when the archiver starts: those of this data directory, if
 * nobody holds the lock.  Two servers that share an archive don't touch each other's; and a copy
 * whose temporary file was taken away fails at its rename and is made again.
 *
 * Nothing here raises errors: before 17 the archiver would exit.  No server
 * function that does is called, and descriptors are the process's own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "archive.h"
#include "common/file_perm.h"
#include "common/hashfn.h"
#include "miscadmin.h"

#define TEMPORARY_PREFIX ".pgcalm-tmp."
#define NAME_LENGTH 160

/* Written so much, start writeback, so that fsync finds little left */
#define WRITEBACK_BYTES (1024 * 1024)

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

/* One copy under way */
typedef struct Copy
{
	const char *name;
	const ArchiveTarget *target;
	ArchiveMayGoOn may_go_on;
	ArchiveCopyResult *result;
	int directory; /* descriptors, -1 if not open */
	int source;
	int temporary;
	uint64 source_size;
	char temporary_name[NAME_LENGTH];
	char final_name[NAME_LENGTH];
} Copy;

typedef enum Comparison
{
	COMPARISON_ABSENT,
	COMPARISON_SAME,
	COMPARISON_REFUSED, /* different, or can't be told: the result says why */
} Comparison;

static bool failed(Copy *copy, const char *format, ...) pg_attribute_printf(2, 3);

/* Two buffers of a process, made when they are first needed; NULL: no memory */
static char *
piece(int number)
{
	static char *pieces[2];

	if (pieces[number] == NULL &&
	    posix_memalign((void **) &pieces[number], 4096, ARCHIVE_PIECE) != 0)
		pieces[number] = NULL;
	return pieces[number];
}

/* How the names of temporary files of this data directory begin */
static void
owner_prefix(char *prefix, size_t size)
{
	struct stat st;
	uint64 identity[2] = {0, 0};

	if (stat(DataDir, &st) == 0)
	{
		identity[0] = (uint64) st.st_dev;
		identity[1] = (uint64) st.st_ino;
	}
	snprintf(prefix, size, TEMPORARY_PREFIX "%016llX-%08X.",
	         (unsigned long long) GetSystemIdentifier(),
	         hash_bytes((const unsigned char *) identity, sizeof(identity)));
}

/* Remember what failed; a %m in the format is the errno of now */
static bool
failed(Copy *copy, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(copy->result->error, sizeof(copy->result->error), format, arguments);
	va_end(arguments);
	return false;
}

/* Likewise of a file in the archive, by the errno of now */
static bool
failed_file(Copy *copy, const char *what, const char *name)
{
	return failed(copy, "could not %s \"%s/%s\": %m", what, copy->target->directory, name);
}

/* Whether a name stands for a whole segment, which has to have its length */
static bool
is_segment(const char *name)
{
	return IsXLogFileName(name) || IsPartialXLogFileName(name);
}

static bool
same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* What is in pg_wal already would be found there, identical, and no copy made */
static bool
is_pg_wal(const struct stat *directory)
{
	struct stat pg_wal;

	return stat(XLOGDIR, &pg_wal) == 0 && same_file(&pg_wal, directory);
}

/* Like read(2), but less than asked for only at the end of the file */
static ssize_t
read_fully(int fd, char *buffer, size_t length)
{
	size_t done = 0;

	while (done < length)
	{
		ssize_t got = read(fd, buffer + done, length - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		done += (size_t) got;
	}
	return (ssize_t) done;
}

static bool
write_fully(int fd, const char *buffer, size_t length)
{
	while (length > 0)
	{
		ssize_t put = write(fd, buffer, length);

		if (put < 0 && errno == EINTR)
			continue;
		if (put == 0)
			errno = ENOSPC;
		if (put <= 0)
			return false;
		buffer += put;
		length -= (size_t) put;
	}
	return true;
}

/*
 * Whether an open file of the archive has the WAL file's content.  It is synced first and
 * its pages are dropped, so that what is compared is what the device has.
 */
static bool
same_content(Copy *copy, int fd, const char *name, ArchiveCompression compression)
{
	const char *directory = copy->target->directory;
	char *ours = piece(0);
	char *theirs = piece(1);
	uint64 compared = 0;
	size_t length;
	struct stat source;
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return failed(copy, "existing archive file \"%s/%s\" is not a regular file", directory,
		              name);
	if (fstat(copy->source, &source) != 0 || same_file(&source, &st))
		return failed(copy, "archive file \"%s/%s\" is the WAL file itself, by another name",
		              directory, name);
	if (fsync(fd) != 0)
		return failed_file(copy, "fsync existing archive file", name);
	copy->result->file_syncs++;
	(void) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);

	if (compression == ARCHIVE_COMPRESSION_NONE && (uint64) st.st_size != copy->source_size)
		return failed(
			copy,
			"archive file \"%s/%s\" exists with different content: %lld bytes instead of %llu",
			directory, name, (long long) st.st_size, (unsigned long long) copy->source_size);
	if (!archive_decoder_begin(compression, fd))
		return failed(copy, "could not read existing archive file \"%s/%s\": %s", directory, name,
		              archive_codec_error());
	if (lseek(copy->source, 0, SEEK_SET) != 0 || ours == NULL || theirs == NULL)
		return failed(copy, "could not compare existing archive file \"%s/%s\": %s", directory,
		              name, ours && theirs ? strerror(errno) : "out of memory");
	do
	{
		ssize_t own = read_fully(copy->source, ours, ARCHIVE_PIECE);

		if (own < 0)
			return failed(copy, "could not read file \"" XLOGDIR "/%s\": %m", copy->name);
		if (!archive_decoder_read(theirs, ARCHIVE_PIECE, &length))
			return failed(copy, "existing archive file \"%s/%s\" is damaged or can't be read: %s",
			              directory, name, archive_codec_error());
		if (length != (size_t) own || memcmp(ours, theirs, length) != 0)
			return failed(
				copy,
				"archive file \"%s/%s\" exists with different content, from byte %llu or later",
				directory, name, (unsigned long long) compared);
		compared += length;
		if (length == ARCHIVE_PIECE && !copy->may_go_on(0))
			return failed(copy, "interrupted by a shutdown");
	} while (length == ARCHIVE_PIECE);
	return true;
}

/* Compare a file of the archive with the WAL file */
static Comparison
compare_existing(Copy *copy, ArchiveCompression compression)
{
	char name[NAME_LENGTH];
	bool same;
	int fd;

	snprintf(name, sizeof(name), "%s%s", copy->name, archive_codec_suffix(compression));
	fd = openat(copy->directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return COMPARISON_ABSENT;
	if (fd < 0)
	{
		failed_file(copy, "open existing archive file", name);
		return COMPARISON_REFUSED;
	}
	same = same_content(copy, fd, name, compression);
	archive_decoder_end();
	(void) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	(void) close(fd);
	return same ? COMPARISON_SAME : COMPARISON_REFUSED;
}

/* In whatever compression; if there are several, all have to be right */
static Comparison
find_existing(Copy *copy)
{
	Comparison found = COMPARISON_ABSENT;

	for (int compression = 0; compression < ARCHIVE_COMPRESSIONS; compression++)
	{
		Comparison comparison = compare_existing(copy, (ArchiveCompression) compression);

		if (comparison == COMPARISON_REFUSED)
			return comparison;
		if (comparison == COMPARISON_SAME)
			found = comparison;
	}
	return found;
}

/*
 * Whether copy_file_range(2) is wanted.  Where extents can be shared, be it between subvolumes of
 * one filesystem, they would be: the archive's copy and the segment would be the same blocks, and
 * when the segment is recycled each write to it would have to allocate new ones.
 */
static bool
may_offload(Copy *copy)
{
	struct statfs fs;

	return fstatfs(copy->temporary, &fs) == 0 &&
	       (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == NFS_SUPER_MAGIC);
}

/* Bytes were written to the temporary file; false if the copy is to end */
static bool
after_write(Copy *copy, uint64 *started, size_t length, bool last)
{
	copy->result->written_bytes += length;
	/*
	 * Where blocks are allocated only now, as on ext4, an error of that is told here and
	 * nowhere else (fs/ext4/inode.c, mpage_map_and_submit_extent).
	 */
	if (last || copy->result->written_bytes - *started >= WRITEBACK_BYTES)
	{
		if (sync_file_range(copy->temporary, (off_t) *started,
		                    (off_t) (copy->result->written_bytes - *started),
		                    SYNC_FILE_RANGE_WRITE) != 0 &&
		    errno != ENOSYS && errno != EOPNOTSUPP && errno != ESPIPE && errno != EPERM &&
		    errno != EINTR) /* refused, as by seccomp, or interrupted: fsync does it */
			return failed_file(copy, "write back file", copy->temporary_name);
		*started = copy->result->written_bytes;
	}
	if (!copy->may_go_on(length))
		return failed(copy, "interrupted by a shutdown");
	return true;
}

/* The kernel copies; false without an error if it can't, before it has copied anything */
static bool
offload(Copy *copy)
{
	uint64 started = 0;

	while (copy->result->written_bytes < copy->source_size)
	{
		uint64 left = copy->source_size - copy->result->written_bytes;
		ssize_t copied = copy_file_range(copy->source, NULL, copy->temporary, NULL,
		                                 (size_t) Min(left, ARCHIVE_PIECE), 0);

		if (copied < 0 && errno == EINTR)
			continue;
		if (copied <= 0 && copy->result->written_bytes == 0)
			return false;
		if (copied == 0)
			return failed(copy, "file \"" XLOGDIR "/%s\" has become shorter", copy->name);
		if (copied < 0)
			return failed(copy, "could not copy \"" XLOGDIR "/%s\" to \"%s/%s\": %m", copy->name,
			              copy->target->directory, copy->temporary_name);
		if (!after_write(copy, &started, (size_t) copied, (uint64) copied == left))
			return false;
	}
	return true;
}

static bool
copy_content(Copy *copy, ArchiveCompression compression)
{
	char *buffer = piece(0);
	uint64 done = 0;
	uint64 started = 0;
	bool ok = true;

	if (compression == ARCHIVE_COMPRESSION_NONE && may_offload(copy))
	{
		if (offload(copy))
			return true;
		if (copy->result->error[0] != '\0')
			return false;
	}
	if (buffer == NULL)
		return failed(copy, "out of memory");
	if (!archive_encoder_begin(compression, copy->target->level, copy->source_size))
		return failed(copy, "could not compress file \"" XLOGDIR "/%s\": %s", copy->name,
		              archive_codec_error());
	while (ok && done < copy->source_size)
	{
		size_t wanted = (size_t) Min(copy->source_size - done, ARCHIVE_PIECE);
		ssize_t got = read_fully(copy->source, buffer, wanted);
		bool last = done + wanted == copy->source_size;
		const void *output;
		size_t length;

		if (got < 0)
			ok = failed(copy, "could not read file \"" XLOGDIR "/%s\": %m", copy->name);
		else if ((size_t) got < wanted)
			ok = failed(copy, "file \"" XLOGDIR "/%s\" has become shorter", copy->name);
		else if (!archive_encoder_step(buffer, (size_t) got, last, &output, &length))
			ok = failed(copy, "could not compress file \"" XLOGDIR "/%s\": %s", copy->name,
			            archive_codec_error());
		else if (!write_fully(copy->temporary, output, length))
			ok = failed_file(copy, "write file", copy->temporary_name);
		else
			ok = after_write(copy, &started, length, last);
		done += wanted;
	}
	archive_encoder_end();
	return ok;
}

static bool
open_temporary(Copy *copy)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	char prefix[80];
	uint64 number;

	owner_prefix(prefix, sizeof(prefix));
	if (!pg_strong_random(&number, sizeof(number)))
		return failed(copy, "could not generate a random number");
	snprintf(copy->temporary_name, sizeof(copy->temporary_name), "%s%s.%016llX.%d", prefix,
	         copy->name, (unsigned long long) number, MyProcPid);
	copy->temporary = openat(copy->directory, copy->temporary_name, flags, pg_file_create_mode);
	if (copy->temporary < 0)
		return failed_file(copy, "create file", copy->temporary_name);
	/* advice to whoever cleans up; not every filesystem has locks */
	(void) flock(copy->temporary, LOCK_EX | LOCK_NB);
	return true;
}

/*
 * Whether what was read was the WAL file to the end.  If somebody else was faster, and we
 * were stopped meanwhile, the server may have recycled it, and have written over it.
 */
static bool
still_wal(Copy *copy)
{
	char path[MAXPGPATH];
	struct stat st;
	struct stat source;

	snprintf(path, sizeof(path), XLOGDIR "/%s", copy->name);
	if (stat(path, &st) == 0 && fstat(copy->source, &source) == 0 && same_file(&st, &source))
		return true;
	return failed(copy, "file \"%s\" was recycled or removed while it was copied", path);
}

/*
 * Give the temporary file its final name if nobody has it.  If the name is taken, false and *taken.
 */
static bool
rename_temporary(Copy *copy, bool *taken)
{
	*taken = false;
	if (syscall(SYS_renameat2, copy->directory, copy->temporary_name, copy->directory,
	            copy->final_name, RENAME_NOREPLACE) == 0)
		return true;
	if ((errno == EINVAL || errno == ENOSYS || errno == EPERM) &&
	    linkat(copy->directory, copy->temporary_name, copy->directory, copy->final_name, 0) == 0)
	{
		/* if it stays it is a leftover like others */
		(void) unlinkat(copy->directory, copy->temporary_name, 0);
		return true;
	}
	*taken = errno == EEXIST;
	return failed(copy, "could not rename file \"%s/%s\" to \"%s\": %m", copy->target->directory,
	              copy->temporary_name, copy->final_name);
}

/* From open files to a synced one under its final name */
static bool
copy_file(Copy *copy)
{
	ArchiveCompression compression =
		is_segment(copy->name) ? copy->target->compression : ARCHIVE_COMPRESSION_NONE;
	Comparison existing = find_existing(copy);
	bool taken = false;
	bool ok;

	if (existing != COMPARISON_ABSENT)
		return copy->result->existing = existing == COMPARISON_SAME;
	snprintf(copy->final_name, sizeof(copy->final_name), "%s%s", copy->name,
	         archive_codec_suffix(compression));
	if (!open_temporary(copy))
		return false;
	ok = copy_content(copy, compression) && still_wal(copy);
	if (ok)
	{
		copy->result->file_syncs++;
		if (fsync(copy->temporary) != 0)
			ok = failed_file(copy, "fsync file", copy->temporary_name);
	}
	/* nobody will read it soon; the segment's own pages are for walsenders */
	(void) posix_fadvise(copy->temporary, 0, 0, POSIX_FADV_DONTNEED);
	if (ok)
		ok = rename_temporary(copy, &taken);
	if (!ok)
		(void) unlinkat(copy->directory, copy->temporary_name, 0);
	if (close(copy->temporary) != 0 && ok)
		ok = failed_file(copy, "close file", copy->final_name);
	copy->temporary = -1;

	/* somebody else was faster: with the same, as a standby would, or not */
	if (taken)
	{
		copy->result->written_bytes = 0;
		ok = copy->result->existing = find_existing(copy) == COMPARISON_SAME;
		if (ok)
			copy->result->error[0] = '\0';
	}
	return ok;
}

/* Open the archive's directory and the WAL file, and see that they are what they should be */
static bool
open_files(Copy *copy)
{
	char path[MAXPGPATH];
	struct stat st;

	snprintf(path, sizeof(path), XLOGDIR "/%s", copy->name);
	copy->directory = open(copy->target->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (copy->directory < 0 || fstat(copy->directory, &st) != 0)
		return failed(copy, "could not open archive directory \"%s\": %m", copy->target->directory);
	if (is_pg_wal(&st))
		return failed(copy, "archive directory \"%s\" is pg_wal itself: name one for copies of WAL",
		              copy->target->directory);
	copy->result->directory_device = st.st_dev;
	copy->result->directory_inode = st.st_ino;
	copy->source = open(path, O_RDONLY | O_CLOEXEC);
	if (copy->source < 0 || fstat(copy->source, &st) != 0)
		return failed(copy, "could not open file \"%s\": %m", path);
	copy->source_size = copy->result->source_bytes = (uint64) st.st_size;
	if (is_segment(copy->name) && st.st_size != wal_segment_size)
		return failed(copy, "file \"%s\" has %lld bytes, but a WAL segment has %d", path,
		              (long long) st.st_size, wal_segment_size);
	return true;
}

/*
 * Archive a file of pg_wal: afterwards it is in the archive under its name, complete and synced,
 * but for the directory.  False, and result->error, if not; then nothing of it is left there.
 */
bool
archive_copy(const char *name, const ArchiveTarget *target, ArchiveMayGoOn may_go_on,
             ArchiveCopyResult *result)
{
	Copy copy = {.name = name,
	             .target = target,
	             .may_go_on = may_go_on,
	             .result = result,
	             .directory = -1,
	             .source = -1,
	             .temporary = -1};
	bool ok;

	memset(result, 0, sizeof(*result));
	ok = open_files(&copy) && copy_file(&copy);
	if (copy.source >= 0)
		(void) close(copy.source);
	if (copy.directory >= 0)
		(void) close(copy.directory);
	return ok;
}

/* Remove temporary files that processes of this data directory have left */
void
archive_copy_remove_leftovers(const char *directory)
{
	char prefix[80];
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (entries == NULL)
	{
		if (fd >= 0)
			(void) close(fd);
		return; /* the first copy will say why */
	}
	owner_prefix(prefix, sizeof(prefix));
	while ((entry = readdir(entries)) != NULL)
	{
		int leftover;

		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		/* NFS locks only what is open for writing: flock(2) */
		leftover = openat(fd, entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (leftover < 0)
			continue;
		if (flock(leftover, LOCK_EX | LOCK_NB) == 0 && unlinkat(fd, entry->d_name, 0) == 0)
			ereport(LOG, (errmsg("pg_calm: removed leftover \"%s/%s\" of an interrupted copy",
			                     directory, entry->d_name)));
		(void) close(leftover);
	}
	(void) closedir(entries);
}
