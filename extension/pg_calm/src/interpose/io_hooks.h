/*-------------------------------------------------------------------------
 *
 * io_hooks.h
 *	  The calls of the server that pg_calm replaces.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_IO_HOOKS_H
#define PG_CALM_IO_HOOKS_H

/* Replace the calls; false, with a reason, if the server keeps its own */
extern bool io_hooks_install(const char **reason);

#endif /* PG_CALM_IO_HOOKS_H */
