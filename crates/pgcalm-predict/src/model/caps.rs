//! What a device takes, and how long it needs for a piece of work.

use std::ops::Add;
use std::ops::AddAssign;
use std::ops::Mul;

use pgcalm_report::predict::Device;

use super::PAGE;

/// Write operations, as the device counts them, and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Work {
    pub operations: f64,
    pub bytes: f64,
}

impl Add for Work {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<f64> for Work {
    type Output = Self;
    fn mul(self, times: f64) -> Self {
        Self {
            operations: self.operations * times,
            bytes: self.bytes * times,
        }
    }
}

/// What is asked of a device per second, and whether it keeps up with that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Demand {
    pub work: Work,
    pub keeps_up: bool,
}

/// What an answer is for, which tells how exact it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// To find the rate that is sustainable.
    Search,
    /// To be told.
    Answer,
}

/// The two budgets of a device; infinite where there is no cap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Caps {
    pub write_iops: f64,
    pub write_bytes: f64,
    /// Bytes of a contiguous write that count as one operation, as the module takes it.
    pub operation_bytes: f64,
    /// Bytes of one that the kernel makes of it.
    pub request_bytes: f64,
}

/// Bytes that a segment of a request has in the mean.
///
/// Pages of the page cache that are read and written as blocks of 8 KiB are single pages of 4 KiB. Where neighbours in the file
/// are so in memory, too, they are one segment (`bio_try_merge_hw_seg` in the kernel's block/bio.c), else two; taken to be so
/// for every other block, which is 1.5 segments for each.
const SEGMENT: f64 = PAGE / 1.5;

impl Caps {
    pub fn of(device: &Device) -> Self {
        let operation_bytes = (device.operation_bytes as f64).max(PAGE);
        Self {
            write_iops: device.write_iops.unwrap_or(f64::INFINITY),
            write_bytes: device.write_bytes_per_s.unwrap_or(f64::INFINITY),
            operation_bytes,
            request_bytes: match device.max_segments {
                0 => operation_bytes,
                segments => operation_bytes.min(f64::from(segments) * SEGMENT).max(PAGE),
            },
        }
    }

    /// Seconds that the device needs at least: its budgets run side by side (`device_seconds` in extension/pg_calm/device.h).
    pub fn seconds(&self, work: Work) -> f64 {
        (work.operations / self.write_iops).max(work.bytes / self.write_bytes)
    }

    /// The longest gap, in pages, that is cheaper to write along than to leave out: `bridge_longest_gap` in
    /// extension/pg_calm/bridge_choice.c. Bridging *g* pages saves 1/IOPS of the one budget and costs *g* pages of the other.
    pub fn longest_gap(&self) -> u32 {
        let whole = (self.operation_bytes / PAGE).floor();
        if self.write_iops.is_infinite() {
            0
        } else if self.write_bytes.is_infinite() {
            whole as u32
        } else {
            let even = (self.write_bytes / self.write_iops / PAGE).min(whole);
            (even.ceil() - 1.0).max(0.0) as u32
        }
    }
}
