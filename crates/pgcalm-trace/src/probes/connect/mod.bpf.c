// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Where a new connection spends its time, from the fork of its process until it is ready for a query.
 *
 * The phases are bounded by functions that the server exports for its extensions, so they need no debug symbols.
 */
#include "operations.bpf.h"
#include "waits.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The same numbers as Phase in mod.rs. */
enum connect_phase
{
	PHASE_START = 0,      /* fork, startup packet, TLS, shared memory */
	PHASE_AUTHENTICATION, /* ClientAuthentication, src/backend/libpq/auth.c */
	PHASE_DATABASE, /* the rest of InitPostgres, src/backend/utils/init/postinit.c: catalogs, relation cache */
	PHASE_SESSION, /* until the first ReadyForQuery, src/backend/tcop/dest.c: settings, preloaded libraries */
	PHASES,
};

enum connect_event_kind
{
	CONNECT_READY = 1,
	/* it ended before it was ready */
	CONNECT_ENDED,
};

struct connection
{
	__u64 forked_ns;
	/* CLOCK_MONOTONIC at which each phase began; 0 if it has not */
	__u64 began_ns[PHASES];
};

struct connect_event
{
	struct event_header header;
	struct connection connection;
};

/* Processes that asked for authentication, which other children of the postmaster don't. */
struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SERVER_PROCESSES);
	__type(key, __u32); /* tgid */
	__type(value, struct connection);
} connections SEC(".maps");

static __always_inline struct wait_state *
current_state(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&wait_states, &tgid);
}

SEC("tp_btf/sys_enter")
int
BPF_PROG(connect_syscall_entered, struct pt_regs *registers, long number)
{
	struct wait_state *state = current_state();

	if (state && !state->finished)
		begin_syscall(state, registers, number);
	return 0;
}

SEC("tp_btf/sys_exit")
int
BPF_PROG(connect_syscall_left, struct pt_regs *registers, long result)
{
	struct wait_state *state = current_state();
	__u32 number;

	if (!state || state->finished || state->syscall == NO_SYSCALL)
		return 0;
	number = state->syscall;
	state->syscall = NO_SYSCALL;
	return count_operation(number, state->syscall_argument, result,
	                       bpf_ktime_get_ns() - state->syscall_since, state->phase);
}

static __always_inline int
begin_phase(__u8 phase)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct wait_state *state = bpf_map_lookup_elem(&wait_states, &tgid);
	__u64 now = bpf_ktime_get_ns();
	struct connection *connection;

	if (!state || state->finished)
		return 0;
	connection = bpf_map_lookup_elem(&connections, &tgid);
	if (!connection)
	{
		struct server_process *process = bpf_map_lookup_elem(&server_processes, &tgid);
		struct connection fresh = {};

		/* Other processes of the server call InitPostgres, too. */
		if (!process || phase != PHASE_AUTHENTICATION)
			return 0;
		fresh.forked_ns = process->forked_ns;
		fresh.began_ns[PHASE_START] = process->forked_ns;
		if (bpf_map_update_elem(&connections, &tgid, &fresh, BPF_ANY))
			__sync_fetch_and_add(&dropped_entries, 1);
		connection = bpf_map_lookup_elem(&connections, &tgid);
		if (!connection)
			return 0;
	}
	charge_state(state, now, 1);
	state->phase = phase;
	state->key.phase = phase;
	connection->began_ns[phase & (PHASES - 1)] = now;
	return 0;
}

SEC("uprobe")
int
authentication_began(struct pt_regs *context)
{
	return begin_phase(PHASE_AUTHENTICATION);
}

SEC("uretprobe")
int
authentication_ended(struct pt_regs *context)
{
	return begin_phase(PHASE_DATABASE);
}

SEC("uretprobe")
int
database_reached(struct pt_regs *context)
{
	return begin_phase(PHASE_SESSION);
}

static __always_inline void
report(__u32 tgid, __u32 kind)
{
	struct connection *connection = bpf_map_lookup_elem(&connections, &tgid);
	struct connect_event *event;

	if (!connection)
		return;
	event = reserve_event(sizeof(*event), kind);
	if (event)
	{
		event->header.tgid = tgid;
		event->connection = *connection;
		bpf_ringbuf_submit(event, 0);
	}
	bpf_map_delete_elem(&connections, &tgid);
}

SEC("uprobe")
int
ready_for_query(struct pt_regs *context)
{
	struct wait_state *state = current_state();

	if (!state || state->finished)
		return 0;
	charge_state(state, bpf_ktime_get_ns(), 1);
	state->finished = 1;
	report(state->key.tgid, CONNECT_READY);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int
BPF_PROG(connection_ended, struct task_struct *task)
{
	if (task->pid == task->tgid)
		report(task->tgid, CONNECT_ENDED);
	return 0;
}

const struct connect_event *unused_connect_event __attribute__((unused));
