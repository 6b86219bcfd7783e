// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The system calls of each server process: how many of which operation on which kind of file, how long, how much.
 */
#include "operations.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct call
{
	__u64 since;
	__u64 argument;
	__u64 number;
};

struct
{
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

SEC("tp_btf/sys_enter")
int
BPF_PROG(call_entered, struct pt_regs *registers, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct call *call = bpf_task_storage_get(&calls, task, NULL, 0);

	/* Who has made a call before is the server's; all others of the host come by here, too. */
	if (!call)
	{
		if (!current_server_process())
			return 0;
		call = bpf_task_storage_get(&calls, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!call)
		{
			__sync_fetch_and_add(&dropped_entries, 1);
			return 0;
		}
	}
	call->number = number;
	call->argument = object_argument(registers, number);
	call->since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int
BPF_PROG(call_left, struct pt_regs *registers, long result)
{
	struct call *call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), NULL, 0);
	__u64 since;

	if (!call || !call->since)
		return 0;
	since = call->since;
	call->since = 0;
	return count_operation(call->number, call->argument, result, bpf_ktime_get_ns() - since, 0);
}
