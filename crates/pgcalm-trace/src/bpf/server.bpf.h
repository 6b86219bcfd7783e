// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * What all probe groups share: whose events count, the log2 histogram, and the ring buffer for rare events.
 *
 * Each group is an object of its own. Its server_processes map is replaced, before it is loaded, by that of the group
 * of the same name (Session::share in session.rs), so that all look at one.
 */
#ifndef SERVER_BPF_H
#define SERVER_BPF_H

#include "kernel_types.bpf.h"

/* Processes that one server may have at a time. */
#define MAX_SERVER_PROCESSES 16384

/* A process of the traced server. */
struct server_process
{
	/* CLOCK_MONOTONIC in ns of its fork; 0 if it was there before the trace */
	__u64 forked_ns;
	/* enum Role of pgcalm-host's server_process.rs as a number; 0 until its command line was read */
	__u32 role;
	__u32 unused;
};

struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SERVER_PROCESSES);
	__type(key, __u32); /* tgid in the initial pid namespace */
	__type(value, struct server_process);
} server_processes SEC(".maps");

/* The current process's entry, or NULL if it is none of the server's. */
static __always_inline struct server_process *
current_server_process(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&server_processes, &tgid);
}

/* Bucket i > 0 counts values v with 2^(i-1) <= v < 2^i, bucket 0 counts zeros; the last one has no upper bound. */
#define HISTOGRAM_BUCKETS 40

/* Distribution of durations in ns. */
struct histogram
{
	__u64 count;
	__u64 sum;
	/* complement of the smallest value, so that an entry of zeros is an empty histogram */
	__u64 min_complement;
	__u64 max;
	__u64 buckets[HISTOGRAM_BUCKETS];
};

static __always_inline __u32
histogram_bucket(__u64 value)
{
	__u32 bucket = 0;

	/* unrolled binary search: clang 14 has no count-leading-zeros for BPF */
	if (value >> 32)
	{
		bucket += 32;
		value >>= 32;
	}
	if (value >> 16)
	{
		bucket += 16;
		value >>= 16;
	}
	if (value >> 8)
	{
		bucket += 8;
		value >>= 8;
	}
	if (value >> 4)
	{
		bucket += 4;
		value >>= 4;
	}
	if (value >> 2)
	{
		bucket += 2;
		value >>= 2;
	}
	if (value >> 1)
	{
		bucket += 1;
		value >>= 1;
	}
	bucket += value;
	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/*
 * Adds a value. count, sum and buckets are exact with any number of writers; min and max may miss a value when two
 * processes set them at the same moment, so use this on per-CPU maps, or where only one process writes, if they matter.
 */
static __always_inline void
histogram_add(struct histogram *histogram, __u64 value)
{
	__u32 bucket = histogram_bucket(value);

	__sync_fetch_and_add(&histogram->count, 1);
	__sync_fetch_and_add(&histogram->sum, value);
	if (bucket < HISTOGRAM_BUCKETS)
		__sync_fetch_and_add(&histogram->buckets[bucket], 1);
	if (~value > histogram->min_complement)
		histogram->min_complement = ~value;
	if (value > histogram->max)
		histogram->max = value;
}

/* Rare events only; everything frequent is aggregated in maps. */
struct
{
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

/* Events that found the ring buffer full, and entries that found their map full. */
__u64 dropped_events = 0;
__u64 dropped_entries = 0;

/* libbpf-cargo makes Rust types of what maps and variables hold; this makes one of an event's. */
#define EXPORT_TYPE(type) struct type type##_layout = {}

/* What every event starts with. */
struct event_header
{
	/* CLOCK_MONOTONIC in ns */
	__u64 time_ns;
	__u32 tgid;
	/* the group's own enumeration */
	__u32 kind;
};

/* Room for an event of the given type, its header filled in; NULL, and counted, if there is none. */
static __always_inline void *
reserve_event(__u32 size, __u32 kind)
{
	struct event_header *header = bpf_ringbuf_reserve(&events, size, 0);

	if (!header)
	{
		__sync_fetch_and_add(&dropped_events, 1);
		return NULL;
	}
	header->time_ns = bpf_ktime_get_ns();
	header->tgid = bpf_get_current_pid_tgid() >> 32;
	header->kind = kind;
	return header;
}

#endif
