use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::cap::Caps;
use crate::options::{Common, count, declared, each_once, named, range, serialize_names};
use crate::replica::case::Case;
use crate::replica::{case, heartbeat};
use crate::{Limit, Seconds, Size};
use pgcalm_host::Failure;

/// Size of the device with a cluster but for its WAL.
pub(super) const DATA_SIZE: Size = Size(512 << 20);

/// What the tables of all clients may take of it at a time. A table that was dropped is truncated at once, but its pages
/// may be on their way to the device still.
const FLOOD_BYTES: u64 = 128 << 20;

/// A row of the flood's table: a header, a bitmap and 201 numbers of 8 bytes, three rows to a page.
const ROW_BYTES: u64 = 8192 / 4;

/// The link unless told otherwise: 1 Gbit/s.
pub(super) const LINK: u64 = 125_000_000;

/// A standby does not start with fewer max_connections than its cluster was made with, 100; some are for the lab.
const MOST_CLIENTS: u32 = 80;

/// Slower links than this take a frame longer than samples are apart.
const SLOWEST_LINK: u64 = 100_000;

/// Everything that can be chosen.
#[derive(Debug, Clone, Args, Serialize)]
#[command(mut_args(declared))]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    #[arg(long, default_value = "capped,uncapped,governed-capped,slow-link,recycled,keep,restore,governed",
          value_parser = case::parse)]
    #[serde(serialize_with = "serialize_names")]
    pub(crate) cases: Vec<&'static Case>,
    #[arg(long, default_value = "40")]
    pub(crate) seconds: Seconds,
    /// How long the standby is watched after the load, at most.
    #[arg(long, value_name = "S", default_value = "120")]
    pub catch_up: Seconds,
    /// How often each client makes, fills and drops its table, within --seconds [default: as often as it can].
    #[arg(long, value_name = "N", value_parser = count::<u32>)]
    pub loads: Option<u32>,
    #[arg(long, default_value = "1")]
    pub(crate) clients: u32,
    /// Rows of each filling of the table, about 1.7 kB of WAL each.
    #[arg(long, default_value = "5000")]
    pub rows: u64,
    /// Write operations per second that either WAL device takes in the cases capped, uncapped and governed-capped.
    #[arg(long, value_name = "N", default_value = "200", value_parser = count::<u32>)]
    pub wal_iops: u32,
    /// Read operations per second that either WAL device gives in these cases, or none.
    #[arg(long, value_name = "N|none", default_value = "none")]
    pub wal_read_iops: Limit<u32>,
    /// Write operations per second that either data device takes in these cases, or none.
    #[arg(long, default_value = "none")]
    pub data_iops: Limit<u32>,
    /// Read operations per second that either data device gives in these cases, or none.
    #[arg(long, default_value = "none")]
    pub data_read_iops: Limit<u32>,
    /// Largest operation that any device is sent: with 4kB, 200 operations are the 0.8 MB that they were for the study
    /// [default: what the kernel chooses].
    #[arg(long, value_name = "SIZE", conflicts_with = "volume")]
    pub max_io: Option<Size>,
    /// Bytes per second that the link carries in either direction, headers counted [default: 125000000, 1 Gbit/s, or half of
    /// the WAL that the load makes here if that is less].
    #[arg(long, value_name = "SIZE")]
    pub link_bps: Option<Size>,
    /// wal_keep_size in the case keep.
    #[arg(long, value_name = "SIZE", default_value = "2GB")]
    pub keep_size: Size,
    /// How long a failover manager waits for a heartbeat before it promotes the standby: the report says whether and when it
    /// would have. Patroni's ttl is 30 s by default.
    #[arg(long, value_name = "S", default_value = "30")]
    pub patience: Seconds,
    /// pg_calm_guard.max_lag in the cases governed and governed-capped.
    #[arg(long, value_name = "SIZE", default_value = "128MB")]
    pub max_lag: Size,
    /// max_wal_size of both.
    #[arg(long, default_value = "512MB")]
    pub max_wal_size: Size,
    /// Size of either WAL device and of the archive's. The load ends early before one is full.
    #[arg(long, default_value = "4GB")]
    pub wal_size: Size,
    /// What every scenario has.
    #[command(flatten)]
    #[serde(flatten)]
    pub common: Common,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        each_once("cases", &self.cases)?;
        range("seconds", self.seconds.0, 3, 3600)?;
        range("catch-up", self.catch_up.0, 1, 3600)?;
        range("clients", self.clients, 1, MOST_CLIENTS)?;
        range("loads", self.loads.unwrap_or(1), 1, 1_000_000)?;
        range("max-io", self.max_io.unwrap_or(Size(4 << 10)), Size(4 << 10), Size(1 << 30))?;
        range("rows", self.rows, 100, 1_000_000)?;
        range("wal-iops", self.wal_iops, 1, 1_000_000)?;
        let beat = heartbeat::INTERVAL.as_secs() as u32;
        range("patience", self.patience.0, 2 * beat, 3600)?;
        let flood = self.rows * u64::from(self.clients) * ROW_BYTES;
        if flood > FLOOD_BYTES {
            return Err(Failure::Usage(format!(
                "--rows {}: use at most {} with --clients {}, or the tables don't fit the data device",
                self.rows,
                FLOOD_BYTES / ROW_BYTES / u64::from(self.clients),
                self.clients
            )));
        }
        if let Some(link) = self.link_bps
            && link.bytes() < SLOWEST_LINK
        {
            return Err(Failure::Usage(format!(
                "--link-bps {link}: use at least {SLOWEST_LINK}, the bytes per second"
            )));
        }
        // Two segments are the least that the server takes for max_wal_size.
        for (option, size, least) in [
            ("max-lag", self.max_lag, 1 << 20),
            ("max-wal-size", self.max_wal_size, 32 << 20),
            ("keep-size", self.keep_size, 16 << 20),
            ("wal-size", self.wal_size, 2 * self.max_wal_size.bytes() + (128 << 20)),
        ] {
            if size.bytes() < least {
                return Err(Failure::Usage(format!("--{option} {size}: use at least {}MB", least.div_ceil(1 << 20))));
            }
        }
        Ok(())
    }

    /// Caps of either WAL device, where there are any.
    pub(super) fn wal_caps(&self) -> Caps {
        Caps { write_iops: Some(self.wal_iops), read_iops: self.wal_read_iops.0, ..Caps::default() }
    }

    /// Caps of either data device, likewise.
    pub(super) fn data_caps(&self) -> Caps {
        Caps { write_iops: self.data_iops.0, read_iops: self.data_read_iops.0, ..Caps::default() }
    }

    /// Whether any case needs an archive.
    pub(super) fn needs_archive(&self) -> bool {
        self.cases.iter().any(|case| case.archive)
    }

    /// By name on the command line, as the report shows them; what the link came to is in a place of its own.
    pub(super) fn named(&self) -> BTreeMap<String, Value> {
        let mut named = named(self);
        named.entry("link-bps".to_string()).or_insert("auto".into());
        named
    }

    /// Settings of both servers where they differ from PostgreSQL's.
    pub(super) fn server_settings(&self) -> BTreeMap<String, String> {
        self.common.over([
            ("shared_buffers", "256MB".to_string()),
            ("synchronous_commit", "off".to_string()),
            ("max_wal_size", format!("{}kB", self.max_wal_size.bytes() >> 10)),
            // The segments that are kept ready for recycling; the device needs room for what is kept for a slot.
            ("min_wal_size", "32MB".to_string()),
            // A table that lives for a tenth of a second needs none, and it would come at different times in each case.
            ("autovacuum", "off".to_string()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parsed;

    #[test]
    fn the_defaults_are_accepted_and_what_cannot_work_is_named() {
        let all: Options = parsed(&[]).unwrap();
        all.check().unwrap();
        assert_eq!(all.cases.len(), case::CASES.len());
        assert_eq!(all.named()["link-bps"], "auto");
        for (words, part) in [
            (["--cases", "capped,capped"], "--cases: capped"),
            (["--rows", "1000000"], "--rows 1000000: use at most"),
            (["--link-bps", "8B"], "--link-bps 8"),
            (["--wal-size", "512MB"], "--wal-size 512MB"),
            (["--max-io", "2kB"], "--max-io 2kB: use a value from 4kB"),
            (["--patience", "1"], "--patience 1: use a value from 2"),
        ] {
            let options: Options = parsed(&words).unwrap();
            let refusal = options.check().unwrap_err().to_string();
            assert!(refusal.contains(part), "{refusal}");
        }
    }
}
