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
 *   all regions, which is the smaller the more is dirty, so that little has to be sorted.
 * - For unflushed pages the worker knows the rate, merged and bridged, of what others leave of
 *   the volume.  In a stop there are no others.
 * - Without a cap of the device nothing is known of its rate, and nothing is said.
 * - Standbys that have to be sent the rest of WAL, and the archiver, are not in it.
 *
 * Recovery replays WAL from the redo point of the last complete checkpoint; a standby that is
 * restarted from that of the last restartpoint.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "writeback.h"
#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "base/base.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "shared/shared.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"

/* Buffers whose runs are counted, at most: sorting them takes a few milliseconds */
#define SAMPLE 16384

/* A count is used again for so long at least, and for so many times what it took of a processor */
#define COUNT_MS 1000
#define COUNT_PART 100

/* Space, database, relation, fork, block: as in all versions */
#define TAG_WORDS 5
#define BLOCK_WORD 4

StaticAssertDecl(sizeof(BufferTag) == TAG_WORDS * sizeof(uint32), "tag of a buffer");

/* What writing the dirty buffers costs the device */
typedef struct Dirty
{
	uint64 buffers;
	double operations;
	double bytes;
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
	{
		/* a shutdown's checkpoint waits for nobody, so that its fsyncs find gaps as they are */
		uint64 run = (uint64) run_blocks(&tag, 0) * BLCKSZ;

		dirty->operations += device_operations(caps, run);
		dirty->bytes += run;
	}
	dirty->operations *= (double) mask + 1;
	dirty->bytes *= (double) mask + 1;

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

double
stop_estimate_seconds(uint64 *dirty_buffers, bool *counted)
{
	static Dirty dirty;
	static uint64 next_count_ms = 0;
	uint64 began = monotonic_ms();
	double unflushed = page_map_unflushed(calm_page_map) +
	                   (double) pg_atomic_read_u64(&calm_shared->in_flight_pages);
	DeviceCaps caps;
	double rate;
	double granted;

	SpinLockAcquire(&calm_shared->lock);
	caps = calm_shared->caps;
	rate = calm_shared->flush_rate;
	granted = calm_shared->granted_operations;
	run_gap = calm_shared->max_gap;
	SpinLockRelease(&calm_shared->lock);

	*counted = began >= next_count_ms;
	if (*counted)
	{
		uint64 used = used_ns();

		count_dirty(&caps, &dirty);
		used = (used_ns() - used) * COUNT_PART / 1000000;
		next_count_ms = monotonic_ms() + Max(COUNT_MS, used);
	}
	*dirty_buffers = dirty.buffers;
	if (!device_is_capped(&caps))
		return NAN;
	if (isinf(rate))
		return device_seconds(&caps, dirty.operations + unflushed,
		                      dirty.bytes + unflushed * BLCKSZ);
	if (!isinf(caps.write_iops) && granted > 0 && granted < caps.write_iops)
		rate *= caps.write_iops / granted;
	return device_seconds(&caps, dirty.operations, dirty.bytes) + unflushed / rate;
}

double
recovery_estimate_seconds(void)
{
	ControlFileData *control;
	XLogRecPtr now = RecoveryInProgress() ? GetXLogReplayRecPtr(NULL) : GetXLogInsertRecPtr();
	XLogRecPtr redo;
	double rate;
	bool crc_ok;

	SpinLockAcquire(&calm_shared->lock);
	rate = calm_shared->replay_rate;
	SpinLockRelease(&calm_shared->lock);
	if (rate <= 0)
		return NAN;
	control = get_controlfile(DataDir, &crc_ok);
	redo = control->checkPointCopy.redo;
	pfree(control);
	return crc_ok ? (double) (now - Min(redo, now)) / rate : NAN;
}
