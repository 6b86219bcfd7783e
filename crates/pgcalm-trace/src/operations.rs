//! What bpf/operations.bpf.h has counted.

use crate::histogram::KernelHistogram;
use crate::io::report::Operation;
use crate::report::file_kind::FileKind;
use crate::waits;

/// `struct operation_key`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct OperationKey {
    /// Process.
    pub tgid: u32,
    operation: u8,
    file_kind: u8,
    /// Of a connection.
    pub phase: u8,
    unused: u8,
}

// SAFETY: integers only, padding is a member, every bit pattern valid.
unsafe impl plain::Plain for OperationKey {}

impl OperationKey {
    /// What the calls do.
    pub fn operation(&self) -> Operation {
        Operation::ALL.get(usize::from(self.operation)).copied().unwrap_or(Operation::Other)
    }

    /// Such calls of another process.
    pub fn of_process(self, tgid: u32) -> Self {
        Self { tgid, ..self }
    }

    /// On what.
    pub fn file(&self) -> FileKind {
        waits::file_kind(self.file_kind)
    }
}

/// `struct operation_total`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct OperationTotal {
    /// Calls that failed.
    pub errors: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Times of all calls.
    pub ns: KernelHistogram,
}

// SAFETY: integers only, no padding, every bit pattern valid.
unsafe impl plain::Plain for OperationTotal {}

impl OperationTotal {
    /// Adds another one's.
    pub fn add(&mut self, other: &Self) {
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.ns.add(&other.ns);
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            errors: self.errors.saturating_sub(earlier.errors),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            ns: self.ns.since(&earlier.ns),
        }
    }
}
