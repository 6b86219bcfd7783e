// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Charges every nanosecond of each server process to exactly one thing: running, waiting for a processor, or what it
 * waits for.
 *
 * A process is in one state at a time, which began at `since`. Whoever ends or interrupts it, the scheduler's
 * tracepoints take the time out of `since` by an atomic exchange: no interval is charged twice, none is left out.
 * What a process waits for is taken when it goes to sleep, by the innermost cause that shows: uninterruptible sleep by
 * its kernel stack and the file of its system call, other sleep by the lock wait that the server's probes opened, else
 * by the server's wait event.
 */
#ifndef WAITS_BPF_H
#define WAITS_BPF_H

#include "device_idle.bpf.h"
#include "path_kind.bpf.h"
#include "syscall_table.bpf.h"

/* include/linux/sched.h: TASK_UNINTERRUPTIBLE; TASK_KILLABLE and TASK_IDLE contain it */
#define STATE_UNINTERRUPTIBLE 0x0002
/* prev_state of a task that was preempted, not put to sleep: include/trace/events/sched.h */
#define STATE_RUNNING 0

/* The same numbers as Activity in waits.rs. */
enum activity
{
	ACTIVITY_ON_CPU = 1,
	ACTIVITY_RUN_QUEUE,        /* could run, waits for a processor */
	ACTIVITY_UNINTERRUPTIBLE,  /* detail: stack id, or NO_STACK */
	ACTIVITY_LWLOCK,           /* detail: address of the lock's name */
	ACTIVITY_HEAVYWEIGHT_LOCK, /* detail: lock type */
	ACTIVITY_WAIT_EVENT,       /* detail: the server's wait event; 0 if it has set none */
};

#define NO_STACK (~0ULL)
#define NO_SYSCALL 0xffff

struct charge_key
{
	__u32 tgid;
	__u32 device; /* of the file; 0 without one */
	__u64 detail;
	__u16 syscall;
	__u8 activity;
	__u8 file_kind;
	/* the part of a wait in which the device was idle while the block cgroup held bios back */
	__u8 throttled;
	/* connect: the phase of the connection; 0 elsewhere */
	__u8 phase;
	__u16 unused;
};

struct charge
{
	__u64 ns;
	/* times that the state began */
	__u64 count;
};

struct wait_state
{
	struct charge_key key;
	__u64 since;
	/* of the device when the wait began, or was last charged */
	__u64 idle_ns;
	__u64 throttled_bios;
	/* what the server's probes have opened; 0: none */
	__u64 lwlock;
	__u64 lock;
	/* the system call that is under way */
	__u64 syscall_since;
	__u64 syscall_argument; /* object_argument() */
	__u16 syscall;
	/* it has waited for the client, or for work, within this system call */
	__u8 idle_syscall;
	__u8 phase;
	/* nothing is charged any more */
	__u8 finished;
	__u8 unused[3];
};

struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SERVER_PROCESSES);
	__type(key, __u32); /* tgid */
	__type(value, struct wait_state);
} wait_states SEC(".maps");

struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct charge_key);
	__type(value, struct charge);
} charges SEC(".maps");

#define STACK_DEPTH 40

struct
{
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 4096);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, STACK_DEPTH * sizeof(__u64));
} stacks SEC(".maps");

/* Address in the server's processes of the variable my_wait_event_info (PostgreSQL 14 and later); 0 if not known. */
const volatile __u64 wait_event_pointer = 0;

static __always_inline void
charge_part(struct charge_key *key, __u64 ns, __u64 count)
{
	struct charge *charge = bpf_map_lookup_elem(&charges, key);

	if (!charge)
	{
		struct charge empty = {};

		bpf_map_update_elem(&charges, key, &empty, BPF_NOEXIST);
		charge = bpf_map_lookup_elem(&charges, key);
		if (!charge)
		{
			__sync_fetch_and_add(&dropped_entries, 1);
			return;
		}
	}
	__sync_fetch_and_add(&charge->ns, ns);
	__sync_fetch_and_add(&charge->count, count);
}

/* Charges the state's time up to now; count is 1 where the state ends, else 0. */
static __noinline int
charge_state(struct wait_state *state, __u64 now, __u64 count)
{
	struct charge_key key;
	__u64 since;
	__u64 idle;

	if (!state || state->finished)
		return 0;
	key = state->key;
	since = __sync_lock_test_and_set(&state->since, now);
	/* Another one has been here meanwhile, with a later clock. */
	if ((__s64) (now - since) < 0)
		return 0;
	if (key.activity == ACTIVITY_UNINTERRUPTIBLE && key.device)
	{
		__u32 device = whole_disk(key.device);
		struct disk *disk = bpf_map_lookup_elem(&disks, &device);

		if (disk)
		{
			__u64 idle_now = disk_idle_ns(disk, now);
			__u64 bios = disk->throttled_bios;

			idle = idle_now - state->idle_ns;
			if (bios != state->throttled_bios && (__s64) idle > 0)
			{
				if (idle > now - since)
					idle = now - since;
				key.throttled = 1;
				charge_part(&key, idle, 0);
				key.throttled = 0;
				since += idle;
			}
			state->idle_ns = idle_now;
			state->throttled_bios = bios;
		}
	}
	charge_part(&key, now - since, count);
	return 0;
}

static __always_inline void
enter_state(struct wait_state *state, __u8 activity)
{
	state->key.activity = activity;
	state->key.detail = 0;
	state->key.device = 0;
	state->key.file_kind = FILE_NONE;
	state->key.syscall = NO_SYSCALL;
	state->key.phase = state->phase;
}

/* Kind and, where the system call under way has a descriptor of it, device of the file that it works on. */
static __always_inline void
set_file(struct wait_state *state)
{
	__u32 number = state->syscall;
	__u32 device = 0;
	__u32 operation;

	state->key.syscall = state->syscall;
	if (number >= MAX_SYSCALLS)
		return;
	operation = operation_of_syscall[number & (MAX_SYSCALLS - 1)];
	if (has_descriptor(operation))
	{
		state->key.file_kind = kind_of_descriptor((unsigned int) state->syscall_argument, &device);
		state->key.device = device;
	}
	else if (has_path(operation))
		state->key.file_kind = kind_of_path(state->syscall_argument);
}

/* Classes of wait events, src/include/utils/wait_event.h. */
#define WAIT_EVENT_CLASS 0xff000000U
#define WAIT_EVENT_ACTIVITY 0x05000000U
#define WAIT_EVENT_CLIENT 0x06000000U

/* The current process goes to sleep. context is that of sched_switch. */
static __always_inline void
begin_wait(void *context, struct wait_state *state, unsigned int task_state)
{
	if (task_state & STATE_UNINTERRUPTIBLE)
	{
		long stack = bpf_get_stackid(context, &stacks, 0);

		enter_state(state, ACTIVITY_UNINTERRUPTIBLE);
		state->key.detail = stack < 0 ? NO_STACK : (__u64) stack;
		set_file(state);
		if (state->key.device)
		{
			__u32 device = whole_disk(state->key.device);
			struct disk *disk = bpf_map_lookup_elem(&disks, &device);

			state->idle_ns = disk ? disk_idle_ns(disk, bpf_ktime_get_ns()) : 0;
			state->throttled_bios = disk ? disk->throttled_bios : 0;
		}
	}
	else if (state->lwlock)
	{
		enter_state(state, ACTIVITY_LWLOCK);
		state->key.detail = state->lwlock;
	}
	else if (state->lock)
	{
		enter_state(state, ACTIVITY_HEAVYWEIGHT_LOCK);
		state->key.detail = state->lock;
	}
	else
	{
		__u64 pointer = 0;
		__u32 event = 0;

		if (wait_event_pointer)
		{
			bpf_probe_read_user(&pointer, sizeof(pointer), (void *) wait_event_pointer);
			bpf_probe_read_user(&event, sizeof(event), (void *) pointer);
		}
		enter_state(state, ACTIVITY_WAIT_EVENT);
		state->key.detail = event;
		state->key.syscall = state->syscall;
		if ((event & WAIT_EVENT_CLASS) == WAIT_EVENT_CLIENT ||
		    (event & WAIT_EVENT_CLASS) == WAIT_EVENT_ACTIVITY)
			state->idle_syscall = 1;
	}
}

/* The states of processes that were there before the trace are of no use to connect, which sets this. */
const volatile __u8 only_new_processes = 0;

/* The state of a server process; made at its first event. NULL if it is none of the server's. */
static __noinline struct wait_state *
state_of(__u32 tgid)
{
	struct wait_state *state = bpf_map_lookup_elem(&wait_states, &tgid);
	struct server_process *process;
	struct wait_state fresh = {};

	if (state)
		return state;
	process = bpf_map_lookup_elem(&server_processes, &tgid);
	if (!process || (only_new_processes && !process->forked_ns))
		return NULL;
	fresh.key.tgid = tgid;
	fresh.key.syscall = NO_SYSCALL;
	fresh.syscall = NO_SYSCALL;
	if (process->forked_ns)
	{
		/* New, and this is where it runs for the first time. */
		fresh.key.activity = ACTIVITY_RUN_QUEUE;
		fresh.since = process->forked_ns;
	}
	else
	{
		fresh.key.activity = ACTIVITY_ON_CPU;
		fresh.since = bpf_ktime_get_ns();
	}
	if (bpf_map_update_elem(&wait_states, &tgid, &fresh, BPF_NOEXIST))
		__sync_fetch_and_add(&dropped_entries, 1);
	return bpf_map_lookup_elem(&wait_states, &tgid);
}

SEC("tp_btf/sched_switch")
int
BPF_PROG(task_switched, bool preempted, struct task_struct *previous, struct task_struct *next,
         unsigned int previous_state)
{
	__u32 leaving = previous->tgid;
	__u32 coming = next->tgid;
	struct wait_state *state;

	if (leaving && previous->pid == previous->tgid)
	{
		state = state_of(leaving);
		if (state)
		{
			charge_state(state, bpf_ktime_get_ns(), 1);
			if (previous_state == STATE_RUNNING || preempted)
				enter_state(state, ACTIVITY_RUN_QUEUE);
			else
				begin_wait(ctx, state, previous_state);
		}
	}
	if (coming && next->pid == next->tgid)
	{
		state = state_of(coming);
		if (state)
		{
			charge_state(state, bpf_ktime_get_ns(), 1);
			enter_state(state, ACTIVITY_ON_CPU);
		}
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int
BPF_PROG(task_woken, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct wait_state *state;

	if (task->pid != task->tgid)
		return 0;
	state = bpf_map_lookup_elem(&wait_states, &tgid);
	/* One that is woken before it has left the processor goes on as it is. */
	if (!state || state->key.activity <= ACTIVITY_RUN_QUEUE)
		return 0;
	charge_state(state, bpf_ktime_get_ns(), 1);
	enter_state(state, ACTIVITY_RUN_QUEUE);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int
BPF_PROG(waiter_exited, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct wait_state *state;

	if (task->pid != task->tgid)
		return 0;
	state = bpf_map_lookup_elem(&wait_states, &tgid);
	if (!state)
		return 0;
	charge_state(state, bpf_ktime_get_ns(), 1);
	bpf_map_delete_elem(&wait_states, &tgid);
	return 0;
}

/* To be called from sys_enter and sys_exit. */
static __always_inline void
begin_syscall(struct wait_state *state, struct pt_regs *registers, long number)
{
	state->syscall = (__u16) number;
	state->syscall_argument = object_argument(registers, number);
	state->idle_syscall = 0;
	state->syscall_since = bpf_ktime_get_ns();
}

#endif
