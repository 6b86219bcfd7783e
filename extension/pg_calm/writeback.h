/*-------------------------------------------------------------------------
 *
 * writeback.h
 *	  The background worker that writes marked pages back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WRITEBACK_H
#define PG_CALM_WRITEBACK_H

#include "postgres.h"

extern void writeback_register_worker(void);
extern PGDLLEXPORT void pg_calm_writeback_main(Datum argument);

#endif /* PG_CALM_WRITEBACK_H */
