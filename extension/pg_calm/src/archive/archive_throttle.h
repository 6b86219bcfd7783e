/*-------------------------------------------------------------------------
 *
 * archive_throttle.h
 *	  Bandwidth that archiving may take, all processes together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_ARCHIVE_THROTTLE_H
#define PG_CALM_ARCHIVE_THROTTLE_H

#include "postgres.h"

#include "archive_copy.h"

extern int calm_archive_bandwidth; /* GUC: kB per second; 0: no limit */

extern Size archive_throttle_size(void);
extern void archive_throttle_start(void);
extern bool archive_throttle(size_t bytes, ArchiveInterrupted interrupted);

#endif /* PG_CALM_ARCHIVE_THROTTLE_H */
