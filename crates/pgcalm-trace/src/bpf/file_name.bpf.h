// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The name of an open file, with the folders above it. */
#ifndef FILE_NAME_BPF_H
#define FILE_NAME_BPF_H

#include "open_file.bpf.h"

/* base/DATABASE/FILENODE, PG_15_202209061/DATABASE/FILENODE, pg_xact/0000, pg_replslot/NAME/state */
#define FILE_NAME_PARTS 3
/* NAMEDATALEN of PostgreSQL, which bounds the names of slots, the longest here */
#define FILE_NAME_PART_SIZE 64

/* Parts of FILE_NAME_PART_SIZE each, innermost first; empty from the root on. */
struct file_name
{
	unsigned char parts[FILE_NAME_PARTS * FILE_NAME_PART_SIZE];
};

/*
 * Names the file that the current process has open as `descriptor`. Reads only: the process is in a system call with this
 * descriptor, so the file can't go away.
 */
static __always_inline void
read_file_name(struct file_name *name, unsigned int descriptor)
{
	struct task_struct *task = (struct task_struct *) bpf_get_current_task();
	struct file *file = file_of_descriptor(task, descriptor);
	struct dentry *dentry;

	if (!file)
		return;
	dentry = BPF_CORE_READ(file, f_path.dentry);
	for (int part = 0; part < FILE_NAME_PARTS; part++)
	{
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);

		if (!dentry || dentry == parent)
			break;
		bpf_probe_read_kernel_str(name->parts + part * FILE_NAME_PART_SIZE, FILE_NAME_PART_SIZE,
		                          BPF_CORE_READ(dentry, d_name.name));
		dentry = parent;
	}
}

#endif
