/*-------------------------------------------------------------------------
 *
 * queued_writeback.c
 *	  How much of our data files the kernel has queued for a device.
 *
 * The kernel flusher submits all that is dirty of an inode in one go, and
 * comes to several inodes in the same second if they were first dirtied in the
 * same second.  What it has submitted is under writeback until the device has
 * written it, with small caps many seconds later, and whatever is submitted
 * after that waits behind it, of whichever file.
 *
 * The kernel tells how much is under writeback on the whole host (nr_writeback
 * in /proc/vmstat), and on a device only root (/sys/kernel/debug/bdi).  Of a
 * file cachestat(2) tells it (Linux 6.5), so our files are asked one by one.
 * That looks at each page of a file in the page cache, some milliseconds for a
 * GiB of small folios; so it pauses after each look for several times as long as that took,
 * and where there are so many files that a look takes long, it takes several.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cachestat.h"
#include "map/map.h"
#include "shared/shared.h"
#include "portability/instr_time.h"
#include "queued_writeback.h"

/* Between looks: so long, but so many times what the last one took at least */
#define INTERVAL_MS 20
#define PAUSE_FACTOR 4

/* After which a look ends, to be gone on with at the next one */
#define LOOK_MS 5

/* Devices that are told apart; of more, nothing is known */
#define MAX_DEVICES 16

typedef struct DeviceQueue
{
	uint64 device; /* st_dev */
	uint64 bytes;
} DeviceQueue;

static DeviceQueue queues[MAX_DEVICES]; /* what the last pass has found, or the first one so far */
static int queue_count = 0;
static DeviceQueue found[MAX_DEVICES]; /* in the pass that is under way */
static int found_count = 0;
static uint32 look_next = 0; /* file that it goes on with; 0: none is */
static bool pass_ended = false;
static uint64 next_look_ms = 0;

static uint64 file_bytes(uint32 file, uint32 incarnation, uint64 *device);
static void add(uint64 device, uint64 bytes);
static void look(double most_ms);
static uint64 bytes_of(uint64 device);

/*
 * Bytes of a file that are under writeback, and where; 0 if it is gone or can't
 * be looked at.
 */
static uint64
file_bytes(uint32 file_index, uint32 incarnation, uint64 *device)
{
	PageMapFile *file = page_map_file(calm_page_map, file_index);
	char path[PAGE_MAP_PATH_MAX];
	struct stat st;
	uint64 dirty;
	uint64 writeback = 0;
	int fd;

	/* the entry may become another file's; the check of device and inode decides */
	page_map_path(calm_page_map, file_index, path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) != 0 || st.st_dev != file->device || st.st_ino != file->inode ||
	    pg_atomic_read_u32(&file->incarnation) != incarnation ||
	    !cachestat_of_file(fd, &dirty, &writeback))
		writeback = 0;
	else
		*device = st.st_dev; /* the entry's may be another file's by now */
	close(fd);
	return writeback;
}

static void
add(uint64 device, uint64 bytes)
{
	for (int i = 0; i < found_count; i++)
	{
		if (found[i].device == device)
		{
			found[i].bytes += bytes;
			return;
		}
	}
	if (found_count < MAX_DEVICES)
		found[found_count++] = (DeviceQueue){device, bytes};
}

/* Look at as many files as the time is for; what a pass over all has found is told at its end */
static void
look(double most_ms)
{
	uint32 high = pg_atomic_read_u32(&calm_page_map->files_high);
	instr_time start;
	instr_time took;

	INSTR_TIME_SET_CURRENT(start);
	if (look_next == 0)
		found_count = 0;
	for (; look_next < high; look_next++)
	{
		uint32 incarnation =
			pg_atomic_read_u32(&page_map_file(calm_page_map, look_next)->incarnation);
		uint64 device = 0;
		uint64 bytes;

		if ((incarnation & 1) == 0)
			continue;
		bytes = file_bytes(look_next, incarnation, &device);
		if (bytes > 0)
			add(device, bytes);
		INSTR_TIME_SET_CURRENT(took);
		INSTR_TIME_SUBTRACT(took, start);
		if (INSTR_TIME_GET_MILLISEC(took) >= most_ms)
		{
			look_next++;
			break;
		}
	}
	if (look_next >= high || !pass_ended)
	{
		memcpy(queues, found, sizeof(found));
		queue_count = found_count;
	}
	if (look_next >= high)
	{
		look_next = 0;
		pass_ended = true;
	}
}

static uint64
bytes_of(uint64 device)
{
	for (int i = 0; i < queue_count; i++)
	{
		if (queues[i].device == device)
			return queues[i].bytes;
	}
	return 0;
}

void
queued_writeback_forget(void)
{
	next_look_ms = 0;
}

uint64
queued_writeback_bytes(uint64 device)
{
	uint64 now = page_map_now_ms();

	if (!cachestat_works())
		return 0;
	if (now >= next_look_ms)
	{
		instr_time start;
		instr_time took;

		INSTR_TIME_SET_CURRENT(start);
		look(LOOK_MS);
		INSTR_TIME_SET_CURRENT(took);
		INSTR_TIME_SUBTRACT(took, start);
		next_look_ms =
			now + Max(INTERVAL_MS, (uint64) (INSTR_TIME_GET_MILLISEC(took) * PAUSE_FACTOR));
	}
	return bytes_of(device);
}
