/*-------------------------------------------------------------------------
 *
 * errors.h
 *	  A write error of the kernel that the module met reaches the server.
 *
 * The kernel reports a writeback error to each open file description once, to
 * whoever asks first (errseq_check_and_advance, lib/errseq.c).  The module
 * asks for writeback, too, so it can be the first.
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

#include "error_latch.h"

#endif /* PG_CALM_ERRORS_H */
