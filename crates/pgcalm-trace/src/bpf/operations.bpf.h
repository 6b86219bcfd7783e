// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Counts the system calls of server processes by operation and kind of file.
 */
#ifndef OPERATIONS_BPF_H
#define OPERATIONS_BPF_H

#include "path_kind.bpf.h"
#include "syscall_table.bpf.h"

struct operation_key
{
	__u32 tgid;
	__u8 operation;
	__u8 file_kind;
	/* connect: the phase of the connection; 0 elsewhere */
	__u8 phase;
	__u8 unused;
};

struct operation_total
{
	__u64 errors;
	/* that the calls reported as read or written */
	__u64 bytes;
	struct histogram ns;
};

/* Some fifteen of each process; room is taken as they come. */
struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct operation_key);
	__type(value, struct operation_total);
} operations SEC(".maps");

/* Too large for the stack of a program. */
const struct operation_total no_operations = {};

/* A call of the current process has returned; argument is its object_argument(). */
static __noinline int
count_operation(__u32 number, __u64 argument, __s64 result, __u64 ns, __u32 phase)
{
	struct operation_key key = {.tgid = bpf_get_current_pid_tgid() >> 32};
	struct operation_total *total;
	__u32 device;

	if (number < MAX_SYSCALLS)
		key.operation = operation_of_syscall[number & (MAX_SYSCALLS - 1)];
	key.phase = phase;
	if (has_descriptor(key.operation))
		key.file_kind = kind_of_descriptor((unsigned int) argument, &device);
	else if (key.operation == OPERATION_OPEN && result >= 0)
		key.file_kind = kind_of_descriptor((unsigned int) result, &device);
	else if (has_path(key.operation))
		key.file_kind = kind_of_path(argument);
	total = bpf_map_lookup_elem(&operations, &key);
	if (!total)
	{
		bpf_map_update_elem(&operations, &key, &no_operations, BPF_NOEXIST);
		total = bpf_map_lookup_elem(&operations, &key);
		if (!total)
		{
			__sync_fetch_and_add(&dropped_entries, 1);
			return 0;
		}
	}
	if (result < 0)
		__sync_fetch_and_add(&total->errors, 1);
	else if (key.operation == OPERATION_READ || key.operation == OPERATION_WRITE)
		__sync_fetch_and_add(&total->bytes, result);
	histogram_add(&total->ns, ns);
	return 0;
}

#endif
