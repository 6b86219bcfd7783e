// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The kernel types that the programs look into, with the few members they need.
 *
 * Members are found by name when a program is loaded (CO-RE), so neither order nor completeness matters, and no
 * vmlinux.h has to be generated. Where a kernel renamed a member, give the older name a flavour: struct NAME___older.
 */
#ifndef KERNEL_TYPES_BPF_H
#define KERNEL_TYPES_BPF_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* include/linux/dcache.h */
struct qstr
{
	const unsigned char *name;
};

struct dentry
{
	struct dentry *d_parent;
	struct qstr d_name;
};

/* include/linux/path.h */
struct path
{
	struct dentry *dentry;
};

/* include/linux/fs.h */
struct super_block
{
	__u32 s_dev;
	struct block_device *s_bdev;
};

struct inode
{
	__u16 i_mode;
	__u64 i_ino;
	__u32 i_generation;
	struct super_block *i_sb;
};

struct file
{
	struct inode *f_inode;
	struct path f_path;
	__u32 f_wb_err;
};

/* include/linux/fdtable.h */
struct fdtable
{
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct
{
	struct fdtable *fdt;
};

/* include/linux/sched.h */
struct sched_entity
{
	__u64 sum_exec_runtime;
};

struct sched_info
{
	unsigned long pcount;
	unsigned long long run_delay;
};

/* include/linux/task_io_accounting.h; without CONFIG_TASK_XACCT it has no members */
struct task_io_accounting
{
	__u64 syscr;
	__u64 syscw;
};

struct task_struct
{
	unsigned int __state;
	int on_cpu;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct files_struct *files;
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_io_accounting ioac;
};

/* block/blk-throttle.c */
struct throtl_data
{
	/* bios held back, reads and writes */
	unsigned int nr_queued[2];
};

/* include/linux/blkdev.h, blk-mq.h, blk_types.h */
struct gendisk
{
	int major;
	int first_minor;
	struct request_queue *queue;
};

struct request_queue
{
	struct gendisk *disk;
	struct throtl_data *td;
};

struct request
{
	struct request_queue *q;
	unsigned int __data_len;
};

struct block_device
{
	__u32 bd_dev;
	struct gendisk *bd_disk;
};

struct bio
{
	struct block_device *bi_bdev;
};

/* include/linux/workqueue_types.h */
struct work_struct
{
	void *func;
};

/* arch/arm64/include/asm/ptrace.h */
struct pt_regs___syscallno
{
	int syscallno;
};

#pragma clang attribute pop

/* Contexts of the tracepoints syscalls:sys_enter_* and sys_exit_*, kernel/trace/trace.h struct syscall_trace_enter. */
struct syscall_enter_context
{
	__u64 common;
	long number;
	unsigned long arguments[6];
};

struct syscall_exit_context
{
	__u64 common;
	long number;
	long result;
};

#endif
