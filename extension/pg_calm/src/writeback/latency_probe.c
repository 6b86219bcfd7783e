/*-------------------------------------------------------------------------
 *
 * latency_probe.c
 *	  Lets the block layer see how long reads take on a volume that is full.
 *
 * The block layer keeps buffered writes from filling a device's queue: it allows fewer
 * of them in flight while reads take longer than queue/wbt_lat_usec (block/blk-wbt.c).
 * It judges by the reads of the last 100 ms alone.  Where there are none it allows more and
 * more, up to three quarters of the queue, and when the kernel flusher then visits a file each
 * commit waits behind some forty writes instead of ten.
 *
 * So on a volume that others need as well and that is at its limits a block is read twice in that
 * time, past the page cache, if hardly anybody else reads: 20 operations a second.  The read is
 * asynchronous (io_submit), so that the worker does not wait in the queue that it measures.
 *
 * The block is that of a file that every cluster has on the device of the data
 * files, and nobody ever writes: a direct read writes back what is dirty first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "writeback.h"

/* RWB_WINDOW_NSEC (block/blk-wbt.c) has two of them */
#define INTERVAL_MS 50

/* Its database is template1 (initdb.c) */
#define FILE_TO_READ "base/1/PG_VERSION"

/* Any device takes that much directly, from such an address */
#define READ_BYTES 4096

static aio_context_t context = 0;
static int probed_file = -1;
static bool refused = false; /* by the kernel or the file system: not tried again */
static bool under_way = false;

/* Have a context and the file; false, for good, where that is not to be had */
static bool
begin(void)
{
	if (context == 0 && !refused)
		refused = syscall(SYS_io_setup, 1, &context) != 0 ||
		          (probed_file = open(FILE_TO_READ, O_RDONLY | O_DIRECT | O_CLOEXEC)) < 0;
	return !refused;
}

static void
submit(void)
{
	static char buffer[READ_BYTES] pg_attribute_aligned(READ_BYTES);
	static struct iocb request;
	struct iocb *requests[] = {&request};

	request = (struct iocb){.aio_lio_opcode = IOCB_CMD_PREAD,
	                        .aio_fildes = probed_file,
	                        .aio_buf = (uint64) (uintptr_t) buffer,
	                        .aio_nbytes = READ_BYTES};
	if (syscall(SYS_io_submit, context, 1, requests) == 1)
	{
		under_way = true;
		pg_atomic_fetch_add_u64(&calm_shared->counters.latency_probes, 1);
	}
	else if (errno != EAGAIN && errno != EINTR)
		refused = true;
}

/* Whether the last one is over; it may be that it failed, which is the server's to find */
static bool
has_ended(void)
{
	struct io_event event;
	struct timespec at_once = {0, 0};

	if (under_way && syscall(SYS_io_getevents, context, 1, 1, &event, &at_once) == 1)
		under_way = false;
	return !under_way;
}

/*
 * To be called by the worker as often as it likes: reads a block, without waiting for it, if
 * the last one is long enough ago and the volume is full.  Never fails: where such reads
 * are not to be had there are none.
 */
void
latency_probe_tick(bool full, uint64 now_ms)
{
	static uint64 next_ms = 0;

	if (!full || now_ms < next_ms || !begin() || !has_ended())
		return;
	submit();
	next_ms = now_ms + INTERVAL_MS;
}
