/*-------------------------------------------------------------------------
 *
 * folio_split.c
 *	  Splits large folios of the page cache, so that a written block counts as one.
 *
 * Read-ahead fills the page cache with folios of up to 2 MiB.  The kernel
 * counts a folio as dirty as a whole when one block of it is written, so that
 * a few hundred scattered writes pass the dirty thresholds: the flusher then
 * runs without a pause, and at last writers are made to wait
 * (kernel_flusher.c).
 *
 * A large folio can be split without privileges and without I/O: madvise(2)
 * with MADV_COLD splits a folio of which the range covers only a part, if
 * nobody else has it mapped (Linux 5.4; mm/madvise.c,
 * madvise_cold_or_pageout_pte_range).  It changes no content and no dirty
 * state.  A folio that is dirty or under writeback stays as it is, so there
 * are two occasions: after we wrote a region back of which more was dirty than
 * was written to, and a patrol over all files when the worker begins, for what a
 * load, a restore or a backup has left.
 *
 * What is named to madvise counts as cold after that, so it is one block in
 * SPLIT_STEP bytes: smaller folios are left alone.  It is a whole block: where
 * memory is short, a page of the kernel's that went alone would take its half of
 * the block with it, and cost the server a read.  The patrol comes once, or it
 * would keep an eighth of the cache looking unused.
 *
 * WAL segments are split too, when they have been filled with zeros and
 * synced.  Else each block of WAL that is synced counts as a whole folio
 * written to its device, the share of the data directory's device in all that
 * is written becomes tiny, and with it the dirty threshold from which the
 * flusher writes that device (mm/page-writeback.c, __wb_writeout_add and
 * __wb_calc_thresh).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog_internal.h"
#include "bridge.h"
#include "common/relpath.h"
#include "folio_split.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "shared/shared.h"
#include "portability/instr_time.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Folios of this size and larger are split; they are aligned to their size */
#define SPLIT_STEP (8 * BLCKSZ)

/* Share of a core that the patrol may take */
#define PATROL_SHARE 0.5

/* Files of a directory that are listed before they are looked at */
#define LISTED_AT_ONCE 256

typedef struct Patrol
{
	MemoryContext context; /* of the lists */
	bool done;             /* all files have been looked at */
	List *directories;     /* still to be listed */
	DIR *listed;           /* the last of them, if it has been begun */
	List *files;           /* still to be looked at */
	int fd;                /* file looked at, or -1 */
	off_t offset;
	off_t size;
	uint64 next_ms;
} Patrol;

static Patrol patrol = {.fd = -1};

static void list_directories(void);
static void list_files(void);
static bool open_next(void);
static bool patrol_step(void);

/* Split those of a file that has just been synced */
void
folio_split_file(int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return;
	for (off_t offset = 0; offset < st.st_size; offset += PAGE_MAP_REGION_BYTES)
		folio_split(fd, offset, Min(st.st_size - offset, PAGE_MAP_REGION_BYTES));
}

/*
 * Split the clean large folios of a stretch of a file.  Reads nothing: what is
 * not in the page cache is not touched (but for a page that is evicted
 * between two calls).
 */
void
folio_split(int fd, off_t offset, size_t length)
{
	static unsigned char resident[PAGE_MAP_REGION_BYTES / 4096];
	size_t page_size = sysconf(_SC_PAGESIZE);
	size_t pages = length / page_size;
	size_t step = SPLIT_STEP / page_size;
	size_t named = Max(BLCKSZ / page_size, 1);
	char *mapping;

	if (pages == 0 || pages > sizeof(resident) || step < 2 * named)
		return;
	mapping = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, offset);
	if (mapping == MAP_FAILED)
		return;
	bridge_leave_no_trace(mapping, length);
	if (mincore(mapping, length, resident) == 0)
	{
		for (size_t page = 0; page < pages; page++)
		{
			size_t end = page;

			while (end < pages && (resident[end] & 1))
				end++;
			if (end == page)
				continue;

			/* what is not mapped here is not looked at by madvise */
			if (madvise(mapping + page * page_size, (end - page) * page_size, MADV_POPULATE_READ) ==
			    0)
			{
				for (size_t p = (page + step - 1) / step * step; p + named <= end; p += step)
					(void) madvise(mapping + p * page_size, named * page_size, MADV_COLD);
			}
			page = end;
		}
	}
	munmap(mapping, length);
}

/* WAL, and directories of all databases in all tablespaces: storage/file/reinit.c */
static void
list_directories(void)
{
	StringInfoData path;
	DIR *spaces;
	struct dirent *space;

	patrol.directories = lappend(patrol.directories, pstrdup(XLOGDIR));
	initStringInfo(&path);
	for (int tablespace = 0; tablespace < 2; tablespace++)
	{
		const char *top = tablespace ? "pg_tblspc" : "base";

		spaces = AllocateDir(top);
		while ((space = ReadDirExtended(spaces, top, LOG)) != NULL)
		{
			DIR *databases;
			struct dirent *database;

			if (space->d_name[0] < '0' || space->d_name[0] > '9')
				continue;
			resetStringInfo(&path);
			appendStringInfo(&path, "%s/%s", top, space->d_name);
			if (!tablespace)
			{
				patrol.directories = lappend(patrol.directories, pstrdup(path.data));
				continue;
			}
			appendStringInfo(&path, "/%s", TABLESPACE_VERSION_DIRECTORY);
			databases = AllocateDir(path.data);
			while ((database = ReadDirExtended(databases, path.data, DEBUG1)) != NULL)
			{
				if (database->d_name[0] >= '0' && database->d_name[0] <= '9')
					patrol.directories =
						lappend(patrol.directories, psprintf("%s/%s", path.data, database->d_name));
			}
			FreeDir(databases);
		}
		FreeDir(spaces);
	}
	pfree(path.data);
}

/*
 * Segment files of a database's relations, temporary ones excepted, or of WAL: some
 * of the directory that is last in the list, which goes when all have been listed.
 */
static void
list_files(void)
{
	struct dirent *entry = NULL;

	if (patrol.listed == NULL)
		patrol.listed = AllocateDir(llast(patrol.directories));
	for (int i = 0; i < LISTED_AT_ONCE; i++)
	{
		entry = ReadDirExtended(patrol.listed, llast(patrol.directories), DEBUG1);
		if (entry == NULL)
			break;
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			patrol.files = lappend(
				patrol.files, psprintf("%s/%s", (char *) llast(patrol.directories), entry->d_name));
	}
	if (entry != NULL)
		return;
	FreeDir(patrol.listed);
	patrol.listed = NULL;
	pfree(llast(patrol.directories));
	patrol.directories = list_delete_last(patrol.directories);
}

/* Open the next file to look at; false at the end of the pass */
static bool
open_next(void)
{
	MemoryContext previous = MemoryContextSwitchTo(patrol.context);
	struct stat st;
	char path[MAXPGPATH] = "";

	while (patrol.fd < 0)
	{
		if (patrol.files == NIL && patrol.directories != NIL)
		{
			list_files();
			break; /* that was work enough for one step */
		}
		if (patrol.files == NIL)
		{
			MemoryContextSwitchTo(previous);
			return false;
		}
		strlcpy(path, llast(patrol.files), sizeof(path));
		pfree(llast(patrol.files));
		patrol.files = list_delete_last(patrol.files);

		/* mmap of a file that nobody else maps; a writable one for mincore(2) */
		patrol.fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOATIME);
		patrol.offset = 0;
		if (patrol.fd >= 0 && (fstat(patrol.fd, &st) != 0 || !S_ISREG(st.st_mode)))
		{
			close(patrol.fd);
			patrol.fd = -1;
		}
		else if (patrol.fd >= 0)
			patrol.size = st.st_size / BLCKSZ * BLCKSZ;
	}
	MemoryContextSwitchTo(previous);
	return true;
}

/* Look at one region or open one file; false at the end of the pass */
static bool
patrol_step(void)
{
	if (patrol.fd < 0)
		return open_next();

	if (patrol.offset < patrol.size)
	{
		folio_split(patrol.fd, patrol.offset,
		            Min(patrol.size - patrol.offset, PAGE_MAP_REGION_BYTES));
		patrol.offset += PAGE_MAP_REGION_BYTES;
	}
	if (patrol.offset >= patrol.size)
	{
		close(patrol.fd);
		patrol.fd = -1;
	}
	return true;
}

/* Whether large folios are split now */
bool
folio_split_is_on(void)
{
	return calm_split_folios && calm_flushes();
}

/* When the patrol may go on; PG_UINT64_MAX: it has ended, or is off */
uint64
folio_split_next_ms(void)
{
	return patrol.done || !folio_split_is_on() ? PG_UINT64_MAX : patrol.next_ms;
}

/* Let go of the file that the patrol is at, for the time that it is off */
void
folio_split_pause(void)
{
	if (patrol.fd >= 0)
		close(patrol.fd);
	patrol.fd = -1;
}

/*
 * Go on with the patrol for a few milliseconds, if it has not had its share of
 * time already.  To be called often.
 */
void
folio_split_patrol(uint64 now_ms)
{
	instr_time start;
	instr_time spent;
	bool more = true;

	if (patrol.done || now_ms < patrol.next_ms)
		return;
	if (patrol.context == NULL)
	{
		MemoryContext previous;

		patrol.context =
			AllocSetContextCreate(TopMemoryContext, "pg_calm folio patrol", ALLOCSET_SMALL_SIZES);
		previous = MemoryContextSwitchTo(patrol.context);
		list_directories();
		MemoryContextSwitchTo(previous);
	}

	INSTR_TIME_SET_CURRENT(start);
	do
	{
		more = patrol_step();
		INSTR_TIME_SET_CURRENT(spent);
		INSTR_TIME_SUBTRACT(spent, start);
	} while (more && INSTR_TIME_GET_MILLISEC(spent) < 2);
	if (!more)
	{
		patrol.done = true;
		MemoryContextDelete(patrol.context);
	}
	patrol.next_ms = page_map_now_ms() +
	                 (uint64) ((INSTR_TIME_GET_MILLISEC(spent) + 0.1) * (1 / PATROL_SHARE - 1));
}
