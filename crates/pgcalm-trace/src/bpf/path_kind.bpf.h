// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * What a path that a system call has as its argument leads to: the kind of the file, by the same names as that of a
 * descriptor. open, rename and the like have no descriptor while they wait.
 */
#ifndef PATH_KIND_BPF_H
#define PATH_KIND_BPF_H

#include "file_kind.bpf.h"

/* Longer paths are cut, and known by less: the server's own are relative to its data directory. */
#define PATH_LENGTH 128

struct path_copy
{
	char text[PATH_LENGTH];
};

/* Too large for the stack of a program. */
struct
{
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path_copy);
} path_scratch SEC(".maps");

/* Copies a name from a path in the current process's memory; it ends at the next slash. */
static __always_inline void
read_path_part(char *name, __u64 address)
{
	__u32 i;

	name[0] = '\0';
	bpf_probe_read_user_str(name, NAME_LENGTH, (void *) address);
	for (i = 0; i < NAME_LENGTH; i++)
		if (name[i] == '/')
			name[i] = '\0';
}

/*
 * Kind of the file whose path is at an address of the current process's memory.
 *
 * To the verifier each set of known places of names is a state of its own, once a place decides anything. So nothing is
 * compared with them: the names are read from there again, and the place of one that is not there is that of the final NUL.
 */
static __noinline __u32
kind_of_path(__u64 address)
{
	__u32 scratch = SCRATCH_OF_PROBES;
	__u32 first = 0;
	struct file_names *names = bpf_map_lookup_elem(&file_names_scratch, &scratch);
	struct path_copy *copy = bpf_map_lookup_elem(&path_scratch, &first);
	__u64 name = 0;
	__u64 directory;
	__u64 above;
	long length;
	__u32 i;

	if (!names || !copy)
		return FILE_NONE;
	length = bpf_probe_read_user_str(copy->text, PATH_LENGTH, (void *) address);
	if (length <= 1)
		return FILE_NONE;
	directory = above = length - 1;
	for (i = 0; i < PATH_LENGTH; i++)
	{
		if (copy->text[i] == '\0')
			break;
		if (copy->text[i] == '/')
		{
			above = directory;
			directory = name;
			name = i + 1;
		}
	}
	read_path_part(names->names[0], address + name);
	read_path_part(names->names[1], address + directory);
	read_path_part(names->names[2], address + above);
	return kind_of_names(names);
}

#endif
