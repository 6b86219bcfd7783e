/*-------------------------------------------------------------------------
 *
 * share_file.c
 *	  The file by which instances that share a device know of each other.
 *
 * The file is an array of slots of equal size, one for each member.  A member locks a slot
 * (F_OFD_SETLK), writes it, and reads the others'.  The kernel gives up the lock of a process
 * that ends.  There is no other lock: who holds one, even for ever, has a slot, and that is all.
 *
 * A slot is that of a member while the record in it was written less than SHARE_STALE_MS ago by
 * the monotonic clock; whatever else is found there (zeros, an old format, garbage) is nobody.  A
 * record that is torn by a write under way has all of its fields from one or the other, which
 * does no harm; what is left of another boot may count for those few seconds.
 *
 * It is read and written with pread and pwrite, not mapped: a mapping raises SIGBUS
 * if another process truncates the file, while a short read heals when its members
 * write their slots again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "share.h"

/* Changes with the layout of ShareRecord */
#define SHARE_MAGIC 0x43414C32

/* A member whose record is older is dead, or as good as that */
#define SHARE_STALE_MS 5000

int share_slot = -1;
char share_problem[160] = "";

static int file_fd = -1;

static bool
fail(const char *format, const char *path)
{
	snprintf(share_problem, sizeof(share_problem), format, path);
	return false;
}

/*
 * What is open must be one that only those could make whom we trust: root, our user, and the
 * directory's group if it may write to that.  Then the members are of several OS users, and the
 * file is writable by the group, too: that is its mode.
 */
static bool
check(int fd, const char *path, bool is_directory, mode_t *mode, struct stat *st)
{
	bool of_group;

	if (fstat(fd, st) != 0)
		return fail("could not stat \"%s\": %m", path);
	if (is_directory)
		*mode = (st->st_mode & S_IWGRP) ? 0660 : 0600;
	else if (!S_ISREG(st->st_mode))
		return fail("\"%s\" is not a regular file", path);
	else if (st->st_nlink != 1)
		return fail("\"%s\" has several names, or none", path);
	else if (st->st_size > (off_t) (SHARE_SLOTS * sizeof(ShareRecord)))
		return fail("\"%s\" is longer than all slots: not a file of shares", path);
	of_group = *mode == 0660;
	if ((is_directory || !of_group) && st->st_uid != 0 && st->st_uid != geteuid())
		return fail("\"%s\" belongs to another user", path);
	if (st->st_mode & (of_group ? S_IWOTH : S_IWGRP | S_IWOTH))
		return fail("\"%s\" is writable by too many users", path);
	return true;
}

void
share_file_close(void)
{
	if (file_fd >= 0)
		close(file_fd);
	file_fd = -1;
	share_slot = -1;
}

/*
 * Open the file of a device, which is made if need be.  If it is the one that is open we keep
 * our slot in it.  False with share_problem if it can't be used; then none is open.
 */
bool
share_file_open(const char *directory, unsigned int major, unsigned int minor)
{
	/* O_NONBLOCK: nobody shall make us wait for the other end of a FIFO */
	const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	char name[64];
	char path[MAXPGPATH];
	mode_t mode;
	struct stat st;
	struct stat known;
	int directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = -1;
	bool ok;

	snprintf(name, sizeof(name), "pg_calm.%u-%u", major, minor);
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (directory_fd < 0)
		ok = fail("could not open directory \"%s\": %m", directory);
	else if ((ok = check(directory_fd, directory, true, &mode, &st)))
	{
		fd = openat(directory_fd, name, flags);
		if (fd < 0 && errno == ENOENT)
		{
			/* its mode exactly, and from the beginning */
			mode_t former = umask(0);

			fd = openat(directory_fd, name, flags | O_CREAT, mode);
			umask(former);
		}
		ok = fd < 0 ? fail("could not open file \"%s\": %m", path) :
		              check(fd, path, false, &mode, &st);
	}
	if (directory_fd >= 0)
		close(directory_fd);

	if (ok && (file_fd < 0 || fstat(file_fd, &known) != 0 || known.st_dev != st.st_dev ||
	           known.st_ino != st.st_ino))
	{
		share_file_close();
		file_fd = fd;
	}
	else if (fd >= 0)
		close(fd);
	if (!ok)
		share_file_close();
	return ok;
}

/* Lock the first slot that nobody has; false with share_problem if there is none */
static bool
take_slot(void)
{
	for (int slot = 0; slot < SHARE_SLOTS; slot++)
	{
		struct flock lock = {.l_type = F_WRLCK,
		                     .l_whence = SEEK_SET,
		                     .l_start = slot * sizeof(ShareRecord),
		                     .l_len = sizeof(ShareRecord)};

		if (fcntl(file_fd, F_OFD_SETLK, &lock) == 0)
		{
			share_slot = slot;
			return true;
		}
		if (errno != EAGAIN && errno != EACCES)
			return fail("could not lock %s: %m", "a slot");
	}
	return fail("all slots of %s are taken", "the file of shares");
}

static bool
is_member(const ShareRecord *record, uint64 now_ms)
{
	return record->magic == SHARE_MAGIC && record->weight >= 1 &&
	       record->weight <= SHARE_WEIGHT_MAX && record->wants <= 1 &&
	       /* clocks of two CPUs may differ by a tick */
	       record->heartbeat_ms <= now_ms + 1000 && record->heartbeat_ms + SHARE_STALE_MS > now_ms;
}

/*
 * Write our record into our slot, which is taken if need be, and read those of all members, each
 * at its slot; the others of SHARE_SLOTS have magic 0.  False with share_problem if that fails.
 */
bool
share_file_exchange(ShareRecord *own, ShareRecord *records)
{
	if (file_fd < 0 || (share_slot < 0 && !take_slot()))
		return false;
	own->magic = SHARE_MAGIC;
	errno = ENOSPC; /* if it writes less */
	if (pwrite(file_fd, own, sizeof(*own), (off_t) share_slot * sizeof(*own)) != sizeof(*own))
		return fail("could not write %s: %m", "the file of shares");
	memset(records, 0, SHARE_SLOTS * sizeof(ShareRecord));
	if (pread(file_fd, records, SHARE_SLOTS * sizeof(ShareRecord), 0) < 0)
		return fail("could not read %s: %m", "the file of shares");
	/* whatever others have written there */
	records[share_slot] = *own;
	for (ShareRecord *record = records; record < records + SHARE_SLOTS; record++)
	{
		if (!is_member(record, own->heartbeat_ms))
			memset(record, 0, sizeof(*record));
		for (char *c = record->name; c < record->name + sizeof(record->name); c++)
		{
			if (*c != '\0' && (*c < 0x20 || *c > 0x7E))
				*c = '?';
		}
		record->name[sizeof(record->name) - 1] = '\0';
	}
	return true;
}

/* Give up our slot, so that the others need not wait to see that we are gone */
void
share_file_leave(void)
{
	ShareRecord none = {0};

	/* if this fails we are gone a few seconds later */
	if (share_slot >= 0)
		(void) !pwrite(file_fd, &none, sizeof(none), (off_t) share_slot * sizeof(none));
	share_file_close();
}
