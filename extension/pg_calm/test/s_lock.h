/*-------------------------------------------------------------------------
 *
 * s_lock.h
 *	  What spin.h calls when a spinlock is held, for programs without a server.
 *
 * The server's own (storage/lmgr/s_lock.c) sleeps, and panics if it takes too
 * long; it is in no library that a program could be linked with.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_TEST_S_LOCK_H
#define PG_CALM_TEST_S_LOCK_H

#include "postgres.h"

#include <sched.h>

#include "storage/s_lock.h"

int
s_lock(volatile slock_t *lock, const char *file, int line, const char *func)
{
	(void) file;
	(void) line;
	(void) func;
	while (TAS(lock))
		sched_yield();
	return 0;
}

#endif /* PG_CALM_TEST_S_LOCK_H */
