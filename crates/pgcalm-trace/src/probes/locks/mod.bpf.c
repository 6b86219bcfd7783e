// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Waits for lightweight and heavyweight locks, by lock, mode and role of the process that waits, apart for the time
 * within a checkpoint and for its first seconds; and acquisitions of lightweight locks (opt-in).
 */
#include "server.bpf.h"
#include "usdt_argument.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum lock_class
{
	LIGHTWEIGHT_LOCK = 1,
	HEAVYWEIGHT_LOCK = 2,
};

/* NAMEDATALEN bounds the names that extensions give; the server's own are shorter. */
#define LOCK_NAME_SIZE 64

struct lock_key
{
	/* enum lock_class */
	__u32 class;
	/* LWLockMode or LOCKMODE of the server's sources */
	__u32 mode;
	/* as in server_process */
	__u32 role;
	/* WITHIN_CHECKPOINT and FIRST_OF_CHECKPOINT: when the wait ended */
	__u32 when;
	/* LockTagType of a heavyweight lock; database and relation of those that have them */
	__u32 type;
	__u32 database;
	__u32 relation;
	__u32 unused;
	/* tranche of a lightweight lock */
	unsigned char name[LOCK_NAME_SIZE];
};

#define MAX_LOCKS 16384

struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LOCKS);
	__type(key, struct lock_key);
	__type(value, struct histogram);
} lock_waits SEC(".maps");

/* Acquisitions of lightweight locks, waited for or not. */
struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LOCKS);
	__type(key, struct lock_key);
	__type(value, __u64);
} lock_acquisitions SEC(".maps");

struct wait_key
{
	__u32 tgid;
	/* a heavyweight lock's wait may have waits for lightweight locks in it (deadlock check) */
	__u32 class;
};

/* CLOCK_MONOTONIC of waits under way; those of processes that were killed are pushed out by others. */
struct
{
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 2 * MAX_SERVER_PROCESSES);
	__type(key, struct wait_key);
	__type(value, __u64);
} waits_under_way SEC(".maps");

/* Bits of lock_key.when, which mod.rs repeats. A short checkpoint is over before its first seconds are. */
#define WITHIN_CHECKPOINT 1
#define FIRST_OF_CHECKPOINT 2

/* whether a checkpoint is under way */
__u32 during = 0;
__u32 restartpoint = 0;
/* CLOCK_MONOTONIC of the last one's start, 0 before any */
__u64 checkpoint_started_ns = 0;
/* how long its first seconds are; set before the program is loaded */
const volatile __u64 first_ns = 0;

static __always_inline __u32
when(__u64 now)
{
	__u32 bits = during ? WITHIN_CHECKPOINT : 0;

	if (checkpoint_started_ns && now - checkpoint_started_ns < first_ns)
		bits |= FIRST_OF_CHECKPOINT;
	return bits;
}

enum lock_event_kind
{
	LOCKS_CHECKPOINT_START = 1,
	LOCKS_CHECKPOINT_DONE = 2,
};

struct lock_event
{
	struct event_header header;
	/* flags of the checkpoint */
	__s64 flags;
	__u32 restartpoint;
	__u32 unused;
};

EXPORT_TYPE(lock_event);
EXPORT_TYPE(lock_key);

/* A new entry of lock_waits; also read by mod.rs for the layout of a value. */
const struct histogram empty_histogram = {};

static __always_inline int
report(__u32 kind, __s64 flags)
{
	struct lock_event *event = reserve_event(sizeof(*event), kind);

	if (kind == LOCKS_CHECKPOINT_START)
		checkpoint_started_ns = event ? event->header.time_ns : bpf_ktime_get_ns();
	if (!event)
		return 0;
	event->flags = flags;
	event->restartpoint = restartpoint;
	event->unused = 0;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("usdt")
int
checkpoint__start(struct pt_regs *context)
{
	if (!current_server_process())
		return 0;
	during = 1;
	restartpoint = 0;
	return report(LOCKS_CHECKPOINT_START, usdt_argument(context, 0));
}

SEC("usdt")
int
checkpoint__done(struct pt_regs *context)
{
	if (!current_server_process())
		return 0;
	during = 0;
	return report(LOCKS_CHECKPOINT_DONE, 0);
}

SEC("usdt")
int
buffer__checkpoint__start(struct pt_regs *context)
{
	if (!current_server_process() || during)
		return 0;
	during = 1;
	restartpoint = 1;
	return report(LOCKS_CHECKPOINT_START, usdt_argument(context, 0));
}

SEC("usdt")
int
buffer__checkpoint__done(struct pt_regs *context)
{
	if (!current_server_process() || !restartpoint)
		return 0;
	during = 0;
	report(LOCKS_CHECKPOINT_DONE, 0);
	restartpoint = 0;
	return 0;
}

static __always_inline int
start_wait(__u32 class)
{
	struct wait_key key = {.tgid = bpf_get_current_pid_tgid() >> 32, .class = class};
	__u64 now = bpf_ktime_get_ns();

	if (!current_server_process())
		return 0;
	if (bpf_map_update_elem(&waits_under_way, &key, &now, BPF_ANY))
		__sync_fetch_and_add(&dropped_entries, 1);
	return 0;
}

/* Counts the wait that began with start_wait; key lacks role and when. */
static __always_inline int
end_wait(struct lock_key *key)
{
	struct wait_key wait = {.tgid = bpf_get_current_pid_tgid() >> 32, .class = key->class};
	struct server_process *process = current_server_process();
	__u64 *started;
	struct histogram *histogram;
	__u64 now = bpf_ktime_get_ns();

	if (!process)
		return 0;
	started = bpf_map_lookup_elem(&waits_under_way, &wait);
	if (!started)
		return 0;
	key->role = process->role;
	key->when = when(now);
	histogram = bpf_map_lookup_elem(&lock_waits, key);
	if (!histogram)
	{
		bpf_map_update_elem(&lock_waits, key, &empty_histogram, BPF_NOEXIST);
		histogram = bpf_map_lookup_elem(&lock_waits, key);
	}
	if (histogram)
		histogram_add(histogram, now - *started);
	else
		__sync_fetch_and_add(&dropped_entries, 1);
	bpf_map_delete_elem(&waits_under_way, &wait);
	return 0;
}

SEC("usdt")
int
lwlock__wait__start(struct pt_regs *context)
{
	return start_wait(LIGHTWEIGHT_LOCK);
}

SEC("usdt")
int
lwlock__wait__done(struct pt_regs *context)
{
	struct lock_key key = {.class = LIGHTWEIGHT_LOCK};

	key.mode = usdt_argument(context, 1);
	bpf_probe_read_user_str(key.name, sizeof(key.name), (void *) usdt_argument(context, 0));
	return end_wait(&key);
}

SEC("usdt")
int
lock__wait__start(struct pt_regs *context)
{
	return start_wait(HEAVYWEIGHT_LOCK);
}

/* LOCKTAG_ of src/include/storage/lock.h, whose fields 1 and 2 are database and relation. */
#define LOCKTAG_RELATION 0
#define LOCKTAG_RELATION_EXTEND 1
#define LOCKTAG_PAGE 3
#define LOCKTAG_TUPLE 4

SEC("usdt")
int
lock__wait__done(struct pt_regs *context)
{
	struct lock_key key = {.class = HEAVYWEIGHT_LOCK};

	key.type = usdt_argument(context, 4);
	key.mode = usdt_argument(context, 5);
	if (key.type <= LOCKTAG_RELATION_EXTEND || key.type == LOCKTAG_PAGE ||
	    key.type == LOCKTAG_TUPLE)
	{
		key.database = usdt_argument(context, 0);
		key.relation = usdt_argument(context, 1);
	}
	return end_wait(&key);
}

static __always_inline int
count_acquisition(struct pt_regs *context)
{
	struct server_process *process = current_server_process();
	struct lock_key key = {.class = LIGHTWEIGHT_LOCK};
	__u64 one = 1;
	__u64 *count;

	if (!process)
		return 0;
	key.role = process->role;
	key.when = when(bpf_ktime_get_ns());
	key.mode = usdt_argument(context, 1);
	bpf_probe_read_user_str(key.name, sizeof(key.name), (void *) usdt_argument(context, 0));
	count = bpf_map_lookup_elem(&lock_acquisitions, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	else if (bpf_map_update_elem(&lock_acquisitions, &key, &one, BPF_NOEXIST))
	{
		/* another process was faster, or the map is full */
		count = bpf_map_lookup_elem(&lock_acquisitions, &key);
		if (count)
			__sync_fetch_and_add(count, 1);
		else
			__sync_fetch_and_add(&dropped_entries, 1);
	}
	return 0;
}

SEC("usdt")
int
lwlock__acquire(struct pt_regs *context)
{
	return count_acquisition(context);
}

SEC("usdt")
int
lwlock__condacquire(struct pt_regs *context)
{
	return count_acquisition(context);
}

SEC("usdt")
int
lwlock__acquire__or__wait(struct pt_regs *context)
{
	return count_acquisition(context);
}
