/*-------------------------------------------------------------------------
 *
 * interpose.h
 *	  Replaces functions in the import table of the running executable.
 *
 * - All slots are replaced or none, by the postmaster, before it has children.
 * - What a hook may do beside the call that it replaces is said in io_hooks.c, of each.
 * - ELF is known here only; the hooks (io_hooks.c) lead to all other parts, and none of
 *   them knows who called.
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

/*
 * Whether the dynamic linker has made a page read-only, for data from low to high
 * that is read-only after relocation.  The first page is so as a whole, and one in which
 * that data ends is not at all (glibc's elf/dl-reloc.c, _dl_protect_relro).
 */
extern bool
interpose_relro_covers(uintptr_t low, uintptr_t high, uintptr_t page, uintptr_t page_size);

/* Replace the calls; false, with a reason, if the server keeps its own */
extern bool io_hooks_install(const char **reason);

#endif /* PG_CALM_INTERPOSE_H */
