// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Checkpoints: an event at each of the server's probes between the phases, an event for each fsync of the process that
 * makes the checkpoint, its flush hints by file (opt-in), histograms of single buffers (opt-in), and transactions per
 * second.
 */
#include "server.bpf.h"
#include "fine_histogram.bpf.h"
#include "usdt_argument.bpf.h"
#include "file_name.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum checkpoint_event_kind
{
	CHECKPOINT_START = 1,
	CHECKPOINT_DONE = 2,
	/* CheckPointGuts: SLRUs and buffers are written from here on */
	BUFFER_CHECKPOINT_START = 3,
	CLOG_START = 4,
	CLOG_DONE = 5,
	SUBTRANS_START = 6,
	SUBTRANS_DONE = 7,
	MULTIXACT_START = 8,
	MULTIXACT_DONE = 9,
	/* BufferSync, after it has looked at all buffers */
	BUFFER_SYNC_START = 10,
	BUFFER_SYNC_DONE = 11,
	/* ProcessSyncRequests */
	SYNC_START = 12,
	SYNC_DONE = 13,
	TWOPHASE_START = 14,
	TWOPHASE_DONE = 15,
	FILE_SYNCED = 16,
};

struct checkpoint_event
{
	struct event_header header;
	/* of the probe; of a file: duration in ns, result of the system call */
	__s64 arguments[5];
	struct file_name file;
};

EXPORT_TYPE(checkpoint_event);

/* tgid of the process that makes a checkpoint, 0 between checkpoints */
__u32 checkpointing = 0;
/* whether that is a restartpoint, which has no probes of its own at its start and end (CreateRestartPoint) */
__u32 restartpoint = 0;

static __always_inline int
report(struct pt_regs *context, __u32 kind, __u32 arguments)
{
	struct checkpoint_event *event;

	if (!current_server_process())
		return 0;
	event = reserve_event(sizeof(*event), kind);
	if (!event)
		return 0;
	__builtin_memset(event->arguments, 0, sizeof(event->arguments));
	__builtin_memset(&event->file, 0, sizeof(event->file));
	for (__u32 index = 0; index < 5; index++)
	{
		if (index < arguments)
			event->arguments[index] = usdt_argument(context, index);
	}
	bpf_ringbuf_submit(event, 0);
	return 0;
}

#define PHASE(probe, kind, arguments)                                                              \
	SEC("usdt")                                                                                    \
	int probe(struct pt_regs *context)                                                             \
	{                                                                                              \
		return report(context, kind, arguments);                                                   \
	}

SEC("usdt")
int
checkpoint__start(struct pt_regs *context)
{
	if (!current_server_process())
		return 0;
	checkpointing = bpf_get_current_pid_tgid() >> 32;
	restartpoint = 0;
	return report(context, CHECKPOINT_START, 1);
}

SEC("usdt")
int
checkpoint__done(struct pt_regs *context)
{
	if (!current_server_process())
		return 0;
	checkpointing = 0;
	return report(context, CHECKPOINT_DONE, 5);
}

SEC("usdt")
int
buffer__checkpoint__start(struct pt_regs *context)
{
	if (!current_server_process())
		return 0;
	/* A checkpoint's own start was seen just before. What else is there was given up by an error or a crash. */
	if (restartpoint || checkpointing != (__u32) (bpf_get_current_pid_tgid() >> 32))
	{
		checkpointing = bpf_get_current_pid_tgid() >> 32;
		restartpoint = 1;
	}
	return report(context, BUFFER_CHECKPOINT_START, 1);
}

SEC("usdt")
int
buffer__checkpoint__done(struct pt_regs *context)
{
	if (!current_server_process())
		return 0;
	/* CheckPointTwoPhase is all that comes after it in a restartpoint, and has no probes unless it has something to do. */
	if (restartpoint)
	{
		checkpointing = 0;
		restartpoint = 0;
	}
	return report(context, SYNC_DONE, 0);
}

PHASE(clog__checkpoint__start, CLOG_START, 0)
PHASE(clog__checkpoint__done, CLOG_DONE, 0)
PHASE(subtrans__checkpoint__start, SUBTRANS_START, 0)
PHASE(subtrans__checkpoint__done, SUBTRANS_DONE, 0)
PHASE(multixact__checkpoint__start, MULTIXACT_START, 0)
PHASE(multixact__checkpoint__done, MULTIXACT_DONE, 0)
PHASE(buffer__sync__done, BUFFER_SYNC_DONE, 3)
PHASE(buffer__checkpoint__sync__start, SYNC_START, 0)
PHASE(twophase__checkpoint__start, TWOPHASE_START, 0)
PHASE(twophase__checkpoint__done, TWOPHASE_DONE, 0)

/* The fsync under way of the process that makes the checkpoint; there is one such process, with one thread. */
__u64 fsync_started_ns = 0;
__u32 fsync_descriptor = 0;

static __always_inline bool
is_checkpointing(void)
{
	return checkpointing && checkpointing == (__u32) (bpf_get_current_pid_tgid() >> 32);
}

static __always_inline int
enter_fsync(__u32 descriptor)
{
	if (!is_checkpointing())
		return 0;
	fsync_descriptor = descriptor;
	fsync_started_ns = bpf_ktime_get_ns();
	return 0;
}

/* result: 0, or the negative number of the error */
static __always_inline int
exit_fsync(__s64 result)
{
	struct checkpoint_event *event;
	__u64 started = fsync_started_ns;

	if (!is_checkpointing() || !started)
		return 0;
	fsync_started_ns = 0;
	event = reserve_event(sizeof(*event), FILE_SYNCED);
	if (!event)
		return 0;
	__builtin_memset(event->arguments, 0, sizeof(event->arguments));
	__builtin_memset(&event->file, 0, sizeof(event->file));
	event->arguments[0] = event->header.time_ns - started;
	event->arguments[1] = result;
	read_file_name(&event->file, fsync_descriptor);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/*
 * fsync and fdatasync of the C library, attached only in processes that make checkpoints: a tracepoint of these calls
 * would send every system call of every process of the host through the kernel's slow path.
 */
SEC("uprobe")
int
fsync_called(struct pt_regs *context)
{
	return enter_fsync((__u32) PT_REGS_PARM1(context));
}

#define ERRSEQ_ERRNO 0xfff
#define ERRNO_UNKNOWN 4096

/*
 * The function returns -1 and leaves the error's number in a variable of its thread. The kernel keeps that of a failed
 * writeback with the file, too: struct file's f_wb_err, an errseq_t, whose lowest bits it is (lib/errseq.c).
 */
SEC("uretprobe")
int
fsync_returned(struct pt_regs *context)
{
	__s64 result = (int) PT_REGS_RC(context);

	if (result < 0)
	{
		struct task_struct *task = (struct task_struct *) bpf_get_current_task();
		struct file *file = file_of_descriptor(task, fsync_descriptor);
		__u32 error = file ? BPF_CORE_READ(file, f_wb_err) & ERRSEQ_ERRNO : 0;

		result = -(__s64) (error ? error : ERRNO_UNKNOWN);
	}
	return exit_fsync(result);
}

/* Where the functions can't be attached to. */
SEC("tp/syscalls/sys_enter_fsync")
int
fsync_entered(struct syscall_enter_context *context)
{
	return enter_fsync(context->arguments[0]);
}

SEC("tp/syscalls/sys_exit_fsync")
int
fsync_left(struct syscall_exit_context *context)
{
	return exit_fsync(context->result);
}

SEC("tp/syscalls/sys_enter_fdatasync")
int
fdatasync_entered(struct syscall_enter_context *context)
{
	return enter_fsync(context->arguments[0]);
}

SEC("tp/syscalls/sys_exit_fdatasync")
int
fdatasync_left(struct syscall_exit_context *context)
{
	return exit_fsync(context->result);
}

/*
 * Flush hints (sync_file_range) of the process that makes the checkpoint, by file; mod.rs reads and clears them between
 * checkpoints.
 */
struct hinted_file_key
{
	__u64 inode;
	__u32 device;
	__u32 unused;
};

struct hinted_file
{
	__u64 hints;
	__u64 total_ns;
	__u64 longest_ns;
	struct file_name file;
};

/* As many as a database of tens of thousands of tables has files with changed buffers in one checkpoint. */
#define MAX_HINTED_FILES 65536

struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_HINTED_FILES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct hinted_file_key);
	__type(value, struct hinted_file);
} hinted_files SEC(".maps");

/* A new entry; a stack has no room for it. */
const struct hinted_file no_hints = {};

__u64 hint_started_ns = 0;
__u32 hint_descriptor = 0;

static __always_inline int
enter_hint(__u32 descriptor)
{
	if (!is_checkpointing())
		return 0;
	hint_descriptor = descriptor;
	hint_started_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int
exit_hint(void)
{
	struct task_struct *task = (struct task_struct *) bpf_get_current_task();
	__u64 started = hint_started_ns;
	__u64 now = bpf_ktime_get_ns();
	struct hinted_file_key key = {};
	struct hinted_file *hinted;
	struct file *file;

	if (!is_checkpointing() || !started)
		return 0;
	hint_started_ns = 0;
	file = file_of_descriptor(task, hint_descriptor);
	if (!file)
		return 0;
	key.inode = BPF_CORE_READ(file, f_inode, i_ino);
	key.device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	hinted = bpf_map_lookup_elem(&hinted_files, &key);
	if (!hinted)
	{
		bpf_map_update_elem(&hinted_files, &key, &no_hints, BPF_NOEXIST);
		hinted = bpf_map_lookup_elem(&hinted_files, &key);
		if (!hinted)
		{
			__sync_fetch_and_add(&dropped_entries, 1);
			return 0;
		}
		read_file_name(&hinted->file, hint_descriptor);
	}
	/* One process with one thread writes it. */
	hinted->hints++;
	hinted->total_ns += now - started;
	if (now - started > hinted->longest_ns)
		hinted->longest_ns = now - started;
	return 0;
}

/* Of the C library, attached as fsync is. */
SEC("uprobe")
int
hint_called(struct pt_regs *context)
{
	return enter_hint((__u32) PT_REGS_PARM1(context));
}

SEC("uretprobe")
int
hint_returned(struct pt_regs *context)
{
	return exit_hint();
}

SEC("tp/syscalls/sys_enter_sync_file_range")
int
hint_entered(struct syscall_enter_context *context)
{
	return enter_hint(context->arguments[0]);
}

SEC("tp/syscalls/sys_exit_sync_file_range")
int
hint_left(struct syscall_exit_context *context)
{
	return exit_hint();
}

/*
 * Single buffers of the checkpoint under way. Only one process writes them, so that min and max are exact, too. mod.rs
 * reads and clears them between checkpoints.
 */
enum buffer_time
{
	/* FlushBuffer: WAL flush if needed, checksum, write */
	BUFFER_FLUSH = 0,
	/* mdwrite: the system call and what is around it */
	BUFFER_WRITE = 1,
	/* from one written buffer to the next, with the sleeps of checkpoint_completion_target */
	BUFFER_SYNC_WRITTEN = 2,
	/* from FlushBuffer's end to BufferSync's count of it: the flush hint, if it is this buffer's turn (SyncOneBuffer) */
	BUFFER_AFTER_FLUSH = 3,
	BUFFER_TIMES = 4,
};

struct buffer_times
{
	struct fine_histogram histograms[BUFFER_TIMES];
};

struct buffer_times buffer_times = {};
__u64 buffer_started_ns[BUFFER_TIMES] = {};

static __always_inline int
start_buffer(__u32 time)
{
	if (is_checkpointing())
		buffer_started_ns[time] = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int
end_buffer(__u32 time)
{
	__u64 started = buffer_started_ns[time];

	if (!is_checkpointing() || !started)
		return 0;
	buffer_started_ns[time] = 0;
	fine_histogram_add(&buffer_times.histograms[time], bpf_ktime_get_ns() - started);
	return 0;
}

SEC("usdt")
int
buffer__flush__start(struct pt_regs *context)
{
	return start_buffer(BUFFER_FLUSH);
}

SEC("usdt")
int
buffer__flush__done(struct pt_regs *context)
{
	end_buffer(BUFFER_FLUSH);
	return start_buffer(BUFFER_AFTER_FLUSH);
}

SEC("usdt")
int
smgr__md__write__start(struct pt_regs *context)
{
	return start_buffer(BUFFER_WRITE);
}

SEC("usdt")
int
smgr__md__write__done(struct pt_regs *context)
{
	return end_buffer(BUFFER_WRITE);
}

/* The first buffer's time starts here. */
SEC("usdt")
int
buffer__sync__start(struct pt_regs *context)
{
	start_buffer(BUFFER_SYNC_WRITTEN);
	return report(context, BUFFER_SYNC_START, 2);
}

SEC("usdt")
int
buffer__sync__written(struct pt_regs *context)
{
	end_buffer(BUFFER_AFTER_FLUSH);
	end_buffer(BUFFER_SYNC_WRITTEN);
	return start_buffer(BUFFER_SYNC_WRITTEN);
}

/* Transactions that ended in a second of CLOCK_MONOTONIC. */
struct second
{
	__u64 commits;
	__u64 aborts;
};

/* mod.rs reads and clears each second once it is over, long before its place is used again. */
#define MAX_SECONDS 1024

struct
{
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SECONDS);
	__type(key, __u32);
	__type(value, struct second);
} seconds SEC(".maps");

static __always_inline struct second *
this_second(void)
{
	__u32 place = bpf_ktime_get_ns() / 1000000000 % MAX_SECONDS;

	return current_server_process() ? bpf_map_lookup_elem(&seconds, &place) : NULL;
}

SEC("usdt")
int
transaction__commit(struct pt_regs *context)
{
	struct second *second = this_second();

	if (second)
		__sync_fetch_and_add(&second->commits, 1);
	return 0;
}

SEC("usdt")
int
transaction__abort(struct pt_regs *context)
{
	struct second *second = this_second();

	if (second)
		__sync_fetch_and_add(&second->aborts, 1);
	return 0;
}
