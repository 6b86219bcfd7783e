// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Where the time of the server's processes goes, by samples, with what it takes to tell why: commits, WAL, the start and
 * end of checkpoints; opt-in, calls on WAL files.
 */
#include "process_sample.bpf.h"
#include "usdt_argument.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Numbers of the calls whose results are counted for WAL; -1 where there is none */
const volatile int syscall_pwrite64 = -1;
const volatile int syscall_pwritev = -1;
const volatile int syscall_fdatasync = -1;
const volatile int syscall_fsync = -1;

enum why_event_kind
{
	WHY_CHECKPOINT_START = 1,
	WHY_CHECKPOINT_SYNC,
	WHY_CHECKPOINT_END,
};

struct why_event
{
	struct event_header header;
};

/* Totals since the trace began. */
struct why_counters
{
	__u64 commits;
	__u64 aborts;
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

/* What the server's probes have opened in a process, where its wait event is not known. */
struct open_waits
{
	/* address of the lightweight lock's name; 0: none */
	__u64 lwlock;
	/* type of the heavyweight lock plus one, so that LOCKTAG_RELATION is not none */
	__u64 lock;
};

struct
{
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SERVER_PROCESSES);
	__type(key, __u32); /* tgid */
	__type(value, struct open_waits);
} open_waits SEC(".maps");

SEC("usdt")
int
transaction_aborted(struct pt_regs *context)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct why_counters *own = own_counters();
	struct open_waits *waits;

	(void) context;
	if (own && current_server_process())
		own->aborts++;
	/* A lock wait that ends by an error has no lock-wait-done. */
	waits = bpf_map_lookup_elem(&open_waits, &tgid);
	if (waits)
		waits->lock = 0;
	return 0;
}

#define LOCK_NAME_LENGTH 64

struct lock_name
{
	char name[LOCK_NAME_LENGTH];
};

/*
 * Names of lightweight locks: by the wait event, or where that is not known by the address of the name, which is the same
 * in all processes: they are forks of one postmaster.
 */
struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct lock_name);
} lock_names SEC(".maps");

static __always_inline void
keep_lock_name(__u64 key, __u64 address)
{
	struct lock_name name = {};

	if (bpf_map_lookup_elem(&lock_names, &key))
		return;
	bpf_probe_read_user_str(name.name, sizeof(name.name), (void *) address);
	if (bpf_map_update_elem(&lock_names, &key, &name, BPF_ANY))
		__sync_fetch_and_add(&dropped_entries, 1);
}

/* LWLockReportWaitStart has set the wait event before lwlock-wait-start fires (src/backend/storage/lmgr/lwlock.c). */
SEC("usdt")
int
lwlock_name_shown(struct pt_regs *context)
{
	__u64 pointer = 0;
	__u32 event = 0;

	if (!current_server_process())
		return 0;
	bpf_probe_read_user(&pointer, sizeof(pointer), (void *) wait_event_pointer);
	bpf_probe_read_user(&event, sizeof(event), (void *) pointer);
	if (event)
		keep_lock_name(event, usdt_argument(context, 0));
	return 0;
}

static __always_inline struct open_waits *
own_open_waits(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct open_waits *waits = bpf_map_lookup_elem(&open_waits, &tgid);
	struct open_waits none = {};

	if (waits || !current_server_process())
		return waits;
	if (bpf_map_update_elem(&open_waits, &tgid, &none, BPF_NOEXIST))
		__sync_fetch_and_add(&dropped_entries, 1);
	return bpf_map_lookup_elem(&open_waits, &tgid);
}

SEC("usdt")
int
lwlock_wait_began(struct pt_regs *context)
{
	struct open_waits *waits = own_open_waits();

	if (!waits)
		return 0;
	waits->lwlock = usdt_argument(context, 0);
	keep_lock_name(waits->lwlock, waits->lwlock);
	return 0;
}

SEC("usdt")
int
lwlock_wait_ended(struct pt_regs *context)
{
	struct open_waits *waits = own_open_waits();

	(void) context;
	if (waits)
		waits->lwlock = 0;
	return 0;
}

/* lock-wait-start(field1, field2, field3, field4, type, mode), src/backend/storage/lmgr/lock.c; type is LockTagType. */
SEC("usdt")
int
lock_wait_began(struct pt_regs *context)
{
	struct open_waits *waits = own_open_waits();

	if (waits)
		waits->lock = (usdt_argument(context, 4) & 0xff) + 1;
	return 0;
}

SEC("usdt")
int
lock_wait_ended(struct pt_regs *context)
{
	struct open_waits *waits = own_open_waits();

	(void) context;
	if (waits)
		waits->lock = 0;
	return 0;
}

/* struct WalUsage, src/include/executor/instrument.h, PostgreSQL 13 and later; what newer ones add stands behind. */
struct wal_usage
{
	__u64 records;
	__u64 page_images;
	__u64 bytes;
};

/* What processes that have ended had inserted; process_samples.rs takes them out. */
struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SERVER_PROCESSES);
	__type(key, __u32); /* tgid */
	__type(value, struct wal_usage);
} last_wal_usage SEC(".maps");

/* proc_exit, src/backend/storage/ipc/ipc.c: every end of a process of the server but a crash. */
SEC("uprobe")
int
process_exits(struct pt_regs *context)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct wal_usage usage = {};

	(void) context;
	if (!current_server_process())
		return 0;
	bpf_probe_read_user(&usage, sizeof(usage), (void *) wal_usage_address);
	if (usage.records && bpf_map_update_elem(&last_wal_usage, &tgid, &usage, BPF_ANY))
		__sync_fetch_and_add(&dropped_entries, 1);
	return 0;
}

static __always_inline int
report_checkpoint(__u32 kind)
{
	struct why_event *event;

	if (!current_server_process())
		return 0;
	event = reserve_event(sizeof(*event), kind);
	if (!event)
		return 0;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("usdt")
int
checkpoint_began(struct pt_regs *context)
{
	(void) context;
	return report_checkpoint(WHY_CHECKPOINT_START);
}

SEC("usdt")
int
checkpoint_syncs(struct pt_regs *context)
{
	(void) context;
	return report_checkpoint(WHY_CHECKPOINT_SYNC);
}

SEC("usdt")
int
checkpoint_ended(struct pt_regs *context)
{
	(void) context;
	return report_checkpoint(WHY_CHECKPOINT_END);
}

/* Start of the fsync under way of each process, CLOCK_MONOTONIC in ns. */
struct
{
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SERVER_PROCESSES);
	__type(key, __u32); /* tgid */
	__type(value, __u64);
} syncs_under_way SEC(".maps");

static __always_inline bool
is_sync(long number)
{
	return number == syscall_fdatasync || number == syscall_fsync;
}

SEC("tp_btf/sys_enter")
int
BPF_PROG(wal_call_entered, struct pt_regs *registers, long number)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 now = bpf_ktime_get_ns();

	if (is_sync(number) && current_server_process())
		bpf_map_update_elem(&syncs_under_way, &tgid, &now, BPF_ANY);
	return 0;
}

SEC("tp_btf/sys_exit")
int
BPF_PROG(wal_call_left, struct pt_regs *registers, long result)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
#if defined(__TARGET_ARCH_x86)
	long number = (long) registers->orig_rax;
#else
	long number = BPF_CORE_READ((struct pt_regs___syscallno *) registers, syscallno);
#endif
	struct why_counters *own;
	__u64 *since;
	__u32 device;

	if (!is_sync(number) && number != syscall_pwrite64 && number != syscall_pwritev)
		return 0;
	if (result < 0 || !current_server_process() ||
	    kind_of_descriptor((unsigned int) PT_REGS_PARM1_SYSCALL(registers), &device) != FILE_WAL)
		return 0;
	own = own_counters();
	if (!own)
		return 0;
	if (!is_sync(number))
	{
		own->wal_writes++;
		own->wal_written_bytes += result;
		return 0;
	}
	since = bpf_map_lookup_elem(&syncs_under_way, &tgid);
	if (since)
	{
		own->wal_syncs++;
		own->wal_sync_ns += bpf_ktime_get_ns() - *since;
	}
	return 0;
}

const struct why_event *unused_why_event __attribute__((unused));
const struct wal_usage *unused_wal_usage __attribute__((unused));
