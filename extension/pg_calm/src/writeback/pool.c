/*-------------------------------------------------------------------------
 *
 * pool.c
 *	  What is written and not flushed, and which of it is flushed next.
 *
 * A region is flushed
 * - when the checkpointer waits for it before its fsync of the file (checkpoint/drain.c),
 * - when the checkpointer has passed it,
 * - when its oldest page is old,
 * - or when too much waits (controller.c); those that free most pages per second of device
 *	 time first.
 * Before that the cleaner makes it dense: it writes its dirty shared buffers (cleaner.c).
 *
 * For the worker only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "writeback.h"
#include "utils/memutils.h"

/* Regions looked at closely in one look, and nanoseconds that it takes of a core: less than 3 % */
#define MAX_CANDIDATES 4096
#define MAX_LOOK_NS 7000000

/* In this order they are flushed */
typedef enum Reason
{
	BY_AMOUNT, /* or by age, which is looked at when its turn comes */
	PASSED,
	DRAIN
} Reason;

typedef struct Candidate
{
	uint32 file;
	uint32 incarnation;
	uint32 number;
	Reason reason;
	uint64 since;            /* of its oldest mark */
	double pages_per_second; /* freed, of device time */
} Candidate;

static Candidate *candidates = NULL;
static int candidate_count = 0;
static int candidate_next = 0;
static double look_pages = 0;   /* marked, in the regions that were looked at */
static double look_seconds = 0; /* in which the device would write them, merged and bridged */

static int
compare(const void *a, const void *b)
{
	const Candidate *left = a;
	const Candidate *right = b;

	if (left->reason != right->reason)
		return left->reason > right->reason ? -1 : 1;
	return (left->pages_per_second < right->pages_per_second) -
	       (left->pages_per_second > right->pages_per_second);
}

/* Look at a region; false if nothing is marked there */
static bool
add_region(uint32 f, uint32 number, const PoolDue *due)
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
	for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
		bits.word[i] = pg_atomic_read_u64(&region->dirty[i]);
	pages = bits_count(&bits);
	if (pages == 0)
		return false;
	candidate->file = f;
	candidate->number = number;
	candidate->incarnation = pg_atomic_read_u32(&file->incarnation);
	candidate->reason = pg_atomic_read_u32(&region->passed) ? PASSED : BY_AMOUNT;
	if (f == due->drained && candidate->since <= due->before_ms)
		candidate->reason = DRAIN;

	memset(&anything, 0xFF, sizeof(anything));
	nruns = bridge_plan(&bits, &anything, calm_bridge ? flush_policy.max_gap : 0, runs);
	for (int r = 0; r < nruns; r++)
	{
		bytes += (double) runs[r].blocks * BLCKSZ;
		operations += device_operations(&flush_policy.caps, (uint64) runs[r].blocks * BLCKSZ);
	}
	region_seconds = device_seconds(&flush_policy.caps, operations, bytes);
	candidate->pages_per_second = pages / Max(region_seconds, 1e-9);
	look_pages += pages;
	look_seconds += region_seconds;
	return true;
}

static void
add_file(uint32 f, const PoolDue *due)
{
	PageMapFile *file = page_map_file(calm_page_map, f);
	int before = candidate_count;

	if (pg_atomic_read_u32(&file->incarnation) & 1)
	{
		for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS && candidate_count < MAX_CANDIDATES;
		     number++)
			candidate_count += add_region(f, number, due);
	}
	if (candidate_count == before)
		page_map_settle(calm_page_map, f);
}

/*
 * Look at what is marked, and order it by what flushing it frees.  A map with more of it than
 * one look is to see is looked at in turns.  Returns the pages per second that the device would
 * write of it; 0 if nothing is marked.
 */
double
pool_look(const PoolDue *due)
{
	static uint32 next = 0; /* file to go on with in the next look */
	uint64 until = used_ns() + MAX_LOOK_NS;
	uint32 first = next;
	bool around = false;

	if (candidates == NULL)
		candidates = MemoryContextAlloc(TopMemoryContext, MAX_CANDIDATES * sizeof(Candidate));
	candidate_count = 0;
	candidate_next = 0;
	look_pages = look_seconds = 0;
	if (due->drained != PAGE_MAP_END)
		add_file(due->drained, due);

	while (candidate_count < MAX_CANDIDATES && used_ns() < until)
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
			add_file(f, due);
	}
	qsort(candidates, candidate_count, sizeof(Candidate), compare);
	return look_seconds > 0 ? look_pages / look_seconds : 0;
}

/* Whether all that the last look has found has had its turn */
bool
pool_is_done(void)
{
	return candidate_next >= candidate_count;
}

/*
 * Start on the best region that has to be flushed now; false if none has.
 *
 * None of a file that is being fsynced: fsync waits for what is under writeback when it comes to
 * it, not only for what was when it began (__filemap_fdatawait_range, mm/filemap.c), so it would
 * follow us through the file, at the pace at which we write.
 */
bool
pool_start_next(const PoolDue *due, uint64 now_ms)
{
	uint32 file;
	uint32 incarnation;
	uint32 number;

	while (open_files_free() && cleaner_fetch(&file, &incarnation, &number))
	{
		if (!page_map_being_fsynced(calm_page_map, file) &&
		    flush_start_region(file, incarnation, number))
			return true;
	}
	while (open_files_free() && candidate_next < candidate_count)
	{
		Candidate *c = &candidates[candidate_next];
		bool old = c->since != 0 && now_ms >= c->since + due->older_ms;
		/*
		 * In a drain where others need the device no more is to come.  Nor where bytes are short:
		 * a buffer that is written early saves an operation, and is often written again.
		 */
		bool clean = !flush_policy.dry_run && flush_policy.cleans &&
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
		if (clean && cleaner_ask(c->file, c->incarnation, c->number))
			continue;
		if (flush_start_region(c->file, c->incarnation, c->number))
			return true;
	}
	return false;
}
