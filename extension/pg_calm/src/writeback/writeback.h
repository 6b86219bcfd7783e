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

#include "postgres.h"

#include "map/map.h"
#include "port/pg_bitutils.h"
#include "shared/shared.h"
#include "device/device.h"
#include "controller.h"

/* bridge.c */

/* A stretch of blocks of a region that is to be written in one go */
typedef struct BridgeRun
{
	uint32 first; /* block within the region */
	uint32 blocks;
	uint32 dirty; /* of these, the ones that were dirty before */
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
extern bool bridge_possible(int fd, const char *path);
extern unsigned long bridge_refused_filesystem(void);
extern int
bridge_plan(const PageMapBits *dirty, const PageMapBits *allowed, uint32 max_gap, BridgeRun *runs);
extern void bridge_allowed(int fd, off_t offset, void *mapping, size_t length,
                           const PageMapBits *dirty, PageMapBits *allowed);
extern void bridge_leave_no_trace(void *mapping, size_t length);
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

/* Whether the kernel has it.  Then writeback can be confirmed without consuming errors */
extern bool cachestat_works(void);

/* The call itself: 0, or -1 and errno */
extern int cachestat_call(int fd, off_t offset, off_t length, struct calm_cachestat *result);

/* How many blocks of a file are dirty, from one on; all if the kernel can't tell */
extern uint32 cachestat_dirty_blocks(int fd, uint32 first, uint32 blocks);

/* open_files.c */

typedef struct OpenFile
{
	int fd; /* -1: unused */
	uint32 file;
	uint32 incarnation;
	uint64 device; /* st_dev and st_ino */
	uint64 inode;
	int references; /* runs in flight, region worked on */
	uint64 opened_ms;
	bool bridge; /* its filesystem allows it */
} OpenFile;

/*
 * A file descriptor of a tracked file, shared by all that is done with the
 * file within a second.  NULL if the file is gone, which also drops it from
 * the map, or if too many are in use.  Who works with it longer counts in references.
 */
extern OpenFile *open_files_get(uint32 file, uint32 incarnation);

/* Close what has not been used for a second: a dropped table would keep its space */
extern void open_files_close_idle(void);

/* buffer_cleaning.c */

/*
 * Write those of a relation's blocks that are dirty in shared buffers, the way
 * the server writes them, and return their number.  Leaves out what
 * would have to wait: pages locked by others, or whose WAL is not flushed yet.
 * For the cleaner.  A failed write is an ERROR, as in the server's own writing.
 */
extern uint32 buffer_cleaning_write(const RelationFile *file, uint32 first, uint32 count);

/* cleaner.c */

/* GUC: whether buffers are cleaned */
extern bool calm_clean_buffers;

extern void cleaner_register(void);
extern void cleaner_init_shared(CleanerShared *shared);

/*
 * For the writeback worker.  Asks for a region to be cleaned: false if that is not
 * to be had now, for there is no cleaner or too much is asked for.  Whoever asks
 * has to fetch it.
 */
extern bool cleaner_ask(uint32 file, uint32 incarnation, uint32 number);

/* Whether another region may be asked for; and whether there is one that has not been fetched */
extern bool cleaner_is_free(void);
extern bool cleaner_is_asked(void);

/* Whether this one has been asked for */
extern bool cleaner_has(uint32 file, uint32 number);

/* A region that is clean, or has waited long enough; false if there is none */
extern bool cleaner_fetch(uint32 *file, uint32 *incarnation, uint32 *number);

/* When the worker begins: nobody will fetch what was asked for before */
extern void cleaner_forget(void);

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
	bool arbitrated;       /* that is shared with other instances */
	uint64 headroom;       /* bytes that may still be dirtied by making regions dense */
	bool dry_run;          /* count what would be done */
	bool bridges;          /* gaps may be bridged; and nothing is started: worker/breaker.c */
	bool rests;
} FlushPolicy;

extern FlushPolicy flush_policy;

/* What has been started since the worker began */
typedef struct FlushStarted
{
	uint64 operations;
	uint64 bytes;
} FlushStarted;

extern FlushStarted flush_started;

extern const char *flush_refused(void);
extern bool flush_start_region(uint32 file, uint32 incarnation, uint32 number);
extern bool flush_busy(void);
extern bool flush_advance(void);
extern bool flush_in_flight(void);
extern uint64 flush_pause_ms(void);
extern uint64 flush_taken_pages(void);

/* flush_region.c */

/* Adds to one of CalmShared's counters */
extern void flush_count(pg_atomic_uint64 *counter, uint64 value);

/* Take all marked pages of a region; how many there were */
extern uint32 flush_region_take(PageMapFile *file, uint32 number, PageMapBits *bits);

/* Bytes of a region that lie within the file, in whole blocks */
extern size_t flush_region_length(int fd, off_t offset);

/* Mapping of a region to see what of it is in the page cache; NULL if not to be bridged */
extern void *flush_region_map(int fd, off_t offset, size_t length);

/*
 * Drop those of a region's blocks that are not dirty any more: somebody has
 * written them.
 */
extern void
flush_region_drop_written(int fd, uint32 number, uint32 first, uint32 blocks, PageMapBits *bits);

/* Forget the marks of a file that the caller fsyncs next, and count what the fsync will find */
extern void flush_file_before_fsync(int fd, uint32 file);

/* latency_probe.c */

/*
 * To be called by the worker as often as it likes: reads a block, without waiting for it, if
 * the last one is long enough ago and the volume is full.  Never fails: where such reads
 * are not to be had there are none.
 */
extern void latency_probe_tick(bool full, uint64 now_ms);

/* pool.c */

/* What a look has found */
typedef struct PoolLook
{
	double pages;   /* marked, in the regions that were looked at */
	double seconds; /* in which the device would write them, merged and bridged */
} PoolLook;

/* What is due */
typedef struct PoolDue
{
	bool all;         /* whatever its age: too much waits */
	uint64 older_ms;  /* how long a page may wait */
	uint32 drained;   /* file that the checkpointer waits for, or PAGE_MAP_END */
	uint64 before_ms; /* ... until all of it is flushed that was marked by then */
} PoolDue;

extern void pool_look(const PoolDue *due, PoolLook *look);
extern bool pool_start_next(const PoolDue *due, uint64 now_ms);
extern bool pool_is_done(void);

/* stop_estimate.c */

/* Seconds that a fast stop would take now; NAN: not known.  *counted: buffers were counted for it */
extern double stop_estimate_seconds(uint64 *dirty_buffers, bool *counted);

/*
 * Neighbouring blocks that the last count of this process has found dirty; each once, after those
 * that were handed out last.  False if there are no more.
 */
extern bool stop_estimate_next_run(RelationFile *file, uint32 *first, uint32 *blocks);

/* Seconds that recovery after a crash would take now; NAN: not known */
extern double recovery_estimate_seconds(void);

/* targets.c */

/* GUCs: seconds; 0: no target */
extern int calm_stop_target;
extern int calm_recovery_target;

extern void targets_define_settings(void);

/* For the cleaner, as often as it likes.  Whether there is more to do at once */
extern bool targets_tick(uint64 now_ms);

/* For the worker, at each look, about what has come of the controller */
extern void targets_limit_pool(uint64 unflushed, double flush_rate, ControllerOutput *control);

/* For the checkpointer, after each of its writes.  Allocates nothing, raises no error, keeps errno */
extern void targets_pace_checkpoint(bool data_file);

#endif /* PG_CALM_WRITEBACK_H */
