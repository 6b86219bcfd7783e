/*-------------------------------------------------------------------------
 *
 * pool.c
 *	  What is written and not flushed, and which of it is flushed next.
 *
 * A region is flushed
 * - when the checkpointer waits for it before its fsync of the file (checkpoint/drain.c),
 * - when the kernel's flusher may be about to come to its file,
 * - when the checkpointer has passed it,
 * - when its oldest page is old,
 * - or when too much waits (controller.c); those that free most pages per second of device
 *	 time first.
 * Before that the cleaner writes what is dirty of it in shared buffers (cleaner.c), so that it
 * is dense.
 *
 * The kernel's flusher visits an inode vm.dirty_expire_centisecs after it was first dirtied,
 * when it looks next, each vm.dirty_writeback_centisecs, whatever was written back meanwhile
 * (fs/fs-writeback.c, wb_check_old_data_flush): neither sync_file_range nor fsync resets that
 * clock, only a visit does.  In one go it then submits all pages of the file that are dirty at
 * that moment, as deep as the device's queue is, and whoever reads or flushes WAL waits behind
 * them.  A visit can't be avoided, but there may be little for it to find.  So before it may
 * come what is marked in the file is flushed at once, and none of its buffers are cleaned.  Where
 * that would take too long, and nobody's reads wait, its gaps are filled, so that the flusher
 * itself merges.
 *
 * The clock of a file is kept in its entry of the page map.  A visit is seen in that pages
 * which were marked are clean, although neither we nor an fsync have written them.  Nothing is
 * seen where nothing was dirty; so if no visit was by the time one was due, one is taken to have
 * been as early as possible.
 *
 * For the worker only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cleaner.h"
#include "flush.h"
#include "pool.h"
#include "shared/shared.h"
#include "utils/memutils.h"

/* Regions looked at closely in one look, and nanoseconds that it takes: less than 3 % of a core */
#define MAX_CANDIDATES 4096
#define MAX_LOOK_NS 7000000

/*
 * Before a visit, more time than the marks of now take, for what comes meanwhile; and the part
 * of the time between visits in which a file may be prepared for one, since backends write
 * what the cleaner does not
 */
#define VISIT_LEAD 1.5
#define VISIT_LEAD_MS 1000
#define VISIT_SHARE 6

/* How long after the last time at which a visit is due it may still come */
#define VISIT_GRACE_MS 2000

/* In this order they are flushed */
typedef enum Reason
{
	BY_AMOUNT, /* or by age, which is looked at when its turn comes */
	PASSED,
	VISIT,
	DRAIN
} Reason;

typedef struct Candidate
{
	uint32 file;
	uint32 incarnation;
	uint32 number;
	Reason reason;
	bool gaps;               /* that may be bridged are in it */
	bool fill;               /* these only */
	uint64 since;            /* of its oldest mark */
	double pages_per_second; /* freed, of device time */
} Candidate;

static Candidate *candidates = NULL;
static int candidate_count = 0;
static int candidate_next = 0;

static int compare(const void *a, const void *b);
static bool
add_region(uint32 f, uint32 number, const PoolDue *due, PoolLook *look, double *seconds);
static void
add_file(uint32 f, const KernelFlusher *flusher, const PoolDue *due, uint64 now_ms, PoolLook *look);
static bool visit_is_near(PageMapFile *file, const KernelFlusher *flusher, double seconds,
                          uint64 now_ms, bool *in_time);

static int
compare(const void *a, const void *b)
{
	const Candidate *left = a;
	const Candidate *right = b;

	if (left->reason != right->reason)
		return left->reason > right->reason ? -1 : 1;
	if (left->pages_per_second != right->pages_per_second)
		return left->pages_per_second > right->pages_per_second ? -1 : 1;
	return 0;
}

/* Whether a visit of the kernel's flusher is near; and whether what is marked can be flushed before */
static bool
visit_is_near(PageMapFile *file, const KernelFlusher *flusher, double seconds, uint64 now_ms,
              bool *in_time)
{
	double lead_ms = seconds * VISIT_LEAD * 1000 + VISIT_LEAD_MS;
	double most_ms = (double) flusher->expire_ms / VISIT_SHARE;
	uint64 since = pg_atomic_read_u64(&file->dirtied_when);
	uint64 due = since + flusher->expire_ms;
	uint64 overdue;

	*in_time = lead_ms <= most_ms;
	/* without these the flusher does not come by time */
	if (since == 0 || flusher->expire_ms == 0 || flusher->interval_ms == 0)
		return false;
	overdue = due + flusher->interval_ms + VISIT_GRACE_MS;
	if (now_ms > overdue)
	{
		/* one that nobody wrote to for long has missed many */
		uint64 missed = (now_ms - overdue) / flusher->expire_ms + 1;

		due += missed * flusher->expire_ms;
		/* whoever marks a page looks only whether there is a time */
		pg_atomic_write_u64(&file->dirtied_when, due - flusher->expire_ms);
	}
	return now_ms + (uint64) Min(lead_ms, most_ms) >= due;
}

/* Look at a region; false if nothing is marked there */
static bool
add_region(uint32 f, uint32 number, const PoolDue *due, PoolLook *look, double *seconds)
{
	static BridgeRun runs[BRIDGE_MAX_RUNS];
	PageMapBits anything; /* the real plan knows what may be bridged; this one assumes all */
	PageMapFile *file = page_map_file(calm_page_map, f);
	PageMapRegion *region = page_map_region_of(calm_page_map, file, number);
	Candidate *candidate = &candidates[candidate_count];
	double operations = 0;
	double bytes = 0;
	double region_seconds;
	uint32 pages;
	PageMapBits bits;
	int nruns;

	if (region == NULL || page_map_region_count(region) == 0)
		return false;
	candidate->since = pg_atomic_read_u64(&region->since);
	page_map_peek_region(region, &bits);
	pages = bits_count(&bits);
	if (pages == 0)
		return false;
	candidate->file = f;
	candidate->number = number;
	candidate->incarnation = pg_atomic_read_u32(&file->incarnation);
	candidate->reason = pg_atomic_read_u32(&region->passed) ? PASSED : BY_AMOUNT;
	if (f == due->drained && candidate->since <= due->before_ms)
		candidate->reason = DRAIN;
	candidate->fill = false;

	memset(&anything, 0xFF, sizeof(anything));
	nruns = bridge_plan(&bits, &anything, calm_bridge ? flush_policy.max_gap : 0, runs);
	for (int r = 0; r < nruns; r++)
	{
		bytes += (double) runs[r].blocks * BLCKSZ;
		operations += device_operations(&flush_policy.caps, (uint64) runs[r].blocks * BLCKSZ);
	}
	region_seconds = device_seconds(&flush_policy.caps, operations, bytes);
	candidate->gaps = bytes > (double) pages * BLCKSZ;
	candidate->pages_per_second = pages / Max(region_seconds, 1e-9);
	look->pages += pages;
	*seconds += region_seconds;
	return true;
}

/* Look at a file */
static void
add_file(uint32 f, const KernelFlusher *flusher, const PoolDue *due, uint64 now_ms, PoolLook *look)
{
	PageMapFile *file = page_map_file(calm_page_map, f);
	int before = candidate_count;
	double seconds = 0;
	bool in_time;
	bool near;

	if (pg_atomic_read_u32(&file->incarnation) & 1)
	{
		for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS && candidate_count < MAX_CANDIDATES;
		     number++)
			candidate_count += add_region(f, number, due, look, &seconds);
	}
	if (candidate_count == before)
		page_map_settle(calm_page_map, f);
	near = candidate_count > before && due->visits &&
	       visit_is_near(file, flusher, seconds, now_ms, &in_time);
	for (int i = before; near && (in_time || !flush_policy.paced) && i < candidate_count; i++)
	{
		candidates[i].reason = Max(candidates[i].reason, VISIT);
		candidates[i].fill = !in_time && candidates[i].reason == VISIT;
	}
	look->seconds += seconds;
}

/*
 * Look at what is marked, and order it by what flushing it frees.  A map with more of it than
 * one look is to see is looked at in turns.
 */
void
pool_look(const KernelFlusher *flusher, const PoolDue *due, uint64 now_ms, PoolLook *look)
{
	static uint32 next = 0; /* file to go on with in the next look */
	uint64 until = monotonic_ns() + MAX_LOOK_NS;
	uint32 first = next;
	bool around = false;

	if (candidates == NULL)
		candidates = MemoryContextAlloc(TopMemoryContext, MAX_CANDIDATES * sizeof(Candidate));
	candidate_count = 0;
	candidate_next = 0;
	memset(look, 0, sizeof(*look));
	if (due->drained != PAGE_MAP_END)
		add_file(due->drained, flusher, due, now_ms, look);

	while (candidate_count < MAX_CANDIDATES && monotonic_ns() < until)
	{
		uint32 f = page_map_next_marked(calm_page_map, next);

		if (f == PAGE_MAP_END && !around)
		{
			around = true;
			next = 0;
			continue;
		}
		if (f == PAGE_MAP_END || (around && f >= first))
			break;
		next = f + 1;
		if (f != due->drained)
			add_file(f, flusher, due, now_ms, look);
	}
	qsort(candidates, candidate_count, sizeof(Candidate), compare);
}

/* Whether all that the last look has found has had its turn */
bool
pool_is_done(void)
{
	return candidate_next >= candidate_count;
}

/*
 * Start on the best region that has to be flushed now, or fill its gaps; false if none has.
 *
 * None of a file that is being fsynced: fsync waits for what is under writeback
 * when it comes to it, not only for what was when it began
 * (__filemap_fdatawait_range, mm/filemap.c), so it would follow us through the
 * file, at the pace at which we write.
 */
bool
pool_start_next(const PoolDue *due, uint64 now_ms)
{
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
		Candidate *c = &candidates[candidate_next];
		bool old = c->since != 0 && now_ms >= c->since + due->older_ms;
		/* before a visit, and in a drain where others need the device, no more is to come */
		bool clean = !flush_policy.dry_run && c->reason != VISIT &&
		             !(c->reason == DRAIN && flush_policy.paced);

		if ((c->reason == BY_AMOUNT && !due->all && !old) ||
		    page_map_being_fsynced(calm_page_map, c->file))
		{
			candidate_next++;
			continue;
		}
		if (clean && cleaner_is_asked() && !cleaner_is_free())
			return false;
		candidate_next++;
		if (c->fill && !c->gaps)
			continue;
		if (c->fill)
		{
			flush_fill_region(c->file, c->incarnation, c->number);
			return true; /* one at a time: it takes milliseconds */
		}
		if (clean &&
		    (cleaner_has(c->file, c->number) || cleaner_ask(c->file, c->incarnation, c->number)))
			continue;
		if (flush_start_region(c->file, c->incarnation, c->number))
			return true;
	}
	return false;
}
