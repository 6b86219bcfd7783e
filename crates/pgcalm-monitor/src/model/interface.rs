//! Network interfaces.

use serde::{Deserialize, Serialize};

/// A network interface that WAL leaves by, with its counters of /proc/self/net/dev: of the network namespace that pgcalm is
/// in, and with all that any program sends. Its packets are counted before they are cut into those of the wire, and after
/// those are put together (GSO, GRO).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// E.g. `eth0`.
    pub name: String,
    /// Bytes sent since it was made, link-layer headers included.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// What its link carries in either direction, as the driver says; `None` where it says nothing, as those of virtual
    /// interfaces. A cloud's limit may be less.
    pub link_bytes_per_second: Option<u64>,
    /// What these come to per second.
    pub rates: Option<InterfaceRates>,
}

/// What an interface does per second, between the last two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct InterfaceRates {
    /// Bytes sent.
    pub sent_bytes_per_second: f64,
    /// Packets sent.
    pub sent_packets_per_second: f64,
    /// Bytes received.
    pub received_bytes_per_second: f64,
    /// Packets received.
    pub received_packets_per_second: f64,
}
