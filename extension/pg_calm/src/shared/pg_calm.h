/*-------------------------------------------------------------------------
 *
 * pg_calm.h
 *	  Settings and shared memory of the module.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_H
#define PG_CALM_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "device/device.h"
#include "errors/errors.h"
#include "map/map.h"
#include "storage/spin.h"

typedef enum CalmMode
{
	CALM_MODE_OFF,    /* the server behaves as without the module */
	CALM_MODE_SHADOW, /* pages are tracked, nothing is flushed */
	CALM_MODE_ON,
} CalmMode;

/*
 * Counters since the server was started.  In shadow mode those of flushing
 * tell what would have been done.  Nothing but pg_atomic_uint64: pg_calm.c.
 */
typedef struct CalmCounters
{
	pg_atomic_uint64 flushed_pages;        /* dirty pages written back by us */
	pg_atomic_uint64 fsynced_pages;        /* dirty pages left to PostgreSQL's fsync */
	pg_atomic_uint64 kernel_flushed_pages; /* found clean: the kernel was first */
	pg_atomic_uint64 bridged_pages;        /* clean pages written along */
	pg_atomic_uint64 unbridged_pages;      /* and those that could not be: bridge.c */
	pg_atomic_uint64 device_operations;    /* as the device counts them */
	pg_atomic_uint64 written_bytes;        /* bridged pages included */
	pg_atomic_uint64 suppressed_hints;     /* flush hints of the server dropped */
	pg_atomic_uint64 latency_probes;  /* blocks read for the block layer to see how long it takes */
	pg_atomic_uint64 cleaned_buffers; /* written by the cleaner, before backends have to */
	pg_atomic_uint64 wal_flushes;     /* by fdatasync or fsync */
	pg_atomic_uint64 wal_flush_us;    /* how long these took */
	pg_atomic_uint64 target_operations;  /* targets.c: of buffers written */
	pg_atomic_uint64 target_checkpoints; /* ... that were requested */
} CalmCounters;

/* CalmShared.draining: what the checkpointer waits for */
#define CALM_DRAINING_NOTHING 0
#define CALM_DRAINING_FILE 1 /* and above: a file, whose index in the page map is added */

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

typedef struct CalmShared
{
	ErrorLatch error_latch;
	CalmCounters counters;
	pg_atomic_uint64 in_flight_pages; /* taken from the map, not confirmed */
	pg_atomic_uint32 worker_pid;      /* 0: no worker, or it flushes nothing */
	pg_atomic_uint64 worker_beat_ms;  /* when it was heard of last: worker_health.c */
	pg_atomic_uint32 capped;          /* a cap of the data directory's device is known */
	pg_atomic_uint32 primary_images;  /* in recovery: WAL has full-page images of all pages */
	pg_atomic_uint32 let_go;          /* the circuit breaker has found that flushing does harm */
	/*
	 * From how many unflushed pages a checkpoint's own writes are held, and with how many
	 * most (worker.c); the latter is 0 where they are not held
	 */
	pg_atomic_uint64 hold_from_pages;
	pg_atomic_uint64 hold_most_pages;
	pg_atomic_uint64 stop_target_pages; /* unflushed pages up to which the cleaner adds to them */
	pg_atomic_uint32 other_devices;     /* files on others were written to */
	pg_atomic_uint32 draining;          /* what the checkpointer waits for, as above */
	pg_atomic_uint64 drain_before_ms;   /* ... until it is flushed that was marked by then */
	uint64 device; /* st_dev of data files there; files on others are not tracked; 0: none is */
	CleanerShared cleaner;
	slock_t lock; /* protects what follows */
	DeviceCaps caps;
	uint32 max_gap;            /* gaps bridged at present, in blocks */
	double granted_operations; /* per second: caps.write_iops or our share of a shared device */
	double flush_rate;         /* unflushed pages that the device takes per second, scattered as
	                              they are; infinity: not known; only the worker sets it, and
	                              reads it without the lock */
	double replay_rate;        /* bytes of WAL per second in crash recovery; 0: there was none */
	bool caps_known;
	char degraded[512]; /* all that the worker does less than mode says, and why; or "" */
} CalmShared;

/* GUCs */
extern int calm_mode;
extern int calm_page_map_memory; /* kB */
extern int calm_drain_timeout;   /* ms; 0: no drain; -1: what a checkpoint's writing leaves */
extern bool calm_bridge;

/* Shared memory; NULL before it exists */
extern CalmShared *calm_shared;
extern PageMap *calm_page_map;

/* Name of a CalmMode, as in the setting */
extern const char *calm_mode_name(int mode);

/* Why the server runs as stock although the module is loaded, or NULL */
extern const char *calm_interpose_failure;

#endif /* PG_CALM_H */
