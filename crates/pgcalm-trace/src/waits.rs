//! What bpf/waits.bpf.h has charged.

use anyhow::Context;
use libbpf_rs::{MapCore, MapFlags};

use crate::report::file_kind::FileKind;
use crate::syscalls::NO_SYSCALL;

/// The kernel's work function that lets throttled bios go, block/blk-throttle.c.
pub const THROTTLE_FUNCTION: &str = "blk_throtl_dispatch_work_fn";

/// `enum activity`, whose numbers begin with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Runs.
    OnCpu,
    /// Could run.
    RunQueue,
    /// Uninterruptible sleep; the detail is a stack.
    Uninterruptible,
    /// A lightweight lock; the detail is the address of its name.
    Lwlock,
    /// A heavyweight lock; the detail is its type plus one.
    HeavyweightLock,
    /// Any other sleep; the detail is the server's wait event.
    WaitEvent,
}

/// `struct charge_key`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ChargeKey {
    /// Process.
    pub tgid: u32,
    /// Device of the file, 0 without one.
    pub device: u32,
    /// By activity.
    pub detail: u64,
    /// Number of the system call.
    pub syscall: u16,
    activity: u8,
    file_kind: u8,
    throttled: u8,
    /// Of a connection.
    pub phase: u8,
    unused: u16,
}

// SAFETY: integers only, padding is a member, every bit pattern valid.
unsafe impl plain::Plain for ChargeKey {}

/// NO_STACK of bpf/waits.bpf.h: the kernel had no room for it.
pub const NO_STACK: u64 = u64::MAX;

impl ChargeKey {
    /// Of a process, without a system call and a file.
    pub fn new(tgid: u32, activity: Activity, detail: u64) -> Self {
        Self { tgid, detail, syscall: NO_SYSCALL, activity: activity as u8 + 1, ..Self::default() }
    }

    /// The same on a file.
    pub fn on_file(mut self, syscall: u16, file_kind: u8, throttled: bool) -> Self {
        self.syscall = syscall;
        self.file_kind = file_kind;
        self.throttled = u8::from(throttled);
        self
    }

    /// What it did; `None` for a number that this program does not know.
    pub fn activity(&self) -> Option<Activity> {
        Some(match self.activity {
            1 => Activity::OnCpu,
            2 => Activity::RunQueue,
            3 => Activity::Uninterruptible,
            4 => Activity::Lwlock,
            5 => Activity::HeavyweightLock,
            6 => Activity::WaitEvent,
            _ => return None,
        })
    }

    /// The same for any process and device.
    pub fn of_anyone(mut self) -> Self {
        self.tgid = 0;
        self.device = 0;
        self
    }

    /// Kind of the file.
    pub fn file(&self) -> FileKind {
        file_kind(self.file_kind)
    }

    /// Whether the device was idle meanwhile, the block cgroup holding I/O back.
    pub fn is_throttled(&self) -> bool {
        self.throttled != 0
    }
}

/// `struct charge`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Charge {
    /// Time.
    pub ns: u64,
    /// Times that the state ended.
    pub count: u64,
}

// SAFETY: integers only, no padding.
unsafe impl plain::Plain for Charge {}

/// The beginning of `struct wait_state` up to where this program looks, which is all of it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct WaitState {
    /// What it does now.
    pub key: ChargeKey,
    /// Since when, or since it was last charged.
    pub since: u64,
    idle_ns: u64,
    throttled_bios: u64,
    lwlock: u64,
    lock: u64,
    /// When its system call began.
    pub syscall_since: u64,
    syscall_argument: u64,
    /// Number of the system call under way.
    pub syscall: u16,
    /// Whether it has waited for the client or for work in it.
    pub idle_syscall: u8,
    /// Phase of the connection.
    pub phase: u8,
    finished: u8,
    unused: [u8; 3],
}

// SAFETY: integers only, padding is a member, every bit pattern valid.
unsafe impl plain::Plain for WaitState {}

/// `enum file_kind`.
pub fn file_kind(number: u8) -> FileKind {
    FileKind::ALL.get(usize::from(number)).copied().unwrap_or(FileKind::Other)
}

/// All entries of a hash map.
pub fn entries<K, V>(map: &dyn MapCore) -> anyhow::Result<Vec<(K, V)>>
where
    K: plain::Plain + Default,
    V: plain::Plain + Default,
{
    let mut found = Vec::new();
    for key in map.keys() {
        // It may have been deleted since.
        let Some(value) = map.lookup(&key, MapFlags::ANY).context("read a map")? else { continue };
        let (mut k, mut v) = (K::default(), V::default());
        if plain::copy_from_bytes(&mut k, &key).is_ok() && plain::copy_from_bytes(&mut v, &value).is_ok() {
            found.push((k, v));
        }
    }
    Ok(found)
}

/// Deletes an entry, if it is there.
pub fn forget<K: plain::Plain>(map: &dyn MapCore, key: &K) {
    // SAFETY: the keys of the maps here are Plain and have no padding that is not a member.
    let bytes = unsafe { plain::as_bytes(key) };
    // Someone else may have deleted it.
    let _ = map.delete(bytes);
}
