/*-------------------------------------------------------------------------
 *
 * interpose.h
 *	  Replaces functions in the import table of the running executable.
 *
 * - All slots are replaced or none, by the postmaster, before it has children.
 * - What a hook may do beside the call that it replaces is said in io_hooks.c, of each.
 * - ELF is known here only; the hooks (io_hooks.c) lead to all else; none knows who called.
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

/* False if none was replaced; *reason then says why, in static storage.  To be called once */
extern bool interpose_install(const InterposeSlot *slots, int nslots, const char **reason);

/* Likewise: the server's calls */
extern bool io_hooks_install(const char **reason);

#endif /* PG_CALM_INTERPOSE_H */
