/*-------------------------------------------------------------------------
 *
 * pg_calm.c
 *	  Preloading, settings and shared memory of the module.
 *
 * pg_calm makes PostgreSQL's page writeback cheap in device operations and smooth in
 * time.  Durability stays with PostgreSQL's own fsync calls, which all happen, in their places,
 * and report every error.  Everything else about pages is advice to the kernel: with an empty or
 * wrong page map the server is as slow as stock, and as safe.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "wal/wal.h"
#include "fmgr.h"
#include "interpose/interpose.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "worker/worker.h"

PG_MODULE_MAGIC;

/* Memory of zeros is how atomics of the processor begin; others would have to be initialised one by one */
#if defined(PG_HAVE_ATOMIC_U32_SIMULATION) || defined(PG_HAVE_ATOMIC_U64_SIMULATION)
#error "pg_calm needs 64-bit atomic operations of the processor"
#endif

PGDLLEXPORT void _PG_init(void);

int calm_mode = CALM_MODE_ON;
static int calm_page_map_memory = 48 * 1024;
int calm_drain_timeout = -1;
bool calm_bridge = true;

CalmShared *calm_shared = NULL;
PageMap *calm_page_map = NULL;
const char *calm_interpose_failure = NULL;

/* What all processes share; the page map follows */
typedef struct Memory
{
	CalmShared shared;
	ReportShared reports;
} Memory;

static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

static const struct config_enum_entry mode_options[] = {{"off", CALM_MODE_OFF, false},
                                                        {"shadow", CALM_MODE_SHADOW, false},
                                                        {"on", CALM_MODE_ON, false},
                                                        {NULL, 0, false}};

/* Rates: 0 is "detect" or none, -1 "unlimited" */
static bool
check_rate(int *newval, void **extra, GucSource source)
{
	if (*newval > 0 && *newval < 10)
	{
		GUC_check_errdetail("A limit must be at least 10.");
		return false;
	}
	return true;
}

static void
define_settings(void)
{
	DefineCustomEnumVariable(
		"pg_calm.mode", "Whether written pages are flushed by pg_calm.",
		"\"off\" leaves the server as without the module, \"shadow\" tracks pages and counts what would be flushed, \"on\" flushes where a cap of the device is known.",
		&calm_mode, CALM_MODE_ON, mode_options, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.page_map_memory", "Shared memory for the map of written but unflushed pages.",
		"A file over 1 MB takes 704 bytes, and each 8 MB of it that is written to 152. When it is full, what is written is not tracked, and the server's own flush hints for it are obeyed. What is not needed is not touched.",
		&calm_page_map_memory, 48 * 1024, 1024, 16 * 1024 * 1024, PGC_POSTMASTER, GUC_UNIT_KB, NULL,
		NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.iops",
		"Operations per second that the data directory's device allows, reads and writes together.",
		"For volumes that count reads as well, as most of clouds do. 0 means none such.",
		&calm_iops, 0, 0, INT_MAX, PGC_SIGHUP, 0, check_rate, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.bandwidth",
		"Kilobytes per second that may be read from and written to the data directory's device together.",
		"For volumes that count reads as well, as most of clouds do. 0 means none such.",
		&calm_bandwidth, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_KB, check_rate, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.write_iops",
		"Write operations per second that the data directory's device allows.",
		"0 reads the limits of the block cgroup controller, -1 means unlimited.", &calm_write_iops,
		0, -1, INT_MAX, PGC_SIGHUP, 0, check_rate, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.write_bandwidth",
		"Kilobytes per second that may be written to the data directory's device.",
		"0 reads the limits of the block cgroup controller, -1 means unlimited.",
		&calm_write_bandwidth, 0, -1, INT_MAX, PGC_SIGHUP, GUC_UNIT_KB, check_rate, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.io_size",
		"Size up to which the device counts a contiguous write as one operation.",
		"0 takes the largest request of the block device. Volumes like Amazon EBS count 256kB.",
		&calm_io_size, 0, 0, 64 * 1024, PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.drain_timeout",
		"Longest time that a checkpoint waits for pages to be flushed before its fsync calls.",
		"-1 takes what checkpoint_completion_target leaves of checkpoint_timeout, or 30s if that is more; 0 does not wait. Fast (immediate), shutdown and end-of-recovery checkpoints never do, except fast ones that base backups alone are seen to wait for. Where WAL will ask for the next checkpoint it is half of the time until then at most, or what the fsync calls would take. Where the pool is full its own writes are held, too, at the pace of the volume from then on, and after four times as long no more.",
		&calm_drain_timeout, -1, -1, 3600 * 1000, PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomBoolVariable(
		"pg_calm.drop_wal_cache",
		"Whether WAL that has been flushed is dropped from the page cache.",
		"Not while there is a walsender, a replication slot or a prepared transaction, nor with summarize_wal; with archiving, when its segment has been archived. "
		"Recovery from a crash then reads WAL from its volume.",
		&calm_drop_wal_cache, true, PGC_SIGHUP, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomBoolVariable(
		"pg_calm.bridge",
		"Whether clean pages between dirty ones are written along to save operations.", NULL,
		&calm_bridge, true, PGC_SIGHUP, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.stop_target", "Time that a fast stop of the server should take at most.",
		"Dirty buffers and unflushed pages are kept to what the volume writes in that time. 0 does not. Needs a known cap.",
		&calm_stop_target, 0, 0, 3600, PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"pg_calm.recovery_target", "Time that recovery after a crash should take at most.",
		"Checkpoints are requested so often, and spread so far, that WAL is replayed in that time, at the rate of the last recovery, or 16 MB/s before there was one, and the checkpoint that ends it written; at least 10s and two WAL segments apart. 0 does not.",
		&calm_recovery_target, 0, 0, 3600, PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	test_settings_define();
	MarkGUCPrefixReserved("pg_calm");
}

/* The map begins at a cache line */
static Size
memory_size(void)
{
	return CACHELINEALIGN(sizeof(Memory)) + page_map_size((Size) calm_page_map_memory * 1024);
}

static void
request_shared_memory(void)
{
	if (previous_shmem_request)
		previous_shmem_request();
	RequestAddinShmemSpace(memory_size());
}

static void
start_shared_memory(void)
{
	Memory *memory;
	char root[MAXPGPATH];
	bool found;

	if (previous_shmem_startup)
		previous_shmem_startup();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	memory = ShmemInitStruct("pg_calm", memory_size(), &found);
	calm_page_map = (PageMap *) ((char *) memory + CACHELINEALIGN(sizeof(Memory)));
	if (!found)
	{
		memset(memory, 0, sizeof(Memory));
		SpinLockInit(&memory->reports.lock);
		SpinLockInit(&memory->shared.lock);
		/* until the worker knows better; a checkpoint can come first */
		memory->shared.figures =
			(CalmFigures){.caps = {INFINITY, INFINITY, INFINITY, INFINITY, .io_size = 1024 * 1024},
		                  .given = 1,
		                  .granted = {INFINITY, INFINITY},
		                  .flush_rate = INFINITY};
		memory->shared.device = device_of_data_files();
		pg_atomic_write_u32(&memory->shared.draining, PAGE_MAP_END);
		page_map_init(calm_page_map, (Size) calm_page_map_memory * 1024,
		              getcwd(root, sizeof(root)) ? root : "");
	}
	calm_shared = &memory->shared;
	checkpoint_reports = &memory->reports;
	checkpointer_wait_shmem_startup();
	LWLockRelease(AddinShmemInitLock);
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
	{
		/* CREATE EXTENSION and its functions load us; they need the rest */
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		     errmsg("pg_calm must be loaded via \"shared_preload_libraries\""),
		     errhint(
				 "Add pg_calm to \"shared_preload_libraries\" in postgresql.conf and restart the server.")));
	}

	define_settings();
	sharing_publish();
	if (!io_hooks_install(&calm_interpose_failure))
		ereport(WARNING, (errmsg("pg_calm is loaded but has no effect: %s", calm_interpose_failure),
		                  errdetail("The server runs as without the module.")));

	/* for the views, which say so */
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
	if (calm_interpose_failure)
		return;
	checkpoint_stats_watch_log();
	background_register("pg_calm writeback worker", "pg_calm_writeback_main", 0,
	                    BgWorkerStart_PostmasterStart);
	background_register("pg_calm cleaner", "pg_calm_cleaner_main",
	                    BGWORKER_BACKEND_DATABASE_CONNECTION, BgWorkerStart_ConsistentState);
}
