/*-------------------------------------------------------------------------
 *
 * test_settings.c
 *	  Settings that only a server under test has.
 *
 * With PG_CALM_HOST_ROOT in the postmaster's environment, /proc and /sys are read below that
 * directory, "/" being the host's own, and what else is derived from the host and the caps can be
 * set, so that a test neither waits for its time nor races with it. The environment is read once,
 * by the postmaster: no role of the database has a part in it.  The server's log says so at start.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "shared.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define ENVIRONMENT "PG_CALM_HOST_ROOT"

int calm_clean_buffers = 1;
int calm_flush_age = 0;
int calm_unflushed_limit = 0;
int calm_drain_threshold = -1;
int calm_worker_timeout = 2000;

/* At load, by the postmaster */
void
test_settings_define(void)
{
	const struct
	{
		const char *name;
		int *value;
		int least;
		int most;
		int unit;
	} settings[] = {
		{"pg_calm.clean_buffers", &calm_clean_buffers, 0, 1, 0},
		{"pg_calm.flush_age", &calm_flush_age, 0, 3600 * 1000, GUC_UNIT_MS},
		{"pg_calm.unflushed_limit", &calm_unflushed_limit, 0, INT_MAX, GUC_UNIT_KB},
		{"pg_calm.drain_threshold", &calm_drain_threshold, -1, INT_MAX, 0},
		{"pg_calm.worker_timeout", &calm_worker_timeout, 1000, 3600 * 1000, GUC_UNIT_MS},
	};
	const char *root = getenv(ENVIRONMENT);

	if (root == NULL || root[0] == '\0')
		return;
	if (strcmp(root, "/") != 0)
		calm_host_root = MemoryContextStrdup(TopMemoryContext, root);
	for (int i = 0; i < lengthof(settings); i++)
		DefineCustomIntVariable(
			settings[i].name, "For tests of the module.", NULL, settings[i].value,
			*settings[i].value, settings[i].least, settings[i].most, PGC_SIGHUP,
			settings[i].unit | GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	ereport(LOG, (errmsg("pg_calm: under test: %s is \"%s\"", ENVIRONMENT, root)));
}
