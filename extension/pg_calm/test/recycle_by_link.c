/*-------------------------------------------------------------------------
 *
 * recycle_by_link.c
 *	  For a test: recycle a WAL segment as servers before 15.11 do.
 *
 * By the server's own function, which later versions of 15 have but do not use
 * for that: fsync, link, unlink, fsync.  It is not there since 16.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>

#include "fmgr.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(recycle_by_link);

Datum
recycle_by_link(PG_FUNCTION_ARGS)
{
	int (*rename_excl)(const char *old_path, const char *new_path, int elevel);

	rename_excl =
		(int (*)(const char *, const char *, int)) dlsym(RTLD_DEFAULT, "durable_rename_excl");
	if (rename_excl == NULL)
		elog(ERROR, "the server has no durable_rename_excl");
	PG_RETURN_BOOL(rename_excl(text_to_cstring(PG_GETARG_TEXT_PP(0)),
	                           text_to_cstring(PG_GETARG_TEXT_PP(1)), LOG) == 0);
}
