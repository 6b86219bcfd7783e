// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * What processes of the server do at a moment, looked at from outside: no probe in them or in the scheduler, so that it
 * costs the same however much they do.
 *
 * process_samples.rs enters the processes in `samples`, runs take_samples and reads the answers. The program runs in the
 * tracer's context. How long a process ran and how long it waited for a processor the scheduler counts exactly; what a
 * process sleeps for is what samples tell.
 */
#ifndef PROCESS_SAMPLE_BPF_H
#define PROCESS_SAMPLE_BPF_H

#include "file_kind.bpf.h"
#include "syscall_table.bpf.h"

/* Programs of SEC("syscall") may call them since Linux 6.10 (kernel/bpf/helpers.c, kfunc_init). */
extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *task) __ksym;

/* include/linux/sched.h: TASK_UNINTERRUPTIBLE; TASK_KILLABLE and TASK_IDLE contain it */
#define SAMPLE_STATE_UNINTERRUPTIBLE 0x0002
#define SAMPLE_STACK_DEPTH 40
#define SAMPLE_NO_SYSCALL 0xffff

/* The same numbers as in process_samples.rs. */
enum sample_state
{
	SAMPLE_ENDED = 0,
	SAMPLE_RUNNING, /* or ready to run */
	SAMPLE_UNINTERRUPTIBLE,
	SAMPLE_INTERRUPTIBLE,
};

struct process_sample
{
	/* in: process, and how often it had been on a processor when it was last looked at asleep; else the largest number */
	__u32 tgid;
	__u32 unused;
	__u64 times_run_before;

	/* out: CLOCK_MONOTONIC in ns */
	__u64 time_ns;
	/* ns on a processor and waiting for one since its start (schedstats) */
	__u64 on_cpu_ns;
	__u64 run_queue_ns;
	__u64 times_run;
	/* tells one system call from the next */
	__u64 call_identity;
	/* records, page images and bytes of WAL that the process has inserted: struct WalUsage of the server */
	__u64 wal_usage[3];
	/* the server's wait event */
	__u32 wait_event;
	/* of the file that the system call works on */
	__u32 device;
	/* bios that the block cgroup holds back on that device */
	__u32 held_back;
	__u16 syscall;
	__u8 state;
	__u8 file_kind;
	/* it has not run since it was last looked at: wait_event, wal_usage and the system call were not read again */
	__u8 has_not_run;
	__u8 knows_wal_usage;
	__u8 unused2[2];
	__u32 stack_bytes;
	__u64 stack[SAMPLE_STACK_DEPTH];
};

#define MAX_SAMPLES 128

struct process_sample samples[MAX_SAMPLES] = {};
__u32 samples_number = 0;

/* Address in the server's processes of the variable my_wait_event_info (PostgreSQL 14 and later); 0 if not known. */
const volatile __u64 wait_event_pointer = 0;
/* Address there of pgWalUsage (PostgreSQL 13 and later); 0 if not known. */
const volatile __u64 wal_usage_address = 0;

static __always_inline void
sample_syscall(struct task_struct *task, struct process_sample *sample, __u64 *argument)
{
	struct pt_regs *registers = (struct pt_regs *) bpf_task_pt_regs(task);
	struct pt_regs copy = {};
	__u64 identity;
	long number;

	sample->syscall = SAMPLE_NO_SYSCALL;
	sample->call_identity = 0;
	bpf_probe_read_kernel(&copy, sizeof(copy), registers);
#if defined(__TARGET_ARCH_x86)
	/* -1 where an interrupt or a fault entered the kernel (arch/x86/entry/entry_64.S) */
	number = (long) copy.orig_rax;
#elif defined(__TARGET_ARCH_arm64)
	number = BPF_CORE_READ((struct pt_regs___syscallno *) registers, syscallno);
#else
	number = -1;
#endif
	if (number < 0)
		return;
	sample->syscall = (__u16) number;
	*argument = PT_REGS_PARM1_SYSCALL(&copy);
	/*
	 * Another call from the same place with the same arguments has the same registers; that the process has read or
	 * written in between, as before each fsync, the counts of such calls tell.
	 */
	identity = number;
	identity = identity * 31 + PT_REGS_PARM1_SYSCALL(&copy);
	identity = identity * 31 + PT_REGS_PARM2_SYSCALL(&copy);
	identity = identity * 31 + PT_REGS_PARM3_SYSCALL(&copy);
	identity = identity * 31 + PT_REGS_PARM4_SYSCALL(&copy);
	identity = identity * 31 + PT_REGS_SP(&copy);
	identity = identity * 31 + PT_REGS_IP(&copy);
	if (bpf_core_field_exists(task->ioac.syscw))
	{
		identity = identity * 31 + BPF_CORE_READ(task, ioac.syscr);
		identity = identity * 31 + BPF_CORE_READ(task, ioac.syscw);
	}
	sample->call_identity = identity;
}

static __always_inline __u32
bios_held_back(struct file *file)
{
	struct gendisk *disk = BPF_CORE_READ(file, f_inode, i_sb, s_bdev, bd_disk);
	struct throtl_data *throttle;
	__u32 held_back[2] = {};

	/* without CONFIG_BLK_DEV_THROTTLING there is nothing to look at */
	if (!disk || !bpf_core_field_exists(struct request_queue, td) ||
	    !bpf_core_field_exists(struct throtl_data, nr_queued))
		return 0;
	throttle = BPF_CORE_READ(disk, queue, td);
	if (!throttle)
		return 0;
	bpf_core_read(held_back, sizeof(held_back), &throttle->nr_queued);
	return held_back[0] + held_back[1];
}

static __always_inline void
sample_task(struct task_struct *task, struct process_sample *sample)
{
	__u64 argument = 0;
	__u32 state;
	long bytes;

	sample->time_ns = bpf_ktime_get_ns();
	sample->on_cpu_ns = task->se.sum_exec_runtime;
	sample->run_queue_ns = task->sched_info.run_delay;
	sample->times_run = task->sched_info.pcount;
	state = task->__state;
	sample->has_not_run = sample->times_run == sample->times_run_before;
	/* Not of one in uninterruptible sleep: it may hold locks of its memory that this program would wait for. */
	if (!sample->has_not_run && wal_usage_address && !(state & SAMPLE_STATE_UNINTERRUPTIBLE))
		sample->knows_wal_usage =
			bpf_copy_from_user_task(sample->wal_usage, sizeof(sample->wal_usage),
		                            (void *) wal_usage_address, task, 0) == 0;
	/* One that is about to sleep may yet find that it need not. */
	if (!state || task->on_cpu)
	{
		sample->state = SAMPLE_RUNNING;
		return;
	}
	if (!(state & SAMPLE_STATE_UNINTERRUPTIBLE))
	{
		__u64 pointer = 0;

		sample->state = SAMPLE_INTERRUPTIBLE;
		if (sample->has_not_run)
			return;
		sample_syscall(task, sample, &argument);
		if (wait_event_pointer && !bpf_copy_from_user_task(&pointer, sizeof(pointer),
		                                                   (void *) wait_event_pointer, task, 0))
			bpf_copy_from_user_task(&sample->wait_event, sizeof(sample->wait_event),
			                        (void *) pointer, task, 0);
		/* It was woken meanwhile: what it waited for is not what was read. */
		if (task->sched_info.pcount != sample->times_run || !task->__state)
			sample->state = SAMPLE_RUNNING;
		return;
	}
	sample->state = SAMPLE_UNINTERRUPTIBLE;
	sample_syscall(task, sample, &argument);
	bytes = bpf_get_task_stack(task, sample->stack, sizeof(sample->stack), 0);
	sample->stack_bytes = bytes > 0 ? bytes : 0;
	if (sample->syscall < MAX_SYSCALLS &&
	    has_descriptor(operation_of_syscall[sample->syscall & (MAX_SYSCALLS - 1)]))
	{
		struct file *file = file_of_descriptor(task, (unsigned int) argument);

		sample->file_kind = kind_of_file(file, SCRATCH_OF_SAMPLER, &sample->device);
		if (sample->device)
			sample->held_back = bios_held_back(file);
	}
	if (task->sched_info.pcount != sample->times_run || !task->__state)
		sample->state = SAMPLE_RUNNING;
}

static long
take_sample(__u32 index, void *context)
{
	struct process_sample *sample;
	struct task_struct *task;

	(void) context;
	if (index >= MAX_SAMPLES)
		return 1;
	sample = &samples[index];
	sample->state = SAMPLE_ENDED;
	sample->wait_event = 0;
	sample->device = 0;
	sample->held_back = 0;
	sample->syscall = SAMPLE_NO_SYSCALL;
	sample->file_kind = FILE_NONE;
	sample->knows_wal_usage = 0;
	sample->stack_bytes = 0;
	task = bpf_task_from_pid(sample->tgid);
	if (!task)
		return 0;
	sample_task(task, sample);
	bpf_task_release(task);
	return 0;
}

SEC("syscall")
int
take_samples(void *context)
{
	(void) context;
	bpf_loop(samples_number, take_sample, NULL, 0);
	return 0;
}

#endif
