// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Arguments of USDT probes.
 *
 * libbpf reads most; but gcc may give an argument as SYMBOL(%rip), e.g. PostgreSQL's NBuffers and CheckpointStats, and
 * then libbpf refuses the whole probe. Such probes are attached as uprobes whose cookie has USDT_OWN_ARGUMENTS set and
 * holds an index into usdt_argument_sets, which usdt/argument.rs fills.
 */
#ifndef USDT_ARGUMENT_BPF_H
#define USDT_ARGUMENT_BPF_H

#include "server.bpf.h"
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wsign-compare"
#include <bpf/usdt.bpf.h>
#pragma clang diagnostic pop

#define USDT_OWN_ARGUMENTS (1ULL << 32)
#define MAX_USDT_ARGUMENT_SETS 64
#define MAX_USDT_ARGUMENTS 8

enum usdt_argument_kind
{
	USDT_ARGUMENT_CONSTANT = 0,
	USDT_ARGUMENT_REGISTER = 1,
	/* memory at register + offset */
	USDT_ARGUMENT_MEMORY = 2,
	/* memory at the probe's own address + offset: position-independent, as SYMBOL(%rip) is */
	USDT_ARGUMENT_RELATIVE = 3,
};

struct usdt_argument
{
	/* the constant itself, or what is added to the address */
	__s64 offset;
	/* of the register within struct pt_regs */
	__u16 register_offset;
	__u8 kind;
	/* bytes: 1, 2, 4 or 8 */
	__u8 size;
	__u8 is_signed;
	__u8 unused[3];
};

struct usdt_argument_set
{
	struct usdt_argument arguments[MAX_USDT_ARGUMENTS];
};

struct
{
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_USDT_ARGUMENT_SETS);
	__type(key, __u32);
	__type(value, struct usdt_argument_set);
} usdt_argument_sets SEC(".maps");

static __noinline long
own_usdt_argument(struct pt_regs *context, __u32 set_index, __u32 index, __s64 *value)
{
	struct usdt_argument_set *set = bpf_map_lookup_elem(&usdt_argument_sets, &set_index);
	struct usdt_argument *argument;
	__u64 raw = 0;
	__u32 shift;

	if (!set || !value || index >= MAX_USDT_ARGUMENTS)
		return -1;
	argument = &set->arguments[index];
	if (argument->kind == USDT_ARGUMENT_CONSTANT)
	{
		*value = argument->offset;
		return 0;
	}
	if (argument->kind == USDT_ARGUMENT_RELATIVE)
		raw = PT_REGS_IP(context);
	else if (bpf_probe_read_kernel(&raw, sizeof(raw), (char *) context + argument->register_offset))
		return -1;
	if (argument->kind != USDT_ARGUMENT_REGISTER &&
	    bpf_probe_read_user(&raw, sizeof(raw), (void *) (raw + argument->offset)))
		return -1;
	shift = (64 - 8 * argument->size) & 63;
	raw <<= shift;
	*value = argument->is_signed ? (__s64) raw >> shift : (__s64) (raw >> shift);
	return 0;
}

/* The index-th argument of the probe that fired, from 0; 0 if it can't be read. */
static __always_inline __s64
usdt_argument(struct pt_regs *context, __u32 index)
{
	__u64 cookie = bpf_get_attach_cookie(context);
	__s64 value = 0;

	if (cookie & USDT_OWN_ARGUMENTS)
	{
		if (own_usdt_argument(context, (__u32) cookie, index, &value))
			return 0;
	}
	else
	{
		long from_libbpf = 0;

		if (bpf_usdt_arg(context, index, &from_libbpf))
			return 0;
		value = from_libbpf;
	}
	return value;
}

#endif
