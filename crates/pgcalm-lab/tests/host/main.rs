//! Reports; and what caps, drains and traces on this host.

mod capped_device;
mod fsync_times;
mod made_as_asked;
mod report;
