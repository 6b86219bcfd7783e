use std::collections::BTreeMap;
use std::path::PathBuf;

use pgcalm_volume::Volume;
use serde_json::Value;

use crate::LabError;
use crate::Seconds;
use crate::Size;
use crate::cap::Caps;
use crate::contestant::ServerSetting;
use crate::replica::case::Case;

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
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the lab.
    pub dir: PathBuf,
    /// Directory of the server programs; the newest installed if not given.
    pub pg_bindir: Option<PathBuf>,
    /// Directory where pg_calm was built; the installed one if not given.
    pub module_dir: Option<PathBuf>,
    /// What is run.
    pub cases: Vec<&'static Case>,
    /// Duration of the load.
    pub seconds: Seconds,
    /// How long the standby is watched after it, at most.
    pub catch_up: Seconds,
    /// Connections of the load.
    pub clients: u32,
    /// Rows of each filling of the table.
    pub rows: u32,
    /// Write operations per second of either WAL device, where it is capped.
    pub wal_iops: u32,
    /// Bytes per second of the link in either direction; `None`: 1 Gbit/s, or half of what the load makes if that is less.
    pub link_bps: Option<Size>,
    /// Limit of the governor.
    pub max_lag: Size,
    /// max_wal_size of both.
    pub max_wal_size: Size,
    /// Size of either WAL device, and of the archive's.
    pub wal_size: Size,
    /// Server settings of both.
    pub set: Vec<ServerSetting>,
    /// The devices are volumes that behave like this, limits included, instead of what caps on them there would be.
    pub volume: Option<Volume>,
    /// Whether logs are kept.
    pub keep: bool,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), LabError> {
        for (option, value, low, high) in [
            ("seconds", self.seconds.0, 3, 3600),
            ("catch-up", self.catch_up.0, 1, 3600),
            ("clients", self.clients, 1, MOST_CLIENTS),
            ("rows", self.rows, 100, 1_000_000),
            ("wal-iops", self.wal_iops, 1, 1_000_000),
        ] {
            if value < low || value > high {
                return Err(LabError::Usage(format!(
                    "--{option} {value}: use a value from {low} to {high}"
                )));
            }
        }
        let flood = u64::from(self.rows) * u64::from(self.clients) * ROW_BYTES;
        if flood > FLOOD_BYTES {
            return Err(LabError::Usage(format!(
                "--rows {}: use at most {} with --clients {}, or the tables don't fit the data device",
                self.rows,
                FLOOD_BYTES / ROW_BYTES / u64::from(self.clients),
                self.clients
            )));
        }
        if let Some(link) = self.link_bps
            && link.bytes() < SLOWEST_LINK
        {
            return Err(LabError::Usage(format!(
                "--link-bps {link}: use at least {SLOWEST_LINK}, the bytes per second"
            )));
        }
        // Two segments are the least that the server takes for max_wal_size.
        for (option, size, least) in [
            ("max-lag", self.max_lag, 1 << 20),
            ("max-wal-size", self.max_wal_size, 32 << 20),
            (
                "wal-size",
                self.wal_size,
                2 * self.max_wal_size.bytes() + (128 << 20),
            ),
        ] {
            if size.bytes() < least {
                return Err(LabError::Usage(format!(
                    "--{option} {size}: use at least {}MB",
                    least.div_ceil(1 << 20)
                )));
            }
        }
        Ok(())
    }

    /// Caps of the WAL devices in `case`.
    pub(super) fn wal_caps(&self, case: &Case) -> Caps {
        Caps {
            write_iops: case.wal_capped.then_some(self.wal_iops),
            ..Caps::default()
        }
    }

    /// Whether any case needs an archive.
    pub(super) fn needs_archive(&self) -> bool {
        self.cases.iter().any(|case| case.archive)
    }

    /// By name on the command line, as the report shows them; what the link came to is in a place of its own.
    pub(super) fn named(&self) -> BTreeMap<String, Value> {
        let names: Vec<&str> = self.cases.iter().map(|case| case.name).collect();
        let set: Vec<String> = self
            .set
            .iter()
            .map(|s| format!("{}={}", s.name, s.value))
            .collect();
        [
            ("cases", Value::from(names.join(","))),
            ("seconds", self.seconds.0.into()),
            ("catch-up", self.catch_up.0.into()),
            ("clients", self.clients.into()),
            ("rows", self.rows.into()),
            ("wal-iops", self.wal_iops.into()),
            (
                "link-bps",
                self.link_bps
                    .map_or("auto".to_string(), |rate| rate.to_string())
                    .into(),
            ),
            ("max-lag", self.max_lag.to_string().into()),
            ("max-wal-size", self.max_wal_size.to_string().into()),
            ("wal-size", self.wal_size.to_string().into()),
            (
                "volume",
                self.volume.as_ref().map(ToString::to_string).into(),
            ),
            ("set", set.into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect()
    }

    /// Settings of both servers where they differ from PostgreSQL's.
    pub(super) fn server_settings(&self) -> BTreeMap<String, String> {
        let own = [
            ("shared_buffers", "256MB".to_string()),
            ("synchronous_commit", "off".to_string()),
            (
                "max_wal_size",
                format!("{}kB", self.max_wal_size.bytes() >> 10),
            ),
            // The segments that are kept ready for recycling; the device needs room for what is kept for a slot.
            ("min_wal_size", "32MB".to_string()),
            // A table that lives for a tenth of a second needs none, and it would come at different times in each case.
            ("autovacuum", "off".to_string()),
        ];
        own.into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .chain(self.set.iter().map(|s| (s.name.clone(), s.value.clone())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::replica::full;

    #[test]
    fn the_preset_is_accepted_and_what_cannot_work_is_named() {
        assert!(full().check().is_ok());
        let refusal = |options: Options| options.check().unwrap_err().to_string();
        assert!(
            refusal(Options {
                rows: 1_000_000,
                ..full()
            })
            .contains("--rows 1000000: use at most")
        );
        assert!(
            refusal(Options {
                link_bps: Some(Size(8)),
                ..full()
            })
            .contains("--link-bps 8")
        );
        assert!(
            refusal(Options {
                wal_size: Size(512 << 20),
                ..full()
            })
            .contains("--wal-size 512MB")
        );
    }
}
