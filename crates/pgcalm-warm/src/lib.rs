//! Keeps which ranges of which relation files a PostgreSQL server has cached, and reads them again after a restart, after a
//! failover or on a new standby.
//!
//! [`save::save`] asks the kernel ([`residency`]) and the server ([`buffers`]) what is cached, and writes it into a file
//! ([`saved`]) of a few bytes for each range, with what of an earlier one a restore has not read ([`rest`]). [`restore::restore`] makes [`extent`]s of it, the hottest first, and reads them
//! as fast as [`pace`] allows beside what else the [`volume`] does, until there is no [`room`] in memory.

pub mod buffers;
pub mod cluster;
pub mod extent;
pub mod pace;
pub mod relation_file;
pub mod report;
pub mod residency;
pub mod rest;
pub mod restore;
pub mod room;
pub mod runs;
pub mod save;
pub mod saved;
#[cfg(test)]
mod schema;
pub mod volume;
