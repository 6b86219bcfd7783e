// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * What the system calls do, by their numbers.
 */
#ifndef SYSCALL_TABLE_BPF_H
#define SYSCALL_TABLE_BPF_H

#include "server.bpf.h"

/* The same numbers as Operation in operations.rs. */
enum operation
{
	OPERATION_OTHER = 0,
	OPERATION_READ,
	OPERATION_WRITE,
	OPERATION_SYNC,
	OPERATION_OPEN,
	OPERATION_CLOSE,
	OPERATION_ALLOCATE,
	OPERATION_NAME, /* rename, unlink, link, mkdir, … */
	OPERATION_SYNC_RANGE,
};

#define MAX_SYSCALLS 512

/* enum operation of each system call's number, filled by operations.rs: the numbers differ between machines. */
const volatile __u8 operation_of_syscall[MAX_SYSCALLS] = {};

/* Which argument of each system call is the address of a path, counted from 1; 0: none. Filled by syscalls.rs likewise. */
const volatile __u8 path_argument_of_syscall[MAX_SYSCALLS] = {};

/* The argument that tells what a call works on: a descriptor, or the address of a path. */
static __always_inline __u64
object_argument(struct pt_regs *registers, long number)
{
	__u64 first = PT_REGS_PARM1_SYSCALL(registers);
	__u64 second = PT_REGS_PARM2_SYSCALL(registers);

	/* Both are read: the verifier takes no place in the registers that depends on the number. */
	barrier_var(first);
	barrier_var(second);
	if ((__u64) number < MAX_SYSCALLS && path_argument_of_syscall[number & (MAX_SYSCALLS - 1)] == 2)
		return second;
	return first;
}

static __always_inline bool
has_descriptor(__u32 operation)
{
	return operation == OPERATION_READ || operation == OPERATION_WRITE ||
	       operation == OPERATION_SYNC || operation == OPERATION_SYNC_RANGE ||
	       operation == OPERATION_ALLOCATE;
}

static __always_inline bool
has_path(__u32 operation)
{
	return operation == OPERATION_OPEN || operation == OPERATION_NAME;
}

#endif
