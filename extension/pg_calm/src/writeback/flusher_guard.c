/*-------------------------------------------------------------------------
 *
 * flusher_guard.c
 *	  Makes files dense before the kernel flusher writes them.
 *
 * The flusher visits an inode vm.dirty_expire_centisecs after it was first
 * dirtied, whatever was written back meanwhile: sync_file_range and fsync
 * don't reset that clock, only a visit does (fs/fs-writeback.c,
 * redirty_tail_locked).  In one go it then submits all pages that are dirty
 * at that moment, and everything that is written later waits behind them.
 * How long that takes depends on how scattered they are.
 *
 * So just before the visit a file's marked pages are bridged, kept
 * bridged until the visit is seen (the file's dirty pages vanish at once), and
 * left to the flusher; if none is seen they are marked again.  The flusher looks
 * for files whose time is up each vm.dirty_writeback_centisecs, from its last look
 * on; visits that were seen tell when that was.  Our clock for a
 * file starts when its first page is marked after the last visit we saw.  An
 * fsync makes dirty pages vanish as well; it is no visit, and what is written
 * after it still has to be dense when the flusher comes.
 *
 * A visit that nobody was prepared for (or a sync) sets the clock right, too:
 * the host has less dirty memory all at once, and a file's marked pages are
 * not dirty.  A sync of a file without marked pages is not seen, and the clock
 * is too early after it; a visit is not seen if it comes together with an
 * fsync of the file.  So a file that was not visited by its time stays guarded for once
 * more as long as the flusher may take from any start.
 *
 * The flusher comes as well when more is dirty than the device's part of the
 * background threshold, each vm.dirty_writeback_centisecs.  The part is small
 * for a device that was written little, and scattered pages are little for the
 * time that they take: once the flusher finds them it keeps coming.  So when
 * that much waits, all files are made dense and left to it, which also raises
 * the device's part.
 *
 * Files in which only the first blocks were written (page_map.h: small regions) are not
 * guarded: there is little to bridge in them, and a server can have hundreds of
 * thousands, of which none would be looked at in time if all were.
 *
 * A visit writes a certain set of pages, so the gaps to bridge are those with
 * which it is over soonest (bridge_choice.c), whatever the worker bridges in
 * what it flushes itself just then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "bridge_choice.h"
#include "flush.h"
#include "flusher_guard.h"
#include "open_files.h"
#include "shared/shared.h"
#include "utils/memutils.h"

/* Files that can be guarded at the same time; others are left to chance */
#define MAX_GUARDED 64

/* How long before its time a file is made dense */
#define LEAD_MS 1000

/* How late a visit is seen at most, and a file's first page may be marked before or after the kernel's clock begins */
#define SEEN_LATE_MS 250
#define CLOCK_MS 500

/* Part of the interval by which a look can be later: timers of seconds are coarse (kernel/time/timer.c) */
#define INTERVAL_SLACK 0.06

/* How often it is made dense again until the visit */
#define REPEAT_MS 500

/* The least that tells of a visit: of dirty memory that is gone, and of a file's marked pages */
#define VISIT_BYTES (8 * 1024 * 1024)
#define VISIT_FILE_BYTES (1024 * 1024)

typedef struct Guarded
{
	bool used;
	uint32 file;
	uint32 incarnation;
	uint64 until;       /* give up when no visit was seen by then */
	bool overdue;       /* none was seen by its time */
	bool by_amount;     /* the visit says nothing of the file's clock */
	uint64 next;        /* make dense again */
	uint64 dirty_bytes; /* most seen dirty since it is guarded */
	PageMapBits filled[PAGE_MAP_FILE_REGIONS];
} Guarded;

/* The flusher comes by amount when it looks; files are not held for longer than that until it does */
#define AMOUNT_INTERVAL_MS 10000

static Guarded *guarded = NULL;

/* When the flusher has looked at last, as far as is known; 0: it is not */
static uint64 looked_ms = 0;

/* When a visit by amount did not come at last */
static uint64 amount_missed_ms = 0;

/* When the last look at files began */
static uint64 last_tick_ms = 0;

static void look_for_visits(const KernelFlusher *flusher, uint64 now_ms);
static uint64 next_look_ms(const KernelFlusher *flusher, uint64 due_ms);
static bool too_much_for_device(const KernelFlusher *flusher, uint64 now_ms);
static bool wait_longer(Guarded *guard, const KernelFlusher *flusher, uint64 now_ms);
static bool is_wanted(const Guarded *guard);
static bool may_be_overdue(const Guarded *guard);
static uint64 marked_bytes(PageMapFile *file);
static bool being_visited(uint32 file, uint32 incarnation);
static uint32 visit_gap(const Guarded *guard);
static void make_dense(Guarded *guard);
static void end_guard(Guarded *guard, uint64 since_ms);
static void end_visited(Guarded *guard, uint64 now_ms);
static void give_up(Guarded *guard, uint64 now_ms);

/* The gaps to bridge for the visit of a file */
static uint32
visit_gap(const Guarded *guard)
{
	PageMapFile *file = page_map_file(calm_page_map, guard->file);
	BridgeGaps gaps;

	memset(&gaps, 0, sizeof(gaps));
	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
	{
		uint32 slot = page_map_slot(calm_page_map, file, number);
		PageMapBits bits = {{0}};

		if (slot != 0)
			page_map_peek_region(page_map_region(calm_page_map, slot - 1), &bits);
		for (int i = 0; i < PAGE_MAP_REGION_WORDS; i++)
			bits.word[i] |= guard->filled[number].word[i];
		bridge_count_gaps(&bits, &gaps);
	}
	return bridge_least_time_gap(&gaps, &flush_policy.caps, (double) flush_policy.headroom);
}

static void
make_dense(Guarded *guard)
{
	PageMapFile *file = page_map_file(calm_page_map, guard->file);
	uint32 workers_gap = flush_policy.max_gap;

	flush_policy.max_gap = visit_gap(guard);

	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
	{
		uint32 slot = page_map_slot(calm_page_map, file, number);

		if (slot != 0 && page_map_region_count(page_map_region(calm_page_map, slot - 1)) > 0)
			flush_hand_over_region(guard->file, guard->incarnation, number, &guard->filled[number]);
	}
	flush_policy.max_gap = workers_gap;
}

/* No visit is waited for any more: the file's clock starts anew, at since_ms */
static void
end_guard(Guarded *guard, uint64 since_ms)
{
	PageMapFile *file = page_map_file(calm_page_map, guard->file);

	if (pg_atomic_read_u32(&file->incarnation) == guard->incarnation && !guard->by_amount)
		pg_atomic_write_u64(&file->dirtied_when, since_ms);
	pg_atomic_write_u32(&file->handed, 0);
	pg_atomic_write_u32(&file->wanted, 0);
	guard->used = false;
}

/* The file was visited */
static void
end_visited(Guarded *guard, uint64 now_ms)
{
	for (int i = 0; i < PAGE_MAP_FILE_REGIONS; i++)
		flush_count_foreign(&guard->filled[i]);
	end_guard(guard, now_ms);
}

/* The file was not visited, or is not to be left to the flusher any more: the worker flushes it */
static void
give_up(Guarded *guard, uint64 now_ms)
{
	for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
		flush_take_back_region(guard->file, guard->incarnation, number, &guard->filled[number]);
	end_guard(guard, now_ms);
}

/* Whether a drain waits for the file */
static bool
is_wanted(const Guarded *guard)
{
	return pg_atomic_read_u32(&page_map_file(calm_page_map, guard->file)->wanted) ==
	       guard->incarnation;
}

/* Whether a visit that is overdue may be waited for */
static bool
may_be_overdue(const Guarded *guard)
{
	return !is_wanted(guard) && flush_policy.headroom > 0;
}

/*
 * No visit was seen by the time that one was due: the clock was too early, or
 * the visit came together with an fsync.  Whenever the file was first dirtied,
 * one comes within as long as it may take from now; if the next is missed as
 * well, it is not waited for again.  Not if a drain waits for the file, nor
 * without room to make dense what is written meanwhile; and in shadow mode that
 * would only hide it from who looks at the page map.
 */
static bool
wait_longer(Guarded *guard, const KernelFlusher *flusher, uint64 now_ms)
{
	if (guard->overdue || guard->by_amount || !may_be_overdue(guard) || flush_policy.dry_run)
		return false;
	guard->overdue = true;
	guard->until = now_ms + flusher->expire_ms + flusher->interval_ms;
	return true;
}

/* Pages that are marked in a file, in bytes */
static uint64
marked_bytes(PageMapFile *file)
{
	uint64 pages = 0;

	uint32 regions = page_map_file_regions(file);

	for (uint32 number = 0; number < regions; number++)
	{
		uint32 slot = page_map_slot(calm_page_map, file, number);

		if (slot != 0)
			pages += page_map_region_count(page_map_region(calm_page_map, slot - 1));
	}
	return pages * BLCKSZ;
}

/*
 * Whether the flusher will come by amount, and there is room to prepare for
 * it: without, it would find as much scattered as if it were not expected.
 * If it did not come for so much, it is not expected again so soon.
 */
static bool
too_much_for_device(const KernelFlusher *flusher, uint64 now_ms)
{
	uint64 dirty =
		BLCKSZ * (page_map_unflushed(calm_page_map, 0) + page_map_unflushed(calm_page_map, 1));

	for (int i = 0; i < MAX_GUARDED; i++)
	{
		if (guarded[i].used)
			dirty += guarded[i].dirty_bytes;
	}
	return !flush_policy.dry_run && flusher->interval_ms <= AMOUNT_INTERVAL_MS &&
	       (amount_missed_ms == 0 || now_ms >= amount_missed_ms + flusher->expire_ms) &&
	       dirty > flusher->device_bytes && dirty < flush_policy.headroom;
}

/*
 * When the flusher may come for a file whose time is up at due_ms: the earliest
 * that is possible for its first look after that.  With each look that nobody has
 * seen less is known, until it may be at any time.  When it comes by amount in
 * between it looks later than it would have (fs/fs-writeback.c, wb_workfn), and a
 * visit can be a surprise.
 */
static uint64
next_look_ms(const KernelFlusher *flusher, uint64 due_ms)
{
	double due = (double) due_ms - CLOCK_MS;
	double latest = flusher->interval_ms * (1 + INTERVAL_SLACK);
	double looks;

	if (looked_ms == 0 || due <= (double) looked_ms)
		return due_ms;
	looks = ceil((due - (double) looked_ms) / latest);
	return Max(due_ms, looked_ms - SEEN_LATE_MS + (uint64) (looks * flusher->interval_ms));
}

/* Whether most of what there is of a file is being written, and neither by us nor for an fsync */
static bool
being_visited(uint32 file, uint32 incarnation)
{
	uint64 dirty;
	uint64 writeback;

	return open_files_state(file, incarnation, &dirty, &writeback) &&
	       writeback > dirty + flush_in_flight_bytes() + VISIT_BYTES &&
	       !page_map_fsynced_since(calm_page_map, file, last_tick_ms);
}

/* Visits of files that are not guarded */
static void
look_for_visits(const KernelFlusher *flusher, uint64 now_ms)
{
	static uint64 dirty_before = 0;
	static uint64 started_before = 0;
	/* what is only counted stays dirty */
	uint64 ours = flush_policy.dry_run ? 0 : flush_started.bytes - started_before;
	bool gone = flusher->dirty_bytes + ours + VISIT_BYTES < dirty_before;

	dirty_before = flusher->dirty_bytes;
	started_before = flush_started.bytes;
	for (uint32 f = 0; gone && (f = page_map_next_large(calm_page_map, f)) != PAGE_MAP_END; f++)
	{
		PageMapFile *file = page_map_file(calm_page_map, f);
		uint32 incarnation = pg_atomic_read_u32(&file->incarnation);
		uint64 marked;
		uint64 dirty;
		uint64 writeback;

		if ((incarnation & 1) == 0 || pg_atomic_read_u64(&file->dirtied_when) == 0 ||
		    flusher_guard_holds(f))
			continue;
		marked = marked_bytes(file);
		if (marked >= VISIT_FILE_BYTES && open_files_state(f, incarnation, &dirty, &writeback) &&
		    dirty < marked / 2 && !page_map_fsynced_since(calm_page_map, f, last_tick_ms))
		{
			pg_atomic_write_u64(&file->dirtied_when, now_ms);
			looked_ms = now_ms;
		}
	}
}

/* To be called when a worker begins: what an earlier one has guarded is forgotten */
void
flusher_guard_forget(void)
{
	uint32 high = pg_atomic_read_u32(&calm_page_map->files_high);

	for (uint32 f = 0; f < high; f++)
		pg_atomic_write_u32(&page_map_file(calm_page_map, f)->handed, 0);
}

/* Whether a file is being left to the flusher: nobody else should flush it */
bool
flusher_guard_holds(uint32 file)
{
	for (int i = 0; guarded && i < MAX_GUARDED; i++)
	{
		if (guarded[i].used && guarded[i].file == file)
			return true;
	}
	return false;
}

/* To be called when nothing is to be left to the flusher: what was goes back to the worker */
void
flusher_guard_give_up(uint64 now_ms)
{
	for (int i = 0; guarded && i < MAX_GUARDED; i++)
	{
		if (guarded[i].used)
			give_up(&guarded[i], now_ms);
	}
}

/* To be called several times a second */
void
flusher_guard_tick(const KernelFlusher *flusher, uint64 now_ms)
{
	bool too_much;

	if (flusher->expire_ms == 0 || flusher->interval_ms == 0)
		return; /* the flusher does not come by time */
	if (guarded == NULL)
		guarded = MemoryContextAllocZero(TopMemoryContext, MAX_GUARDED * sizeof(Guarded));

	look_for_visits(flusher, now_ms);
	too_much = too_much_for_device(flusher, now_ms);
	for (int i = 0; i < MAX_GUARDED; i++)
	{
		Guarded *guard = &guarded[i];
		uint64 dirty = 0;
		uint64 writeback = 0;

		if (!guard->used)
			continue;
		if (!open_files_state(guard->file, guard->incarnation, &dirty, &writeback))
		{
			end_visited(guard, now_ms);
			continue;
		}
		if ((now_ms >= guard->until && (dirty == 0 || !wait_longer(guard, flusher, now_ms))) ||
		    (guard->overdue && !may_be_overdue(guard)))
		{
			/* so much is not what the flusher comes for */
			if (guard->by_amount && too_much)
				amount_missed_ms = now_ms;
			/* of a clean file, whoever dirties it next starts the clock */
			give_up(guard, dirty == 0 ? 0 : now_ms);
			continue;
		}
		/* what an fsync has written says nothing */
		if (page_map_fsynced_since(calm_page_map, guard->file, last_tick_ms))
			guard->dirty_bytes = dirty;
		else if (dirty < guard->dirty_bytes / 2)
		{
			looked_ms = now_ms;
			end_visited(guard, now_ms);
			continue;
		}
		guard->dirty_bytes = Max(guard->dirty_bytes, dirty);
		if (now_ms >= guard->next)
		{
			make_dense(guard);
			guard->next = now_ms + REPEAT_MS;
		}
	}

	/* what was visited is gone */
	too_much = too_much_for_device(flusher, now_ms);
	for (uint32 f = 0; (f = page_map_next_large(calm_page_map, f)) != PAGE_MAP_END; f++)
	{
		PageMapFile *file = page_map_file(calm_page_map, f);
		uint32 incarnation = pg_atomic_read_u32(&file->incarnation);
		uint64 since = pg_atomic_read_u64(&file->dirtied_when);
		Guarded *guard = NULL;
		uint64 writeback;
		bool by_time;

		if ((incarnation & 1) == 0 || since == 0 || now_ms < since || flusher_guard_holds(f))
			continue;
		by_time = now_ms + LEAD_MS >= next_look_ms(flusher, since + flusher->expire_ms);
		if (!by_time && !(too_much && marked_bytes(file) >= VISIT_FILE_BYTES))
			continue;
		if (by_time && being_visited(f, incarnation))
		{
			pg_atomic_write_u64(&file->dirtied_when, now_ms);
			looked_ms = now_ms;
			continue;
		}
		for (int i = 0; i < MAX_GUARDED && guard == NULL; i++)
		{
			if (!guarded[i].used)
				guard = &guarded[i];
		}
		if (guard == NULL)
			break;
		memset(guard, 0, sizeof(*guard));
		guard->used = true;
		guard->file = f;
		guard->incarnation = incarnation;
		guard->by_amount = !by_time;
		guard->until =
			(by_time ? since + flusher->expire_ms : now_ms) + flusher->interval_ms + 2 * LEAD_MS;
		/* before its marks go (drain_kernel.c) */
		pg_atomic_write_u32(&file->handed, incarnation);
		make_dense(guard);
		guard->next = now_ms + REPEAT_MS;
		if (!open_files_state(f, incarnation, &guard->dirty_bytes, &writeback) ||
		    guard->dirty_bytes == 0)
		{
			/* clean: whoever dirties it next starts the clock */
			guard->used = false;
			pg_atomic_write_u32(&file->handed, 0);
			pg_atomic_write_u64(&file->dirtied_when, 0);
		}
	}
	last_tick_ms = now_ms;
}
