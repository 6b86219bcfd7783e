/*-------------------------------------------------------------------------
 *
 * shared.h
 *	  Settings, shared memory, and who can be relied on.
 *
 * - A setting that more than one part reads is declared here; one part's own is
 *   declared there.
 * - Shared memory is laid out once, by the postmaster, and has no pointers.  A
 *   field is an atomic, or belongs to one process, or is under calm_shared->lock;
 *   each says which.
 * - The checkpointer waits for a worker only while worker_is_flushing() says
 *   that it is alive and flushes.  Whoever waits in the checkpointer serves its requests.
 * - What decides anything about pages, WAL or devices is not here, but above.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_SHARED_H
#define PG_CALM_SHARED_H

#include "postgres.h"

#include "device/device.h"
#include "pg_calm.h"

/* worker_health.c */

/* For the writeback worker: it begins, takes a step, does nothing any more */
extern void worker_health_begin(void);
extern void worker_health_beat(uint64 now_ms);
extern void worker_health_end(void);

/* Whether the writeback worker exists and has been heard of lately */
extern bool worker_is_alive(void);

/*
 * Whether what is written is flushed, as opposed to watched: mode on, a device whose cap is known, and
 * no harm found in it
 */
extern bool calm_flushes(void);

/*
 * Whether the worker does it.  Whoever leaves out what stock does, or waits for
 * something, has to ask.
 */
extern bool worker_is_flushing(void);

/* checkpointer_wait.c */

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

/* sharing.c */

/* While the postmaster loads the module */
extern void sharing_publish(void);

/* For the writeback worker */
extern void sharing_configure(const DeviceCaps *own);
extern void sharing_tick(uint64 now_ms, bool wants);
extern void sharing_leave(void);

/* Reduce caps to our share; false if there is nobody to share with: then they need no pacing but by what is in flight */
extern bool sharing_limit(DeviceCaps *caps);

/* Instances on the device, this one included */
extern uint32 sharing_members(void);

/* Why nothing is shared although it is asked for, or NULL */
extern const char *sharing_problem(void);

/* test_settings.c */

extern int calm_flush_age;       /* ms; 0: chosen from the kernel's settings */
extern int calm_unflushed_limit; /* kB; 0: chosen likewise */
extern int calm_drain_threshold; /* pages; -1: chosen from the caps */
extern int calm_worker_timeout;  /* ms: a worker not heard of for so long counts as stuck */

/* At load, by the postmaster */
extern void test_settings_define(void);

#endif /* PG_CALM_SHARED_H */
