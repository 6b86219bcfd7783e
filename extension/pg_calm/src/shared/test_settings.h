/*-------------------------------------------------------------------------
 *
 * test_settings.h
 *	  Settings that only a server under test has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_TEST_SETTINGS_H
#define PG_CALM_TEST_SETTINGS_H

extern int calm_flush_age;       /* ms; 0: chosen from the kernel's settings */
extern int calm_unflushed_limit; /* kB; 0: chosen likewise */
extern int calm_drain_threshold; /* pages; -1: chosen from the caps */
extern int calm_worker_timeout;  /* ms: a worker not heard of for so long counts as stuck */

/* At load, by the postmaster */
extern void test_settings_define(void);

#endif /* PG_CALM_TEST_SETTINGS_H */
