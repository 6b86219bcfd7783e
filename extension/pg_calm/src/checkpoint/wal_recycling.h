/*-------------------------------------------------------------------------
 *
 * wal_recycling.h
 *	  Spreads the recycling of WAL segments at the end of a checkpoint.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WAL_RECYCLING_H
#define PG_CALM_WAL_RECYCLING_H

/*
 * To be called by the checkpointer before it reads the next entry of any
 * directory.  Waits if a WAL segment was recycled since the call before.  Keeps
 * errno; may raise errors, where the server holds no lock.
 */
extern void wal_recycling_next_file(void);

#endif /* PG_CALM_WAL_RECYCLING_H */
