//! Divides the lost time of the backends of one second among its causes.

use pgcalm_host::server_process::Role;

use super::{event_names, lock_names, stack_class};
use crate::io::report::Operation;
use crate::report::file_kind::FileKind;
use crate::why::report::{Cause, Share, by_cause, finish};

/// The class of a wait event; its classes, src/include/utils/wait_event.h.
pub const EVENT_CLASS: u32 = 0xff00_0000;
/// Waits for lightweight locks.
pub const EVENT_LWLOCK: u32 = 0x0100_0000;
const EVENT_LOCK: u32 = 0x0300_0000;
const EVENT_BUFFER_PIN: u32 = 0x0400_0000;
/// Waits for work.
pub const EVENT_ACTIVITY: u32 = 0x0500_0000;
/// Waits for the client.
pub const EVENT_CLIENT: u32 = 0x0600_0000;
const EVENT_EXTENSION: u32 = 0x0700_0000;
const EVENT_IPC: u32 = 0x0800_0000;
const EVENT_TIMEOUT: u32 = 0x0900_0000;
const EVENT_IO: u32 = 0x0a00_0000;

/// Lightweight locks that are waited for while another process writes or fsyncs WAL: WALWrite itself, and those whose
/// holders need room in the WAL buffers (src/backend/access/transam/xlog.c, AdvanceXLInsertBuffer).
const WAL_LOCKS: [&str; 4] = ["WALWrite", "WALInsert", "WALBufMapping", "WALWriteLock"];

/// Name of the kernel's lock that backends wait for.
const INODE_LOCK: &str = "inode lock";

/// What a process did.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// Ran.
    OnCpu,
    /// Waited for a processor.
    RunQueue,
    /// Slept uninterruptibly.
    Uninterruptible {
        /// Kernel functions, innermost first.
        frames: Vec<String>,
        /// What its system call does.
        operation: Operation,
        /// The file that the call works on.
        file: FileKind,
        /// Whether the device was idle, the block cgroup holding I/O back.
        throttled: bool,
    },
    /// Waited for a lightweight lock of that name.
    Lwlock(String),
    /// Waited for a heavyweight lock of that type.
    HeavyweightLock(u32),
    /// Waited for another process, by the name of that wait.
    Ipc(String),
    /// Slept otherwise, with the server's wait event; none if the server does not tell it.
    WaitEvent {
        /// `wait_event_info`, 0 if the server had set none.
        event: Option<u32>,
        /// What its system call does.
        operation: Operation,
        /// Whether that call waits for events on sockets, among others.
        polls: bool,
    },
}

/// Time of one process.
#[derive(Debug, Clone, PartialEq)]
pub struct Spent {
    /// Whose.
    pub role: Role,
    /// On what.
    pub what: What,
    /// How long.
    pub ns: u64,
}

/// A second's WAL against that of the seconds before.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WalLoad {
    /// Transactions of the second.
    pub commits: u64,
    /// Part of its WAL bytes that are in records with full-page images, 0 to 1.
    pub page_image_share: f64,
    /// The usual value of that; none before there were enough seconds.
    pub usual_page_image_share: Option<f64>,
    /// Usual wait for WAL per commit, ns; likewise.
    pub usual_wait_per_commit_ns: Option<f64>,
}

/// The backends' time of one second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attribution {
    /// On a processor, ns.
    pub on_cpu_ns: u64,
    /// Waiting for clients, ns.
    pub client_ns: u64,
    /// Lost, ns: all else.
    pub lost_ns: u64,
    /// Lost to what, largest first; they add up to `lost_ns`.
    pub shares: Vec<Share>,
    /// Of `lost_ns` what was lost to WAL, its full-page images included.
    pub wal_ns: f64,
}

/// Divides it.
pub fn attribute(spent: &[Spent], wal: &WalLoad) -> Attribution {
    let mut result = Attribution::default();
    let mut parts = Parts::default();
    let mut behind_locks: Vec<(FileKind, String, u64)> = Vec::new();
    for spent in spent.iter().filter(|spent| spent.role == Role::Backend) {
        let what = &by_probe(&spent.what);
        match what {
            What::OnCpu => {
                result.on_cpu_ns += spent.ns;
                continue;
            }
            what if is_client(what) => {
                result.client_ns += spent.ns;
                continue;
            }
            What::Lwlock(name) if WAL_LOCKS.contains(&name.as_str()) => {
                behind_locks.push((FileKind::Wal, name.clone(), spent.ns));
            }
            what => match classify(what) {
                (Cause::KernelLock, file, _) => {
                    behind_locks.push((file, INODE_LOCK.to_string(), spent.ns));
                }
                (cause, file, object) => {
                    parts.add(cause, file, object, None, spent.ns as f64);
                }
            },
        }
        result.lost_ns += spent.ns;
    }
    for (file, name, ns) in behind_locks {
        parts.add_behind(file, &name, &holders(spent, file), ns as f64);
    }
    result.wal_ns = parts.wal_ns();
    parts.charge_page_images(wal);
    result.shares = parts.into_shares(result.lost_ns);
    result
}

/// The cause that a verdict names, with its part of the second's lost time: that of the largest share; but where nothing
/// called for a verdict but long calls, what those in them waited for, since all others went on as usual.
///
/// `in_long_calls` has the time of all, of which that of who was in a long call alone is a backend's.
pub fn decisive(second: &[Share], lost_s: f64, in_long_calls: Option<&[Spent]>) -> Option<(Cause, f64)> {
    let of_calls = in_long_calls.map(|spent| attribute(spent, &WalLoad::default()).shares);
    let largest = |shares: &[Share]| by_cause(shares).first().copied();
    let (cause, seconds) = of_calls.and_then(|shares| largest(&shares)).or_else(|| largest(second))?;
    Some((cause, seconds / lost_s))
}

/// A wait with its name in a server of that major version, which numbers them in its own way.
pub fn named(what: What, major: u32) -> What {
    match what {
        What::WaitEvent { event: Some(event), .. } if event & EVENT_CLASS == EVENT_LWLOCK => {
            What::Lwlock(lock_names::lightweight(event & !EVENT_CLASS, major))
        }
        What::WaitEvent { event: Some(event), .. } if event & EVENT_CLASS == EVENT_IPC => {
            What::Ipc(event_names::ipc(event & !EVENT_CLASS, major))
        }
        what => what,
    }
}

/// A wait that the server's probes would have told of, where only the wait event does. The version is not known here.
fn by_probe(what: &What) -> What {
    match what {
        What::WaitEvent { event: Some(event), .. } if event & EVENT_CLASS == EVENT_LWLOCK => {
            What::Lwlock(lock_names::lightweight(event & !EVENT_CLASS, 0))
        }
        What::WaitEvent { event: Some(event), .. } if event & EVENT_CLASS == EVENT_LOCK => {
            What::HeavyweightLock(event & !EVENT_CLASS)
        }
        what => what.clone(),
    }
}

fn is_client(what: &What) -> bool {
    match what {
        What::WaitEvent { event: Some(event), .. } => matches!(event & EVENT_CLASS, EVENT_CLIENT | EVENT_ACTIVITY),
        // Without the right to look only the call tells.
        What::WaitEvent { event: None, operation, polls } => *polls || *operation == Operation::Read,
        _ => false,
    }
}

/// Cause, file and object of a wait that stands for itself.
fn classify(what: &What) -> (Cause, FileKind, Option<String>) {
    match what {
        What::OnCpu => (Cause::Unknown, FileKind::None, None),
        What::RunQueue => (Cause::Cpu, FileKind::None, None),
        What::Uninterruptible { frames, operation, file, throttled } => {
            (stack_class::cause(frames, *operation, *file, *throttled), *file, None)
        }
        What::Lwlock(name) => (Cause::Lwlock, FileKind::None, Some(name.clone())),
        What::Ipc(name) => (Cause::Ipc, FileKind::None, Some(name.clone())),
        What::HeavyweightLock(kind) => (Cause::Lock, FileKind::None, Some(lock_names::lock_type(*kind).to_string())),
        // PostgreSQL 18: what other processes (io_method=worker) or the kernel (io_uring) read for it (pgaio_io_wait).
        What::WaitEvent { event: Some(event), operation: Operation::Other, .. } if event & EVENT_CLASS == EVENT_IO => {
            (Cause::DataRead, FileKind::Data, Some("asynchronous".to_string()))
        }
        What::WaitEvent { event, .. } => {
            let event = event.unwrap_or_default();
            let number = event & !EVENT_CLASS;
            let (cause, object) = match event & EVENT_CLASS {
                EVENT_LWLOCK => (Cause::Lwlock, Some(lock_names::lightweight(number, 0))),
                EVENT_LOCK => (Cause::Lock, Some(lock_names::lock_type(number).to_string())),
                EVENT_BUFFER_PIN => (Cause::Lock, Some("buffer pin".to_string())),
                EVENT_IPC => (Cause::Ipc, Some(event_names::ipc(number, 0))),
                EVENT_TIMEOUT => (Cause::Sleep, None),
                EVENT_EXTENSION => (Cause::Unknown, Some("an extension's wait".to_string())),
                _ => (Cause::Unknown, None),
            };
            (cause, FileKind::None, object)
        }
    }
}

/// What the processes that hold a lock of files of a kind wait for, with its part of their waits.
///
/// For WAL these are the calls that a holder of WALWriteLock makes (XLogWrite, issue_xlog_fsync), one process at a time.
/// A buffered write holds its file's inode lock all along, balance_dirty_pages included (ext4_buffered_write_iter).
/// Who reads WAL, as a walsender does, holds neither; another file's lock only where it is read so that it has to be shared.
fn holders(spent: &[Spent], file: FileKind) -> Vec<(Cause, f64)> {
    let mut held: Vec<(Cause, Operation, u64)> = Vec::new();
    for spent in spent {
        match (&spent.what, classify(&spent.what)) {
            (_, (Cause::KernelLock, ..)) => {}
            (What::Uninterruptible { file: own, operation, .. }, (cause, ..)) if *own == file => {
                held.push((cause, *operation, spent.ns));
            }
            _ => {}
        }
    }
    if file == FileKind::Wal || held.iter().any(|(_, operation, _)| *operation != Operation::Read) {
        held.retain(|(_, operation, _)| *operation != Operation::Read);
    }
    let mut sums: Vec<(Cause, f64)> = Vec::new();
    for (cause, _, ns) in held {
        match sums.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, sum)) => *sum += ns as f64,
            None => sums.push((cause, ns as f64)),
        }
    }
    let all: f64 = sums.iter().map(|(_, ns)| ns).sum();
    if all > 0.0 {
        for (_, part) in &mut sums {
            *part /= all;
        }
    }
    sums.retain(|(_, part)| *part > 0.0);
    sums
}

/// Nanoseconds by cause, file, object and lock.
#[derive(Debug, Default)]
struct Parts {
    shares: Vec<Share>,
}

impl Parts {
    /// `seconds` of the shares are nanoseconds until [`Self::into_shares`].
    fn add(&mut self, cause: Cause, file: FileKind, object: Option<String>, through: Option<String>, ns: f64) {
        let same = |share: &&mut Share| {
            share.cause == cause && share.file == file && share.object == object && share.through == through
        };
        match self.shares.iter_mut().find(same) {
            Some(share) => share.seconds += ns,
            None => self.shares.push(Share { cause, file, object, through, seconds: ns, share: 0.0 }),
        }
    }

    /// A wait for a lock under which files of a kind are worked on; what its holders wait for is known or not.
    fn add_behind(&mut self, file: FileKind, lock: &str, holders: &[(Cause, f64)], ns: f64) {
        if holders.is_empty() && lock == INODE_LOCK {
            self.add(Cause::KernelLock, file, Some(lock.to_string()), None, ns);
        } else if holders.is_empty() {
            self.add(Cause::Lwlock, FileKind::None, Some(lock.to_string()), None, ns);
        }
        for (cause, part) in holders {
            self.add(*cause, file, None, Some(lock.to_string()), ns * part);
        }
    }

    fn is_wal(share: &Share) -> bool {
        share.file == FileKind::Wal && matches!(share.cause, Cause::WalWrite | Cause::BlockThrottling)
    }

    fn wal_ns(&self) -> f64 {
        self.shares.iter().filter(|share| Self::is_wal(share)).map(|share| share.seconds).sum()
    }

    /// Charges to the full-page images what they add to the wait for WAL: no more than it has grown per commit, and no
    /// more than their part of the bytes. What of that came from a limit keeps that in `object`.
    fn charge_page_images(&mut self, wal: &WalLoad) {
        let all = self.wal_ns();
        let surge = wal.page_image_share > wal.usual_page_image_share.unwrap_or(0.0);
        if all <= 0.0 || !surge {
            return;
        }
        let usual = wal.usual_wait_per_commit_ns.unwrap_or(0.0) * wal.commits as f64;
        let part = ((all - usual) / all).min(wal.page_image_share).clamp(0.0, 1.0);
        let charged: Vec<Share> = self
            .shares
            .iter_mut()
            .filter(|share| Self::is_wal(share))
            .map(|share| {
                let moved = share.seconds * part;
                share.seconds -= moved;
                Share {
                    cause: Cause::FullPageImages,
                    object: (share.cause == Cause::BlockThrottling).then(|| Cause::BlockThrottling.label().to_string()),
                    seconds: moved,
                    ..share.clone()
                }
            })
            .collect();
        for share in charged {
            self.add(share.cause, share.file, share.object, share.through, share.seconds);
        }
    }

    fn into_shares(mut self, lost_ns: u64) -> Vec<Share> {
        self.shares.retain(|share| share.seconds > 0.0);
        for share in &mut self.shares {
            share.seconds /= 1e9;
        }
        finish(&mut self.shares, lost_ns as f64 / 1e9);
        self.shares
    }
}

#[cfg(test)]
mod tests;
