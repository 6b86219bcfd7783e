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

#include "port/atomics.h"

/* Regions that may be asked for at a time: one that is flushed next, and one that is cleaned meanwhile */
#define CLEANER_REGIONS 2

typedef struct CleanerRegion
{
	pg_atomic_uint32 state; /* of cleaner.c */
	uint32 file;            /* in the page map */
	uint32 incarnation;
	uint32 number;
	uint64 since_ms; /* when it was asked for */
} CleanerRegion;

typedef struct CleanerShared
{
	pg_atomic_uint32 pid;     /* 0: there is none */
	pg_atomic_uint64 beat_ms; /* when it was heard of last */
	CleanerRegion region[CLEANER_REGIONS];
} CleanerShared;

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
