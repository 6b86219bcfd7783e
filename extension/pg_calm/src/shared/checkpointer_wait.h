/*-------------------------------------------------------------------------
 *
 * checkpointer_wait.h
 *	  What the checkpointer has to see to while it waits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CHECKPOINTER_WAIT_H
#define PG_CALM_CHECKPOINTER_WAIT_H

/* At start, once PostgreSQL's shared memory exists */
extern void checkpointer_wait_shmem_startup(void);

/*
 * Flags (CHECKPOINT_*) of checkpoints that are asked for and not begun; not of
 * the one under way.  All where that can't be told.
 */
extern int checkpointer_requests(void);

/* Take changed settings over; only that, unlike the next */
extern void checkpointer_obey_reload(void);

/*
 * To be called between steps of a wait of the checkpointer that is not an
 * idle one.  May close any file of the virtual file layer, and may raise errors.
 */
extern void checkpointer_serve_requests(void);

#endif /* PG_CALM_CHECKPOINTER_WAIT_H */
