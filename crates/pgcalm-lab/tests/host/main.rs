//! Reports; and what caps, drains and traces on this host.

mod capped_device;
mod drain_queued_writeback;
mod fsync_times;
mod report;
