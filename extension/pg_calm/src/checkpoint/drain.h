/*-------------------------------------------------------------------------
 *
 * drain.h
 *	  What is done for a data file before PostgreSQL's fsync of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_DRAIN_H
#define PG_CALM_DRAIN_H

#include "postgres.h"

/*
 * Before each fsync of a data file in a checkpoint's sync phase: waits until what is
 * marked in the file now is flushed, within bounds.  Returns the descriptor to fsync: fd, or a
 * duplicate of it that the caller closes afterwards, because fd may have been closed during
 * the wait.  For the checkpointer.  Does not preserve errno.
 */
extern int drain_before_checkpoint_fsync(int fd);

/*
 * The file behind fd is about to be fsynced by this process.  Never fails and never skips the
 * fsync, which is the caller's to make.  Does not preserve errno.
 */
extern void drain_before_fsync(int fd);

#endif /* PG_CALM_DRAIN_H */
