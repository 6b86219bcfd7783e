use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::LabError;
use crate::Limit;
use crate::Seconds;
use crate::Size;
use crate::cap::Caps;
use crate::contestant;
use crate::contestant::Contestant;
use crate::contestant::ContestantSetting;
use crate::contestant::ServerSetting;
use crate::options::DeviceStore;
use crate::options::Distribution;
use crate::options::FsType;
use crate::options::SysctlProfile;
use crate::options::Warm;

/// Bytes of table and index per row of `test`, measured at 20M rows.
const ROW_BYTES: u64 = 125;

/// Everything that can be chosen about a contest.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the lab.
    pub dir: PathBuf,
    /// Directory of the server programs; the newest installed if not given.
    pub pg_bindir: Option<PathBuf>,
    /// Rows of the table.
    pub rows: u64,
    /// shared_buffers.
    pub shared_buffers: Size,
    /// Write operations per second of the data device.
    pub data_iops: Limit<u32>,
    /// Bytes written per second to the data device.
    pub data_bps: Limit<Size>,
    /// Read operations per second of the data device.
    pub data_read_iops: Limit<u32>,
    /// Largest operation of the data device.
    pub data_max_io: Option<Size>,
    /// Write operations per second of the WAL device.
    pub wal_iops: Limit<u32>,
    /// Bytes written per second to the WAL device.
    pub wal_bps: Limit<Size>,
    /// Largest operation of the WAL device.
    pub wal_max_io: Option<Size>,
    /// Size of the WAL device; what the run may write if not given.
    pub wal_size: Option<Size>,
    /// What both devices lie on.
    pub devices: DeviceStore,
    /// File system of both devices.
    pub fs: FsType,
    /// Connections of the load.
    pub clients: u32,
    /// Transactions per second that are begun, at random intervals; as fast as they go if none.
    pub rate: Limit<u32>,
    /// Duration of a run.
    pub seconds: Seconds,
    /// How long the backlog of writes may take to be written after the load, with the caps in force; not waited for if
    /// none. Clients that a stall holds at the end are waited for as long, too.
    pub drain: Limit<Seconds>,
    /// checkpoint_timeout.
    pub checkpoint_timeout: Seconds,
    /// Writeback sysctls.
    pub sysctl: SysctlProfile,
    /// Who takes part.
    pub contestants: Vec<&'static Contestant>,
    /// Which rows the load touches.
    pub distribution: Distribution,
    /// How the page cache is filled.
    pub warm: Warm,
    /// Runs of each contestant.
    pub repeat: u32,
    /// Server settings for all.
    pub set: Vec<ServerSetting>,
    /// Server settings for one.
    pub set_contestant: Vec<ContestantSetting>,
    /// Whether logs are kept.
    pub keep: bool,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), LabError> {
        fn range<T: PartialOrd + std::fmt::Display>(
            option: &str,
            value: T,
            low: T,
            high: T,
        ) -> Result<(), LabError> {
            if value < low || value > high {
                return Err(LabError::Usage(format!(
                    "--{option} {value}: use a value from {low} to {high}"
                )));
            }
            Ok(())
        }
        // The id of the table is an int.
        range("rows", self.rows, 1000, 2_000_000_000)?;
        range(
            "shared-buffers",
            self.shared_buffers,
            Size(1 << 20),
            Size(1 << 40),
        )?;
        range("clients", self.clients, 1, 1000)?;
        if let Some(rate) = self.rate.0 {
            range("rate", rate, 1, 1_000_000)?;
        }
        range("seconds", self.seconds, Seconds(3), Seconds(86_400))?;
        if let Some(drain) = self.drain.0 {
            range("drain", drain, Seconds(1), Seconds(3600))?;
        }
        // PostgreSQL's own range.
        range(
            "checkpoint-timeout",
            self.checkpoint_timeout,
            Seconds(30),
            Seconds(86_400),
        )?;
        range("repeat", self.repeat, 1, 100)?;
        for (option, max_io) in [
            ("data-max-io", self.data_max_io),
            ("wal-max-io", self.wal_max_io),
        ] {
            let Some(max_io) = max_io else { continue };
            range(option, max_io, Size(4 << 10), Size(1 << 30))?;
            if !max_io.bytes().is_multiple_of(4096) {
                return Err(LabError::Usage(format!(
                    "--{option} {max_io}: use a multiple of 4kB"
                )));
            }
        }
        if let Some(size) = self.wal_size {
            // Below, no segments are left beside those that the server keeps (min_wal_size) and the file system's journal.
            range("wal-size", size, Size(128 << 20), Size(1 << 40))?;
        }
        contestant::check_settings(&self.contestants, &self.set_contestant)
    }

    /// By name on the command line, as the report shows them.
    pub fn named(&self) -> BTreeMap<String, Value> {
        let names: Vec<&str> = self.contestants.iter().map(|c| c.name).collect();
        let set: Vec<String> = self
            .set
            .iter()
            .map(|s| format!("{}={}", s.name, s.value))
            .collect();
        let set_contestant: Vec<String> = self
            .set_contestant
            .iter()
            .map(|s| format!("{}:{}={}", s.contestant, s.setting.name, s.setting.value))
            .collect();
        let size = |size: Option<Size>| Value::from(Limit(size).to_string());
        let limit = |limit: Limit<u32>| limit.0.map_or(Value::from("none"), Value::from);
        [
            ("rows", Value::from(self.rows)),
            ("shared-buffers", self.shared_buffers.to_string().into()),
            ("data-iops", limit(self.data_iops)),
            ("data-bps", self.data_bps.to_string().into()),
            ("data-read-iops", limit(self.data_read_iops)),
            ("data-max-io", size(self.data_max_io)),
            ("wal-iops", limit(self.wal_iops)),
            ("wal-bps", self.wal_bps.to_string().into()),
            ("wal-max-io", size(self.wal_max_io)),
            ("wal-size", self.wal_size().to_string().into()),
            ("devices", self.devices.name().into()),
            ("fs", self.fs.name().into()),
            ("clients", self.clients.into()),
            ("rate", limit(self.rate)),
            ("seconds", self.seconds.0.into()),
            (
                "drain",
                self.drain
                    .0
                    .map_or(Value::from("none"), |bound| bound.0.into()),
            ),
            ("checkpoint-timeout", self.checkpoint_timeout.0.into()),
            ("sysctl", self.sysctl.name().into()),
            ("contestants", names.into()),
            ("distribution", self.distribution.name().into()),
            ("warm", self.warm.name().into()),
            ("repeat", self.repeat.into()),
            ("set", set.into()),
            ("set-contestant", set_contestant.into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect()
    }

    /// The table and its index, then what the run adds and the file system needs for itself.
    pub(crate) fn data_size(&self) -> Size {
        let table = self.rows * ROW_BYTES;
        let growth = (u64::from(self.seconds.0) * (20 << 20)).min(3 << 30);
        round(table + table / 3 + growth + (768 << 20))
    }

    /// What was asked for, or all the WAL of a run at 100 MiB/s, up to twice the largest max_wal_size: a checkpoint that
    /// starves should not end in a full disk soon. Half of that in memory, of which there is less; max_wal_size follows.
    pub(crate) fn wal_size(&self) -> Size {
        if let Some(size) = self.wal_size {
            return round(size.bytes());
        }
        let most = match self.devices {
            DeviceStore::Disk => 16 << 30,
            DeviceStore::Memory => 8 << 30,
        };
        round((768 << 20) + (u64::from(self.seconds.0) * (100 << 20)).min(most))
    }

    /// Of both devices together.
    pub(crate) fn device_sizes(&self) -> Size {
        Size(self.data_size().bytes() + self.wal_size().bytes())
    }

    /// The loaded cluster and its WAL.
    pub(crate) fn template_size(&self) -> Size {
        Size(self.rows * ROW_BYTES + (512 << 20))
    }

    pub(crate) fn server_settings(&self, contestant: &Contestant) -> BTreeMap<String, String> {
        let max_wal_size = (self.wal_size().bytes() / 2).min(8 << 30) >> 20;
        let mut settings: BTreeMap<String, String> = [
            (
                "shared_buffers",
                format!("{}kB", self.shared_buffers.0 >> 10),
            ),
            ("max_wal_size", format!("{max_wal_size}MB")),
            ("checkpoint_timeout", self.checkpoint_timeout.to_string()),
            ("max_connections", (self.clients + 20).to_string()),
            ("fsync", "on".to_string()),
            ("full_page_writes", "on".to_string()),
            ("synchronous_commit", "on".to_string()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect();
        settings.extend(
            self.set
                .iter()
                .map(|setting| (setting.name.clone(), setting.value.clone())),
        );
        settings.extend(contestant::settings_of(contestant, &self.set_contestant));
        settings
    }

    pub(crate) fn data_caps(&self, contestant: &Contestant) -> Caps {
        if contestant.data_capped {
            Caps {
                read_iops: self.data_read_iops.0,
                ..Caps::on_writes(self.data_iops, self.data_bps)
            }
        } else {
            Caps::default()
        }
    }
}

/// To whole MiB.
fn round(bytes: u64) -> Size {
    Size(bytes.next_multiple_of(1 << 20))
}
