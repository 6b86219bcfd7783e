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
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SERVER_PROCESSES);
	__type(key, __u32); /* thread id */
	__type(value, struct call);
} calls SEC(".maps");

SEC("tp_btf/sys_enter")
int
BPF_PROG(call_entered, struct pt_regs *registers, long number)
{
	__u32 thread = (__u32) bpf_get_current_pid_tgid();
	struct call call = {};

	if (!current_server_process())
		return 0;
	call.number = number;
	call.argument = PT_REGS_PARM1_SYSCALL(registers);
	call.since = bpf_ktime_get_ns();
	bpf_map_update_elem(&calls, &thread, &call, BPF_ANY);
	return 0;
}

SEC("tp_btf/sys_exit")
int
BPF_PROG(call_left, struct pt_regs *registers, long result)
{
	__u32 thread = (__u32) bpf_get_current_pid_tgid();
	struct call *call = bpf_map_lookup_elem(&calls, &thread);
	__u64 since;

	if (!call || !call->since)
		return 0;
	since = call->since;
	call->since = 0;
	return count_operation(call->number, call->argument, result, bpf_ktime_get_ns() - since, 0);
}
