// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Where the time of the server's processes goes, with what it takes to tell why: system calls that last long, WAL and
 * its full-page images, commits, and the start and end of checkpoints.
 */
#include "waits.bpf.h"
#include "usdt_argument.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* System calls longer than this are reported, in ns */
const volatile __u64 long_syscall_ns = 1000000000;
/* Numbers of the calls whose results are counted for WAL; -1 where there is none */
const volatile int syscall_pwrite64 = -1;
const volatile int syscall_pwritev = -1;
const volatile int syscall_fdatasync = -1;
const volatile int syscall_fsync = -1;

enum why_event_kind
{
	WHY_LONG_SYSCALL = 1,
	WHY_CHECKPOINT_START,
	WHY_CHECKPOINT_SYNC,
	WHY_CHECKPOINT_END,
};

struct why_event
{
	struct event_header header;
	/* of the system call */
	__u64 duration_ns;
	__u32 device;
	__u16 syscall;
	__u8 file_kind;
	__u8 unused;
	/* of a checkpoint: CHECKPOINT_* of src/include/access/xlog.h */
	__u32 flags;
	__u32 unused2;
};

/* Totals since the trace began. */
struct why_counters
{
	__u64 commits;
	__u64 aborts;
	/* records that were inserted, their bytes, the page images in them, and the bytes of those that have any */
	__u64 wal_records;
	__u64 wal_bytes;
	__u64 wal_page_images;
	__u64 wal_page_image_bytes;
	/* calls on WAL files */
	__u64 wal_writes;
	__u64 wal_written_bytes;
	__u64 wal_syncs;
	__u64 wal_sync_ns;
};

struct
{
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct why_counters);
} counters SEC(".maps");

static __always_inline struct why_counters *
own_counters(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

static __always_inline struct wait_state *
current_state(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&wait_states, &tgid);
}

SEC("tp_btf/sys_enter")
int
BPF_PROG(syscall_entered, struct pt_regs *registers, long number)
{
	struct wait_state *state = current_state();

	if (!state)
		return 0;
	begin_syscall(state, registers, number);
	return 0;
}

SEC("tp_btf/sys_exit")
int
BPF_PROG(syscall_left, struct pt_regs *registers, long result)
{
	struct wait_state *state = current_state();
	struct why_counters *own;
	__u64 duration;
	__u32 device = 0;
	int number;

	if (!state || state->syscall == NO_SYSCALL)
		return 0;
	number = state->syscall;
	duration = bpf_ktime_get_ns() - state->syscall_since;
	if (number == syscall_pwrite64 || number == syscall_pwritev || number == syscall_fdatasync ||
	    number == syscall_fsync)
	{
		own = own_counters();
		if (own && result >= 0 &&
		    kind_of_descriptor((unsigned int) state->syscall_argument, &device) == FILE_WAL)
		{
			if (number == syscall_fdatasync || number == syscall_fsync)
			{
				own->wal_syncs++;
				own->wal_sync_ns += duration;
			}
			else
			{
				own->wal_writes++;
				own->wal_written_bytes += result;
			}
		}
	}
	if (duration > long_syscall_ns && !state->idle_syscall)
	{
		struct why_event *event = reserve_event(sizeof(*event), WHY_LONG_SYSCALL);

		if (event)
		{
			event->duration_ns = duration;
			event->syscall = (__u16) number;
			event->file_kind = FILE_NONE;
			event->device = 0;
			event->flags = 0;
			event->unused = 0;
			event->unused2 = 0;
			if (number < MAX_SYSCALLS &&
			    has_descriptor(operation_of_syscall[number & (MAX_SYSCALLS - 1)]))
				event->file_kind =
					kind_of_descriptor((unsigned int) state->syscall_argument, &event->device);
			bpf_ringbuf_submit(event, 0);
		}
	}
	state->syscall = NO_SYSCALL;
	return 0;
}

/*
 * XLogInsertRecord(rdata, fpw_lsn, flags, num_fpi, ...), src/backend/access/transam/xlog.c, PostgreSQL 13 and later.
 * rdata->data begins with XLogRecord, whose first member is the record's total length. A record that has to be
 * assembled anew, because a checkpoint began meanwhile, is counted twice.
 */
struct xlog_rec_data
{
	__u64 next;
	__u64 data;
};

SEC("uprobe")
int
wal_record_inserted(struct pt_regs *context)
{
	struct xlog_rec_data *rdata = (struct xlog_rec_data *) PT_REGS_PARM1(context);
	int page_images = (int) PT_REGS_PARM4(context);
	struct why_counters *own = own_counters();
	__u64 header = 0;
	__u32 length = 0;

	if (!own || !current_server_process())
		return 0;
	bpf_probe_read_user(&header, sizeof(header), &rdata->data);
	bpf_probe_read_user(&length, sizeof(length), (void *) header);
	own->wal_records++;
	own->wal_bytes += length;
	if (page_images > 0)
	{
		own->wal_page_images += page_images;
		own->wal_page_image_bytes += length;
	}
	return 0;
}

SEC("usdt")
int
transaction_committed(struct pt_regs *context)
{
	struct why_counters *own = own_counters();

	(void) context;
	if (own && current_server_process())
		own->commits++;
	return 0;
}

SEC("usdt")
int
transaction_aborted(struct pt_regs *context)
{
	struct why_counters *own = own_counters();
	struct wait_state *state = current_state();

	(void) context;
	if (own && current_server_process())
		own->aborts++;
	/* A lock wait that ends by an error has no lock-wait-done. */
	if (state)
		state->lock = 0;
	return 0;
}

SEC("usdt")
int
lwlock_wait_began(struct pt_regs *context)
{
	struct wait_state *state = current_state();
	struct lock_name name = {};
	__u64 address;

	if (!state)
		return 0;
	address = usdt_argument(context, 0);
	state->lwlock = address;
	if (!bpf_map_lookup_elem(&lock_names, &address))
	{
		bpf_probe_read_user_str(name.name, sizeof(name.name), (void *) address);
		if (bpf_map_update_elem(&lock_names, &address, &name, BPF_ANY))
			__sync_fetch_and_add(&dropped_entries, 1);
	}
	return 0;
}

SEC("usdt")
int
lwlock_wait_ended(struct pt_regs *context)
{
	struct wait_state *state = current_state();

	(void) context;
	if (state)
		state->lwlock = 0;
	return 0;
}

/* lock-wait-start(field1, field2, field3, field4, type, mode), src/backend/storage/lmgr/lock.c; type is LockTagType. */
SEC("usdt")
int
lock_wait_began(struct pt_regs *context)
{
	struct wait_state *state = current_state();

	/* plus one, so that LOCKTAG_RELATION is not none */
	if (state)
		state->lock = (usdt_argument(context, 4) & 0xff) + 1;
	return 0;
}

SEC("usdt")
int
lock_wait_ended(struct pt_regs *context)
{
	struct wait_state *state = current_state();

	(void) context;
	if (state)
		state->lock = 0;
	return 0;
}

static __always_inline int
report_checkpoint(__u32 kind, __u32 flags)
{
	struct why_event *event;

	if (!current_server_process())
		return 0;
	event = reserve_event(sizeof(*event), kind);
	if (!event)
		return 0;
	event->duration_ns = 0;
	event->device = 0;
	event->syscall = NO_SYSCALL;
	event->file_kind = FILE_NONE;
	event->unused = 0;
	event->flags = flags;
	event->unused2 = 0;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("usdt")
int
checkpoint_began(struct pt_regs *context)
{
	return report_checkpoint(WHY_CHECKPOINT_START, usdt_argument(context, 0));
}

SEC("usdt")
int
checkpoint_syncs(struct pt_regs *context)
{
	(void) context;
	return report_checkpoint(WHY_CHECKPOINT_SYNC, 0);
}

SEC("usdt")
int
checkpoint_ended(struct pt_regs *context)
{
	(void) context;
	return report_checkpoint(WHY_CHECKPOINT_END, 0);
}

const struct why_event *unused_why_event __attribute__((unused));
