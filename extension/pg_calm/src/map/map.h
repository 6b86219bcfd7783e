/*-------------------------------------------------------------------------
 *
 * map.h
 *	  What is written and not flushed, and whose blocks those are.
 *
 * page_map.h has the invariants in full.  In short:
 *
 * - The map is advice.  It decides what is flushed early, never what is durable: a
 *   bit too few or too many costs speed, not data.
 * - A bit is set after the write, and cleared before its writeback begins.
 * - Marking takes no lock, and nothing walks all files that needs only
 *   those with marks.
 * - It knows nothing of devices, settings or the server but its atomics and spinlocks,
 *   so that its tests run it in threads.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_MAP_H
#define PG_CALM_MAP_H

#include "page_map.h"
#include "relation_file.h"

#endif /* PG_CALM_MAP_H */
