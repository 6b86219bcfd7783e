/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker that writes marked pages back.
 *
 * Pages are left to accumulate, since a page that is written twice before it
 * is flushed saves a write, and neighbours that get dirty save an operation.
 * A region is written back when
 * - the checkpointer waits for it before its fsync of the file (drain.c),
 * - the kernel flusher may be about to come to its file (flusher_visit.c),
 * - the checkpointer has passed it,
 * - its oldest page reaches flush_age_ms(),
 * - or more is unflushed than unflushed_limit.c allows, or than keeps the
 *	 kernel's own count of dirty memory clear of its background threshold;
 * those that free most pages per second of device time first.
 *
 * Which gaps are bridged: see bridge_choice.c.
 *
 * The worker has no database connection.  It is started with the postmaster,
 * so that recovery is covered as well, and restarted if it ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xlog.h"
#include "writeback/writeback.h"
#include "catalog/pg_control.h"
#include "checkpoint/checkpoint.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "shared/shared.h"
#include "base/base.h"
#include "device/device.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/bgwriter.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/ps_status.h"
#include "wal/wal.h"
#include "breaker.h"
#include "worker.h"

/* Milliseconds between looks at: caps and sysctls; memory and map; the map in a drain; the device */
#define SETTINGS_INTERVAL_MS 3000
#define STATE_INTERVAL_MS 250
#define DRAIN_INTERVAL_MS 20
#define BUSY_INTERVAL_MS 1
#define WAITING_INTERVAL_MS 10 /* something is unflushed, and nothing is due */
#define IDLE_INTERVAL_MS 100

/* Looks at what is under way in the time that the device takes for an operation */
#define LOOKS_PER_OPERATION 4

/*
 * What each member of a shared device adds to them, so that a hundred workers
 * together don't take more of the CPUs than a few.
 */
#define MEMBERS_COUNTED 100 /* at most */
#define MEMBER_SETTINGS_MS 100
#define MEMBER_MEMORY_MS 30
#define MEMBER_STATE_MS 10
#define MEMBER_BUSY_MS 0.125
#define MEMBER_IDLE_MS 1

/* How long pg_calm_status says that the map was full, after it was */
#define FULL_SHOWN_MS 60000

/* Regions looked at closely in one pass over the map, and files that it comes to for that */
#define MAX_CANDIDATES 4096
#define MAX_SCANNED_FILES 8192

/* And nanoseconds that it takes: less than 3 % of a core */
#define MAX_PASS_NS 7000000

/* Entries of the map that one step looks at in order to make room in it */
#define RECLAIM_STEPS 2048
#define RECLAIM_INTERVAL_MS 10

/*
 * Seconds of device time that what is unflushed may take on a shared volume; and where
 * it can't go on.  The latter is for how long a file is prepared for a visit at most,
 * with the kernel's default settings (flusher_visit.c)
 */
#define LIMIT_SECONDS 2.0
#define FULL_SECONDS 5.0

/* Seconds of device time that may be in flight */
#define IN_FLIGHT_SECONDS 0.02

/* Where a read may have to wait for it */
#define READS_IN_FLIGHT_SECONDS 0.005

/* And no more than that, whatever the caps allow */
#define MAX_IN_FLIGHT_BYTES (2 * 1024 * 1024)

typedef struct Candidate
{
	uint32 file;
	uint32 incarnation;
	uint32 number;
	uint32 pages;
	uint64 since;
	bool window;
	bool drain;              /* the checkpointer waits for it */
	bool visit;              /* the kernel flusher is about to come to its file */
	double pages_per_second; /* pages freed per second of device time */
} Candidate;

/* One pass over the files that may have marks, from one on, and around */
typedef struct FileScan
{
	uint32 start;
	uint32 next;
	uint32 drained; /* the file that the checkpointer waits for, or PAGE_MAP_END */
	uint32 files;   /* seen */
	bool around;
} FileScan;

static Candidate *candidates = NULL;
static int candidate_count = 0;
static int candidate_next = 0;
static uint32 scan_start = 0; /* file to begin the next pass with */

static KernelFlusher flusher;
static uint64 next_settings_ms = 0;
static uint64 next_memory_ms = 0;
static uint64 next_state_ms = 0;
static uint64 next_reclaim_ms = 0;
static DeviceCaps own_caps; /* without regard to others */

static void read_settings(void);
static void read_primary_images(void);
static void apply_caps(void);
static void
add_reason(char *reasons, size_t size, const char *format, ...) pg_attribute_printf(3, 4);
static bool map_was_full(void);
static void publish_degraded(void);
static void worker_exit(int code, Datum argument);
static uint64 unflushed_pages(void);
static uint64 flush_age_ms(void);
static bool draining(void);
static uint32 drained_file(void);
static uint64 unflushed_bytes(void);
static bool too_much_unflushed(void);
static double limit_bytes(void);
static double full_bytes(void);
static double unflushed_excess(void);
static void publish_hold(void);
static double urgency(void);
static void choose_gap(const BridgeGaps *gaps, uint64 now_ms);
static uint32 next_file(FileScan *scan);
static void collect_candidates(uint64 now_ms);
static int compare_candidates(const void *a, const void *b);
static bool start_next_region(uint64 now_ms);
static bool work(uint64 now_ms);
static long busy_interval_ms(void);
static long pause_ms(bool busy, uint64 now_ms);

void
writeback_register_worker(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = 5;
	strlcpy(worker.bgw_library_name, "pg_calm", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "pg_calm_writeback_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "pg_calm writeback worker", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "pg_calm writeback worker", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

static void
worker_exit(int code, Datum argument)
{
	sharing_leave();
	worker_health_end();
	/* what was in flight is PostgreSQL's to fsync, as ever */
	pg_atomic_write_u64(&calm_shared->in_flight_pages, 0);
	/* not known until the next worker has looked */
	SpinLockAcquire(&calm_shared->lock);
	calm_shared->flush_rate = INFINITY;
	SpinLockRelease(&calm_shared->lock);
}

/* Another of the reasons why less is done than the settings ask for; what does not fit is cut */
static void
add_reason(char *reasons, size_t size, const char *format, ...)
{
	size_t length = strlen(reasons);
	va_list arguments;

	if (length > 0 && length + 2 < size)
	{
		strlcat(reasons, "; ", size);
		length += 2;
	}
	va_start(arguments, format);
	vsnprintf(reasons + length, size - length, format, arguments);
	va_end(arguments);
}

/* Whether pages found no room in the page map lately */
static bool
map_was_full(void)
{
	static uint64 last_full_files = 0;
	static uint64 last_full_regions = 0;
	static uint64 shown_until = 0;
	uint64 full_files = pg_atomic_read_u64(&calm_page_map->full_files.value);
	uint64 full_regions = pg_atomic_read_u64(&calm_page_map->full_regions.value);
	uint64 now = page_map_now_ms();

	if (full_files != last_full_files || full_regions != last_full_regions)
		shown_until = now + FULL_SHOWN_MS;
	last_full_files = full_files;
	last_full_regions = full_regions;
	return now < shown_until;
}

/* All reasons why less is done than the settings ask for, where the view shows them */
static void
publish_degraded(void)
{
	static char logged[sizeof(calm_shared->degraded)] = "";
	char reasons[sizeof(calm_shared->degraded)] = "";

	if (flush_refused())
	{
		add_reason(reasons, sizeof(reasons), "nothing is flushed: %s", flush_refused());
		/* nobody else flushes, so the server's hints must be obeyed again */
		worker_health_end();
	}
	if (bridge_refusal())
		add_reason(reasons, sizeof(reasons), "gaps are not bridged: %s", bridge_refusal());
	else if (bridge_refused_filesystem() != 0)
		add_reason(
			reasons, sizeof(reasons),
			"gaps are not bridged in files on a filesystem of type 0x%lX, see the server log",
			bridge_refused_filesystem());
	if (sharing_problem())
		add_reason(reasons, sizeof(reasons), "the device's budget is not shared: %s",
		           sharing_problem());
	if (map_was_full())
		add_reason(
			reasons, sizeof(reasons),
			"pg_calm.page_map_memory is too small: some pages are tracked coarsely or not at all");

	if (reasons[0] && strcmp(reasons, logged) != 0)
		ereport(LOG, (errmsg("pg_calm: %s", reasons)));
	memcpy(logged, reasons, sizeof(reasons));

	/* it has said so itself */
	if (breaker_reason())
		add_reason(reasons, sizeof(reasons), "%s", breaker_reason());
	SpinLockAcquire(&calm_shared->lock);
	memcpy(calm_shared->degraded, reasons, sizeof(reasons));
	SpinLockRelease(&calm_shared->lock);
}

/*
 * Recovery repairs torn pages by what is in WAL, whatever our own full_page_writes is: what
 * the primary's was at the redo point from which recovery would begin.
 */
static void
read_primary_images(void)
{
	ControlFileData *control;
	bool crc_ok;

	if (!RecoveryInProgress())
		return;
	control = get_controlfile(DataDir, &crc_ok);
	pg_atomic_write_u32(&calm_shared->primary_images,
	                    crc_ok && control->checkPointCopy.fullPageWrites);
	pfree(control);
}

/* Caps and sysctls: an administrator may change them at any time */
static void
read_settings(void)
{
	device_read_caps(&own_caps);
	sharing_configure(&own_caps);
	kernel_flusher_read_settings(&flusher);
	read_primary_images();

	SpinLockAcquire(&calm_shared->lock);
	calm_shared->caps = own_caps;
	calm_shared->caps_known = true;
	SpinLockRelease(&calm_shared->lock);
	apply_caps();
	publish_degraded();
}

/* Our own caps, or our share of a device's, to the policy of flushing */
static void
apply_caps(void)
{
	DeviceCaps caps = own_caps;
	/* what others need, of the instances on the device or of the volume's budget for reads */
	bool arbitrated = sharing_limit(&caps);
	bool counts_reads = foreground_limit(&caps, urgency());
	bool shared = arbitrated || counts_reads;
	double in_flight = counts_reads ? READS_IN_FLIGHT_SECONDS : IN_FLIGHT_SECONDS;
	double operations = caps.write_iops * in_flight;
	double bytes = caps.write_bytes * in_flight;

	/* without our own there may be those of a shared device */
	pg_atomic_write_u32(&calm_shared->capped, device_is_capped(&caps) ? 1 : 0);
	/* not while the breaker has let go: what is marked then stays so */
	flush_policy.dry_run =
		calm_mode != CALM_MODE_ON || pg_atomic_read_u32(&calm_shared->capped) == 0;
	flush_policy.caps = caps;
	flush_policy.paced = shared;
	flush_policy.arbitrated = arbitrated;
	flush_policy.in_flight = in_flight;
	flush_policy.max_operations =
		isinf(operations) ? UINT32_MAX : Max((uint32) operations, shared ? 1 : 4);
	flush_policy.max_bytes =
		Min(isinf(bytes) ? (double) UINT32_MAX : Max(bytes, 256.0 * 1024), MAX_IN_FLIGHT_BYTES);

	SpinLockAcquire(&calm_shared->lock);
	calm_shared->granted_operations = caps.write_iops;
	SpinLockRelease(&calm_shared->lock);
}

static uint64
unflushed_pages(void)
{
	return page_map_unflushed(calm_page_map, 0) + page_map_unflushed(calm_page_map, 1);
}

/*
 * How long a page may wait.  By default half of the time between checkpoints
 * (all must be written by the end of each), and no longer than the kernel
 * waits.
 */
static uint64
flush_age_ms(void)
{
	uint64 age;

	if (calm_flush_age > 0)
		return calm_flush_age;
	age = (uint64) CheckPointTimeout * 1000 / 2;
	/* on a shared device it takes longer to be done, once begun */
	if (flusher.expire_ms > 0)
		age = Min(age, flush_policy.arbitrated ? flusher.expire_ms / 2 : flusher.expire_ms);
	return age;
}

/* Whether the checkpointer waits for pages to be flushed */
static bool
draining(void)
{
	return pg_atomic_read_u32(&calm_shared->draining) != CALM_DRAINING_NOTHING;
}

/* For which file, or PAGE_MAP_END */
static uint32
drained_file(void)
{
	uint32 what = pg_atomic_read_u32(&calm_shared->draining);

	return what == CALM_DRAINING_NOTHING ? PAGE_MAP_END : what - CALM_DRAINING_FILE;
}

/*
 * What is unflushed, in bytes.  What the kernel has written meanwhile is still
 * marked; where more of it means a larger part of the volume for the worker, it
 * must not count.
 */
static uint64
unflushed_bytes(void)
{
	uint64 bytes = unflushed_pages() * BLCKSZ;

	return flush_policy.paced && flusher.background_bytes != PG_UINT64_MAX ?
	           Min(bytes, flusher.dirty_bytes) :
	           bytes;
}

/*
 * How many bytes may be unflushed.  On a volume that others need as well no more
 * than is flushed in time before a visit of the kernel flusher.
 */
static double
limit_bytes(void)
{
	double limit = (double) unflushed_limit_bytes(&flusher);

	return flush_policy.paced && calm_unflushed_limit == 0 ?
	           Min(limit, calm_shared->flush_rate * BLCKSZ * LIMIT_SECONDS) :
	           limit;
}

/* Whether flushing is due by amount, ours or that of the whole host */
static bool
too_much_unflushed(void)
{
	return (double) unflushed_bytes() > limit_bytes() ||
	       (flusher.background_bytes != PG_UINT64_MAX &&
	        flusher.dirty_bytes > flusher.background_bytes / 10 * 8);
}

/*
 * With how many bytes unflushed it can't go on: as much as the kernel lets the device
 * have before it writes all of it itself, or as can't be flushed in time before a visit.
 */
static double
full_bytes(void)
{
	return Min((double) flusher.device_bytes, calm_shared->flush_rate * BLCKSZ * FULL_SECONDS);
}

/* How far what is unflushed is beyond its limit: 0 not at all, 1 so far that it can't go on */
static double
unflushed_excess(void)
{
	double limit = limit_bytes();

	return Min(Max(((double) unflushed_bytes() - limit) / Max(full_bytes() - limit, 1), 0), 1);
}

/*
 * Tell the checkpointer from where on its own writes are held.  It writes what takes
 * the device a second in less time than lies between two looks of ours, so it
 * compares what is marked at that moment; what the kernel has written already does
 * not count.
 */
static void
publish_hold(void)
{
	double written = (double) unflushed_pages() - (double) unflushed_bytes() / BLCKSZ;
	double from = limit_bytes() / BLCKSZ;
	double most = Max(full_bytes() / BLCKSZ, from + 1);
	bool held = flush_policy.paced && !isinf(most);

	pg_atomic_write_u64(&calm_shared->hold_from_pages, held ? (uint64) (from + written) : 0);
	pg_atomic_write_u64(&calm_shared->hold_most_pages, held ? (uint64) (most + written) : 0);
}

/* What makes the worker's part of a volume larger: the same, and that WAL waits for a checkpoint */
static double
urgency(void)
{
	return checkpointer_requests() & CHECKPOINT_CAUSE_XLOG ? 1 : unflushed_excess();
}

/* Choose the gaps to bridge (bridge_choice.c), and say so in the view */
static void
choose_gap(const BridgeGaps *gaps, uint64 now_ms)
{
	static BridgeBalance balance = {.gap = -1};
	const DeviceCaps *caps = &flush_policy.caps;
	uint32 chosen;

	if (!flush_policy.bridges)
		chosen = 0;
	else if (draining())
		chosen = bridge_least_time_gap(gaps, caps, INFINITY);
	else if (too_much_unflushed())
		chosen = bridge_balanced_gap(&balance, gaps, caps, flush_started.operations,
		                             flush_started.bytes, now_ms);
	else
		chosen = bridge_longest_gap(caps);
	flush_policy.max_gap = chosen;
	SpinLockAcquire(&calm_shared->lock);
	calm_shared->max_gap = chosen;
	SpinLockRelease(&calm_shared->lock);
}

static int
compare_candidates(const void *a, const void *b)
{
	const Candidate *left = a;
	const Candidate *right = b;

	if (left->drain != right->drain)
		return left->drain ? -1 : 1;
	if (left->visit != right->visit)
		return left->visit ? -1 : 1;
	if (left->window != right->window)
		return left->window ? -1 : 1;
	if (left->pages_per_second != right->pages_per_second)
		return left->pages_per_second > right->pages_per_second ? -1 : 1;
	return 0;
}

/* The next file of a pass: one that is drained, then all others; PAGE_MAP_END after the last one */
static uint32
next_file(FileScan *scan)
{
	uint32 file = PAGE_MAP_END;

	if (scan->files++ >= MAX_SCANNED_FILES)
		return PAGE_MAP_END;
	if (scan->files == 1 && scan->drained != PAGE_MAP_END)
		return scan->drained;
	do
	{
		if (!scan->around)
			file = page_map_next_marked(calm_page_map, scan->next);
		if (scan->around || file == PAGE_MAP_END)
		{
			if (!scan->around)
				scan->next = 0;
			scan->around = true;
			file = page_map_next_marked(calm_page_map, scan->next);
			if (file != PAGE_MAP_END && file >= scan->start)
				file = PAGE_MAP_END;
		}
		/* PAGE_MAP_END + 1 is 0, where the next pass begins */
		scan->next = file + 1;
	} while (file != PAGE_MAP_END && file == scan->drained);
	return file;
}

/*
 * Look at the regions with marked pages: count their gaps, choose the
 * threshold, and order them by what flushing them frees.  A map with more of
 * them than one pass is to see is looked at in turns.
 */
static void
collect_candidates(uint64 now_ms)
{
	static BridgeRun runs[BRIDGE_MAX_RUNS];
	BridgeGaps gaps;
	double pages = 0;
	double all_seconds = 0;
	uint64 began = monotonic_ns();
	FileScan scan = {.start = scan_start, .next = scan_start, .drained = drained_file()};
	uint32 f;
	int old = 1 - page_map_new_generation(calm_page_map);

	if (candidates == NULL)
		candidates = MemoryContextAlloc(TopMemoryContext, MAX_CANDIDATES * sizeof(Candidate));
	candidate_count = 0;
	candidate_next = 0;
	memset(&gaps, 0, sizeof(gaps));

	while (candidate_count < MAX_CANDIDATES && monotonic_ns() < began + MAX_PASS_NS &&
	       (f = next_file(&scan)) != PAGE_MAP_END)
	{
		PageMapFile *file = page_map_file(calm_page_map, f);
		uint32 incarnation = pg_atomic_read_u32(&file->incarnation);
		uint32 regions = page_map_file_regions(file);
		bool drained = f == scan.drained;
		uint32 first = candidate_count;
		double file_seconds = 0;
		bool in_time = false;
		bool near;

		scan_start = scan.next;
		if ((incarnation & 1) == 0)
			regions = 0; /* what a late marker has left */
		else if (!drained && !flush_policy.paced && flusher_guard_holds(f))
			continue;
		for (uint32 number = 0; number < regions; number++)
		{
			uint32 slot = page_map_slot(calm_page_map, file, number);
			bool whole = page_map_is_whole(file, number);
			Candidate *candidate;
			PageMapBits bits;

			if (candidate_count >= MAX_CANDIDATES)
			{
				scan_start = f;
				break;
			}
			if (slot == 0 && !whole)
				continue;
			candidate = &candidates[candidate_count];
			if (whole)
			{
				candidate->pages = PAGE_MAP_REGION_BLOCKS;
				candidate->since = 1; /* no record: treat as old */
				candidate->window = false;
				candidate->drain = drained;
				candidate->pages_per_second = INFINITY;
			}
			else
			{
				PageMapRegion *region = page_map_region(calm_page_map, slot - 1);
				double bytes = 0;
				double operations = 0;
				double seconds;
				int nruns;

				if (page_map_region_count(region) == 0)
					continue;
				candidate->since = pg_atomic_read_u64(&region->since);
				candidate->drain = drained && (int32) pg_atomic_read_u32(&region->count[old]) > 0;
				candidate->window =
					(pg_atomic_read_u32(&region->flags) & PAGE_MAP_REGION_WINDOW) != 0;
				page_map_peek_region(region, &bits);
				/* not the region's count: a page that both generations have is flushed once */
				candidate->pages = bits_count(&bits);
				if (candidate->pages == 0)
					continue;
				bridge_count_gaps(&bits, &gaps);
				/* the real plan knows what may be bridged; this one assumes all */
				{
					static const PageMapBits all = {
						{~UINT64CONST(0), ~UINT64CONST(0), ~UINT64CONST(0), ~UINT64CONST(0),
					     ~UINT64CONST(0), ~UINT64CONST(0), ~UINT64CONST(0), ~UINT64CONST(0),
					     ~UINT64CONST(0), ~UINT64CONST(0), ~UINT64CONST(0), ~UINT64CONST(0),
					     ~UINT64CONST(0), ~UINT64CONST(0), ~UINT64CONST(0), ~UINT64CONST(0)}};

					nruns = bridge_plan(&bits, &all, calm_bridge ? flush_policy.max_gap : 0, runs);
				}
				for (int r = 0; r < nruns; r++)
				{
					bytes += (double) runs[r].blocks * BLCKSZ;
					operations +=
						device_operations(&flush_policy.caps, (uint64) runs[r].blocks * BLCKSZ);
				}
				seconds = device_seconds(&flush_policy.caps, operations, bytes);
				candidate->pages_per_second = candidate->pages / Max(seconds, 1e-9);
				pages += candidate->pages;
				file_seconds += seconds;
			}
			candidate->visit = false;
			candidate->file = f;
			candidate->incarnation = incarnation;
			candidate->number = number;
			candidate_count++;
		}
		near = flush_policy.paced && candidate_count > first &&
		       flusher_visit_is_near(file, &flusher, file_seconds, now_ms, &in_time);
		pg_atomic_write_u32(&file->visit_near, near);
		if (candidate_count == first)
			page_map_settle(calm_page_map, f);
		for (uint32 i = first; near && in_time && i < candidate_count; i++)
			candidates[i].visit = true;
		all_seconds += file_seconds;
	}
	choose_gap(&gaps, now_ms);
	unflushed_limit_visit(
		own_caps.flusher_is_free ?
			0 :
			bridge_least_seconds(&gaps, &flush_policy.caps, (double) flush_policy.headroom),
		(uint64) gaps.dirty_blocks * BLCKSZ);
	/* with nothing marked nothing is learnt, and what comes next will not be much unlike what was */
	if (all_seconds > 0)
	{
		SpinLockAcquire(&calm_shared->lock);
		calm_shared->flush_rate = pages / all_seconds;
		SpinLockRelease(&calm_shared->lock);
	}
	qsort(candidates, candidate_count, sizeof(Candidate), compare_candidates);
}

/*
 * Start on the best region that has to be flushed now; false if none has.
 *
 * None of a file that is being fsynced: fsync waits for what is under writeback
 * when it comes to it, not only for what was when it began
 * (__filemap_fdatawait_range, mm/filemap.c), so it would follow us through the
 * file, at the pace at which we write.
 */
static bool
start_next_region(uint64 now_ms)
{
	uint64 age = flush_age_ms();
	bool too_much = too_much_unflushed();
	uint32 file;
	uint32 incarnation;
	uint32 number;

	while (cleaner_fetch(&file, &incarnation, &number))
	{
		if (!page_map_being_fsynced(calm_page_map, file) &&
		    flush_start_region(file, incarnation, number))
			return true;
	}
	while (candidate_next < candidate_count)
	{
		Candidate *candidate = &candidates[candidate_next];
		bool old = candidate->since != 0 && now_ms - candidate->since >= age;

		bool due = candidate->drain || candidate->visit || candidate->window || old || too_much;
		/*
		 * Before a visit, and a drain on a volume that others need as well, what is
		 * marked has to go, and no more is to come.
		 */
		bool clean =
			!flush_policy.dry_run && !candidate->visit && !(candidate->drain && flush_policy.paced);

		if (due && clean && cleaner_is_asked() && !cleaner_is_free())
			return false;
		candidate_next++;
		if (!due || page_map_being_fsynced(calm_page_map, candidate->file))
			continue;
		if (clean && (cleaner_has(candidate->file, candidate->number) ||
		              cleaner_ask(candidate->file, candidate->incarnation, candidate->number)))
			continue;
		if (flush_start_region(candidate->file, candidate->incarnation, candidate->number))
			return true;
	}
	return false;
}

/* One step; true if there is more to do at once */
static bool
work(uint64 now_ms)
{
	uint32 others = Min(sharing_members() - 1, MEMBERS_COUNTED);

	checkpoint_stats_tick(now_ms);
	if (now_ms >= next_settings_ms)
	{
		read_settings();
		next_settings_ms = now_ms + SETTINGS_INTERVAL_MS + others * MEMBER_SETTINGS_MS;
	}
	sharing_tick(now_ms, flush_busy() || flush_in_flight() || draining());
	apply_caps();
	if (now_ms >= next_memory_ms)
	{
		kernel_flusher_read_state(&flusher);
		foreground_follow(&flusher, &own_caps, flush_started.operations, flush_started.bytes,
		                  now_ms);
		SpinLockAcquire(&calm_shared->lock);
		SpinLockRelease(&calm_shared->lock);
		if (breaker_tick(&flusher, draining(), now_ms))
			publish_degraded();
		unflushed_limit_follow(unflushed_pages(), now_ms);
		publish_hold();
		/* all members see the same memory */
		flush_policy.headroom = kernel_flusher_headroom(&flusher) / sharing_members();
		next_memory_ms = now_ms + STATE_INTERVAL_MS + others * MEMBER_MEMORY_MS;
	}
	if (now_ms >= next_reclaim_ms && page_map_is_low(calm_page_map))
	{
		(void) page_map_reclaim(calm_page_map, RECLAIM_STEPS);
		next_reclaim_ms = now_ms + RECLAIM_INTERVAL_MS;
	}
	if (now_ms >= next_state_ms)
	{
		/*
		 * Where reads, WAL or other instances draw on the same budget the flusher is
		 * left nothing: what it writes, dense or not, keeps to nobody's share.
		 * Where it is not held to our caps, scattered pages cost nobody anything, and
		 * clean pages written along would.
		 */
		if (calm_mode == CALM_MODE_OFF || flush_policy.paced || own_caps.flusher_is_free ||
		    flush_policy.rests)
			flusher_guard_give_up(now_ms);
		else
			flusher_guard_tick(&flusher, now_ms);
		/* a busy device leaves no pause for it: the order would be seconds old */
		if (calm_mode != CALM_MODE_OFF)
			collect_candidates(now_ms);
		open_files_close_idle();
		wal_cache_tick();
		next_state_ms = now_ms + STATE_INTERVAL_MS + others * MEMBER_STATE_MS;
	}

	latency_probe_tick(flush_policy.paced && calm_flushes() && foreground_needs_probe(&own_caps),
	                   now_ms);
	if (folio_split_is_on())
		folio_split_patrol(now_ms);
	else
		folio_split_pause();

	/* what is under way is finished in any mode */
	if (!flush_advance())
		return !flush_policy.rests;
	if (calm_mode == CALM_MODE_OFF || flush_refused() != NULL || flush_policy.rests)
		return false;
	if (start_next_region(now_ms))
		return true;
	if (draining() && candidate_next >= candidate_count && !flush_busy())
		next_state_ms = Min(next_state_ms, now_ms + DRAIN_INTERVAL_MS + others);
	return false;
}

/* How long to leave what is under way alone: a slow device has nothing new to tell a millisecond later */
static long
busy_interval_ms(void)
{
	double operation_ms = 1000 / flush_policy.caps.write_iops;

	return (long) Max(BUSY_INTERVAL_MS,
	                  Min(operation_ms / LOOKS_PER_OPERATION, WAITING_INTERVAL_MS));
}

/* How long to wait before the next step */
static long
pause_ms(bool busy, uint64 now_ms)
{
	uint32 others = Min(sharing_members() - 1, MEMBERS_COUNTED);
	long pause = IDLE_INTERVAL_MS;
	uint64 patrol_ms;

	if (busy)
		return Max(busy_interval_ms() + (long) (others * MEMBER_BUSY_MS),
		           Min((long) flush_pause_ms(), IDLE_INTERVAL_MS));
	/* a load may begin right after the start: it shall not meet large folios */
	patrol_ms = folio_split_next_ms();
	if (patrol_ms <= now_ms + BUSY_INTERVAL_MS)
		return BUSY_INTERVAL_MS;
	if (unflushed_pages() > 0)
		pause = Min(WAITING_INTERVAL_MS + (long) others * MEMBER_IDLE_MS, IDLE_INTERVAL_MS);
	return (long) Min((uint64) pause, patrol_ms - now_ms);
}

void
pg_calm_writeback_main(Datum argument)
{
	uint32 wait_event = CALM_WAIT_EVENT("PgCalmWriteback");

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	on_shmem_exit(worker_exit, (Datum) 0);
	flusher_guard_forget();
	cleaner_forget();
	breaker_begin();
	worker_health_begin();
	if (!cachestat_works())
		ereport(
			LOG,
			(errmsg("pg_calm: cachestat() is not to be had"),
		     errdetail(
				 "Linux has it since 6.5; a container may refuse it. The worker waits for what it has "
				 "begun to write, and sees neither the kernel's queue nor its flusher's visits.")));

	for (;;)
	{
		bool busy;
		uint64 now_ms = page_map_now_ms();

		worker_health_beat(now_ms);
		CHECK_FOR_INTERRUPTS();
		if (ShutdownRequestPending)
			proc_exit(1); /* 1: start us again, unless the server is going down */
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			next_settings_ms = 0;
		}

		busy = work(now_ms);
		if (busy && !flush_in_flight() && flush_pause_ms() == 0)
			continue; /* nothing to wait for */
		(void) WaitLatch(
			MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
			pause_ms(busy || flush_in_flight() || (cleaner_is_asked() && !flush_policy.rests),
		             now_ms),
			wait_event);
		ResetLatch(MyLatch);
	}
}
