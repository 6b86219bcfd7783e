/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The background worker that writes marked pages back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WORKER_H
#define PG_CALM_WORKER_H

#include "postgres.h"

extern void writeback_register_worker(void);
extern PGDLLEXPORT void pg_calm_writeback_main(Datum argument);

#endif /* PG_CALM_WORKER_H */
