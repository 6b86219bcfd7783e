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

static __always_inline bool
has_descriptor(__u32 operation)
{
	return operation == OPERATION_READ || operation == OPERATION_WRITE ||
	       operation == OPERATION_SYNC || operation == OPERATION_SYNC_RANGE ||
	       operation == OPERATION_ALLOCATE;
}

#endif
