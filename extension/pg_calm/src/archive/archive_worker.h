/*-------------------------------------------------------------------------
 *
 * archive_worker.h
 *	  Background workers that copy WAL files ahead of the archiver.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ARCHIVE_WORKER_H
#define PG_CALM_ARCHIVE_WORKER_H

#include "postgres.h"

/* While the postmaster loads the module: have them started, if archiving is set up */
extern void archive_worker_register(void);

#endif /* PG_CALM_ARCHIVE_WORKER_H */
