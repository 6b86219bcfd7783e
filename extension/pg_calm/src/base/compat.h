/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between the server versions that pg_calm supports.
 *
 * Supported: PostgreSQL 15 to 19.  Nothing outside this file tests PG_VERSION_NUM.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_COMPAT_H
#define PG_CALM_COMPAT_H

#if PG_VERSION_NUM >= 160000
#include "archive/archive_module.h"
#endif
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "postmaster/pgarch.h"
#if PG_VERSION_NUM >= 170000
#include "postmaster/walsummarizer.h"
#endif
#include "storage/fd.h"
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
#else
#include "storage/relfilenode.h"
#endif
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "pg_calm needs PostgreSQL 15 or later"
#endif

/* By the version in which it changed; what it was before follows after #else. Since 16: */
#if PG_VERSION_NUM >= 160000

/* debug_io_direct may keep data files out of the page cache */
#define CALM_IO_DIRECT_DATA() ((io_direct_flags & IO_DIRECT_DATA) != 0)

/* Callbacks of archive modules get the module's state, and _PG_archive_module_init returns them */
#define CALM_ARCHIVE_STATE ArchiveModuleState *state
#define CALM_ARCHIVE_STATE_AND ArchiveModuleState *state,
#define CALM_DEFINE_ARCHIVE_MODULE(check_configured, archive_file)                                 \
	PGDLLEXPORT const ArchiveModuleCallbacks *_PG_archive_module_init(void);                       \
	const ArchiveModuleCallbacks *_PG_archive_module_init(void)                                    \
	{                                                                                              \
		static const ArchiveModuleCallbacks callbacks = {.check_configured_cb = check_configured,  \
		                                                 .archive_file_cb = archive_file};         \
                                                                                                   \
		return &callbacks;                                                                         \
	}                                                                                              \
	extern const ArchiveModuleCallbacks *_PG_archive_module_init(void)

/* What a check hook leaves for its assign hook, and guc.c frees, is in its own memory context */
#define CALM_GUC_MALLOC(size) guc_malloc(LOG, size)
#define CALM_GUC_FREE(pointer) guc_free(pointer)

/* Status of the n-th backend, from 1, after pgstat_fetch_stat_numbackends() */
#define CALM_LOCAL_BACKEND_STATUS(n) pgstat_get_local_beentry_by_index(n)

/* Whether a slot has lost its WAL, and keeps none any more; before it has no restart_lsn then */
#define CALM_SLOT_INVALIDATED(slot) ((slot)->data.invalidated != RS_INVAL_NONE)

/* Whether a process has locks in a partition of the lock table (proc.h) */
#define CALM_HAS_LOCKS(proc, partition) (!dlist_is_empty(&(proc)->myProcLocks[partition]))

/* What identifies a relation's files, and a buffer's contents by it */
typedef RelFileLocator CalmRelationId;
#define CALM_RELATION_ID(tablespace, database, relation)                                           \
	((RelFileLocator){.spcOid = (tablespace), .dbOid = (database), .relNumber = (relation)})
#define CALM_INIT_BUFFER_TAG(tag, relation, fork, block)                                           \
	InitBufferTag((tag), (relation), (fork), (block))

#else

#define CALM_IO_DIRECT_DATA() false
#define CALM_ARCHIVE_STATE void
#define CALM_ARCHIVE_STATE_AND
#define CALM_DEFINE_ARCHIVE_MODULE(check_configured, archive_file)                                 \
	PGDLLEXPORT void _PG_archive_module_init(ArchiveModuleCallbacks *callbacks);                   \
	void _PG_archive_module_init(ArchiveModuleCallbacks *callbacks)                                \
	{                                                                                              \
		callbacks->check_configured_cb = check_configured;                                         \
		callbacks->archive_file_cb = archive_file;                                                 \
	}                                                                                              \
	extern void _PG_archive_module_init(ArchiveModuleCallbacks *callbacks)
#define CALM_GUC_MALLOC(size) malloc(size)
#define CALM_GUC_FREE(pointer) free(pointer)
#define CALM_LOCAL_BACKEND_STATUS(n) pgstat_fetch_stat_local_beentry(n)
#define CALM_SLOT_INVALIDATED(slot) false
#define CALM_HAS_LOCKS(proc, partition) (!SHMQueueEmpty(&(proc)->myProcLocks[partition]))
typedef RelFileNode CalmRelationId;
#define CALM_RELATION_ID(tablespace, database, relation)                                           \
	((RelFileNode){.spcNode = (tablespace), .dbNode = (database), .relNode = (relation)})
#define CALM_INIT_BUFFER_TAG(tag, relation, fork, block)                                           \
	INIT_BUFFERTAG(*(tag), *(relation), (fork), (block))
#endif

/* Since 17: */
#if PG_VERSION_NUM >= 170000

/* Extensions can name their own wait events; before, all share "Extension" */
#define CALM_WAIT_EVENT(name) WaitEventExtensionNew(name)

/*
 * Whether the checkpoint that is starting has no other cause than the time; to be asked before
 * the checkpointer reports its statistics
 */
#define CALM_CHECKPOINT_IS_TIMED()                                                                 \
	(PendingCheckpointerStats.num_timed > 0 || PendingCheckpointerStats.restartpoints_timed > 0)

/* Whether a process reads all WAL for incremental backups */
#define CALM_SUMMARIZES_WAL() summarize_wal

/* An archive module can say why it is not configured */
#define CALM_ARCHIVE_NOT_CONFIGURED(...) arch_module_check_errdetail(__VA_ARGS__)

/* Close the files of all relations, as the background writer does */
#define CALM_CLOSE_RELATIONS() smgrdestroyall()

/* Whether this process holds a lock in this mode */
#define CALM_HOLDS_LOCK(tag, mode) LockHeldByMe(tag, mode, false)

/* Whether a name is that of a relation's file, and of which fork; what else it tells differs */
#define CALM_IS_RELATION_FILE(name, fork, numbers)                                                 \
	parse_filename_for_nontemp_relation((name), &(numbers)[0], (fork), &(numbers)[1])

#else

#define CALM_WAIT_EVENT(name) PG_WAIT_EXTENSION
#define CALM_CHECKPOINT_IS_TIMED() (PendingCheckpointerStats.timed_checkpoints > 0)
#define CALM_SUMMARIZES_WAL() false
#define CALM_ARCHIVE_NOT_CONFIGURED(...)                                                           \
	ereport(LOG, (errmsg("pg_calm: archiving is not configured"), errdetail(__VA_ARGS__)))
#define CALM_CLOSE_RELATIONS() smgrcloseall()
#define CALM_HOLDS_LOCK(tag, mode) LockHeldByMe(tag, mode)
#define CALM_IS_RELATION_FILE(name, fork, numbers)                                                 \
	parse_filename_for_nontemp_relation((name), (int *) &(numbers)[0], (fork))
#endif

/* Since 18: ExecutorRun has lost its last argument */
#if PG_VERSION_NUM >= 180000
#define CALM_EXECUTOR_RUN_ARGS QueryDesc *query, ScanDirection direction, uint64 count
#define CALM_EXECUTOR_RUN_PASS query, direction, count
#else
#define CALM_EXECUTOR_RUN_ARGS                                                                     \
	QueryDesc *query, ScanDirection direction, uint64 count, bool execute_once
#define CALM_EXECUTOR_RUN_PASS query, direction, count, execute_once
#endif

/* Since 19: */
#if PG_VERSION_NUM >= 190000

/* A checkpoint without delays */
#define CALM_CHECKPOINT_FAST CHECKPOINT_FAST

/*
 * What the checkpointer shares is as long as this.  No function tells: the beginning of
 * the struct, and a request for each buffer (postmaster/checkpointer.c, CheckpointerShmemRequest).
 */
#define CALM_CHECKPOINTER_SHMEM_SIZE()                                                             \
	(MAXALIGN(sizeof(pid_t) + sizeof(int) * 9 + sizeof(ConditionVariable) * 2) +                   \
	 Min(NBuffers, 10000000) * sizeof(struct {                                                     \
		 SyncRequestType type;                                                                     \
		 FileTag file;                                                                             \
	 }))

/*
 * A lock on a buffer's contents with which it may be written, and read meanwhile, if nobody has one
 * against it.  A share lock is not enough, and the one that is, is waited for, as the background
 * writer does.  The state of a buffer has 64 bits.
 */
#define CALM_BUFFER_STATE(descriptor) pg_atomic_read_u64(&(descriptor)->state)
#define CALM_LOCK_BUFFER_TO_WRITE(buffer) (LockBuffer((buffer), BUFFER_LOCK_SHARE_EXCLUSIVE), true)

/* CLUSTER is a form of REPACK, which has slots of its own behind the others */
#define CALM_CLUSTER_STATEMENT T_RepackStmt
#define CALM_MAX_SLOTS (max_replication_slots + max_repack_replication_slots)

#else

#define CALM_CHECKPOINT_FAST CHECKPOINT_IMMEDIATE
#define CALM_CHECKPOINTER_SHMEM_SIZE() CheckpointerShmemSize()
#define CALM_BUFFER_STATE(descriptor) pg_atomic_read_u32(&(descriptor)->state)
#define CALM_LOCK_BUFFER_TO_WRITE(buffer)                                                          \
	LWLockConditionalAcquire(BufferDescriptorGetContentLock(GetBufferDescriptor((buffer) -1)),     \
	                         LW_SHARED)
#define CALM_CLUSTER_STATEMENT T_ClusterStmt
#define CALM_MAX_SLOTS max_replication_slots
#endif

#endif /* PG_CALM_COMPAT_H */
