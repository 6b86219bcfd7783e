// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * A distribution of durations whose quantiles are known to an eighth. Eight times as large as struct histogram: for a few
 * of them, with one writer each.
 */
#ifndef FINE_HISTOGRAM_BPF_H
#define FINE_HISTOGRAM_BPF_H

#include "server.bpf.h"

/* Parts of equal width of each bucket of struct histogram, as the bits below a value's highest one number them. */
#define HISTOGRAM_PART_BITS 3
#define HISTOGRAM_PARTS (1 << HISTOGRAM_PART_BITS)
#define HISTOGRAM_ALL_PARTS (HISTOGRAM_BUCKETS * HISTOGRAM_PARTS)

struct fine_histogram
{
	struct histogram whole;
	/* HISTOGRAM_PARTS for each bucket; values with too few bits for a part are in their bucket's first one */
	__u64 parts[HISTOGRAM_ALL_PARTS];
};

/* As histogram_add. */
static __always_inline void
fine_histogram_add(struct fine_histogram *histogram, __u64 value)
{
	__u32 bucket = histogram_bucket(value);
	__u32 part = bucket * HISTOGRAM_PARTS;

	if (bucket > HISTOGRAM_PART_BITS)
		part += (value >> (bucket - HISTOGRAM_PART_BITS - 1)) & (HISTOGRAM_PARTS - 1);
	histogram_add(&histogram->whole, value);
	if (part < HISTOGRAM_ALL_PARTS)
		__sync_fetch_and_add(&histogram->parts[part], 1);
}

#endif
