/*-------------------------------------------------------------------------
 *
 * cleaner.h
 *	  Writes dirty shared buffers of regions that are about to be flushed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CLEANER_H
#define PG_CALM_CLEANER_H

#include "postgres.h"

#include "shared/shared.h"

/* GUC: whether buffers are cleaned */
extern bool calm_clean_buffers;

extern void cleaner_register(void);
extern void cleaner_init_shared(CleanerShared *shared);

/*
 * For the writeback worker.  Asks for a region to be cleaned: false if that is not
 * to be had now, for there is no cleaner or too much is asked for.  Whoever asks
 * has to fetch it.
 */
extern bool cleaner_ask(uint32 file, uint32 incarnation, uint32 number);

/* Whether another region may be asked for; and whether there is one that has not been fetched */
extern bool cleaner_is_free(void);
extern bool cleaner_is_asked(void);

/* Whether this one has been asked for */
extern bool cleaner_has(uint32 file, uint32 number);

/* A region that is clean, or has waited long enough; false if there is none */
extern bool cleaner_fetch(uint32 *file, uint32 *incarnation, uint32 *number);

/* When the worker begins: nobody will fetch what was asked for before */
extern void cleaner_forget(void);

#endif /* PG_CALM_CLEANER_H */
