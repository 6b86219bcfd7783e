/*
 * noop_archive.c
 *	  An archive module that copies nothing and says that it has: what is left
 *	  is the cost of acknowledging, the archiver's and the server's own.
 *
 * For measurements only: WAL is lost with it.
 */
#include "postgres.h"

#if PG_VERSION_NUM >= 160000
#include "archive/archive_module.h"
#else
#include "postmaster/pgarch.h"
#endif
#include "fmgr.h"

PG_MODULE_MAGIC;

#if PG_VERSION_NUM >= 160000
static bool
noop_archive_file(ArchiveModuleState *state, const char *file, const char *path)
{
	return true;
}

static const ArchiveModuleCallbacks noop_callbacks = {.archive_file_cb = noop_archive_file};

const ArchiveModuleCallbacks *
_PG_archive_module_init(void)
{
	return &noop_callbacks;
}
#else
static bool
noop_archive_file(const char *file, const char *path)
{
	return true;
}

extern void _PG_archive_module_init(ArchiveModuleCallbacks *callbacks);

void
_PG_archive_module_init(ArchiveModuleCallbacks *callbacks)
{
	callbacks->archive_file_cb = noop_archive_file;
}
#endif
