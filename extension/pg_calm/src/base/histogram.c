/*-------------------------------------------------------------------------
 *
 * histogram.c
 *	  How long the server's calls for I/O took, by type of process.
 *
 * Buckets are powers of two in microseconds: the first holds what took less
 * than one, the next [1, 2), then [2, 4) and so on; the last is open.
 *
 * Counting must cost next to nothing of an 8 KiB write, of which a server
 * makes tens of thousands per second: two readings of the clock and an
 * addition to a counter that all processes of a type share are several
 * percent of it (bench/write_cost.sh).  So each process times one write in
 * HISTOGRAM_WRITE_SAMPLE.  All else is rare enough to be timed always.
 *
 * Counters are added to without a lock, from wherever the server writes.  The
 * spinlock protects the copies that are made at the ends of a checkpoint.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "histogram.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "postmaster/bgworker.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(pg_calm_io_histogram);

/* Types of processes as the server numbers them, and our own worker */
#define WORKER_PROCESS BACKEND_NUM_TYPES
#define PROCESSES (BACKEND_NUM_TYPES + 1)
#define WORKER_NAME "pg_calm writeback worker"

#define BUCKETS 32

/* What was counted until some moment, or between two */
typedef struct HistogramCounts
{
	uint64 count[PROCESSES][HISTOGRAM_OPERATIONS][BUCKETS];
} HistogramCounts;

typedef struct HistogramShared
{
	/* since the server started, or was told to forget */
	pg_atomic_uint64 count[PROCESSES][HISTOGRAM_OPERATIONS][BUCKETS];
	slock_t lock;             /* protects what follows */
	HistogramCounts before;   /* count[] when the checkpoint under way began */
	HistogramCounts finished; /* during the last one that was completed */
} HistogramShared;

uint32 histogram_writes = 0;

static HistogramShared *shared = NULL;

static int process_type(void);
static int bucket_of(uint64 microseconds);
static void put_rows(ReturnSetInfo *rsinfo, const char *scope, const HistogramCounts *counts);

Size
histogram_size(void)
{
	return MAXALIGN(sizeof(HistogramShared));
}

/* Called with AddinShmemInitLock held */
void
histogram_start(void)
{
	bool found;
	HistogramShared *memory =
		ShmemInitStruct("pg_calm histograms", sizeof(HistogramShared), &found);

	if (!found)
	{
		memset(memory, 0, sizeof(HistogramShared));
		for (int p = 0; p < PROCESSES; p++)
		{
			for (int o = 0; o < HISTOGRAM_OPERATIONS; o++)
			{
				for (int b = 0; b < BUCKETS; b++)
					pg_atomic_init_u64(&memory->count[p][o][b], 0);
			}
		}
		SpinLockInit(&memory->lock);
	}
	shared = memory;
}

/* Not remembered: the postmaster counts too, and its children start as copies */
static int
process_type(void)
{
	if (MyBackendType == B_BG_WORKER && MyBgworkerEntry != NULL &&
	    strcmp(MyBgworkerEntry->bgw_type, WORKER_NAME) == 0)
		return WORKER_PROCESS;
	return (int) MyBackendType < BACKEND_NUM_TYPES ? (int) MyBackendType : 0;
}

static int
bucket_of(uint64 microseconds)
{
	return microseconds == 0 ? 0 : Min(pg_leftmost_one_pos64(microseconds) + 1, BUCKETS - 1);
}

/* Count what began at started and ends now; returns its microseconds */
uint64
histogram_count(HistogramOperation operation, uint64 started)
{
	uint64 microseconds = (histogram_clock() - started) / 1000;

	if (shared)
		pg_atomic_fetch_add_u64(&shared->count[process_type()][operation][bucket_of(microseconds)],
		                        1);
	return microseconds;
}

void
histogram_checkpoint_begins(void)
{
	SpinLockAcquire(&shared->lock);
	for (int p = 0; p < PROCESSES; p++)
	{
		for (int o = 0; o < HISTOGRAM_OPERATIONS; o++)
		{
			for (int b = 0; b < BUCKETS; b++)
				shared->before.count[p][o][b] = pg_atomic_read_u64(&shared->count[p][o][b]);
		}
	}
	SpinLockRelease(&shared->lock);
}

void
histogram_checkpoint_ends(void)
{
	SpinLockAcquire(&shared->lock);
	for (int p = 0; p < PROCESSES; p++)
	{
		for (int o = 0; o < HISTOGRAM_OPERATIONS; o++)
		{
			for (int b = 0; b < BUCKETS; b++)
			{
				uint64 after = pg_atomic_read_u64(&shared->count[p][o][b]);
				uint64 before = shared->before.count[p][o][b];

				shared->finished.count[p][o][b] = after > before ? after - before : 0;
			}
		}
	}
	SpinLockRelease(&shared->lock);
}

/* Counts of calls that end at this instant may be kept or lost */
void
histogram_reset(void)
{
	SpinLockAcquire(&shared->lock);
	for (int p = 0; p < PROCESSES; p++)
	{
		for (int o = 0; o < HISTOGRAM_OPERATIONS; o++)
		{
			for (int b = 0; b < BUCKETS; b++)
				pg_atomic_write_u64(&shared->count[p][o][b], 0);
		}
	}
	memset(&shared->before, 0, sizeof(shared->before));
	memset(&shared->finished, 0, sizeof(shared->finished));
	SpinLockRelease(&shared->lock);
}

static void
put_rows(ReturnSetInfo *rsinfo, const char *scope, const HistogramCounts *counts)
{
	static const char *const operations[HISTOGRAM_OPERATIONS] = {
		"write",
		"writeback",
		"fsync",
		"fsync other",
	};

	for (int p = 0; p < PROCESSES; p++)
	{
		for (int o = 0; o < HISTOGRAM_OPERATIONS; o++)
		{
			for (int b = 0; b < BUCKETS; b++)
			{
				Datum values[7];
				bool nulls[7] = {false};

				if (counts->count[p][o][b] == 0)
					continue;
				values[0] = CStringGetTextDatum(scope);
				values[1] = CStringGetTextDatum(
					p == WORKER_PROCESS ? WORKER_NAME : GetBackendTypeDesc((BackendType) p));
				values[2] = CStringGetTextDatum(operations[o]);
				values[3] = Int32GetDatum(o == HISTOGRAM_WRITE ? HISTOGRAM_WRITE_SAMPLE : 1);
				values[4] = Int64GetDatum(b == 0 ? 0 : INT64CONST(1) << (b - 1));
				nulls[5] = b == BUCKETS - 1;
				values[5] = Int64GetDatum(INT64CONST(1) << b);
				values[6] = Int64GetDatum((int64) counts->count[p][o][b]);
				tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
			}
		}
	}
}

Datum
pg_calm_io_histogram(PG_FUNCTION_ARGS)
{
	HistogramCounts *counts = palloc(sizeof(HistogramCounts));

	InitMaterializedSRF(fcinfo, 0);

	for (int p = 0; p < PROCESSES; p++)
	{
		for (int o = 0; o < HISTOGRAM_OPERATIONS; o++)
		{
			for (int b = 0; b < BUCKETS; b++)
				counts->count[p][o][b] = pg_atomic_read_u64(&shared->count[p][o][b]);
		}
	}
	put_rows((ReturnSetInfo *) fcinfo->resultinfo, "server", counts);

	SpinLockAcquire(&shared->lock);
	memcpy(counts, &shared->finished, sizeof(HistogramCounts));
	SpinLockRelease(&shared->lock);
	put_rows((ReturnSetInfo *) fcinfo->resultinfo, "checkpoint", counts);
	return (Datum) 0;
}
