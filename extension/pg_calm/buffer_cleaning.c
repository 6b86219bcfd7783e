/*-------------------------------------------------------------------------
 *
 * buffer_cleaning.c
 *	  Writes dirty shared buffers of chosen blocks.
 *
 * A backend that needs a buffer and finds a dirty one writes it.  While a file
 * is being flushed for its fsync, such writes come between: they are what the
 * fsync finds.  A buffer that was written just before is clean when the clock
 * hand comes to it, and costs no write.
 *
 * No page is written by us: FlushOneBuffer does all that belongs to it, as for
 * the checkpoint's own writing (bufmgr.c, SyncOneBuffer and FlushBuffer): WAL
 * first, checksum, I/O in progress, request for the file's next sync.  What makes
 * it safe here:
 *
 * - Who drops, truncates or moves a relation or database invalidates its
 *	 buffers first, and waits for pins (InvalidateBuffer).  ReadRecentBuffer
 *	 pins under the header's lock, and only if the buffer still holds the block and
 *	 is valid.  So the file exists while we write to it.
 * - We are the checkpointer.  Its open files are closed by barriers like those
 *	 of every other process (PROCSIGNAL_BARRIER_SMGRRELEASE), so no number that
 *	 is used again leads to the file that had it before; the writeback worker
 *	 takes no part in barriers.  It has a resource owner, may flush WAL, and what
 *	 it holds is released if an error ends the checkpoint.
 * - We may be inside ProcessSyncRequests (sync.c), before the fsync of a file.
 *	 A write registers its file there (RememberSyncRequest, as the absorbed
 *	 requests of backends, which that function expects): an entry that
 *	 waits for its turn keeps its cycle_ctr, and is synced in this
 *	 checkpoint, after our write; a file that has none, because it was
 *	 synced already or is not due, gets one with the new cycle_ctr, which
 *	 this checkpoint passes over and the next one syncs.  The entry whose fsync
 *	 comes next is removed after it: that fsync follows our write.
 *	 Entries don't move, and the table is not split during the scan (dynahash.c).
 * - Nothing that this checkpoint needs depends on it: what was dirty when it
 *	 began has been written by BufferSync.  Leaving a buffer out costs speed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "buffer_cleaning.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"

static bool is_dirty(const RelationFile *file, BlockNumber block, Buffer *buffer);
static bool write_buffer(const RelationFile *file, BlockNumber block, Buffer buffer);

/* Whether a block is dirty in a shared buffer now, and in which; without a pin */
static bool
is_dirty(const RelationFile *file, BlockNumber block, Buffer *buffer)
{
	BufferTag tag;
	uint32 hash;
	LWLock *partition;
	int id;

	CALM_INIT_BUFFER_TAG(&tag, &file->relation, file->fork, block);
	hash = BufTableHashCode(&tag);
	partition = BufMappingPartitionLock(hash);
	LWLockAcquire(partition, LW_SHARED);
	id = BufTableLookup(&tag, hash);
	LWLockRelease(partition);
	if (id < 0)
		return false;
	*buffer = id + 1;
	/* a look, which decides nothing: FlushOneBuffer looks again, with the lock */
	return (pg_atomic_read_u32(&GetBufferDescriptor(id)->state) & (BM_VALID | BM_DIRTY)) ==
	       (BM_VALID | BM_DIRTY);
}

/* Whether it was written */
static bool
write_buffer(const RelationFile *file, BlockNumber block, Buffer buffer)
{
	BufferDesc *descriptor = GetBufferDescriptor(buffer - 1);
	LWLock *content = BufferDescriptorGetContentLock(descriptor);
	bool written = false;

	if (!ReadRecentBuffer(file->relation, file->fork, block, buffer))
		return false;
	if (LWLockConditionalAcquire(content, LW_SHARED))
	{
		/*
		 * A page whose WAL is not flushed was changed a moment ago: it is in use,
		 * and will not be evicted soon.  LSNs of unlogged relations mean
		 * nothing, and nothing is flushed for them.
		 */
		if (!(pg_atomic_read_u32(&descriptor->state) & BM_PERMANENT) ||
		    !XLogNeedsFlush(BufferGetLSNAtomic(buffer)))
		{
			FlushOneBuffer(buffer);
			written = true;
		}
		LWLockRelease(content);
	}
	ReleaseBuffer(buffer);
	return written;
}

uint32
buffer_cleaning_write(const RelationFile *file, uint32 first, uint32 count)
{
	uint32 written = 0;

	for (uint32 i = first; i < Min(first + count, file->blocks); i++)
	{
		BlockNumber block = file->first_block + i;
		Buffer buffer;

		if (is_dirty(file, block, &buffer) && write_buffer(file, block, buffer))
			written++;
	}
	return written;
}
