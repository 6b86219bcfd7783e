/*-------------------------------------------------------------------------
 *
 * commit_delay.h
 *	  Fuller flushes of WAL: commits wait for those that follow.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_COMMIT_DELAY_H
#define PG_CALM_COMMIT_DELAY_H

#include "postgres.h"

/* Whether flushes by fdatasync are seen: its call could be replaced */
extern bool commit_delay_sees_fdatasync;

extern void commit_delay_define_settings(void);
extern void commit_delay_request_shared_memory(void);
extern void commit_delay_start_shared_memory(void);
extern void commit_delay_install(void);

/* Around the server's flush of WAL; they leave errno alone */
extern void commit_delay_flush_begins(void);
extern void commit_delay_flush_ended(void);

/*
 * Flushes of WAL since the server started, and the microseconds that they took;
 * false where they are not seen
 */
extern bool commit_delay_flush_counters(uint64 *flushes, uint64 *flush_us);

/* For the governor's worker, which waits for nothing: milliseconds until it is to be called again */
extern uint64 commit_delay_tick(uint64 now_ms);

#endif /* PG_CALM_COMMIT_DELAY_H */
