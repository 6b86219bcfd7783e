// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * What a file descriptor of the server leads to: the kind of its file and the device that holds it.
 *
 * The kind follows from the file's own name and those of the two directories above it, which is how far PostgreSQL's
 * fixed names reach (src/common/relpath.c, src/include/access/xlog_internal.h, src/backend/access/transam/slru.c). WAL
 * segments are known by their own name alone: pg_wal is often a symbolic link to a directory of another name. Names are
 * read once per file; one that is renamed keeps its kind, as recycled WAL segments should.
 */
#ifndef FILE_KIND_BPF_H
#define FILE_KIND_BPF_H

#include "open_file.bpf.h"

/* The same numbers as FileKind in file_kind.rs. */
enum file_kind
{
	FILE_NONE = 0, /* no descriptor, or it can't be read */
	FILE_DATA,     /* relations */
	FILE_WAL,
	FILE_SLRU, /* pg_xact, pg_subtrans, pg_multixact, pg_commit_ts, pg_notify, pg_serial */
	FILE_TEMPORARY,
	FILE_WAL_STATUS, /* archive_status */
	FILE_STATISTICS,
	FILE_CONFIGURATION,  /* *.conf */
	FILE_RELATION_CACHE, /* pg_internal.init */
	FILE_SOCKET,
	FILE_PIPE,
	FILE_OTHER,
	FILE_KINDS,
};

#define NAME_LENGTH 32
#define NAME_LEVELS 3

/* include/uapi/linux/stat.h */
#define MODE_TYPE 0170000
#define MODE_SOCKET 0140000
#define MODE_PIPE 0010000
#define MODE_REGULAR 0100000

/* A file as the kernel tells it apart. */
struct file_identity
{
	__u64 inode;
	/* kernel's dev_t: major << 20 | minor */
	__u32 device;
	/* tells it from one before it that had the same inode */
	__u32 generation;
};

struct
{
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct file_identity);
	__type(value, __u32); /* enum file_kind */
} file_kinds SEC(".maps");

struct file_names
{
	char names[NAME_LEVELS][NAME_LENGTH];
};

/*
 * Too large for the stack of a program. A program that may be interrupted by others on its processor (SEC("syscall")) has
 * one of its own.
 */
enum scratch
{
	SCRATCH_OF_PROBES = 0,
	SCRATCH_OF_SAMPLER,
	SCRATCHES,
};

struct
{
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, __u32);
	__type(value, struct file_names);
} file_names_scratch SEC(".maps");

static __always_inline bool
begins_with(const char *name, const char *prefix, __u32 length)
{
	__u32 i;

	for (i = 0; i < length; i++)
		if (name[i] != prefix[i])
			return false;
	return true;
}

#define BEGINS(name, literal) begins_with(name, literal, sizeof(literal) - 1)
#define EQUALS(name, literal) begins_with(name, literal, sizeof(literal))

/* Timeline, log and segment, eight hexadecimal digits each; or a segment that is being made. */
static __always_inline bool
is_wal_name(const char *name)
{
	__u32 i;

	if (BEGINS(name, "xlogtemp."))
		return true;
	for (i = 0; i < 24; i++)
		if (!((name[i] >= '0' && name[i] <= '9') || (name[i] >= 'A' && name[i] <= 'F')))
			return false;
	return name[24] == '\0' || name[24] == '.';
}

static __always_inline __u32
kind_of_names(const struct file_names *file)
{
	const char *name = file->names[0];
	const char *directory = file->names[1];
	const char *above = file->names[2];

	if (EQUALS(directory, "archive_status"))
		return FILE_WAL_STATUS;
	if (is_wal_name(name))
		return FILE_WAL;
	if (BEGINS(name, "pgsql_tmp") || BEGINS(directory, "pgsql_tmp"))
		return FILE_TEMPORARY;
	if (BEGINS(directory, "pg_stat") || EQUALS(name, "global.stat") || BEGINS(name, "pgstat.stat"))
		return FILE_STATISTICS;
	if (EQUALS(directory, "pg_xact") || EQUALS(directory, "pg_subtrans") ||
	    EQUALS(directory, "pg_commit_ts") || EQUALS(directory, "pg_notify") ||
	    EQUALS(directory, "pg_serial") || EQUALS(above, "pg_multixact"))
		return FILE_SLRU;
	/* src/backend/utils/cache/relcache.c; written under a name that has the process id behind it */
	if (BEGINS(name, "pg_internal.init"))
		return FILE_RELATION_CACHE;
	if (EQUALS(above, "base") || BEGINS(above, "PG_"))
	{
		/* t3_16384 is a relation that only its backend sees */
		if (name[0] == 't' && name[1] >= '0' && name[1] <= '9')
			return FILE_TEMPORARY;
		return FILE_DATA;
	}
	if (EQUALS(directory, "global"))
		return EQUALS(name, "pg_control") ? FILE_OTHER : FILE_DATA;
	if (EQUALS(name, "postgresql.conf") || EQUALS(name, "postgresql.auto.conf") ||
	    EQUALS(name, "pg_hba.conf") || EQUALS(name, "pg_ident.conf"))
		return FILE_CONFIGURATION;
	return FILE_OTHER;
}

/* Reads the names and remembers what they say. Not inlined: once for all callers, as the verifier counts. */
static __noinline __u32
classify_file(struct file *file, struct file_identity *identity, __u32 scratch)
{
	struct file_names *names;
	struct dentry *dentry;
	__u32 kind;
	__u32 i;

	names = bpf_map_lookup_elem(&file_names_scratch, &scratch);
	if (!names || !identity)
		return FILE_OTHER;
	dentry = BPF_CORE_READ(file, f_path.dentry);
	for (i = 0; i < NAME_LEVELS; i++)
	{
		const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);

		names->names[i][0] = '\0';
		bpf_probe_read_kernel_str(names->names[i], NAME_LENGTH, name);
		dentry = BPF_CORE_READ(dentry, d_parent);
	}
	kind = kind_of_names(names);
	bpf_map_update_elem(&file_kinds, identity, &kind, BPF_ANY);
	return kind;
}

/* Kind and, in *device, the device of an open file, which may be NULL. */
static __always_inline __u32
kind_of_file(struct file *file, __u32 scratch, __u32 *device)
{
	struct file_identity identity = {};
	struct inode *inode;
	__u32 *known;
	__u32 mode;

	*device = 0;
	if (!file)
		return FILE_NONE;
	inode = BPF_CORE_READ(file, f_inode);
	mode = BPF_CORE_READ(inode, i_mode) & MODE_TYPE;
	if (mode == MODE_SOCKET)
		return FILE_SOCKET;
	if (mode == MODE_PIPE)
		return FILE_PIPE;
	if (mode != MODE_REGULAR)
		return FILE_OTHER;
	identity.inode = BPF_CORE_READ(inode, i_ino);
	identity.device = BPF_CORE_READ(inode, i_sb, s_dev);
	identity.generation = BPF_CORE_READ(inode, i_generation);
	*device = identity.device;
	known = bpf_map_lookup_elem(&file_kinds, &identity);
	return known ? *known : classify_file(file, &identity, scratch);
}

/* Kind and, in *device, the device of the file behind a descriptor of the current process. */
static __always_inline __u32
kind_of_descriptor(unsigned int descriptor, __u32 *device)
{
	struct task_struct *task = (void *) bpf_get_current_task();

	return kind_of_file(file_of_descriptor(task, descriptor), SCRATCH_OF_PROBES, device);
}

#endif
