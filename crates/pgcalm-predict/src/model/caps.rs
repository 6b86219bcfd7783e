//! What a device takes, and how long it needs for a piece of work.

use std::ops::Add;
use std::ops::AddAssign;
use std::ops::Mul;

use super::PAGE;
use crate::report::Observation;

/// Operations, as the device counts them, bytes, and how many pages of these were dirty.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Work {
    pub operations: f64,
    pub bytes: f64,
    pub pages: f64,
}

impl Add for Work {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            bytes: self.bytes + other.bytes,
            pages: self.pages + other.pages,
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
        Self { operations: self.operations * times, bytes: self.bytes * times, pages: self.pages * times }
    }
}

/// What is asked of a device per second, and whether it keeps up with that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Demand {
    pub work: Work,
    /// The part of it that pg_calm's worker does.
    pub worker: Work,
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

/// The budgets of a device; infinite where there is no cap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Caps {
    /// For writes of data files, no more than reads and writes have together.
    pub write_iops: f64,
    pub write_bytes: f64,
    /// For reads and writes together.
    pub all_iops: f64,
    pub all_bytes: f64,
    /// What reads, and WAL if it is on the device, take of that per second at the observed rate.
    pub foreground: Work,
    /// The writes of it.
    pub wal: Work,
    /// Bytes of a contiguous write that count as one operation, as the module takes it.
    pub operation_bytes: f64,
    /// Bytes of one that the kernel makes of it.
    pub request_bytes: f64,
}

/// The worker's part of what reads and writes share, at least; and where the kernel is about to write (`LEAST_SHARE`, `MOST_SHARE`
/// in extension/pg_calm/src/writeback/foreground.c).
const LEAST_SHARE: f64 = 0.3;
const MOST_SHARE: f64 = 0.6;

/// Bytes that a segment of a request has in the mean.
///
/// Pages of the page cache that are read and written as blocks of 8 KiB are single pages of 4 KiB. Where neighbours in the file
/// are so in memory, too, they are one segment (`bio_try_merge_hw_seg` in the kernel's block/bio.c), else two; taken to be so
/// for every other block, which is 1.5 segments for each.
const SEGMENT: f64 = PAGE / 1.5;

impl Caps {
    pub fn of(observation: &Observation) -> Self {
        let device = &observation.device;
        let operation_bytes = (device.operation_bytes as f64).max(PAGE);
        let cap = |value: Option<f64>| value.unwrap_or(f64::INFINITY);
        let (all_iops, all_bytes) = (cap(device.all_iops), cap(device.all_bytes_per_s));
        let wal_bytes = if device.wal_writes_per_s > 0.0 { observation.wal_bytes_per_s } else { 0.0 };
        let wal = Work { operations: device.wal_writes_per_s, bytes: wal_bytes, pages: 0.0 };
        let reads =
            Work { operations: device.reads_per_s, bytes: device.read_mib_per_s * f64::from(1 << 20), pages: 0.0 };
        Self {
            write_iops: cap(device.write_iops).min(all_iops),
            write_bytes: cap(device.write_bytes_per_s).min(all_bytes),
            all_iops,
            all_bytes,
            foreground: reads + wal,
            wal,
            operation_bytes,
            request_bytes: match device.max_segments {
                0 => operation_bytes,
                segments => operation_bytes.min(f64::from(segments) * SEGMENT).max(PAGE),
            },
        }
    }

    /// Whether reads count.
    pub fn are_shared(&self) -> bool {
        self.all_iops.is_finite() || self.all_bytes.is_finite()
    }

    /// What is left for writes of data files at `speed` times the observed rate: what the others leave, but a part in any case, which
    /// grows with how far what is unflushed is beyond its limit (`foreground_limit`).
    pub fn left(&self, speed: f64, excess: f64) -> Self {
        if !self.are_shared() {
            return *self;
        }
        let least = LEAST_SHARE + (MOST_SHARE - LEAST_SHARE) * excess;
        let (others, wal) = (self.foreground * speed, self.wal * speed);
        let left = |all: f64, others: f64| (all - others).max(all * least);
        Self {
            write_iops: left(self.write_iops, wal.operations).min(left(self.all_iops, others.operations)),
            write_bytes: left(self.write_bytes, wal.bytes).min(left(self.all_bytes, others.bytes)),
            ..*self
        }
    }

    /// Parts of the budgets of operations and bytes that `work` of data files per second uses up, with what others take at `speed`
    /// times the observed rate.
    pub fn uses(&self, work: Work, speed: f64) -> (f64, f64) {
        let all = work + self.foreground * speed;
        let writes = work + self.wal * speed;
        (
            (writes.operations / self.write_iops).max(all.operations / self.all_iops),
            (writes.bytes / self.write_bytes).max(all.bytes / self.all_bytes),
        )
    }

    /// Seconds that the device needs at least: its budgets run side by side (`device_seconds` in extension/pg_calm/src/device/device.h).
    pub fn seconds(&self, work: Work) -> f64 {
        (work.operations / self.write_iops).max(work.bytes / self.write_bytes)
    }

    /// The longest gap, in pages, that is cheaper to write along than to leave out: `bridge_longest_gap` in
    /// extension/pg_calm/src/writeback/bridge_choice.c. Bridging *g* pages saves 1/IOPS of the one budget and costs *g* pages of the other.
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
