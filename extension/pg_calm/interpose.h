/*-------------------------------------------------------------------------
 *
 * interpose.h
 *	  Replaces functions in the import table of the running executable.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_INTERPOSE_H
#define PG_CALM_INTERPOSE_H

typedef struct InterposeSlot
{
	const char *symbol; /* name of the imported function */
	void *replacement;  /* what the executable shall call instead */
	void **original;    /* set to what it called before */
	bool required;      /* without it, nothing is replaced */
} InterposeSlot;

/*
 * Replace all slots or none.  False if none was replaced; *reason then says
 * why, in static storage.  To be called once, by the postmaster, before it
 * has children.
 */
extern bool interpose_install(const InterposeSlot *slots, int nslots, const char **reason);

#endif /* PG_CALM_INTERPOSE_H */
