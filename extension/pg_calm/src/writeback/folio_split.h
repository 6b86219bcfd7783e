/*-------------------------------------------------------------------------
 *
 * folio_split.h
 *	  Splits large folios of the page cache, so that a written block counts as one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_FOLIO_SPLIT_H
#define PG_CALM_FOLIO_SPLIT_H

#include "postgres.h"

extern void folio_split(int fd, off_t offset, size_t length);
extern void folio_split_file(int fd);
extern bool folio_split_is_on(void);
extern void folio_split_patrol(uint64 now_ms);
extern uint64 folio_split_next_ms(void);
extern void folio_split_pause(void);

#endif /* PG_CALM_FOLIO_SPLIT_H */
