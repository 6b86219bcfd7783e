/*-------------------------------------------------------------------------
 *
 * checkpoint_wal.c
 *	  WAL before and after a checkpoint, and the end of one that nobody saw.
 *
 * The writeback worker's part of the reports: it notes the position of WAL and the count
 * of full-page images once a second.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "base/base.h"
#include "checkpoint_report.h"
#include "checkpoint_stats.h"
#include "pgstat.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* Milliseconds between looks of the worker at reports, and between samples */
#define LOOK_INTERVAL_MS 50
#define SAMPLE_INTERVAL_MS 1000

/* Enough for the span before a checkpoint, with one for each look */
#define SAMPLES 1024

/* With more between two samples, nothing is said about what lies between */
#define SAMPLE_GAP_US (3 * USECS_PER_SEC)

/* Seconds from the start of a checkpoint to the moments about which WAL figures are kept */
static const int wal_moments[WAL_MOMENTS] = {-30, -5, 0, 5, 30};

/* One look at WAL */
typedef struct WalSample
{
	TimestampTz time;
	XLogRecPtr position;
	int64 full_page_images;
} WalSample;

static WalSample samples[SAMPLES];
static uint64 sample_count = 0; /* ever taken */

static void take_sample(void);
static bool wal_at(TimestampTz when, WalMoment *moment);
static bool fill_wal(uint64 id, TimestampTz now);
static void close_abandoned(uint64 id);

static void
take_sample(void)
{
	WalSample *sample = &samples[sample_count++ % SAMPLES];
	bool recovery = RecoveryInProgress();

	sample->time = GetCurrentTimestamp();
	sample->position = recovery ? GetXLogReplayRecPtr(NULL) : GetXLogInsertRecPtr();

	/*
	 * During recovery no full-page images are generated, and the counter is
	 * read back from its file at some moment of it.
	 */
	sample->full_page_images = -1;
	if (!recovery)
	{
		pgstat_clear_snapshot();
		sample->full_page_images = CALM_WAL_FULL_PAGE_IMAGES();
	}
}

/*
 * WAL at a moment between two samples, in proportion.  False if there are
 * none close enough.
 */
static bool
wal_at(TimestampTz when, WalMoment *moment)
{
	uint64 low = sample_count > SAMPLES ? sample_count - SAMPLES : 0;
	uint64 high = sample_count;
	const WalSample *before;
	const WalSample *after;
	double part;

	/* the first sample that is not before the moment */
	if (low == high || samples[low % SAMPLES].time > when)
		return false;
	while (low < high)
	{
		uint64 middle = low + (high - low) / 2;

		if (samples[middle % SAMPLES].time < when)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == sample_count)
		return false;
	after = &samples[low % SAMPLES];
	before = after->time == when ? after : &samples[(low - 1) % SAMPLES];
	if (after->time - before->time > SAMPLE_GAP_US || after->position < before->position)
		return false;

	part = after == before ? 0 : (double) (when - before->time) / (after->time - before->time);
	moment->known = true;
	moment->position =
		before->position + (XLogRecPtr) (part * (after->position - before->position));
	moment->full_page_images = -1;
	if (before->full_page_images >= 0 && after->full_page_images >= before->full_page_images)
		moment->full_page_images =
			before->full_page_images +
			(int64) (part * (after->full_page_images - before->full_page_images));
	return true;
}

/* Fill in what can be told of WAL about a checkpoint by now; true if all is */
static bool
fill_wal(uint64 id, TimestampTz now)
{
	ReportSlot *slot = checkpoint_report_slot(id);
	TimestampTz started;
	XLogRecPtr redo;
	bool known[WAL_MOMENTS];
	bool mine;

	SpinLockAcquire(&checkpoint_reports->lock);
	mine = slot->report.id == id;
	started = slot->report.at[STARTED];
	redo = slot->report.redo;
	for (int i = 0; i < WAL_MOMENTS; i++)
		known[i] = slot->wal[i].known;
	SpinLockRelease(&checkpoint_reports->lock);
	if (!mine)
		return true;

	for (int i = 0; i < WAL_MOMENTS; i++)
	{
		TimestampTz when = started + wal_moments[i] * USECS_PER_SEC;
		WalMoment moment = {0};

		if (known[i] || when > now)
			continue;
		/* one that is behind the moment, and close to it */
		if (sample_count == 0 || samples[(sample_count - 1) % SAMPLES].time < when)
			take_sample();
		if (!wal_at(when, &moment))
			continue;
		/* that position is known exactly */
		if (wal_moments[i] == 0 && redo != 0)
			moment.position = redo;
		SpinLockAcquire(&checkpoint_reports->lock);
		if (slot->report.id == id)
			slot->wal[i] = moment;
		SpinLockRelease(&checkpoint_reports->lock);
	}
	return now > started + 30 * USECS_PER_SEC;
}

/*
 * The checkpointer idles, so no checkpoint is under way.  If one seems to be,
 * it ended and made no call after that from which we could have learnt when:
 * log_checkpoints is off, and it had no data file open.  Or it failed.
 */
static void
close_abandoned(uint64 id)
{
	ReportSlot *slot = checkpoint_report_slot(id);
	volatile uint32 *event;
	bool running;

	SpinLockAcquire(&checkpoint_reports->lock);
	running = slot->report.id == id && slot->report.status == REPORT_RUNNING;
	event = checkpoint_reports->checkpointer_waits_on;
	SpinLockRelease(&checkpoint_reports->lock);

	/* it ran when we looked there, so what we see now comes after its end */
	if (running && event != NULL && *event == WAIT_EVENT_CHECKPOINTER_MAIN)
		checkpoint_report_close(id);
}

void
checkpoint_stats_tick(uint64 now_ms)
{
	static uint64 next_look_ms = 0;
	static uint64 next_sample_ms = 0;
	static uint64 seen_id = 0;   /* newest report that we have seen */
	static uint64 filled_id = 0; /* up to this, there is nothing left to fill */
	TimestampTz now;
	uint64 last_id;

	if (now_ms < next_look_ms)
		return;
	next_look_ms = now_ms + LOOK_INTERVAL_MS;

	SpinLockAcquire(&checkpoint_reports->lock);
	last_id = checkpoint_reports->last_id;
	SpinLockRelease(&checkpoint_reports->lock);

	/* right after a start the rate changes most */
	if (now_ms >= next_sample_ms || last_id != seen_id)
	{
		take_sample();
		next_sample_ms = now_ms + SAMPLE_INTERVAL_MS;
		seen_id = last_id;
	}

	if (last_id - filled_id > (uint64) calm_checkpoint_history)
		filled_id = last_id - calm_checkpoint_history;
	now = GetCurrentTimestamp();
	for (uint64 id = filled_id + 1; id <= last_id; id++)
	{
		if (fill_wal(id, now) && id == filled_id + 1)
			filled_id = id;
	}
	if (last_id > 0)
		close_abandoned(last_id);
}
