/*-------------------------------------------------------------------------
 *
 * errors.h
 *	  A write error of the kernel that the module met reaches the server.
 *
 * - An error that one of our calls returned, or can have taken, makes
 *   the next fsync of the server fail with it: none is lost, none is told twice.
 * - Nothing here clears an error but the server's own failure on it.
 * - No process has to be alive for that: what is latched is in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ERRORS_H
#define PG_CALM_ERRORS_H

#include "port/atomics.h"

/*
 * Invariant: a call that may consume a writeback error is bracketed by error_latch_begin and
 * error_latch_end, and the error, if any, is in the latch before error_latch_end returns.  One
 * process makes such calls, one at a time. All zeros: there was none yet.
 */
typedef struct ErrorLatch
{
	pg_atomic_uint64 device; /* st_dev and st_ino of the file of the call begun last */
	pg_atomic_uint64 inode;
	pg_atomic_uint32 pid;    /* who made it */
	pg_atomic_uint32 begun;  /* calls that may consume an error: started */
	pg_atomic_uint32 ended;  /* ... and their outcome recorded */
	pg_atomic_uint32 error;  /* errno of the first error seen; never reset */
	pg_atomic_uint64 errors; /* errors seen, as pg_calm_status says */
} ErrorLatch;

extern void error_latch_begin(ErrorLatch *latch, uint64 device, uint64 inode);
extern void error_latch_end(ErrorLatch *latch, int error);
extern int error_latch_check(ErrorLatch *latch, uint64 device, uint64 inode, int timeout_ms);

#endif /* PG_CALM_ERRORS_H */
