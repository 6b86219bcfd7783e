/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between the server versions that pg_calm supports.
 *
 * Supported: PostgreSQL 15 to 18.  Nothing outside this file tests
 * PG_VERSION_NUM.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_COMPAT_H
#define PG_CALM_COMPAT_H

#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "pg_calm needs PostgreSQL 15 or later"
#endif

/*
 * Wait event under which the writeback worker idles.  Extensions can name
 * their own since 17; before, all share "Extension".
 */
#if PG_VERSION_NUM >= 170000
#define CALM_WAIT_EVENT(name) WaitEventExtensionNew(name)
#else
#define CALM_WAIT_EVENT(name) PG_WAIT_EXTENSION
#endif

/*
 * debug_io_direct (16+) may keep data files out of the page cache; a page
 * that we re-dirty there could overwrite newer data.
 */
#if PG_VERSION_NUM >= 160000
#define CALM_IO_DIRECT_DATA() ((io_direct_flags & IO_DIRECT_DATA) != 0)
#else
#define CALM_IO_DIRECT_DATA() false
#endif

/* pg_noreturn stands before the declaration; it replaced the attribute in 18 */
#if PG_VERSION_NUM >= 180000
#define CALM_NORETURN pg_noreturn
#else
#define CALM_NORETURN pg_attribute_noreturn()
#endif

/*
 * Whether the checkpointer has been asked to shut down.  Since 18 it keeps
 * that to itself (postmaster/checkpointer.c, ShutdownXLOGPending).
 */
#if PG_VERSION_NUM >= 180000
#define CALM_CHECKPOINTER_SHUTDOWN_PENDING() false
#else
#define CALM_CHECKPOINTER_SHUTDOWN_PENDING() (ShutdownRequestPending != 0)
#endif

/*
 * Whether the checkpoint that the checkpointer is starting has no other cause
 * than the time that went by; to be asked before it reports its statistics.
 * pg_stat_checkpointer, with its own names, came in 17.
 */
#if PG_VERSION_NUM >= 170000
#define CALM_CHECKPOINT_IS_TIMED()                                                                 \
	(PendingCheckpointerStats.num_timed > 0 || PendingCheckpointerStats.restartpoints_timed > 0)
#else
#define CALM_CHECKPOINT_IS_TIMED() (PendingCheckpointerStats.timed_checkpoints > 0)
#endif

/* Number of process types, B_INVALID included; the server's own name came in 16 */
#if PG_VERSION_NUM < 160000
#define BACKEND_NUM_TYPES (B_LOGGER + 1)
#endif

/* Full-page images that the server has reported */
#if PG_VERSION_NUM >= 180000
#define CALM_WAL_FULL_PAGE_IMAGES() (pgstat_fetch_stat_wal()->wal_counters.wal_fpi)
#else
#define CALM_WAL_FULL_PAGE_IMAGES() (pgstat_fetch_stat_wal()->wal_fpi)
#endif

#endif /* PG_CALM_COMPAT_H */
