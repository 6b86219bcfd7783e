/*-------------------------------------------------------------------------
 *
 * base.h
 *	  What every part may use: the server's versions, clocks, histograms, and
 *	  what is published for libraries beside pg_calm.
 *
 * Knows nothing of the module.  Differences between server versions are in
 * compat.h and nowhere else.  A histogram is added to without a lock, by
 * any process, and read while that goes on: its figures need not be of one
 * moment.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_BASE_H
#define PG_CALM_BASE_H

#include "clock.h"
#include "clock.h"
#include "compat.h"
#include "core.h"
#include "histogram.h"

#endif /* PG_CALM_BASE_H */
