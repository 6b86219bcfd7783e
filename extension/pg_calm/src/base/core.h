/*-------------------------------------------------------------------------
 *
 * core.h
 *	  What pg_calm publishes for libraries that are loaded beside it.
 *
 * When pg_calm is loaded it sets the rendezvous variable CALM_CORE_NAME
 * (find_rendezvous_variable) to a CalmCore.  Who needs it looks for it when all of
 * shared_preload_libraries are loaded, in whichever order: in the postmaster, in
 * shmem_startup_hook.  What is set there holds for all processes.
 *
 * One of another version must not be used.  A field that goes, or gets another
 * meaning, is a new version.
 *
 * Only pg_calm_share needs it: pg_calm_archive and pg_calm_guard work without pg_calm.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_CORE_H
#define PG_CALM_CORE_H

#define CALM_CORE_NAME "pg_calm"
#define CALM_CORE_VERSION 2

/* Per second; infinity: not capped */
typedef struct CalmRates
{
	double operations; /* of writing */
	double bytes;      /* written */
} CalmRates;

/* A call of the writeback worker, and its answer */
typedef struct CalmShare
{
	uint64 now_ms;      /* monotonic_ms() */
	bool leaves;        /* nothing is to be shared from now on: the worker ends, or rests */
	bool settings_read; /* caps and settings may be others than at the last call */
	bool wants;         /* there is something to flush */
	CalmRates own;      /* caps of this instance */

	CalmRates granted; /* answer: what this instance may write; infinity: what its own caps allow */
	uint32 members;    /* answer: instances on the device, this one included */
	const char *problem; /* answer: why nothing is shared although that is asked for, or NULL */
} CalmShare;

typedef struct CalmCore
{
	uint32 version; /* CALM_CORE_VERSION */

	/*
	 * The device on which other instances may lie, too, and the caps for all of them together:
	 * those asked for, or, where these are infinity, those that are found.  False if the data
	 * directory is on no device.  For any process.
	 */
	bool (*read_shared_caps)(const CalmRates *asked, unsigned int *major, unsigned int *minor,
	                         CalmRates *caps);

	/*
	 * Set by whoever shares the device; NULL: nobody does.  The writeback worker calls it
	 * several times a second, and writes no more than the answer says from then on.  It must
	 * neither wait nor raise errors.
	 */
	void (*share)(CalmShare *share);
} CalmCore;

#endif /* PG_CALM_CORE_H */
