//! Instances that share a device's budget: view pg_calm_share.

use serde::{Deserialize, Serialize};

/// A member, this instance included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareMember {
    /// `MAJ:MIN` of the device that is shared.
    pub device: String,
    /// cluster_name of the member, or the last part of its data directory's path; cut to 43 bytes.
    pub name: String,
    /// Whether it is the instance that was asked.
    pub own: bool,
    /// pg_calm_share.weight.
    pub weight: u32,
    /// Whether it has something to flush now.
    pub wants: bool,
    /// Its share in write operations per second; `None`: not limited.
    pub write_operations_per_second: Option<u64>,
    /// Its share in bytes written per second; `None`: not limited.
    pub write_bytes_per_second: Option<u64>,
    /// Seconds since it last wrote its slot.
    pub heartbeat_seconds: f64,
}
