// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Kernel types of files, block devices and work queues, with the members that io, connect and why look into.
 *
 * kernel_types.bpf.h says why they are written out here.
 */
#ifndef IO_TYPES_BPF_H
#define IO_TYPES_BPF_H

#include <stdbool.h>

#include "server.bpf.h"

/* include/linux/dcache.h */
struct qstr {
	const unsigned char *name;
} __attribute__((preserve_access_index));

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
} __attribute__((preserve_access_index));

/* include/linux/fs.h */
struct super_block {
	__u32 s_dev;
} __attribute__((preserve_access_index));

struct inode {
	__u16 i_mode;
	__u64 i_ino;
	struct super_block *i_sb;
} __attribute__((preserve_access_index));

struct path {
	struct dentry *dentry;
} __attribute__((preserve_access_index));

struct file {
	struct inode *f_inode;
	struct path f_path;
} __attribute__((preserve_access_index));

/* include/linux/fdtable.h */
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} __attribute__((preserve_access_index));

struct files_struct {
	struct fdtable *fdt;
} __attribute__((preserve_access_index));

struct task_struct___io {
	struct files_struct *files;
} __attribute__((preserve_access_index));

/* include/linux/blkdev.h, blk-mq.h, blk_types.h */
struct gendisk {
	int major;
	int first_minor;
} __attribute__((preserve_access_index));

struct request_queue {
	struct gendisk *disk;
} __attribute__((preserve_access_index));

struct request {
	struct request_queue *q;
	unsigned int __data_len;
} __attribute__((preserve_access_index));

struct block_device {
	__u32 bd_dev;
} __attribute__((preserve_access_index));

struct bio {
	struct block_device *bi_bdev;
} __attribute__((preserve_access_index));

/* include/linux/workqueue_types.h */
struct work_struct {
	void *func;
} __attribute__((preserve_access_index));

#endif
