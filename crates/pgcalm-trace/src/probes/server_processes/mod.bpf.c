// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Keeps the map of the traced server's processes: those found at the start are entered by mod.rs, the postmaster's
 * later children by their fork, and all are removed by their exit. So nobody's probes fire for a process that isn't
 * the server's, and a new connection is seen from its first instruction on.
 */
#include "server.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* tgid of the postmaster; set before loading */
const volatile __u32 postmaster = 0;

enum process_event_kind
{
	PROCESS_FORKED = 1,
	PROCESS_EXITED = 2,
};

struct process_event
{
	struct event_header header;
	/* the child of a fork, or the process that ends */
	__u32 process;
	__u32 unused;
};

static __always_inline void
report(__u32 kind, __u32 process)
{
	struct process_event *event = reserve_event(sizeof(*event), kind);

	if (!event)
		return;
	event->process = process;
	event->unused = 0;
	bpf_ringbuf_submit(event, 0);
}

SEC("tp_btf/sched_process_fork")
int
BPF_PROG(process_forked, struct task_struct *parent, struct task_struct *child)
{
	struct server_process process = {};
	__u32 tgid = child->tgid;

	/* Children of children are not the server's own: shells of archive_command, for instance. */
	if ((__u32) parent->tgid != postmaster || child->pid != child->tgid)
		return 0;
	process.forked_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&server_processes, &tgid, &process, BPF_ANY))
		__sync_fetch_and_add(&dropped_entries, 1);
	report(PROCESS_FORKED, tgid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int
BPF_PROG(process_exited, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	if (task->pid != task->tgid || !bpf_map_lookup_elem(&server_processes, &tgid))
		return 0;
	bpf_map_delete_elem(&server_processes, &tgid);
	report(PROCESS_EXITED, tgid);
	return 0;
}

EXPORT_TYPE(process_event);
