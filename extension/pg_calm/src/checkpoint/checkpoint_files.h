/*-------------------------------------------------------------------------
 *
 * checkpoint_files.h
 *	  How long each file's flush hints and fsync took in a checkpoint.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CHECKPOINT_FILES_H
#define PG_CALM_CHECKPOINT_FILES_H

#include "postgres.h"

extern Size checkpoint_files_size(void);
extern void checkpoint_files_start(void);

/*
 * For the checkpointer, for calls of the checkpoint with that id.  A hint is noted with
 * those for the same file around it, once another file's comes or checkpoint_files_note_hints()
 * is called.  All allocate nothing and raise no error; none preserves errno.
 */
extern void checkpoint_files_hinted(uint64 checkpoint, const char *path, uint64 microseconds);
extern void checkpoint_files_note_hints(void);
extern void checkpoint_files_synced(uint64 checkpoint, const char *path, uint64 microseconds);

/* Forget all that is noted */
extern void checkpoint_files_reset(void);

#endif /* PG_CALM_CHECKPOINT_FILES_H */
