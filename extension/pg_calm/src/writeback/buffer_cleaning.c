/*-------------------------------------------------------------------------
 *
 * buffer_cleaning.c
 *	  Writes dirty shared buffers of chosen blocks.
 *
 * No page is written by us: FlushOneBuffer does all that belongs to it, as for the checkpoint's
 * own writing (bufmgr.c, SyncOneBuffer and FlushBuffer): WAL first, checksum, I/O in progress,
 * request for the file's next sync.  What makes it safe here:
 *
 * - Who drops, truncates or moves a relation or database invalidates its
 *	 buffers first, and waits for pins (InvalidateBuffer).  ReadRecentBuffer
 *	 pins under the header's lock, and only if the buffer still holds the block and
 *	 is valid.  So the file exists while we write to it.
 * - The process is the cleaner (cleaner.c).  Its open files are closed by barriers
 *	 like those of every other process (PROCSIGNAL_BARRIER_SMGRRELEASE).  It has a
 *	 resource owner, and what it holds is released if an error ends it.
 * - The write registers its file for the next sync, as each write of a backend or
 *	 the background writer does (register_dirty_segment, md.c).
 * - Nothing depends on it.  Leaving a buffer out costs speed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "writeback.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"

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
	return (CALM_BUFFER_STATE(GetBufferDescriptor(id)) & (BM_VALID | BM_DIRTY)) ==
	       (BM_VALID | BM_DIRTY);
}

/* Whether it was written */
static bool
write_buffer(const RelationFile *file, BlockNumber block, Buffer buffer)
{
	bool written = false;

	if (!ReadRecentBuffer(file->relation, file->fork, block, buffer))
		return false;
	if (CALM_LOCK_BUFFER_TO_WRITE(buffer))
	{
		/*
		 * A page whose WAL is not flushed was changed a moment ago: it is in use, and will not be
		 * evicted soon.  LSNs of unlogged relations mean nothing, and nothing is flushed for them.
		 */
		if (!(CALM_BUFFER_STATE(GetBufferDescriptor(buffer - 1)) & BM_PERMANENT) ||
		    !XLogNeedsFlush(BufferGetLSNAtomic(buffer)))
		{
			FlushOneBuffer(buffer);
			written = true;
		}
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	}
	ReleaseBuffer(buffer);
	return written;
}

/*
 * Write those of a relation's blocks that are dirty in shared buffers, and return their number.
 * Leaves out what would have to wait: pages locked by others (up to 18), or whose WAL is not flushed.
 * For the cleaner.  A failed write is an ERROR, as in the server's own writing.
 */
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
		CHECK_FOR_INTERRUPTS(); /* who drops a database waits for us to hear of it */
	}
	return written;
}
