// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * How long each disk had nothing to do, and how many bios the block cgroup had held back before it let them go.
 *
 * A bio over its limit is queued before any block tracepoint sees it (block/blk-throttle.c, __blk_throtl_bio) and is
 * submitted later by the work function blk_throtl_dispatch_work_fn: a bio that is queued from there was throttled. Who
 * waits for a disk that has no request in flight, while bios of it come out of the throttle, waits for the throttle.
 * On devices without requests (device-mapper, MD) nothing is ever in flight: they are not entered, and no wait for them
 * counts as throttled.
 */
#ifndef DEVICE_IDLE_BPF_H
#define DEVICE_IDLE_BPF_H

#include "server.bpf.h"

const volatile __u64 throttle_function =
	0; /* address of blk_throtl_dispatch_work_fn; 0 if not known */

struct disk
{
	/* requests issued to the driver and not complete */
	__u64 in_flight;
	/* CLOCK_MONOTONIC in ns at which the last one completed */
	__u64 idle_since;
	/* ns without a request in flight, without the present spell */
	__u64 idle_ns;
	/* bios that came out of the throttle */
	__u64 throttled_bios;
	/* requests completed, and the ns that they were in flight */
	__u64 requests;
	__u64 service_ns;
};

struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, __u32); /* dev_t of the whole disk */
	__type(value, struct disk);
} disks SEC(".maps");

/* Partitions; what is not in it is a whole disk. Filled by device.rs. */
struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);   /* dev_t of a partition */
	__type(value, __u32); /* dev_t of its disk */
} disk_of_partition SEC(".maps");

/* Requests in flight, so that one whose issue was not seen is not taken off. */
struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);   /* address of struct request */
	__type(value, __u64); /* CLOCK_MONOTONIC in ns of its issue */
} requests_in_flight SEC(".maps");

/* Threads that run the throttle's work function at the moment. */
struct
{
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} throttle_workers SEC(".maps");

static __always_inline __u32
whole_disk(__u32 device)
{
	__u32 *disk = bpf_map_lookup_elem(&disk_of_partition, &device);

	return disk ? *disk : device;
}

static __always_inline __u64
disk_idle_ns(const struct disk *disk, __u64 now)
{
	__u64 since = disk->idle_since;

	return disk->idle_ns + (disk->in_flight == 0 && now > since ? now - since : 0);
}

static __always_inline __u32
device_of_request(struct request *request)
{
	struct gendisk *gendisk = BPF_CORE_READ(request, q, disk);

	return gendisk ? ((__u32) BPF_CORE_READ(gendisk, major) << 20) |
	                     (__u32) BPF_CORE_READ(gendisk, first_minor) :
	                 0;
}

SEC("tp_btf/block_rq_issue")
int
BPF_PROG(request_issued, struct request *request)
{
	__u32 device = device_of_request(request);
	__u64 key = (__u64) request;
	__u64 now = bpf_ktime_get_ns();
	struct disk *disk;

	disk = bpf_map_lookup_elem(&disks, &device);
	if (!disk)
	{
		struct disk empty = {.idle_since = now};

		if (bpf_map_update_elem(&disks, &device, &empty, BPF_NOEXIST) < 0 &&
		    !bpf_map_lookup_elem(&disks, &device))
			__sync_fetch_and_add(&dropped_entries, 1);
		disk = bpf_map_lookup_elem(&disks, &device);
		if (!disk)
			return 0;
	}
	/* One that is there already was requeued. */
	if (bpf_map_update_elem(&requests_in_flight, &key, &now, BPF_NOEXIST))
		return 0;
	if (__sync_fetch_and_add(&disk->in_flight, 1) == 0 && now > disk->idle_since)
		__sync_fetch_and_add(&disk->idle_ns, now - disk->idle_since);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int
BPF_PROG(request_completed, struct request *request, __u8 error, unsigned int bytes)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 key = (__u64) request;
	struct disk *disk;
	__u64 *issued;
	__u64 issued_ns;
	__u32 device;

	/* The rest of it comes later. */
	if (!error && bytes < BPF_CORE_READ(request, __data_len))
		return 0;
	issued = bpf_map_lookup_elem(&requests_in_flight, &key);
	if (!issued)
		return 0;
	issued_ns = *issued;
	if (bpf_map_delete_elem(&requests_in_flight, &key))
		return 0;
	device = device_of_request(request);
	disk = bpf_map_lookup_elem(&disks, &device);
	if (!disk)
		return 0;
	__sync_fetch_and_add(&disk->requests, 1);
	if (now > issued_ns)
		__sync_fetch_and_add(&disk->service_ns, now - issued_ns);
	if (__sync_fetch_and_add(&disk->in_flight, -1) == 1)
		disk->idle_since = now;
	return 0;
}

SEC("tp_btf/workqueue_execute_start")
int
BPF_PROG(work_started, struct work_struct *work)
{
	__u32 thread = (__u32) bpf_get_current_pid_tgid();
	__u32 one = 1;

	if (throttle_function && (__u64) BPF_CORE_READ(work, func) == throttle_function)
		bpf_map_update_elem(&throttle_workers, &thread, &one, BPF_ANY);
	return 0;
}

/* Its function argument can't be read here: the verifier knows no pointers to functions. */
SEC("tp_btf/workqueue_execute_end")
int
BPF_PROG(work_ended)
{
	__u32 thread = (__u32) bpf_get_current_pid_tgid();

	if (throttle_function)
		bpf_map_delete_elem(&throttle_workers, &thread);
	return 0;
}

SEC("tp_btf/block_bio_queue")
int
BPF_PROG(bio_queued, struct bio *bio)
{
	__u32 thread = (__u32) bpf_get_current_pid_tgid();
	struct disk *disk;
	__u32 device;

	if (!bpf_map_lookup_elem(&throttle_workers, &thread))
		return 0;
	device = whole_disk(BPF_CORE_READ(bio, bi_bdev, bd_dev));
	disk = bpf_map_lookup_elem(&disks, &device);
	if (disk)
		__sync_fetch_and_add(&disk->throttled_bios, 1);
	return 0;
}

#endif
