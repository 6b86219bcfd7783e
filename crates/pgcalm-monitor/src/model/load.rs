//! What holds tasks up: pressure, processors, limits of control groups.

use serde::{Deserialize, Serialize};

/// Share of the time between the last two samples, 0 to 1, in which tasks stood still for want of something (PSI).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// At least one waited for a processor.
    pub cpu_some: f64,
    /// At least one waited for reads or writes.
    pub io_some: f64,
    /// All that were not idle waited for these at once.
    pub io_full: f64,
    /// At least one waited for memory.
    pub memory_some: f64,
    /// All that were not idle did at once.
    pub memory_full: f64,
}

/// Processors of the host, between the last two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Share of their time in which they worked, 0 to 1.
    pub busy: f64,
    /// Share that the hypervisor gave to others.
    pub steal: f64,
}

/// The control group of an instance, between the last two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// As of the host; `None` with version 1 of control groups.
    pub pressure: Option<Pressure>,
    /// Share of the time in which its quota of CPU was used up, 0 to 1.
    pub throttled: Option<f64>,
    /// How often per second its memory stood at the limit.
    pub memory_limit_hits_per_second: Option<f64>,
}
