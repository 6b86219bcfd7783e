/*-------------------------------------------------------------------------
 *
 * checkpoint_files.c
 *	  How long each file's flush hints and fsync took in a checkpoint, and
 *	  pg_calm_checkpoint_file_calls() that shows it.
 *
 * The checkpointer writes buffers in order of file, and hints every
 * checkpoint_flush_after pages (IssuePendingWritebacks, bufmgr.c), so that many hints
 * for one file follow each other: they are one entry.  With several tablespaces it goes
 * from one to the other, and a file has several entries; the view adds them up.  Entries
 * are in a ring in shared memory, the newest in place of the oldest.
 *
 * A hint that the module does not pass on takes what the checkpointer is held in its
 * place (checkpoint_hold.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "checkpoint_files.h"
#include "checkpoint_report.h"
#include "checkpoint_stats.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

int calm_checkpoint_files = 1000;

typedef struct FileCalls
{
	uint64 checkpoint; /* 0: no entry */
	bool fsync;        /* else flush hints */
	uint32 calls;
	uint64 microseconds; /* of all of them together */
	char path[PAGE_MAP_PATH_MAX];
} FileCalls;

typedef struct FilesShared
{
	slock_t lock;
	uint64 next;  /* entry to be written, counted from the server's start */
	uint64 first; /* older ones have been forgotten */
	FileCalls calls[FLEXIBLE_ARRAY_MEMBER];
} FilesShared;

static FilesShared *files = NULL;
static FileCalls hints = {0}; /* the checkpointer's, not noted yet */

PG_FUNCTION_INFO_V1(pg_calm_checkpoint_file_calls);

static void note(const FileCalls *calls);

Size
checkpoint_files_size(void)
{
	return MAXALIGN(
		add_size(offsetof(FilesShared, calls), mul_size(calm_checkpoint_files, sizeof(FileCalls))));
}

/* Called with AddinShmemInitLock held */
void
checkpoint_files_start(void)
{
	bool found;
	FilesShared *memory =
		ShmemInitStruct("pg_calm files of checkpoints", checkpoint_files_size(), &found);

	if (!found)
	{
		memset(memory, 0, checkpoint_files_size());
		SpinLockInit(&memory->lock);
	}
	files = memory;
}

static void
note(const FileCalls *calls)
{
	if (calm_checkpoint_files == 0)
		return;
	SpinLockAcquire(&files->lock);
	memcpy(&files->calls[files->next++ % calm_checkpoint_files], calls, sizeof(FileCalls));
	SpinLockRelease(&files->lock);
}

void
checkpoint_files_hinted(uint64 checkpoint, const char *path, uint64 microseconds)
{
	if (hints.checkpoint != checkpoint || strcmp(hints.path, path) != 0)
	{
		checkpoint_files_note_hints();
		hints.checkpoint = checkpoint;
		strlcpy(hints.path, path, sizeof(hints.path));
	}
	hints.calls++;
	hints.microseconds += microseconds;
}

void
checkpoint_files_note_hints(void)
{
	if (hints.calls > 0)
		note(&hints);
	memset(&hints, 0, sizeof(hints));
}

void
checkpoint_files_synced(uint64 checkpoint, const char *path, uint64 microseconds)
{
	FileCalls calls = {
		.checkpoint = checkpoint, .fsync = true, .calls = 1, .microseconds = microseconds};

	strlcpy(calls.path, path, sizeof(calls.path));
	note(&calls);
}

void
checkpoint_files_reset(void)
{
	SpinLockAcquire(&files->lock);
	files->first = files->next;
	SpinLockRelease(&files->lock);
}

/* One row for each entry; the view adds up those of a checkpoint and file */
Datum
pg_calm_checkpoint_file_calls(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint64 first;
	uint64 next;

	InitMaterializedSRF(fcinfo, 0);
	if (calm_checkpoint_files == 0)
		return (Datum) 0;

	SpinLockAcquire(&files->lock);
	first = files->first;
	next = files->next;
	SpinLockRelease(&files->lock);
	if (next >= (uint64) calm_checkpoint_files)
		first = Max(first, next - calm_checkpoint_files);

	for (uint64 i = first; i < next; i++)
	{
		FileCalls calls;
		bool overwritten;
		Datum values[5];
		bool nulls[5] = {false};

		SpinLockAcquire(&files->lock);
		overwritten = files->next > i + calm_checkpoint_files;
		memcpy(&calls, &files->calls[i % calm_checkpoint_files], sizeof(FileCalls));
		SpinLockRelease(&files->lock);
		if (overwritten)
			continue;
		values[0] = Int64GetDatum((int64) calls.checkpoint);
		values[1] = CStringGetTextDatum(calls.path);
		values[2] = BoolGetDatum(calls.fsync);
		values[3] = Int64GetDatum(calls.calls);
		values[4] = Float8GetDatum(calls.microseconds / 1000.0);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
