/*-------------------------------------------------------------------------
 *
 * failing_disk.c
 *	  A file below which writes fail where and when it is told: the disk of
 *	  bench/torture-errors, with a loop device on top.
 *
 *	  failing_disk FILE STORE CONTROL
 *
 * FILE becomes the root of a FUSE mount that is a regular file.  What is
 * written to it goes to STORE, byte by byte, with no cache in between, so
 * STORE is at any time what the device holds.  A write that touches a block
 * that CONTROL lists as bad stores nothing and fails with EIO; the loop
 * device ends its bio with an I/O error, and the file system marks the file as
 * it does for a broken disk.
 *
 * Speaks the protocol of /dev/fuse itself, which for one file is less than
 * a library would need.  Ends when FILE is unmounted.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096
#define MAX_WRITE (1024 * 1024)
#define HEADER 4096

/* CONTROL; bad[] and lost[] follow at HEADER, one byte for each block */
typedef struct Control
{
	uint32_t armed;     /* set by the harness */
	int32_t remaining;  /* writes still to fail; negative: all */
	uint32_t failed;    /* writes that failed */
	uint32_t delay_us;  /* how long a failing write takes */
	uint32_t lost;      /* blocks whose last write failed */
	uint32_t requested; /* all writes */
} Control;

static int device;
static int store;
static off_t size;
static volatile Control *control;
static unsigned char *bad;
static unsigned char *lost;

static void
die(const char *what)
{
	perror(what);
	exit(1);
}

static void
answer(uint64_t unique, int error, const void *data, size_t length)
{
	static char buffer[sizeof(struct fuse_out_header) + MAX_WRITE];
	struct fuse_out_header *header = (struct fuse_out_header *) buffer;

	header->len = (uint32_t) (sizeof(*header) + length);
	header->error = -error;
	header->unique = unique;
	if (length > 0)
		memcpy(buffer + sizeof(*header), data, length);
	/* ENOENT: the request was interrupted meanwhile */
	if (write(device, buffer, header->len) < 0 && errno != ENOENT)
		die("write to /dev/fuse");
}

static void
fill_attributes(struct fuse_attr *attributes)
{
	memset(attributes, 0, sizeof(*attributes));
	attributes->ino = FUSE_ROOT_ID;
	attributes->size = (uint64_t) size;
	attributes->blocks = (uint64_t) size / 512;
	attributes->mode = S_IFREG | 0600;
	attributes->nlink = 1;
	attributes->blksize = BLOCK;
}

/* Whether a write is to fail */
static int
fails(uint64_t first, uint64_t end)
{
	int any = 0;

	if (!control->armed || control->remaining == 0)
		return 0;
	for (uint64_t b = first; b < end; b++)
		any |= bad[b];
	return any;
}

static void
mark_lost(uint64_t first, uint64_t end, unsigned char value)
{
	for (uint64_t b = first; b < end; b++)
	{
		if (lost[b] != value)
			control->lost += value ? 1 : -1;
		lost[b] = value;
	}
}

static void
handle_write(uint64_t unique, const struct fuse_write_in *in)
{
	const char *data = (const char *) (in + 1);
	uint64_t first = in->offset / BLOCK;
	uint64_t end = (in->offset + in->size + BLOCK - 1) / BLOCK;
	struct fuse_write_out out = {.size = in->size};

	if (in->offset + in->size > (uint64_t) size)
	{
		answer(unique, EFBIG, NULL, 0);
		return;
	}
	control->requested++;
	if (fails(first, end))
	{
		if (control->delay_us > 0)
			usleep(control->delay_us);
		if (control->remaining > 0)
			control->remaining--;
		control->failed++;
		mark_lost(first, end, 1);
		answer(unique, EIO, NULL, 0);
		return;
	}
	if (pwrite(store, data, in->size, (off_t) in->offset) != (ssize_t) in->size)
		die("write to the store");
	mark_lost(first, end, 0);
	answer(unique, 0, &out, sizeof(out));
}

static void
handle_read(uint64_t unique, const struct fuse_read_in *in)
{
	static char data[MAX_WRITE];
	size_t length = in->size < sizeof(data) ? in->size : sizeof(data);
	ssize_t got = pread(store, data, length, (off_t) in->offset);

	if (got < 0)
		answer(unique, errno, NULL, 0);
	else
		answer(unique, 0, data, (size_t) got);
}

static void
handle(const struct fuse_in_header *header)
{
	const void *argument = header + 1;

	switch (header->opcode)
	{
		case FUSE_INIT:
		{
			const struct fuse_init_in *in = argument;
			struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
			                            .minor = FUSE_KERNEL_MINOR_VERSION,
			                            .max_readahead = 0,
			                            .flags = in->flags & (FUSE_BIG_WRITES | FUSE_MAX_PAGES),
			                            .max_background = 64,
			                            .congestion_threshold = 48,
			                            .max_write = MAX_WRITE,
			                            .time_gran = 1,
			                            .max_pages = MAX_WRITE / 4096};

			answer(header->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_GETATTR:
		case FUSE_SETATTR:
		{
			struct fuse_attr_out out = {.attr_valid = 3600};

			fill_attributes(&out.attr);
			answer(header->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_OPEN:
		{
			struct fuse_open_out out = {.open_flags = FOPEN_DIRECT_IO};

			answer(header->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_STATFS:
		{
			struct fuse_statfs_out out = {.st = {.bsize = BLOCK, .frsize = BLOCK, .namelen = 255}};

			answer(header->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_READ:
			handle_read(header->unique, argument);
			break;
		case FUSE_WRITE:
			handle_write(header->unique, argument);
			break;
		case FUSE_FSYNC:
		case FUSE_FLUSH:
		case FUSE_RELEASE:
		case FUSE_ACCESS:
			answer(header->unique, 0, NULL, 0);
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break; /* no answer is expected */
		default:
			answer(header->unique, ENOSYS, NULL, 0);
	}
}

int
main(int argc, char **argv)
{
	static char request[MAX_WRITE + 8192];
	char options[128];
	struct stat st;
	int fd;
	char *mapped;

	if (argc != 4)
	{
		fprintf(stderr, "usage: failing_disk FILE STORE CONTROL\n");
		return 2;
	}
	if ((store = open(argv[2], O_RDWR | O_CLOEXEC)) < 0 || fstat(store, &st) != 0)
		die(argv[2]);
	size = st.st_size;

	if ((fd = open(argv[3], O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0 ||
	    ftruncate(fd, HEADER + size / BLOCK * 2) != 0)
		die(argv[3]);
	mapped =
		mmap(NULL, (size_t) (HEADER + size / BLOCK * 2), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		die(argv[3]);
	control = (volatile Control *) mapped;
	bad = (unsigned char *) mapped + HEADER;
	lost = bad + size / BLOCK;

	if ((device = open("/dev/fuse", O_RDWR | O_CLOEXEC)) < 0)
		die("/dev/fuse");
	snprintf(options, sizeof(options), "fd=%d,rootmode=100600,user_id=0,group_id=0", device);
	if (mount("failing_disk", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) != 0)
		die("mount");

	for (;;)
	{
		ssize_t length = read(device, request, sizeof(request));

		if (length >= (ssize_t) sizeof(struct fuse_in_header))
			handle((const struct fuse_in_header *) request);
		else if (length < 0 && errno == ENODEV)
			return 0;
		else if (length < 0 && errno != EINTR && errno != ENOENT && errno != EAGAIN)
			die("read from /dev/fuse");
	}
}
