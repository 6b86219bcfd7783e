// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The open files of a process by their descriptors.
 */
#ifndef OPEN_FILE_BPF_H
#define OPEN_FILE_BPF_H

#include "server.bpf.h"

/* The open file behind a descriptor of a process; NULL if there is none. */
static __always_inline struct file *
file_of_descriptor(struct task_struct *task, unsigned int descriptor)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **slots = BPF_CORE_READ(table, fd);
	struct file *file = NULL;

	if (descriptor >= BPF_CORE_READ(table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), &slots[descriptor]);
	return file;
}

#endif
