/*-------------------------------------------------------------------------
 *
 * stop_estimate.c
 *	  How long a fast stop, and recovery after a crash, would take now.
 *
 * A fast stop ends with a checkpoint without pauses (ShutdownXLOG): BufferSync writes all
 * dirty buffers into the page cache, in the order of their blocks, and then each file is
 * fsynced.  The former is memory; what takes time is what the device gets by the latter: those
 * pages and all that was written before and not flushed.  Neighbours are one operation.  So it
 * is (operations / operations per second) or (bytes / bytes per second), whichever takes longer.
 *
 * - Buffers are looked at as pg_buffercache_summary() does, without locks: a header
 *   that changes meanwhile costs one page of the estimate.  Their runs are counted in a part of
 *   all regions, which is the smaller the more is dirty, so that little has to be sorted; all
 *   buffers are taken to be as scattered as those.
 * - The worker ends before that checkpoint begins.  So nobody bridges: gaps stay as they are, of
 *   unflushed pages, too.
 * - Without a cap of the device nothing is known of its rate, and nothing is said.
 * - Standbys that have to be sent the rest of WAL, and the archiver, are not in it.
 *
 * Recovery replays WAL from the redo point of the last complete checkpoint; a standby that is
 * restarted from that of the last restartpoint.  It ends, except on a standby, with a checkpoint
 * as that of a stop, of what replay has dirtied: at least what is dirty now, at most a page for each
 * block of WAL, as long as shared buffers have room.  The middle of both is taken, as pgcalm does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "writeback.h"
#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "common/controldata_utils.h"
#include "common/hashfn.h"
#include "storage/buf_internals.h"

/* Buffers whose runs are counted, at most: sorting them takes a few milliseconds */
#define SAMPLE 16384

/* A count is used again for so long at least, and for so many times what it took of a processor */
#define COUNT_MS CALM_LOOK_MS
#define COUNT_PART 100

/* Space, database, relation, fork, block: as in all versions */
#define TAG_WORDS 5
#define BLOCK_WORD 4

StaticAssertDecl(sizeof(BufferTag) == TAG_WORDS * sizeof(uint32), "tag of a buffer");

/* What writing costs the device */
typedef struct Dirty
{
	uint64 buffers;
	double operations; /* for them */
	double scattered;  /* operations for an unflushed page */
} Dirty;

/* What the last count has looked at, in order; in a process that counts nothing, untouched memory */
static uint32 tags[SAMPLE][TAG_WORDS];
static int count = 0;
static uint32 run_gap = 0;           /* blocks between neighbours of a run that is handed out */
static uint32 handed_out[TAG_WORDS]; /* the last block of stop_estimate_next_run() */
static int next_run = 0;
static int not_handed_out = 0;

static int
compare(const void *a, const void *b)
{
	const uint32 *left = a;
	const uint32 *right = b;

	for (int i = 0; i < TAG_WORDS; i++)
	{
		if (left[i] != right[i])
			return left[i] < right[i] ? -1 : 1;
	}
	return 0;
}

static uint32
region_hash(const uint32 *tag)
{
	return murmurhash32(
		hash_combine(murmurhash32(tag[2]), tag[BLOCK_WORD] / PAGE_MAP_REGION_BLOCKS));
}

static bool
same_region(const uint32 *a, const uint32 *b)
{
	return memcmp(a, b, BLOCK_WORD * sizeof(uint32)) == 0 &&
	       a[BLOCK_WORD] / PAGE_MAP_REGION_BLOCKS == b[BLOCK_WORD] / PAGE_MAP_REGION_BLOCKS;
}

/* Blocks of the run with such gaps that begins with this tag, which becomes that of the next one */
static uint32
run_blocks(int *tag, uint32 gap)
{
	const uint32 *first = tags[*tag];
	const uint32 *last = first;

	while (++*tag < count && same_region(tags[*tag], first) &&
	       tags[*tag][BLOCK_WORD] - last[BLOCK_WORD] <= gap + 1)
		last = tags[*tag];
	return last[BLOCK_WORD] - first[BLOCK_WORD] + 1;
}

/* Operations for each unflushed page */
static double
count_scattered(const DeviceCaps *caps)
{
	double pages = 0;
	double runs = 0;

	for (uint32 f = 0; (f = page_map_next_marked(calm_page_map, f)) != PAGE_MAP_END; f++)
	{
		PageMapFile *file = page_map_file(calm_page_map, f);

		for (uint32 number = 0; number < PAGE_MAP_FILE_REGIONS; number++)
		{
			PageMapRegion *region = page_map_region_of(calm_page_map, file, number);
			uint64 before = 0; /* the 64 blocks before these */

			for (int i = 0; region && i < PAGE_MAP_REGION_WORDS; i++)
			{
				uint64 bits = pg_atomic_read_u64(&region->dirty[i]);

				pages += pg_popcount64(bits);
				runs += pg_popcount64(bits & ~(bits << 1 | before >> 63));
				before = bits;
			}
		}
	}
	return pages > 0 ? Max(runs / pages, (double) BLCKSZ / caps->io_size) : 1;
}

static void
count_dirty(const DeviceCaps *caps, Dirty *dirty)
{
	uint32 mask = 0; /* regions are counted of whose hash these bits are 0 */
	/* other regions each time, since those that were counted are then cleaned (targets.c) */
	uint32 salt = murmurhash32((uint32) monotonic_ns());

	memset(dirty, 0, sizeof(*dirty));
	count = 0;
	for (int id = 0; id < NBuffers; id++)
	{
		BufferDesc *descriptor = GetBufferDescriptor(id);

		if (id % SAMPLE == 0)
			CHECK_FOR_INTERRUPTS();
		if ((CALM_BUFFER_STATE(descriptor) & (BM_VALID | BM_DIRTY)) != (BM_VALID | BM_DIRTY))
			continue;
		dirty->buffers++;
		while (count == SAMPLE && mask != PG_UINT32_MAX)
		{
			int kept = 0;

			mask = mask * 2 + 1;
			for (int i = 0; i < count; i++)
			{
				if (((region_hash(tags[i]) ^ salt) & mask) == 0)
					memmove(tags[kept++], tags[i], sizeof(*tags));
			}
			count = kept;
		}
		if (count == SAMPLE)
			continue;
		memcpy(tags[count], &descriptor->tag, sizeof(*tags));
		if (((region_hash(tags[count]) ^ salt) & mask) == 0)
			count++;
	}
	qsort(tags, count, sizeof(*tags), compare);
	for (int tag = 0; tag < count;)
		dirty->operations += device_operations(caps, (uint64) run_blocks(&tag, 0) * BLCKSZ);
	dirty->operations *= (double) dirty->buffers / Max(count, 1);
	dirty->scattered = count_scattered(caps);

	next_run = 0;
	while (next_run < count && compare(tags[next_run], handed_out) <= 0)
		next_run++;
	not_handed_out = count;
}

bool
stop_estimate_next_run(RelationFile *file, uint32 *first, uint32 *blocks)
{
	int begin;

	if (not_handed_out <= 0)
		return false;
	next_run = begin = next_run == count ? 0 : next_run;
	*blocks = run_blocks(&next_run, run_gap);
	*first = tags[begin][BLOCK_WORD];
	*file =
		(RelationFile){.relation = CALM_RELATION_ID(tags[begin][0], tags[begin][1], tags[begin][2]),
	                   .fork = (ForkNumber) tags[begin][3],
	                   .blocks = PG_UINT32_MAX};
	not_handed_out -= next_run - begin;
	memcpy(handed_out, tags[next_run - 1], sizeof(handed_out));
	return true;
}

void
stop_estimate(StopEstimate *stop)
{
	static Dirty dirty;
	static uint64 next_count_ms = 0;
	CalmFigures figures = calm_figures();
	DeviceCaps caps = device_part(&figures.caps, figures.given);
	double unflushed;

	run_gap = figures.max_gap;
	stop->counted = monotonic_ms() >= next_count_ms;
	if (stop->counted)
	{
		uint64 used = used_ns();

		count_dirty(&caps, &dirty);
		used = (used_ns() - used) * COUNT_PART / 1000000;
		next_count_ms = monotonic_ms() + Max(COUNT_MS, used);
	}
	stop->dirty_buffers = dirty.buffers;
	unflushed = (double) page_map_unflushed(calm_page_map) +
	            (double) pg_atomic_read_u64(&calm_shared->in_flight_pages);
	stop->pages = (double) dirty.buffers + unflushed;
	stop->seconds = NAN;
	/* nor where what is written is not marked */
	if (device_is_capped(&caps) && calm_mode != CALM_MODE_OFF && calm_shared->device != 0)
		stop->seconds = device_seconds(&caps, dirty.operations + unflushed * dirty.scattered,
		                               stop->pages * BLCKSZ);
}

double
recovery_estimate_seconds(const StopEstimate *stop, double replay_rate)
{
	ControlFileData *control;
	CalmFigures figures = calm_figures();
	DeviceCaps caps = device_part(&figures.caps, figures.given);
	bool standby = RecoveryInProgress();
	XLogRecPtr now = standby ? GetXLogReplayRecPtr(NULL) : GetXLogInsertRecPtr();
	double wal;
	double pages;
	double most;
	bool crc_ok;

	if (replay_rate <= 0)
		return NAN;
	control = get_controlfile(DataDir, &crc_ok);
	wal = (double) (now - Min(control->checkPointCopy.redo, now));
	pfree(control);
	if (!crc_ok)
		return NAN;
	if (standby || isnan(stop->seconds))
		return wal / replay_rate;
	pages = Max(stop->pages, Min(wal / BLCKSZ, NBuffers));
	most = device_seconds(&caps, pages, pages * BLCKSZ);
	if (stop->pages > 0)
		most = Min(most, stop->seconds * pages / stop->pages);
	return wal / replay_rate + (stop->seconds + Max(most, stop->seconds)) / 2;
}
