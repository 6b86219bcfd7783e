/*-------------------------------------------------------------------------
 *
 * writeback.h
 *	  Flushing: which pages go along, which are left, in which order.
 *
 * Used by the worker, by the checkpointer before an fsync, and by backends that write.
 *
 * - Nothing is flushed of a page whose mark was not taken first, and nothing
 *   promises durability: writeback is started, errors go to errors/.
 * - What is bridged is clean and in the page cache, as far as the kernel tells; a page is
 *   marked, read or written by the server's functions only (the cleaner).
 * - Whatever looks at the page cache leaves what is evicted next as it was.
 * - Settings and caps come in as a FlushPolicy: nothing here asks
 *   whose turn it is.  That is the worker's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_WRITEBACK_H
#define PG_CALM_WRITEBACK_H

#include "bridge.h"
#include "cachestat.h"
#include "cleaner.h"
#include "controller.h"
#include "flush.h"
#include "flush_region.h"
#include "latency_probe.h"
#include "open_files.h"
#include "pool.h"

#endif /* PG_CALM_WRITEBACK_H */
