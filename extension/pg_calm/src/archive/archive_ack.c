/*-------------------------------------------------------------------------
 *
 * archive_ack.c
 *	  Acknowledging archived WAL without an fsync storm.
 *
 * By default where pg_calm itself archives (archive.c), and nowhere else: after
 * a power cut all files are ready again that were acknowledged since the
 * directory was synced, and are archived once more.  Our own archiving accepts a
 * file that it has if the content is the same.  The usual archive_command,
 * "test ! -f ... && cp", refuses it, and archiving stops for good.
 *
 * When a file is archived, PostgreSQL 15 renames its NNN.ready to NNN.done
 * with durable_rename (pgarch.c, pgarch_archiveDone): fsync of the status
 * file before and after, and of the directory archive_status.  The status
 * files are empty; what the fsyncs are for is that a crash can't bring
 * NNN.ready back when segment NNN itself has been recycled or removed
 * meanwhile.  That has to hold when the segment goes, not at each rename:
 * so the archiver's fsyncs of status files are left out, and whoever is about
 * to rename, link or unlink a WAL file (xlog.c, RemoveXlogFile: the checkpointer,
 * and the startup process when it follows a new timeline) makes archive_status
 * durable first, once for all renames since the last time.
 *
 * Before 15.11 recycling is link, of the future name, and then unlink.  Between
 * them the segment has two names, and after a crash it may keep both: what is
 * written under the future one changes what the old one announces.  So the link
 * comes after that fsync as well; and a segment that has another name already,
 * wherever from, is acknowledged as without pg_calm, since it can be written
 * to with no name of WAL being touched.
 *
 * Invariant: a WAL file that was seen as .done is not renamed, linked or
 * unlinked before an fsync of archive_status that began after its status file's
 * rename had returned.  "begun" is raised before a rename and "ended" after it.  Who
 * sees .done sees "begun" raised; if that is more than "synced", an fsync is
 * made, and "synced" becomes what "ended" was before it: never a rename that
 * may have been under way.
 *
 * A server that is started may find renames of an earlier life that are not
 * durable, whatever ended that life: it starts with one counted as begun.
 * When the archiver exits it makes its renames durable, so that nothing is left
 * to a later server that runs without pg_calm.
 *
 * If that fsync fails the WAL file stays: the rename or unlink fails with the
 * fsync's error, which the server logs, and so will all later ones, since the
 * kernel reports an error once and a second fsync proves nothing.  From then
 * on renames are not deferred.  A restart is the way out.
 *
 * Since PostgreSQL 16 pgarch_archiveDone calls plain rename, and nobody makes it
 * durable: after a crash a .ready file may be there whose segment is gone, which
 * the archiver removes with a warning.  There is nothing to defer, but what is
 * done before WAL goes is done there as well, for the same acknowledgements.
 * It is more than the server asks for, so if that fsync fails WAL goes all the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "archive_ack.h"
#include "base/base.h"
#include "shared/shared.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#define STATUS_DIRECTORY XLOGDIR "/archive_status"

typedef struct ArchiveAckShared
{
	pg_atomic_uint64 begun;  /* deferred renames: started */
	pg_atomic_uint64 ended;  /* ... returned, done or failed */
	pg_atomic_uint64 synced; /* ... of those, followed by an fsync of the directory */
	pg_atomic_uint64 directory_syncs;
	pg_atomic_uint32 error; /* errno of the first failed fsync, never reset */
} ArchiveAckShared;

int calm_archive_defer_status_sync = ARCHIVE_DEFER_AUTO;

static ArchiveAckShared *shared = NULL;

/* The server has loaded our archive module into this process */
static bool own_library = false;

/*
 * In the archiver: which fsync of a deferred acknowledgement may come next.  An
 * acknowledgement can break off between any two of them, if the server is out
 * of file descriptors for one.  So any other fsync ends it.
 */
static enum {
	ACK_NOTHING,   /* only that of a status file which is ready, before its rename */
	ACK_FILE,      /* it was renamed: that of the file */
	ACK_DIRECTORY, /* and then that of the directory */
} expected = ACK_NOTHING;

/* ... the status file whose fsync before it was left out */
static struct
{
	char directory_path[MAXPGPATH]; /* as the kernel has it */
	char name[MAXFNAMELEN + 8];     /* without .ready; inode numbers are used again */
	dev_t device;
	ino_t file;
	ino_t directory;
} acknowledged;

static bool answering(void);
static bool deferring(void);
static bool has_other_names(const char *status_name);
static bool has_suffix(const char *path, const char *suffix);
static bool path_of(int fd, char *path, size_t size);
static bool is_ready_file(int fd, const struct stat *st);
static bool is_done_file(int fd, const struct stat *st);
static bool is_status_directory(int fd, const struct stat *st);
static bool sync_status_directory(void);
static void archiver_exit(int code, Datum arg);

Size
archive_ack_size(void)
{
	return MAXALIGN(sizeof(ArchiveAckShared));
}

void
archive_ack_start(void)
{
	ArchiveAckShared *found_shared;
	bool found;

	found_shared = ShmemInitStruct("pg_calm archive acknowledgement", archive_ack_size(), &found);
	if (!found)
	{
		pg_atomic_init_u64(&found_shared->begun, 1);
		pg_atomic_init_u64(&found_shared->ended, 1);
		pg_atomic_init_u64(&found_shared->synced, 0);
		pg_atomic_init_u64(&found_shared->directory_syncs, 0);
		pg_atomic_init_u32(&found_shared->error, 0);
	}
	shared = found_shared;
}

/* Not counting the one that a server starts with */
uint64
archive_ack_deferred_renames(void)
{
	return CALM_ARCHIVER_SYNCS_STATUS ? pg_atomic_read_u64(&shared->ended) - 1 : 0;
}

uint64
archive_ack_directory_syncs(void)
{
	return pg_atomic_read_u64(&shared->directory_syncs);
}

const char *
archive_ack_failure(void)
{
	int error = (int) pg_atomic_read_u32(&shared->error);

	return error == 0 ? "" : strerror(error);
}

/*
 * Whether this process's acknowledgements are made durable when WAL goes.
 * Settings are reloaded between files only
 * (pgarch.c, HandlePgArchInterrupts), so it is the same for all calls of one
 * durable_rename, but for an error that appears meanwhile.
 */
static bool
answering(void)
{
	if (MyBackendType != B_ARCHIVER || shared == NULL || calm_mode != CALM_MODE_ON ||
	    pg_atomic_read_u32(&shared->error) != 0)
		return false;
	return calm_archive_defer_status_sync == ARCHIVE_DEFER_ON ||
	       (calm_archive_defer_status_sync == ARCHIVE_DEFER_AUTO && own_library);
}

/* ... and not by their own fsyncs */
static bool
deferring(void)
{
	return CALM_ARCHIVER_SYNCS_STATUS && answering();
}

/* Whether the file of pg_wal that a status file is of has another name, too; true if that can't be told */
static bool
has_other_names(const char *status_name)
{
	char path[MAXPGPATH];
	const char *suffix = strrchr(status_name, '.');
	int length = suffix ? (int) (suffix - status_name) : (int) strlen(status_name);
	struct stat st;

	snprintf(path, sizeof(path), XLOGDIR "/%.*s", length, status_name);
	return stat(path, &st) != 0 || st.st_nlink != 1;
}

/* The archiver exits when archive_library is changed, so this holds for its life */
void
archive_ack_own_library(void)
{
	own_library = true;
}

bool
archive_ack_is_own_library(void)
{
	return own_library;
}

static bool
has_suffix(const char *path, const char *suffix)
{
	size_t length = strlen(path);
	size_t suffix_length = strlen(suffix);

	return length > suffix_length && strcmp(path + length - suffix_length, suffix) == 0;
}

/* The path of an open file, as the kernel has it now */
static bool
path_of(int fd, char *path, size_t size)
{
	char link[64];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, size - 1);
	if (length <= 0 || length >= (ssize_t) size - 1)
		return false;
	path[length] = '\0';
	return true;
}

/*
 * Whether a file descriptor is of an empty file archive_status/NNN.ready; then
 * it and the directory are remembered.  Two system calls if the directory is
 * known already.
 */
static bool
is_ready_file(int fd, const struct stat *st)
{
	char path[MAXPGPATH];
	char *name;
	struct stat parent;
	struct stat directory;
	size_t length;

	/* status files are empty (xlogarchive.c, XLogArchiveNotify) */
	if (st->st_size != 0 || !path_of(fd, path, sizeof(path)))
		return false;
	name = strrchr(path, '/');
	if (name == NULL || !has_suffix(name, ".ready"))
		return false;
	*name++ = '\0';
	length = strlen(name) - strlen(".ready");
	if (length == 0 || length >= sizeof(acknowledged.name) || has_other_names(name))
		return false;
	if (strcmp(path, acknowledged.directory_path) != 0)
	{
		if (stat(path, &parent) != 0 || stat(STATUS_DIRECTORY, &directory) != 0 ||
		    parent.st_dev != directory.st_dev || parent.st_ino != directory.st_ino)
			return false;
		strlcpy(acknowledged.directory_path, path, sizeof(acknowledged.directory_path));
		acknowledged.directory = directory.st_ino;
	}
	memcpy(acknowledged.name, name, length);
	acknowledged.name[length] = '\0';
	acknowledged.device = st->st_dev;
	acknowledged.file = st->st_ino;
	return true;
}

/* Whether it is of that file under its new name, NNN.done */
static bool
is_done_file(int fd, const struct stat *st)
{
	char path[MAXPGPATH];
	char done[MAXPGPATH + sizeof(acknowledged.name) + 8];

	if (!S_ISREG(st->st_mode) || st->st_size != 0 || st->st_dev != acknowledged.device ||
	    st->st_ino != acknowledged.file || !path_of(fd, path, sizeof(path)))
		return false;
	snprintf(done, sizeof(done), "%s/%s.done", acknowledged.directory_path, acknowledged.name);
	return strcmp(path, done) == 0;
}

/* Whether it is of its directory */
static bool
is_status_directory(int fd, const struct stat *st)
{
	char path[MAXPGPATH];

	return S_ISDIR(st->st_mode) && st->st_dev == acknowledged.device &&
	       st->st_ino == acknowledged.directory && path_of(fd, path, sizeof(path)) &&
	       strcmp(path, acknowledged.directory_path) == 0;
}

/*
 * Whether an fsync that the server is about to make is one of those of a
 * deferred acknowledgement.  What is not certain to be one happens.  Keeps
 * errno.
 *
 * durable_rename syncs the file under its old name, under its new one, and
 * the directory (storage/file/fd.c).
 */
bool
archive_ack_skips_fsync(int fd)
{
	int save_errno = errno;
	int expecting = expected;
	bool skip = false;
	struct stat st;

	if (expecting == ACK_NOTHING && !deferring())
		return false;
	expected = ACK_NOTHING;
	if (fstat(fd, &st) == 0)
	{
		if (expecting == ACK_FILE && is_done_file(fd, &st))
		{
			skip = true;
			expected = ACK_DIRECTORY;
		}
		else if (expecting == ACK_DIRECTORY && is_status_directory(fd, &st))
			skip = true;
		else if (S_ISREG(st.st_mode) && deferring())
			skip = is_ready_file(fd, &st);
	}
	errno = save_errno;
	return skip;
}

/*
 * Before a rename: whether it is one to defer.  Then archive_ack_rename_ended
 * has to follow.
 */
bool
archive_ack_rename_begins(const char *old_path, const char *new_path)
{
	static bool exit_registered = false;

	expected = ACK_NOTHING;
	if (!answering() ||
	    strncmp(old_path, STATUS_DIRECTORY "/", strlen(STATUS_DIRECTORY) + 1) != 0 ||
	    !has_suffix(old_path, ".ready") || !has_suffix(new_path, ".done") ||
	    has_other_names(old_path + strlen(STATUS_DIRECTORY) + 1))
		return false;
	if (!exit_registered)
	{
		exit_registered = true;
		before_shmem_exit(archiver_exit, (Datum) 0);
	}
	pg_atomic_fetch_add_u64(&shared->begun, 1);
	return true;
}

/* After a rename for which archive_ack_rename_begins said so */
void
archive_ack_rename_ended(bool ok)
{
	pg_atomic_fetch_add_u64(&shared->ended, 1);
	expected = ok && CALM_ARCHIVER_SYNCS_STATUS ? ACK_FILE : ACK_NOTHING;
}

/*
 * Make all renames that have ended durable.  False, and errno, if that can't
 * be had.  As in the server's own fsync_fname_ext (storage/file/fd.c), a
 * filesystem that can't sync directories at all is no error.
 */
static bool
sync_status_directory(void)
{
	uint64 ended = pg_atomic_read_u64(&shared->ended);
	uint64 synced;
	uint32 none = 0;
	int fd;

	if (pg_atomic_read_u32(&shared->error) != 0)
	{
		errno = (int) pg_atomic_read_u32(&shared->error);
		return false;
	}
	pg_memory_barrier();
	fd = open(STATUS_DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (fsync(fd) != 0 && errno != EBADF && errno != EINVAL)
	{
		int save_errno = errno;

		(void) pg_atomic_compare_exchange_u32(&shared->error, &none, (uint32) save_errno);
		(void) close(fd);
		errno = save_errno;
		return false;
	}
	(void) close(fd);
	pg_atomic_fetch_add_u64(&shared->directory_syncs, 1);

	synced = pg_atomic_read_u64(&shared->synced);
	while (synced < ended && !pg_atomic_compare_exchange_u64(&shared->synced, &synced, ended))
		;
	return true;
}

/*
 * Before the server renames, links or unlinks a file: if it is one of WAL, see to it
 * that its acknowledgement is durable.  False, and errno, if it must not go.
 * In any mode and process, since what was deferred may be of when the mode was
 * another.
 */
bool
archive_ack_before_removal(const char *path)
{
	const char *name = path + strlen(XLOGDIR "/");
	bool ok;
	int save_errno;

	/* segments, .partial, backup history: all start with the timeline */
	if (strncmp(path, XLOGDIR "/", strlen(XLOGDIR "/")) != 0 ||
	    strspn(name, "0123456789ABCDEF") < 8 || strchr(name, '/') != NULL)
		return true;
	if (shared == NULL || !enableFsync || !XLogArchivingActive())
		return true;
	/* what nobody has deferred may be left as it is */
	if (!CALM_ARCHIVER_SYNCS_STATUS &&
	    (calm_mode != CALM_MODE_ON || calm_archive_defer_status_sync == ARCHIVE_DEFER_OFF))
		return true;
	pg_memory_barrier();
	if (pg_atomic_read_u64(&shared->begun) == pg_atomic_read_u64(&shared->synced))
		return true;
	save_errno = errno;
	ok = sync_status_directory();
	if (ok || !CALM_ARCHIVER_SYNCS_STATUS)
	{
		errno = save_errno;
		return true;
	}
	return false;
}

static void
archiver_exit(int code, Datum arg)
{
	if (enableFsync && !sync_status_directory())
		ereport(LOG,
		        (errcode_for_file_access(),
		         errmsg("pg_calm: could not fsync directory \"%s\": %m", STATUS_DIRECTORY),
		         errdetail(
					 "After a crash, WAL files that are archived already may be archived again.")));
}
