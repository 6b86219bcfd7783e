/*-------------------------------------------------------------------------
 *
 * stop_estimate.h
 *	  How long a fast stop, and recovery after a crash, would take now.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_STOP_ESTIMATE_H
#define PG_CALM_STOP_ESTIMATE_H

#include "postgres.h"

/* Seconds; NAN: not known */
extern double stop_estimate_seconds(uint64 *dirty_buffers);
extern double recovery_estimate_seconds(void);

#endif /* PG_CALM_STOP_ESTIMATE_H */
