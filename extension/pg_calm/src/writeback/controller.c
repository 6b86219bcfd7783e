/*-------------------------------------------------------------------------
 *
 * controller.c
 *	  How much the worker writes, how much may wait, and when a checkpoint's writes are held.
 *
 * There is one pool: the pages that are written and not flushed.  It is measured in seconds in
 * which the device would take all of it, scattered as it is, merged and bridged.  The more waits
 * the denser it is, and the cheaper; but whatever comes to it, the kernel's flusher, an fsync, a
 * stop, has to write all of it.  So it has a limit.  Below the limit pages wait for their turn by
 * age; above it the worker flushes the densest regions, as fast as its share of the device
 * allows.  If that is not fast enough the pool grows and becomes denser, until it is. What takes so
 * long is measured as dense as the pool was lately: a sparse one must be let grow. Where it would
 * reach what wakes the kernel's flusher, the checkpoint's own writes are held (checkpoint_hold.c).
 *
 * The worker's share is what others leave of the device's limits.  On most cloud volumes
 * reads and WAL draw on the same budget.  What they need is what they used when nothing held
 * them up, so a higher use is followed at once, and a lower one slowly: it may be lower
 * because of us.  A part is always the worker's, for what it does not flush the kernel or an
 * fsync does, in more operations.  That part grows with what waits beyond the limit.  Of bytes it
 * is fixed where they are short and no gap is filled: waiting saves none, and once a checkpoint is
 * late for WAL each byte of that is two.
 *
 * The limits are what somebody told us, and may be wrong, or may have changed.  Where flushes of
 * WAL take several times as long as they can, most of what the device does is the worker's, and that
 * is less than the limits allow, the device gives no more: all goes by that, which rises slowly.
 *
 * Filling a gap between dirty pages takes bytes and saves an operation.  It is worth it as long
 * as the device has more bytes left than operations, for all who use it: so the longest gap that
 * is filled follows what both are used to.  With enough left of both it is the one that costs as
 * much of the one limit as it saves of the other.
 *
 * Nothing here is the server's: test/controller_test.c runs it against a model of a volume.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "writeback.h"

/*
 * The constants of flushing.
 *
 * POOL_SECONDS	what may wait: four looks of the worker.  With less there is little to choose
 *				from; whoever comes to the pool, a visit of the kernel's flusher each 30 s, an
 *				fsync, holds up others for some such time.
 * FULL_SECONDS	what can't go on: three times as much, so that a checkpoint's writes are held
 *				little by little.
 * POOL_PART	part of what wakes the kernel's flusher on our device that may wait.  It counts
 *				folios, ours and others'.
 * HOST_PART	part of what wakes it on the host from which all is flushed.
 * LEAST_SHARE	the worker's part of a device that others use, with nothing beyond the limit.
 * MOST_SHARE	the same with the pool full, or in a hurry.
 * BYTES_SHARE	the same of bytes without gaps: a page has 8 kB, its compressed image in WAL half.
 * GAP_USED	part of one of the limits that has to be used for gaps to follow it.
 * GAP_MS	in which the longest gap is halved where twice as many bytes are used as operations.
 * SLOW			times as long as flushes of WAL can take: waiting for a device that has no more to give.
 * SLOW_FLUSHES	that end in a look, if they are to say how long they can take: as in breaker_law.c.
 * MOST_USE		part of a device's use that is most of it.
 * QUICK_MS		half-life with which that is forgotten, if they take longer all the time.
 * SLOW_MS		after which, if using less has not helped, it is not the device's limits, and flushes of
 *				WAL take as long as they do: ten half-lives in which less is used.
 * GIVEN_PART	of what a device gives when it has no more to give that is used of it: below it nobody
 *				waits.
 * LEAST_GIVEN	part of the limits that the device is taken to give at least: an error is bounded.
 * GIVEN_MS		in which what it is taken to give is doubled, up to the limits: less than a second of
 *				ten is spent on finding out.
 * RISE_MS, FALL_MS	half-lives with which a higher and a lower use by others is followed, and how
 *				fast the pool is written: two looks of the worker, and as long as a checkpoint's pauses.
 */
#define POOL_SECONDS 1.0
#define FULL_SECONDS 3.0
#define POOL_PART 0.5
#define HOST_PART 0.8
#define LEAST_SHARE 0.3
#define MOST_SHARE 0.6
#define BYTES_SHARE 0.7
#define GAP_USED 0.5
#define GAP_MS 1000.0
#define SLOW 3.0
#define SLOW_FLUSHES 10
#define MOST_USE 0.5
#define QUICK_MS 300000.0
#define SLOW_MS 5000.0
#define GIVEN_PART 0.9
#define LEAST_GIVEN 0.125
#define GIVEN_MS 60000.0
#define RISE_MS 500.0
#define FALL_MS 10000.0

/* More bytes than any pool has, for what is not bounded */
#define MOST 1e18

/* What others than the worker use */
static CalmRates all;    /* reads and writes */
static CalmRates writes; /* of these */
static CalmRates used;   /* by all, the worker included */
static double gap = -1;  /* blocks; below 0: none yet */
static double given = 1; /* part of the limits that the device gives */
static double dense; /* bytes per second that it writes of the pool, as dense as that was lately */
static double quick_us; /* that a flush of WAL takes where nothing is in its way; 0: not known */
static double slow_ms;  /* for how long flushes have been slow although less is used */
static ControllerInput last;

static void
follow(double *value, double now, double fall_ms, double elapsed_ms)
{
	*value += (now - *value) * (1 - exp2(-elapsed_ms / (now > *value ? RISE_MS : fall_ms)));
}

static void
follow_use(CalmRates *use, double operations, double bytes, double fall_ms, double elapsed_ms)
{
	follow(&use->operations, Max(operations, 0) * 1000 / elapsed_ms, fall_ms, elapsed_ms);
	follow(&use->bytes, Max(bytes, 0) * 1000 / elapsed_ms, fall_ms, elapsed_ms);
}

/* What is left of a cap, which may be none */
static double
left(double cap, double use, double least)
{
	return isinf(cap) ? cap : Max(cap - use, cap * least);
}

/*
 * The longest gap, in blocks, that is cheaper to write along than to leave out: writing it costs
 * bytes, leaving it out one more operation.  Where only one of both is limited, only that is
 * worth saving: any gap up to an operation's size where operations are, none where bytes are.
 */
static double
even_gap(const DeviceCaps *caps)
{
	double blocks = caps->io_size / BLCKSZ;

	if (isinf(caps->write_iops))
		return 0;
	if (!isinf(caps->write_bytes))
		/* strictly less than what is even */
		blocks = ceil(Min(caps->write_bytes / caps->write_iops / BLCKSZ, blocks)) - 1;
	return Min(Max(blocks, 0), BRIDGE_MAX_GAP);
}

static void
follow_gap(const DeviceCaps *caps, double elapsed_ms)
{
	double operations = used.operations / Min(caps->all_iops, caps->write_iops);
	double bytes = used.bytes / Min(caps->all_bytes, caps->write_bytes);
	double most = Min(caps->io_size / BLCKSZ, BRIDGE_MAX_GAP);

	if (gap < 0 || isinf(caps->write_iops) || isinf(caps->write_bytes) ||
	    Max(operations, bytes) < GAP_USED)
	{
		gap = even_gap(caps);
		return;
	}
	/* from none it could not grow */
	gap = Max(gap, 0.5) * pow(operations / Max(bytes, 0.01), elapsed_ms / GAP_MS);
	gap = Min(gap, most);
}

/*
 * What the device gives of its limits, by its use since the last look, in part the worker's.
 */
static void
follow_given(const ControllerInput *input, double used_part, double own_part, double elapsed_ms)
{
	double flushes = (double) input->wal_flushes - (double) last.wal_flushes;
	double us = ((double) input->wal_flush_us - (double) last.wal_flush_us) / Max(flushes, 1);
	bool slow = quick_us > 0 && flushes > 0 && us >= SLOW * quick_us;

	if (flushes >= SLOW_FLUSHES && (quick_us <= 0 || us < quick_us))
		quick_us = us;
	else if (flushes >= SLOW_FLUSHES)
		quick_us += (us - quick_us) * (1 - exp2(-elapsed_ms / QUICK_MS));

	/* limits that are told are no more exact than that */
	if (slow && own_part >= MOST_USE && used_part < Min(given, GIVEN_PART))
		given +=
			(Max(used_part * GIVEN_PART, LEAST_GIVEN) - given) * (1 - exp2(-elapsed_ms / RISE_MS));
	else
		given = Min(given * exp2(elapsed_ms / GIVEN_MS), 1);

	slow_ms = slow && given < 1 ? slow_ms + elapsed_ms : 0;
	if (slow_ms > SLOW_MS)
	{
		given = 1;
		quick_us = us;
		slow_ms = 0;
	}
}

void
controller_follow(const ControllerInput *input, ControllerOutput *output)
{
	const DeviceCaps *told = &input->caps;
	DeviceCaps now = device_part(told, given);
	const DeviceCaps *caps = &now;
	const KernelFlusher *flusher = &input->flusher;
	const KernelFlusher *before = &last.flusher;
	double elapsed = (double) input->now_ms - (double) last.now_ms;
	uint64 unflushed = input->unflushed * BLCKSZ;
	double excess;
	double least;

	if (isinf(dense) || isinf(input->flush_rate) || last.now_ms == 0)
		dense = input->flush_rate * BLCKSZ;
	else
		follow(&dense, input->flush_rate * BLCKSZ, FALL_MS, elapsed);
	memset(output, 0, sizeof(*output));
	output->paced = !isinf(caps->all_iops) || !isinf(caps->all_bytes);

	/* counters go back when a device is replaced */
	if (last.now_ms != 0 && elapsed > 0 && flusher->operations >= before->operations &&
	    flusher->bytes >= before->bytes && flusher->write_operations >= before->write_operations &&
	    flusher->write_bytes >= before->write_bytes && input->own_operations >= last.own_operations)
	{
		double requests = flusher->operations - before->operations;
		double write_requests = flusher->write_operations - before->write_operations;
		double bytes = flusher->bytes - before->bytes;
		double write_bytes = flusher->write_bytes - before->write_bytes;
		/* a request larger than io_size is several operations of the volume's */
		double operations = Max(requests, bytes / caps->io_size);
		double write_operations = Max(write_requests, write_bytes / caps->io_size);
		double own_operations = input->own_operations - last.own_operations;
		double own_bytes = input->own_bytes - last.own_bytes;

		follow_use(&all, operations - own_operations, bytes - own_bytes, FALL_MS, elapsed);
		follow_use(&writes, write_operations - own_operations, write_bytes - own_bytes, FALL_MS,
		           elapsed);
		/* both ways alike: it is for what happens now; reads draw on no limit of writes */
		follow_use(&used, isinf(caps->all_iops) ? write_operations : operations,
		           isinf(caps->all_bytes) ? write_bytes : bytes, RISE_MS, elapsed);
		if (output->paced && flusher->operations > 0)
			follow_given(
				input,
				Max(Max(operations / told->all_iops, bytes / told->all_bytes),
			        Max(write_operations / told->write_iops, write_bytes / told->write_bytes)) *
					1000 / elapsed,
				Max(own_operations / Max(operations, 1), own_bytes / Max(bytes, 1)), elapsed);
		now = device_part(told, given);
		follow_gap(caps, elapsed);
		output->all_operations = operations * 1000 / elapsed;
		output->all_bytes = bytes * 1000 / elapsed;
		output->reads = (requests - write_requests) * 1000 / elapsed;
		output->other_writes = (write_operations - own_operations) * 1000 / elapsed;
	}
	else if (gap < 0)
		gap = even_gap(caps);
	last = *input;
	output->share = *caps;
	output->given = given;
	output->gap = (uint32) rint(gap);

	/* what the kernel has written meanwhile is still marked, and must not count */
	if (flusher->background_bytes != PG_UINT64_MAX)
		unflushed = Min(unflushed, flusher->dirty_bytes);
	output->written = input->unflushed * BLCKSZ - unflushed;
	output->limit =
		(uint64) Min(Min(dense * POOL_SECONDS, flusher->device_bytes * POOL_PART), MOST);
	output->full = (uint64) Min(Min(dense * FULL_SECONDS, (double) flusher->device_bytes), MOST);
	output->full = Max(output->full, output->limit + BLCKSZ);
	output->too_much = unflushed > output->limit ||
	                   (flusher->background_bytes != PG_UINT64_MAX &&
	                    flusher->dirty_bytes > (double) flusher->background_bytes * HOST_PART);

	if (!output->paced)
		return;
	excess = input->hurries ? 1 :
	                          Min(Max((double) unflushed - output->limit, 0) /
	                                  (double) (output->full - output->limit),
	                              1);
	least = LEAST_SHARE + (MOST_SHARE - LEAST_SHARE) * excess;
	/* WAL draws on limits for writes as well */
	output->share.write_iops = Min(left(caps->write_iops, writes.operations, least),
	                               left(caps->all_iops, all.operations, least));
	if (output->gap == 0)
		least = BYTES_SHARE;
	output->share.write_bytes =
		Min(left(caps->write_bytes, writes.bytes, least), left(caps->all_bytes, all.bytes, least));
}
