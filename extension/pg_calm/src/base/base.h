/*-------------------------------------------------------------------------
 *
 * base.h
 *	  What every part may use: the server's versions, clocks, and what is published
 *	  for libraries beside pg_calm.
 *
 * Knows nothing of the module.  Differences between server versions are in
 * compat.h and nowhere else.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_BASE_H
#define PG_CALM_BASE_H

#include "clock.h"
#include "compat.h"
#include "core.h"

#endif /* PG_CALM_BASE_H */
