/*-------------------------------------------------------------------------
 *
 * share_file.c
 *	  The file by which instances that share a device know of each other.
 *
 * The file is an array of slots of equal size, one for each member, and has no
 * header: nothing in it belongs to all.  A member writes its own slot and reads
 * the others'.  A slot counts as taken while the record in it is whole (CRC),
 * of this boot, and was written less than SHARE_STALE_MS ago by the
 * monotonic clock.  So a member that dies, or that is stopped, gives up its
 * slot by doing nothing, and whatever else is found in the file (zeros, an old
 * format, garbage, a record torn by a write under way) is a free slot.
 *
 * It is read and written with pread and pwrite, not mapped: a mapping raises SIGBUS
 * if another process truncates the file, while a short read heals when its members
 * write their slots again.  There are no locks: nobody can die with one, or keep
 * one.  Two members that choose the same free slot find out because one of them
 * reads the other's record in its place (share.c).
 *
 * Who may write to the file can lie, and take a larger share; it can't make us
 * fail.  So the directory and the file are checked: see check_directory and
 * check_file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share.h"

/* Changes with the layout of ShareRecord */
#define SHARE_MAGIC 0x43414C31

/* A member whose record is older is dead, or as good as that */
#define SHARE_STALE_MS 5000

static bool
fail(ShareFile *file, const char *what, const char *path, int error)
{
	if (error != 0)
	{
		errno = error;
		snprintf(file->problem, sizeof(file->problem), "could not %s \"%s\": %m", what, path);
	}
	else
		snprintf(file->problem, sizeof(file->problem), "\"%s\" %s", path, what);
	return false;
}

/*
 * The directory must be root's or ours and closed to others.  If its group may
 * write to it, the members are of several OS users: files get its group and
 * are writable by it, too.
 */
static bool
check_directory(ShareFile *file, int fd, const char *path, mode_t *mode)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return fail(file, "stat", path, errno);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return fail(file, "belongs to another user", path, 0);
	if (st.st_mode & S_IWOTH)
		return fail(file, "is writable by all users", path, 0);
	*mode = (st.st_mode & S_IWGRP) ? 0660 : 0600;
	return true;
}

/* An open file must be one that only those could make who may enter the directory */
static bool
check_file(ShareFile *file, int fd, const char *path, mode_t mode)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return fail(file, "stat", path, errno);
	if (!S_ISREG(st.st_mode))
		return fail(file, "is not a regular file", path, 0);
	if (st.st_nlink != 1)
		return fail(file, "has several names, or none", path, 0);
	if (mode == 0600 && st.st_uid != 0 && st.st_uid != geteuid())
		return fail(file, "belongs to another user", path, 0);
	if (st.st_mode & (mode == 0600 ? S_IWGRP | S_IWOTH : S_IWOTH))
		return fail(file, "is writable by too many users", path, 0);
	if (st.st_size > (off_t) (SHARE_SLOTS * sizeof(ShareRecord)))
		return fail(file, "is longer than all slots: not a file of shares", path, 0);
	return true;
}

void
share_file_close(ShareFile *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

/* Open the file of a device, and make it if create says so.  False with file->problem if it can't be used */
bool
share_file_open(ShareFile *file, const char *directory, ShareDevice device, bool create)
{
	char name[64];
	char path[MAXPGPATH];
	mode_t mode;
	int directory_fd;
	bool ok;

	file->fd = -1;
	file->problem[0] = '\0';
	snprintf(name, sizeof(name), "pg_calm.%u-%u", device.major, device.minor);
	snprintf(path, sizeof(path), "%s/%s", directory, name);

	directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory_fd < 0)
		return fail(file, "open directory", directory, errno);
	ok = check_directory(file, directory_fd, directory, &mode);
	/* another member may be first to make it */
	for (int attempt = 0; ok && attempt < 4; attempt++)
	{
		mode_t former;

		/* O_NONBLOCK: nobody shall make us wait for the other end of a FIFO */
		file->fd = openat(directory_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (file->fd >= 0 || errno != ENOENT || !create)
			break;
		/* its mode exactly, and from the beginning */
		former = umask(0);
		file->fd =
			openat(directory_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		umask(former);
		if (file->fd >= 0 || errno != EEXIST)
			break;
	}
	if (ok && file->fd < 0)
		ok = fail(file, "open file", path, errno);
	close(directory_fd);
	ok = ok && check_file(file, file->fd, path, mode);
	if (!ok)
		share_file_close(file);
	return ok;
}

static pg_crc32c
record_crc(const ShareRecord *record)
{
	pg_crc32c crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, record, offsetof(ShareRecord, crc));
	FIN_CRC32C(crc);
	return crc;
}

static bool
is_member(const ShareRecord *record, const uint8 *boot_id, uint64 now_ms)
{
	return record->magic == SHARE_MAGIC && EQ_CRC32C(record->crc, record_crc(record)) &&
	       memcmp(record->boot_id, boot_id, sizeof(record->boot_id)) == 0 &&
	       record->weight >= SHARE_WEIGHT_MIN && record->weight <= SHARE_WEIGHT_MAX &&
	       record->wants <= 1 && record->identity != 0 &&
	       /* clocks of two CPUs may differ by a tick */
	       record->heartbeat_ms <= now_ms + 1000 && record->heartbeat_ms + SHARE_STALE_MS > now_ms;
}

/* The kernel's boot id tells the times of this boot's monotonic clock from those of another */
static bool
get_boot_id(ShareFile *file, uint8 *boot_id)
{
	static uint8 known[16];
	static int bytes = 0;

	if (bytes < 16)
	{
		char text[40] = "";
		const char *c = text;
		FILE *source = fopen("/proc/sys/kernel/random/boot_id", "re");

		if (source == NULL || fgets(text, sizeof(text), source) == NULL)
			text[0] = '\0';
		if (source != NULL)
			fclose(source);
		/* in hexadecimal, with hyphens between some of them */
		for (bytes = 0; bytes < 16; bytes++, c += 2)
		{
			c += *c == '-';
			if (sscanf(c, "%2hhx", &known[bytes]) != 1)
				return fail(file, "can't be used: the kernel tells no boot_id", "/proc", 0);
		}
	}
	memcpy(boot_id, known, sizeof(known));
	return true;
}

/*
 * Read all slots.  members[i] tells whether records[i] is that of a member;
 * both have SHARE_SLOTS entries.  False with file->problem if they can't be read.
 */
bool
share_file_read(ShareFile *file, uint64 now_ms, ShareRecord *records, bool *members)
{
	uint8 boot_id[16];
	ssize_t length;

	memset(members, 0, SHARE_SLOTS * sizeof(bool));
	if (!get_boot_id(file, boot_id))
		return false;
	do
		length = pread(file->fd, records, SHARE_SLOTS * sizeof(ShareRecord), 0);
	while (length < 0 && errno == EINTR);
	if (length < 0)
		return fail(file, "read", "the file of shares", errno);
	for (int i = 0; i < (int) (length / sizeof(ShareRecord)); i++)
	{
		ShareRecord *record = &records[i];

		if (!is_member(record, boot_id, now_ms))
			continue;
		for (char *c = record->name; c < record->name + SHARE_NAME_SIZE; c++)
		{
			if (*c != '\0' && (*c < 0x20 || *c > 0x7E))
				*c = '?';
		}
		record->name[SHARE_NAME_SIZE - 1] = '\0';
		members[i] = true;
	}
	return true;
}

/* Write a record into a slot, magic, boot id and CRC added */
bool
share_file_write(ShareFile *file, int slot, ShareRecord *record)
{
	ssize_t done;

	record->magic = SHARE_MAGIC;
	if (!get_boot_id(file, record->boot_id))
		return false;
	record->crc = record_crc(record);
	do
		done = pwrite(file->fd, record, sizeof(*record), (off_t) slot * sizeof(*record));
	while (done < 0 && errno == EINTR);
	if (done != sizeof(*record))
		return fail(file, "write", "the file of shares", done < 0 ? errno : ENOSPC);
	return true;
}

/* Free a slot, if it is still that of this member */
void
share_file_clear(ShareFile *file, int slot, uint64 identity)
{
	ShareRecord record;

	if (pread(file->fd, &record, sizeof(record), (off_t) slot * sizeof(record)) != sizeof(record) ||
	    record.identity != identity)
		return;
	memset(&record, 0, sizeof(record));
	/* if this fails, the slot is free a few seconds later */
	if (pwrite(file->fd, &record, sizeof(record), (off_t) slot * sizeof(record)) < 0)
		return;
}
