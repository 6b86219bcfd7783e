/*-------------------------------------------------------------------------
 *
 * drain.h
 *	  What is done for a data file before PostgreSQL's fsync of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_DRAIN_H
#define PG_CALM_DRAIN_H

/*
 * The file behind fd is about to be fsynced by this process; checkpoint says
 * that it is the checkpointer's sync phase.  Never fails and never skips the
 * fsync, which is the caller's to make.  Does not preserve errno.
 */
extern void drain_before_fsync(int fd, bool checkpoint);

#endif /* PG_CALM_DRAIN_H */
