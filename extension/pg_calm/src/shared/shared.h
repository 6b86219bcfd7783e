/*-------------------------------------------------------------------------
 *
 * shared.h
 *	  Settings, shared memory, and who can be relied on.
 *
 * - A setting that more than one part reads is declared here; one part's own is
 *   declared there.
 * - Shared memory is laid out once, by the postmaster, and has no pointers.  A
 *   field is an atomic, or belongs to one process, or is under calm_shared->lock.
 * - The checkpointer waits for a worker only while worker_is_flushing() says
 *   that it is alive and flushes.  Whoever waits in the checkpointer serves its requests.
 * - What decides anything about pages, WAL or devices is not here, but above.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_SHARED_H
#define PG_CALM_SHARED_H

#include "device/device.h"
#include "errors/errors.h"
#include "map/map.h"
#include "postmaster/bgworker.h"

typedef enum CalmMode
{
	CALM_MODE_OFF,    /* the server behaves as without the module */
	CALM_MODE_SHADOW, /* pages are tracked, nothing is flushed */
	CALM_MODE_ON,
} CalmMode;

/*
 * Counters since the server was started, as pg_calm_status documents them.  In shadow mode
 * those of flushing tell what would have been done.
 */
typedef struct CalmCounters
{
	pg_atomic_uint64 flushed_pages;
	pg_atomic_uint64 fsynced_pages;
	pg_atomic_uint64 kernel_flushed_pages;
	pg_atomic_uint64 bridged_pages;
	pg_atomic_uint64 unbridged_pages;
	pg_atomic_uint64 device_operations;
	pg_atomic_uint64 written_bytes;
	pg_atomic_uint64 suppressed_hints;
	pg_atomic_uint64 latency_probes;
	pg_atomic_uint64 cleaned_buffers;
	pg_atomic_uint64 wal_flushes;
	pg_atomic_uint64 wal_flush_us;
	pg_atomic_uint64 target_operations;  /* of buffers written for pg_calm.stop_target */
	pg_atomic_uint64 target_checkpoints; /* requested for pg_calm.recovery_target */
} CalmCounters;

/* Regions that the cleaner may be asked for at a time: one that is flushed next, and one that is cleaned meanwhile */
#define CLEANER_REGIONS 2

typedef struct CleanerRegion
{
	pg_atomic_uint32 state; /* of cleaner.c */
	uint32 file;            /* in the page map */
	uint32 incarnation;
	uint32 number;
	uint64 since_ms; /* when it was asked for */
} CleanerRegion;

typedef struct CleanerShared
{
	pg_atomic_uint32 pid;     /* 0: there is none */
	pg_atomic_uint64 beat_ms; /* when it was heard of last */
	CleanerRegion region[CLEANER_REGIONS];
} CleanerShared;

/* What the worker has found last */
typedef struct CalmFigures
{
	DeviceCaps caps;    /* source is empty until they are known */
	uint32 max_gap;     /* gaps bridged at present, in blocks */
	double given;       /* part of caps that the device gives */
	CalmRates granted;  /* per second, to the worker: what others leave of caps */
	double flush_rate;  /* unflushed pages that the device takes per second, scattered as
	                              they are; infinity: not known */
	double replay_rate; /* bytes of WAL per second in crash recovery; 0: there was none */
	char degraded[512]; /* all that the worker does less than mode says, and why; or "" */
} CalmFigures;

typedef struct CalmShared
{
	ErrorLatch error_latch;
	CalmCounters counters;
	pg_atomic_uint64 in_flight_pages; /* taken from the map, not confirmed */
	pg_atomic_uint32 worker_pid;      /* 0: no worker, or it flushes nothing */
	pg_atomic_uint64 worker_beat_ms;  /* when it was heard of last: worker_health.c */
	pg_atomic_uint32 capped;          /* a cap of the data directory's device is known */
	pg_atomic_uint32 images;       /* WAL has full-page images of all pages, since its redo point */
	pg_atomic_uint64 no_images_at; /* position at which it had none last; 0: never seen */
	pg_atomic_uint32 let_go;       /* the circuit breaker has found that flushing does harm */
	pg_atomic_uint64 hold_from_pages;   /* unflushed, beyond which a checkpoint's writes are held */
	pg_atomic_uint64 hold_most_pages;   /* ... at which they are most; 0: they are not held */
	pg_atomic_uint64 stop_target_pages; /* unflushed pages up to which the cleaner adds to them */
	pg_atomic_uint32 other_devices;     /* files on others were written to */
	pg_atomic_uint32 draining;          /* file that the checkpointer waits for, or PAGE_MAP_END */
	pg_atomic_uint64 drain_before_ms;   /* ... until it is flushed that was marked by then */
	uint32 drain_wait_event; /* ... shown as; the worker asks for it: it may be refused (17+) */
	uint64 device; /* st_dev of data files there; files on others are not tracked; 0: none is */
	CleanerShared cleaner;
	slock_t lock; /* protects what follows */
	CalmFigures figures;
} CalmShared;

/* Milliseconds between looks of the worker at the host and the map */
#define CALM_LOOK_MS 250

/* pg_calm.c */

/* GUCs */
extern int calm_mode;
extern int calm_drain_timeout; /* ms; 0: no drain; -1: what a checkpoint's writing leaves */
extern bool calm_bridge;

/* Shared memory; NULL before it exists */
extern CalmShared *calm_shared;
extern PageMap *calm_page_map;

/* Why the server runs as stock although the module is loaded, or NULL */
extern const char *calm_interpose_failure;

/* worker_health.c */

extern void
background_register(const char *name, const char *function, int flags, BgWorkerStartTime start);
extern void background_begin(void);
extern CalmFigures calm_figures(void);
extern bool background_turn(void);
extern bool worker_is_alive(void);
extern bool calm_flushes(void);
extern bool worker_is_flushing(void);

/* checkpointer_wait.c */

extern void checkpointer_wait_shmem_startup(void);
extern int checkpointer_requests(void);
extern void checkpointer_obey_reload(void);
extern void checkpointer_serve_requests(void);

/* sharing.c */

/* The worker's: what was heard last of instances on the device, and of what we may write */
extern CalmShare sharing;

extern void sharing_publish(void);
extern void sharing_configure(const DeviceCaps *own);
extern void sharing_tick(uint64 now_ms, bool wants);
extern void sharing_leave(void);

/* test_settings.c */

extern int calm_clean_buffers;   /* 0: none */
extern int calm_flush_age;       /* ms; 0: chosen from the kernel's settings */
extern int calm_unflushed_limit; /* kB; 0: chosen likewise */
extern int calm_drain_threshold; /* pages; -1: chosen from the caps */
extern int calm_worker_timeout;  /* ms: a worker not heard of for so long counts as stuck */

extern void test_settings_define(void);

#endif /* PG_CALM_SHARED_H */
