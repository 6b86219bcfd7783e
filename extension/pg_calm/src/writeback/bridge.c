/*-------------------------------------------------------------------------
 *
 * bridge.c
 *	  Re-dirties clean pages between dirty ones, so that they are written as one.
 *
 * Two dirty blocks with a clean one between them are two operations for the device.  If the clean
 * block is dirty too, they are one.  A clean page that is in the page cache is made dirty by
 * mapping the file shared and madvise(MADV_POPULATE_WRITE) (Linux 5.14; mm/gup.c,
 * faultin_page_range): a write fault without a write.  No byte is read or written by us, so a
 * concurrent pwrite can't be lost, as it could if we read a page and wrote it back.
 *
 * Such a fault makes the whole folio of the page cache dirty, and its file system then writes all
 * of it (page_mkwrite: all of the folio's blocks), which is 2 MiB for one block where read-ahead
 * has made it.  So a gap is filled only if the kernel counts nothing of it as dirty or under
 * writeback, while the blocks on both sides of it are: folios are dirty as a whole, so that of the
 * gap, however large, lies within the gap. Where the sides have been written meanwhile, all are
 * clean, and a clean folio is split by naming the gap to MADV_COLD.  What the fault has made dirty
 * is compared with the gap after that.  A gap in a dirty folio is left: it is split once clean.
 *
 * What must not be bridged:
 * - pages that are not resident: the fault would read them from the device
 * - holes and unwritten extents: the fault allocates blocks
 * - shared (reflinked) extents, copy-on-write filesystems: likewise
 * - with debug_io_direct on data: the cached copy may be older than the file
 * - with full_page_writes off, in recovery on the primary: nothing then repairs a
 *	 page that is torn by a crash while a backend writes to it during our writeback
 * Past the end of a file that is truncated meanwhile, madvise fails with
 * EFAULT; there is no signal.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mman.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "access/xlog.h"
#include "writeback.h"

/* Extents whose blocks a write in place would not simply overwrite */
#define UNFIT_EXTENTS                                                                              \
	(FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED |                      \
	 FIEMAP_EXTENT_DATA_ENCRYPTED | FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_DATA_INLINE |        \
	 FIEMAP_EXTENT_DATA_TAIL | FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_SHARED)

#define EXTENTS_PER_CALL 128

static char refused[160] = ""; /* why the kernel or the file system can't; or "" */

/* Why nothing at all may be bridged now, or NULL.  A reload can change it. */
const char *
bridge_refusal(void)
{
	if (refused[0])
		return refused;
	if (!fullPageWrites)
		return "full_page_writes is off";
	if (pg_atomic_read_u32(&calm_shared->images) == 0)
		return "full_page_writes was off since the last checkpoint";
	if (CALM_IO_DIRECT_DATA())
		return "debug_io_direct keeps data files out of the page cache";
	return NULL;
}

/*
 * Whether it can be told what a fault would make dirty: by cachestat(2), or because the
 * file system has no large folios.  ext4 has them since Linux 6.16; XFS has them since 5.18,
 * and in distributions' older kernels as well.
 */
static bool
folios_are_known(unsigned long filesystem)
{
	struct utsname host;
	int major;
	int minor;

	if (cachestat_works())
		return true;
	return filesystem == EXT4_SUPER_MAGIC && uname(&host) == 0 &&
	       sscanf(host.release, "%d.%d", &major, &minor) == 2 &&
	       (major < 6 || (major == 6 && minor < 16));
}

/*
 * Look whether the file system of tracked files, which are on one, is known to overwrite in place
 */
void
bridge_look_at(int fd)
{
	static bool known = false;
	struct statfs fs;

	if (known || fstatfs(fd, &fs) != 0)
		return;
	known = true;
	if ((fs.f_type != EXT4_SUPER_MAGIC && fs.f_type != XFS_SUPER_MAGIC) ||
	    !folios_are_known(fs.f_type))
		snprintf(refused, sizeof(refused),
		         "the file system (type 0x%lX) is not known to overwrite in place%s",
		         (unsigned long) fs.f_type,
		         cachestat_works() ? "" :
		                             ", or to have no large folios, which cachestat() would tell");
}

/* First set bit at or after a block; PAGE_MAP_REGION_BLOCKS if there is none */
static uint32
next_block(const PageMapBits *bits, uint32 from)
{
	while (from < PAGE_MAP_REGION_BLOCKS)
	{
		uint64 word = bits->word[from / 64] >> (from % 64);

		if (word != 0)
			return from + pg_rightmost_one_pos64(word);
		from = (from / 64 + 1) * 64;
	}
	return PAGE_MAP_REGION_BLOCKS;
}

/*
 * Join dirty blocks into runs, across gaps of up to max_gap blocks all of
 * which are allowed.  Returns the number of runs.
 */
int
bridge_plan(const PageMapBits *dirty, const PageMapBits *allowed, uint32 max_gap, BridgeRun *runs)
{
	int count = 0;
	uint32 block = next_block(dirty, 0);

	while (block < PAGE_MAP_REGION_BLOCKS)
	{
		BridgeRun *run = count > 0 ? &runs[count - 1] : NULL;
		bool join = false;

		if (run)
		{
			uint32 end = run->first + run->blocks;

			join = block - end <= max_gap;
			for (uint32 b = end; join && b < block; b++)
				join = bits_test(allowed, b);
			if (join)
				run->blocks = block + 1 - run->first;
		}
		if (!join)
		{
			run = &runs[count++];
			run->first = block;
			run->blocks = 1;
		}
		block = next_block(dirty, block + 1);
	}
	return count;
}

/* Blocks whose extents are plainly overwritten by a write */
static bool
written_blocks(int fd, off_t offset, size_t length, PageMapBits *written)
{
	union
	{
		struct fiemap map;
		char space[sizeof(struct fiemap) + EXTENTS_PER_CALL * sizeof(struct fiemap_extent)];
	} u;
	uint64 start = offset;
	uint64 end = offset + length;

	memset(written, 0, sizeof(*written));
	while (start < end)
	{
		memset(&u.map, 0, sizeof(u.map));
		u.map.fm_start = start;
		u.map.fm_length = end - start;
		u.map.fm_extent_count = EXTENTS_PER_CALL;
		if (ioctl(fd, FS_IOC_FIEMAP, &u.map) != 0)
			return false;
		if (u.map.fm_mapped_extents == 0)
			break;
		for (uint32 i = 0; i < u.map.fm_mapped_extents; i++)
		{
			struct fiemap_extent *extent = &u.map.fm_extents[i];
			uint64 extent_end = extent->fe_logical + extent->fe_length;

			start = extent_end;
			if (extent->fe_flags & UNFIT_EXTENTS)
				continue;
			/* only blocks that lie in the extent as a whole */
			for (uint64 b =
			         (Max(extent->fe_logical, (uint64) offset) - offset + BLCKSZ - 1) / BLCKSZ;
			     b < PAGE_MAP_REGION_BLOCKS && offset + (b + 1) * BLCKSZ <= Min(extent_end, end);
			     b++)
				bits_set(written, (uint32) b);
		}
	}
	return true;
}

/*
 * Which blocks of a region may be re-dirtied: resident, and in an extent
 * that is overwritten in place.  Dirty blocks are always allowed.
 */
void
bridge_allowed(int fd, off_t offset, size_t length, const PageMapBits *dirty, PageMapBits *allowed)
{
	static unsigned char resident[PAGE_MAP_REGION_BLOCKS * (BLCKSZ / 1024)];
	size_t page_size = sysconf(_SC_PAGESIZE);
	size_t pages_per_block = Max(BLCKSZ / page_size, 1);
	PageMapBits written;
	void *mapping;
	bool known;

	*allowed = *dirty;
	if (page_size > BLCKSZ || length / page_size > sizeof(resident))
		return;
	mapping = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, offset);
	if (mapping == MAP_FAILED)
		return;
	known = mincore(mapping, length, resident) == 0;
	munmap(mapping, length);
	if (!known || !written_blocks(fd, offset, length, &written))
		return;
	for (uint32 b = 0; b < length / BLCKSZ; b++)
	{
		bool here = true;

		if (!bits_test(&written, b) || bits_test(dirty, b))
			continue;
		for (size_t p = 0; here && p < pages_per_block; p++)
			here = (resident[b * pages_per_block + p] & 1) != 0;
		if (here)
			bits_set(allowed, b);
	}
}

/* Whether a stretch is in the page cache now: populating would read what is not */
static bool
is_resident(void *start, size_t length)
{
	unsigned char resident[BRIDGE_MAX_GAP * (BLCKSZ / 1024)];
	size_t pages = length / sysconf(_SC_PAGESIZE);

	if (pages > sizeof(resident) || mincore(start, length, resident) != 0)
		return false;
	for (size_t page = 0; page < pages; page++)
	{
		if (!(resident[page] & 1))
			return false;
	}
	return true;
}

/*
 * Have a stretch of a file dirty; split says that its folio may be larger.  False if
 * the kernel refuses, or a page of it is not in the page cache: populating would read it.
 */
static bool
populate(int fd, off_t offset, size_t length, bool split)
{
	/* of the gap alone, for the fault alone: a stray store shall not find a table's pages */
	void *mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	bool done = false;

	if (mapping == MAP_FAILED)
		return false;
	/*
	 * What is touched by this mapping shall not look used, or the kernel would evict what
	 * others need instead (mm/memory.c, zap_present_folio_ptes: vma_has_recency, Linux 6.3); nor
	 * shall a page that is evicted just then be read with its neighbours (mm/filemap.c,
	 * do_sync_mmap_readahead).
	 */
	(void) madvise(mapping, length, MADV_RANDOM);
	/* it was when the run was planned; that may be long ago where the worker is paced */
	if (is_resident(mapping, length))
	{
		if (split && madvise(mapping, length, MADV_POPULATE_READ) == 0)
			(void) madvise(mapping, length, MADV_COLD);
		done = madvise(mapping, length, MADV_POPULATE_WRITE) == 0;
		if (!done && errno == EINVAL)
			strlcpy(refused, "the kernel lacks MADV_POPULATE_WRITE (Linux 5.14)", sizeof(refused));
	}
	munmap(mapping, length);
	return done;
}

/* Whether the kernel counts nothing of a stretch as dirty or under writeback */
static bool
is_clean(int fd, off_t offset, uint32 blocks)
{
	struct calm_cachestat state;

	return cachestat_call(fd, offset, (off_t) blocks * BLCKSZ, &state) == 0 &&
	       state.nr_dirty == 0 && state.nr_writeback == 0;
}

/* Fill a stretch between two others, none of which is dirty as far as the kernel counts */
static void
fill_clean(int fd, off_t offset, uint32 blocks, BridgeFilled *filled)
{
	uint64 pages_per_block = BLCKSZ / sysconf(_SC_PAGESIZE);
	off_t around = offset - BLCKSZ;
	off_t length = (off_t) (blocks + 2) * BLCKSZ;
	bool counted = cachestat_works();
	struct calm_cachestat before;
	struct calm_cachestat after;

	if (counted && cachestat_call(fd, around, length, &before) != 0)
		counted = false;
	if (!populate(fd, offset, (size_t) blocks * BLCKSZ,
	              counted && before.nr_dirty + before.nr_writeback < 2 * pages_per_block))
	{
		filled->left += blocks;
		filled->breaks++;
		return;
	}
	filled->filled += blocks;
	if (counted && cachestat_call(fd, around, length, &after) == 0 &&
	    after.nr_dirty > before.nr_dirty + blocks * pages_per_block)
		filled->amplified++;
}

/*
 * Fill a gap.  If some of it is dirty, because a page was written just then or is in a large
 * folio that is, the rest is filled by itself.
 */
static void
fill_gap(int fd, off_t offset, uint32 blocks, BridgeFilled *filled)
{
	uint32 clean = 0;
	uint32 left = 0;

	if (!cachestat_works() || is_clean(fd, offset, blocks))
	{
		fill_clean(fd, offset, blocks, filled);
		return;
	}
	for (uint32 b = 0; b <= blocks; b++)
	{
		if (b < blocks && is_clean(fd, offset + (off_t) b * BLCKSZ, 1))
		{
			clean++;
			continue;
		}
		if (clean > 0)
			fill_clean(fd, offset + (off_t) (b - clean) * BLCKSZ, clean, filled);
		clean = 0;
		left += b < blocks;
	}
	filled->left += left;
	filled->breaks += left > 0;
}

/*
 * Make the clean blocks of a run dirty, and add what came of it.  What is left makes
 * the write less dense, no more.
 */
void
bridge_fill(int fd, off_t region, const PageMapBits *dirty, const BridgeRun *run,
            BridgeFilled *filled)
{
	uint32 end = run->first + run->blocks;
	uint32 block = run->first;

	while (block < end)
	{
		uint32 gap_end = Min(next_block(dirty, block), end);

		/* others in this region are likely to be no better */
		if (gap_end > block && filled->amplified > 0)
		{
			filled->left += gap_end - block;
			filled->breaks++;
		}
		else if (gap_end > block)
			fill_gap(fd, region + (off_t) block * BLCKSZ, gap_end - block, filled);
		block = gap_end + 1;
	}
}
