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

#include "port/pg_bitutils.h"
#include "shared/shared.h"

/* bridge.c */

/* A stretch of blocks of a region that is to be written in one go */
typedef struct BridgeRun
{
	uint32 first; /* block within the region */
	uint32 blocks;
} BridgeRun;

/* A region can't have more runs than every other block */
#define BRIDGE_MAX_RUNS (PAGE_MAP_REGION_BLOCKS / 2)

/* Longest gap that is ever considered, in blocks */
#define BRIDGE_MAX_GAP 512

/* What came of a run's gaps, in blocks */
typedef struct BridgeFilled
{
	uint32 filled;    /* dirty now */
	uint32 left;      /* clean as before: the run is written in pieces */
	uint32 breaks;    /* gaps that these are in */
	uint32 amplified; /* gaps with which more became dirty than they have */
} BridgeFilled;

extern const char *bridge_refusal(void);
extern void bridge_look_at(int fd);
extern int
bridge_plan(const PageMapBits *dirty, const PageMapBits *allowed, uint32 max_gap, BridgeRun *runs);
extern void
bridge_allowed(int fd, off_t offset, size_t length, const PageMapBits *dirty, PageMapBits *allowed);
extern void bridge_fill(int fd, off_t region, const PageMapBits *dirty, const BridgeRun *run,
                        BridgeFilled *filled);

static inline bool
bits_test(const PageMapBits *bits, uint32 block)
{
	return (bits->word[block / 64] >> (block % 64)) & 1;
}

static inline void
bits_set(PageMapBits *bits, uint32 block)
{
	bits->word[block / 64] |= UINT64CONST(1) << (block % 64);
}

static inline void
bits_clear(PageMapBits *bits, uint32 block)
{
	bits->word[block / 64] &= ~(UINT64CONST(1) << (block % 64));
}

static inline uint32
bits_count(const PageMapBits *bits)
{
	uint32 count = 0;

	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		count += pg_popcount64(bits->word[i]);
	return count;
}

/* buffer_cleaning.c */

extern uint32 buffer_cleaning_write(const RelationFile *file, uint32 first, uint32 count);

/* cachestat.c */

/* Linux 6.5, include/uapi/linux/mman.h; not in the headers of Debian 12 */
struct calm_cachestat
{
	uint64 nr_cache;
	uint64 nr_dirty;
	uint64 nr_writeback;
	uint64 nr_evicted;
	uint64 nr_recently_evicted;
};

extern bool cachestat_works(void);
extern int cachestat_call(int fd, off_t offset, off_t length, struct calm_cachestat *result);
extern uint32 cachestat_dirty_blocks(const struct calm_cachestat *state);

/* cleaner.c */

extern bool cleaner_ask(uint32 file, uint32 incarnation, uint32 number);
extern bool cleaner_is_free(void);
extern bool cleaner_is_asked(void);
extern bool cleaner_fetch(uint32 *file, uint32 *incarnation, uint32 *number);
extern void cleaner_forget(void);

/* controller.c */

/* What is known, four times a second.  Rates are per second, sizes in bytes. */
typedef struct ControllerInput
{
	uint64 now_ms;
	DeviceCaps caps;       /* of the device, or our share of it */
	KernelFlusher flusher; /* what the device has done, and how near the kernel is to flushing */
	uint64 own_operations; /* started by the worker, since ever */
	uint64 own_bytes;      /* in these */
	uint64 wal_flushes;    /* of all processes, since ever */
	uint64 wal_flush_us;   /* that they took */
	uint64 unflushed;      /* marked pages */
	double flush_rate;     /* at which the device takes them, scattered as they are;
	                             INFINITY: not known */
	bool hurries;          /* WAL waits for this checkpoint to end, or the flusher would be worse */
} ControllerInput;

/* What follows from it */
typedef struct ControllerOutput
{
	DeviceCaps share; /* rates that the worker keeps to */
	double given;     /* part of the limits that the device gives: 1, or less than it was told to */
	bool paced;       /* ... because others draw on the same budget */
	uint64 limit;     /* bytes that may wait; more is flushed whatever its age */
	uint64 full;      /* with which it can't go on */
	bool too_much;    /* more than the limit waits */
	uint64 written;   /* bytes of what is marked that the kernel has written already, at least */
	uint32 gap;       /* longest gap between dirty pages to fill, in blocks */
	double all_operations; /* per second that the device makes */
	double reads;          /* of these */
	double other_writes;   /* of these that the worker does not make, flushes of WAL included */
	double all_bytes;      /* per second */
} ControllerOutput;

extern void controller_follow(const ControllerInput *input, ControllerOutput *output);

/* flush.c */

/* What may be in flight, and how dense writes are made; set by the worker */
typedef struct FlushPolicy
{
	DeviceCaps caps;
	uint32 max_gap;        /* longest gap to bridge, in blocks */
	double in_flight;      /* seconds of device time that may be in flight, but one run at least */
	uint64 max_bytes;      /* that is so many bytes */
	uint32 max_operations; /* likewise */
	bool paced;            /* keep to the rates of caps, as a share of a device */
	bool dry_run;          /* count what would be done */
	bool cleans;           /* dirty buffers are written along, where operations are short */
	bool bridges;          /* gaps may be bridged; and nothing is started: worker/breaker.c */
	bool rests;
} FlushPolicy;

extern FlushPolicy flush_policy;

/* What has been started since the worker began */
typedef struct FlushStarted
{
	uint64 operations;
	uint64 bytes;
	uint64 found_written; /* pages that somebody had written when their turn came */
} FlushStarted;

extern FlushStarted flush_started;

/* Why nothing can be flushed on this kernel, or NULL */
extern const char *flush_refused;

extern bool flush_start_region(uint32 file, uint32 incarnation, uint32 number);
extern bool flush_busy(void);
extern bool flush_advance(void);
extern bool flush_in_flight(void);
extern uint64 flush_pause_ms(void);
extern void flush_file_before_fsync(int fd, uint32 file);

/* latency_probe.c */

extern void latency_probe_tick(bool full, uint64 now_ms);

/* open_files.c */

typedef struct OpenFile
{
	int fd;
	uint32 file;
	uint32 incarnation;
	uint64 device; /* st_dev and st_ino */
	uint64 inode;
	int references;   /* runs in flight, region worked on */
	uint64 opened_ms; /* 0: unused */
} OpenFile;

extern OpenFile *open_files_get(uint32 file, uint32 incarnation);
extern bool open_files_free(void);
extern void open_files_close_idle(void);

/* pool.c */

/* What is due */
typedef struct PoolDue
{
	bool all;         /* whatever its age: too much waits */
	uint64 older_ms;  /* how long a page may wait */
	uint32 drained;   /* file that the checkpointer waits for, or PAGE_MAP_END */
	uint64 before_ms; /* ... until all of it is flushed that was marked by then */
} PoolDue;

extern double pool_look(const PoolDue *due);
extern bool pool_start_next(const PoolDue *due, uint64 now_ms);
extern bool pool_is_done(void);

/* stop_estimate.c */

/* What a fast stop would have to write now, and how long it would take */
typedef struct StopEstimate
{
	double seconds; /* NAN: not known */
	double pages;
	uint64 dirty_buffers; /* of these */
	bool counted;         /* just now */
} StopEstimate;

extern void stop_estimate(StopEstimate *stop);

/*
 * Neighbouring blocks that the last count of this process has found dirty; each once, after those
 * that were handed out last.  False if there are no more.
 */
extern bool stop_estimate_next_run(RelationFile *file, uint32 *first, uint32 *blocks);

/* Seconds that recovery after a crash would take now, by bytes of WAL replayed per second; NAN: not known */
extern double recovery_estimate_seconds(const StopEstimate *stop, double replay_rate);

/* targets.c */

/* GUCs: seconds; 0: no target */
extern int calm_stop_target;
extern int calm_recovery_target;

/* For the cleaner, as often as it likes.  Whether there is more to do at once */
extern bool targets_tick(uint64 now_ms);

/* For the worker, at each look, about what has come of the controller */
extern void targets_limit_pool(uint64 unflushed, const DeviceCaps *caps, ControllerOutput *control);

/* Bytes of WAL per second by which pg_calm.recovery_target goes */
extern double targets_replay_rate(void);

/* For the checkpointer, after each of its writes.  Allocates nothing, raises no error */
extern void targets_pace_checkpoint(bool data_file);

#endif /* PG_CALM_WRITEBACK_H */
