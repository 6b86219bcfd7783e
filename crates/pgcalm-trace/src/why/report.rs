//! What `pgcalm trace why` finds out: where the time of the client backends went, second by second, and a verdict for
//! those seconds in which it was lost.

pub(crate) mod view;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::report::file_kind::FileKind;
use crate::report::{End, Missing, Start};

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// First.
    Start(Start),
    /// Each second.
    Second(Second),
    /// After a second that called for one.
    Verdict(Verdict),
    /// Sums of the whole trace.
    Summary(Summary),
    /// Last.
    End(End),
}

/// What a backend waits for, by the innermost cause that shows.
///
/// Kernel functions are those of Linux 6.18; `crates/pgcalm-trace/src/why/stack_class.rs` says how each is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The part of the wait for WAL that full-page images add after a checkpoint's redo point.
    FullPageImages,
    /// WAL being written or fsynced, or a WAL lock while another process does that.
    WalWrite,
    /// fsync of a data file.
    DataFsync,
    /// The backend's own write of a dirty buffer to a data file.
    BufferWrite,
    /// Reading of a data file.
    DataRead,
    /// Any other file: SLRU, temporary, statistics.
    OtherFile,
    /// A handle or a commit of ext4's journal (jbd2).
    Journal,
    /// Space in, or a flush of, the log of XFS.
    XfsLog,
    /// `balance_dirty_pages`: the kernel holds a writer up because too much is dirty.
    DirtyThrottling,
    /// A limit of the block cgroup: the device had nothing to do while the limit held I/O back.
    BlockThrottling,
    /// A heavyweight lock: rows, relations, transactions.
    Lock,
    /// A lightweight lock of the server, other than those of WAL.
    Lwlock,
    /// A lock of the kernel, e.g. a file's inode lock, of whose holder nothing is known.
    KernelLock,
    /// Another process of the server, e.g. a standby's confirmation or a parallel worker.
    Ipc,
    /// A sleep by intention: pg_sleep, vacuum_cost_delay, a spinlock's back-off that the server marks.
    Sleep,
    /// Ready to run, no processor free.
    Cpu,
    /// A page fault that had to wait.
    Memory,
    /// None of the above.
    Unknown,
}

pgcalm_host::names! {
    pub fn label(Cause):
        FullPageImages "full-page-image surge",
        WalWrite "WAL write or fsync",
        DataFsync "data file fsync",
        BufferWrite "buffer write by the backend",
        DataRead "data file read",
        OtherFile "other file",
        Journal "ext4 journal (jbd2)",
        XfsLog "XFS log",
        DirtyThrottling "dirty-page throttling",
        BlockThrottling "block-cgroup throttling",
        Lock "lock",
        Lwlock "lightweight lock",
        KernelLock "lock of the kernel",
        Ipc "another process",
        Sleep "sleep by intention",
        Cpu "no processor free",
        Memory "page fault",
        Unknown "unknown",
}

/// A part of the lost time. The shares of one second add up to its lost time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Share {
    /// What was waited for.
    pub cause: Cause,
    /// Kind of the file that it happened on; `none` if on none.
    pub file: FileKind,
    /// What was waited for in the server's terms: the lock's name or type, or the wait event.
    pub object: Option<String>,
    /// The lock in which the backends waited while its holder was held up by the cause: a lightweight lock's name, or
    /// `inode lock`; none if they waited themselves.
    pub through: Option<String>,
    /// Backend seconds.
    pub seconds: f64,
    /// Part of the lost time, 0 to 1.
    pub share: f64,
}

/// How WAL and its full-page images were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WalSource {
    /// What each process counts of its own inserts (pgWalUsage), up to its last look: exact, but for processes that crash.
    Inserts,
    /// Not at all: all numbers are 0.
    Unknown,
    /// What pg_stat_wal counts, which backends report about once a second.
    Views,
}

/// WAL of a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Wal {
    /// How it was counted.
    pub source: WalSource,
    /// Bytes of all records.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Full-page images in them.
    pub page_images: u64,
    /// Bytes of these at most: no image is larger than a page, and none takes what the other records need. 0 with
    /// [`WalSource::Views`].
    pub page_image_bytes: u64,
    /// write calls on WAL files; this and what follows is null without `--wal-calls`.
    pub writes: Option<u64>,
    /// Bytes that these wrote.
    pub written_bytes: Option<u64>,
    /// fsync and fdatasync calls on WAL files.
    pub syncs: Option<u64>,
    /// Time that these took, s.
    pub sync_s: Option<f64>,
}

/// A checkpoint under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckpointPhase {
    /// `write` or `sync`; `before` if none was seen to start, `after` once it is complete. Without eBPF `write` is both.
    pub phase: String,
    /// Since its start at the end of the second, s.
    pub since_start_s: f64,
    /// Full-page images since its start, about where its redo point is.
    pub page_images: u64,
    /// Bytes of WAL since then.
    pub wal_bytes: u64,
}

/// A disk in a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Disk {
    /// E.g. `loop0`.
    pub name: String,
    /// Part of the time in which it had a request in flight, 0 to 1.
    pub busy: f64,
    /// Requests completed.
    pub requests: u64,
    /// Mean time of these in flight, ms; 0 without any.
    pub service_ms: f64,
    /// The most bios that the block cgroup was seen to hold back at a moment, while a process waited for the disk.
    pub throttled_bios: u64,
}

/// A second of the trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Second {
    /// When it began, seconds since 1970.
    pub time: f64,
    /// Counts from 0.
    pub number: u64,
    /// Its length, s: about 1, as the tracer got the processor.
    pub length_s: f64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions aborted.
    pub aborts: u64,
    /// Median of the commits per second of the seconds before, at most 60; none in the first three.
    pub median_commits_per_s: Option<f64>,
    /// Client backends that there were.
    pub backends: u32,
    /// Backend seconds on a processor.
    pub on_cpu_s: f64,
    /// Backend seconds spent waiting for the client; not lost by the server.
    pub client_s: f64,
    /// Backend seconds spent neither running nor waiting for the client.
    pub lost_s: f64,
    /// What they were lost to, largest first.
    pub shares: Vec<Share>,
    /// WAL.
    pub wal: Wal,
    /// The last checkpoint that was seen to start; none before that.
    pub checkpoint: Option<CheckpointPhase>,
    /// Disks that had requests.
    pub disks: Vec<Disk>,
}

/// Why a second gets a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Commits below half of the running median.
    CommitsBelowHalf,
    /// A backend in one system call for longer than the threshold.
    LongSyscall,
}

/// A kernel stack in which backends, or processes that they wait for, slept uninterruptibly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Stack {
    /// Whose: a role of the server's processes.
    pub role: String,
    /// How many seconds they slept in it within the second.
    pub seconds: f64,
    /// The system call; none for a page fault.
    pub syscall: Option<String>,
    /// Kind of the file that the call works on.
    pub file: FileKind,
    /// The cause that it was counted under.
    pub cause: Cause,
    /// Kernel functions, innermost first.
    pub frames: Vec<String>,
}

/// A kernel thread in uninterruptible sleep at the end of the second, from /proc/PID/stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct KernelThread {
    /// E.g. `jbd2/loop0-8`.
    pub name: String,
    /// Kernel functions, innermost first.
    pub frames: Vec<String>,
}

/// A system call of a backend that lasts, or lasted, longer than the threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct LongSyscall {
    /// Process id of the backend.
    pub pid: u32,
    /// E.g. `fdatasync`.
    pub syscall: String,
    /// Kind of the file that it works on.
    pub file: FileKind,
    /// So far, s: from the first sample that found the process in it to the last.
    pub seconds: f64,
    /// Whether it had not returned at the end of the second.
    pub under_way: bool,
}

/// A second in which time was lost, and its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    /// [`Second::number`].
    pub second: u64,
    /// What called for it.
    pub triggers: Vec<Trigger>,
    /// The cause with the largest share; where long calls alone called for the verdict, that of their time. None if no time was
    /// lost.
    pub cause: Option<Cause>,
    /// Its share of the lost time, 0 to 1.
    pub share: f64,
    /// Stacks by time, at most ten.
    pub stacks: Vec<Stack>,
    /// Threads of the kernel that write for others: journals, flushers.
    pub kernel_threads: Vec<KernelThread>,
    /// Long system calls.
    pub long_syscalls: Vec<LongSyscall>,
}

/// Totals of several seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Totals {
    /// Number of seconds.
    pub seconds: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Backend seconds on a processor.
    pub on_cpu_s: f64,
    /// Backend seconds spent waiting for the client.
    pub client_s: f64,
    /// Backend seconds lost.
    pub lost_s: f64,
    /// What they were lost to, largest first.
    pub shares: Vec<Share>,
}

/// The whole trace, what JSON lines carry one by one and HTML shows at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    /// All seconds.
    pub all: Totals,
    /// Those with a verdict.
    pub with_verdict: Totals,
}

impl Totals {
    /// Adds a second up.
    pub fn add(&mut self, second: &Second) {
        self.seconds += 1;
        self.commits += second.commits;
        self.on_cpu_s += second.on_cpu_s;
        self.client_s += second.client_s;
        self.lost_s += second.lost_s;
        for share in &second.shares {
            let same = |other: &&mut Share| {
                other.cause == share.cause
                    && other.file == share.file
                    && other.object == share.object
                    && other.through == share.through
            };
            match self.shares.iter_mut().find(same) {
                Some(sum) => sum.seconds += share.seconds,
                None => self.shares.push(share.clone()),
            }
        }
        finish(&mut self.shares, self.lost_s);
    }
}

/// What samples of several seconds found, in bounded space.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Samples {
    /// Sums. Commits are not among them where the server's probes were left alone.
    pub totals: Totals,
    /// Stacks by time.
    pub stacks: Vec<Stack>,
    /// Threads of the kernel that write for others, as they were seen.
    pub kernel_threads: Vec<KernelThread>,
    /// System calls, the longest of each process first.
    pub long_syscalls: Vec<LongSyscall>,
    /// What they can't tell, and why.
    pub missing: Vec<Missing>,
}

/// Entries of a kind that [`Samples`] hold; those with the least time make room.
const MOST_SAMPLES: usize = 100;

impl Samples {
    /// Adds a line of the trace.
    pub fn add(&mut self, line: Line) {
        match line {
            Line::Start(Start { missing, .. }) | Line::End(End { missing, .. }) => self.missing = missing,
            Line::Second(second) => self.totals.add(&second),
            Line::Verdict(verdict) => {
                for stack in verdict.stacks {
                    let same = |known: &&mut Stack| Stack { seconds: stack.seconds, ..(*known).clone() } == stack;
                    match self.stacks.iter_mut().find(same) {
                        Some(known) => known.seconds += stack.seconds,
                        None => self.stacks.push(stack),
                    }
                }
                for thread in verdict.kernel_threads {
                    if !self.kernel_threads.contains(&thread) {
                        self.kernel_threads.push(thread);
                    }
                }
                self.long_syscalls.extend(verdict.long_syscalls);
                *self = std::mem::take(self).bounded(MOST_SAMPLES);
            }
            Line::Summary(_) => {}
        }
    }

    /// So many of each at most, those with the most time.
    pub fn bounded(mut self, most: usize) -> Self {
        self.stacks.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        self.long_syscalls.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let mut seen = HashSet::new();
        self.long_syscalls.retain(|call| seen.insert((call.pid, call.syscall.clone(), call.file)));
        self.stacks.truncate(most);
        self.long_syscalls.truncate(most);
        self.kernel_threads.truncate(most);
        self.totals.shares.truncate(most);
        self
    }
}

/// Computes the parts of the lost time and puts the largest first.
pub fn finish(shares: &mut [Share], lost_s: f64) {
    for share in shares.iter_mut() {
        share.share = if lost_s > 0.0 { share.seconds / lost_s } else { 0.0 };
    }
    shares.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
}

/// The causes of these shares with their seconds, largest first.
pub fn by_cause(shares: &[Share]) -> Vec<(Cause, f64)> {
    let mut sums: Vec<(Cause, f64)> = Vec::new();
    for share in shares {
        match sums.iter_mut().find(|(cause, _)| *cause == share.cause) {
            Some((_, seconds)) => *seconds += share.seconds,
            None => sums.push((share.cause, share.seconds)),
        }
    }
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_add_up_and_keep_what_took_most_time() {
        let stack = |number: usize, seconds| Stack {
            role: "walwriter".to_string(),
            seconds,
            syscall: None,
            file: FileKind::Wal,
            cause: Cause::WalWrite,
            frames: vec![number.to_string()],
        };
        let call = |seconds| LongSyscall {
            pid: 7,
            syscall: "fsync".to_string(),
            file: FileKind::Wal,
            seconds,
            under_way: true,
        };
        let thread = KernelThread { name: "jbd2/sda-8".to_string(), frames: vec!["io_schedule".to_string()] };
        let verdict = |stacks, seconds| {
            Line::Verdict(Verdict {
                second: 0,
                triggers: Vec::new(),
                cause: None,
                share: 0.0,
                stacks,
                kernel_threads: vec![thread.clone()],
                long_syscalls: vec![call(seconds)],
            })
        };
        let mut samples = Samples::default();
        samples.add(verdict((0..2 * MOST_SAMPLES).map(|number| stack(number, 0.1)).collect(), 0.5));
        samples.add(verdict(vec![stack(3, 0.5), stack(1, 0.2)], 1.5));
        samples.add(verdict(vec![stack(3, 0.5)], 0.1));
        assert_eq!((samples.stacks.len(), &samples.stacks[0].frames[0]), (MOST_SAMPLES, &"3".to_string()));
        assert!((samples.stacks[0].seconds - 1.1).abs() < 1e-9 && (samples.stacks[1].seconds - 0.3).abs() < 1e-9);
        assert_eq!((samples.kernel_threads, samples.long_syscalls), (vec![thread], vec![call(1.5)]));
    }
}
