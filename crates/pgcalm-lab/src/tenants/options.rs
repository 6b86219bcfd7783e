use std::collections::BTreeMap;
use std::path::PathBuf;

use pgcalm_volume::Volume;
use serde_json::Value;

use crate::LabError;
use crate::Limit;
use crate::Seconds;
use crate::Size;
use crate::contestant;
use crate::contestant::Contestant;
use crate::contestant::ContestantSetting;
use crate::contestant::ServerSetting;
use crate::options::MountOptions;
use crate::options::SysctlProfile;

/// Bytes of table and index per row, as for a contest.
const ROW_BYTES: u64 = 125;

/// An empty cluster, the file system itself, and room for the table to grow.
const DATA_OVERHEAD: u64 = 112 << 20;

/// A tenant's WAL volume: several times its max_wal_size, since a checkpoint that starves keeps more.
const WAL_SIZE: u64 = 192 << 20;

/// Everything that can be chosen about tenants of one device.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the lab.
    pub dir: PathBuf,
    /// Directory of the server programs; the newest installed if not given.
    pub pg_bindir: Option<PathBuf>,
    /// Servers.
    pub instances: u32,
    /// Rows of each one's table.
    pub rows: u64,
    /// shared_buffers of each.
    pub shared_buffers: Size,
    /// Connections to each.
    pub clients: u32,
    /// Transactions per second that the clients of each are paced at.
    pub rate: u32,
    /// Write operations per second of each one's data volume.
    pub data_iops: Limit<u32>,
    /// Bytes written per second to each one's data volume.
    pub data_bps: Limit<Size>,
    /// Write operations per second of each one's WAL volume.
    pub wal_iops: Limit<u32>,
    /// Write operations per second of the device below all volumes.
    pub device_iops: Limit<u32>,
    /// Bytes written per second to that device.
    pub device_bps: Limit<Size>,
    /// Duration of a run.
    pub seconds: Seconds,
    /// checkpoint_timeout.
    pub checkpoint_timeout: Seconds,
    /// Writeback sysctls.
    pub sysctl: SysctlProfile,
    /// Who takes part.
    pub contestants: Vec<&'static Contestant>,
    /// Server settings for all.
    pub set: Vec<ServerSetting>,
    /// The devices are volumes that behave like this, limits included, instead of what caps on them there would be.
    pub volume: Option<Volume>,
    /// Options that the volumes' file systems are mounted with.
    pub mount_options: Option<MountOptions>,
    /// Server settings for one contestant.
    pub set_contestant: Vec<ContestantSetting>,
    /// Whether logs are kept.
    pub keep: bool,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), LabError> {
        let ranges = [
            ("instances", u64::from(self.instances), 1, 500),
            ("rows", self.rows, 1000, 100_000_000),
            ("clients", u64::from(self.clients), 1, 100),
            ("rate", u64::from(self.rate), 1, 100_000),
            ("seconds", u64::from(self.seconds.0), 3, 86_400),
            // PostgreSQL's own range.
            (
                "checkpoint-timeout",
                u64::from(self.checkpoint_timeout.0),
                30,
                86_400,
            ),
        ];
        for (option, value, low, high) in ranges {
            if value < low || value > high {
                return Err(LabError::Usage(format!(
                    "--{option} {value}: use a value from {low} to {high}"
                )));
            }
        }
        if self.shared_buffers < Size(1 << 20) {
            return Err(LabError::Usage(format!(
                "--shared-buffers {}: use 1MB or more",
                self.shared_buffers
            )));
        }
        contestant::check_settings(&self.contestants, &self.set_contestant)
    }

    /// By name on the command line, as the report shows them.
    pub(super) fn named(&self) -> BTreeMap<String, Value> {
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
        let limit = |limit: Limit<u32>| limit.0.map_or(Value::from("none"), Value::from);
        [
            ("instances", Value::from(self.instances)),
            ("rows", self.rows.into()),
            ("shared-buffers", self.shared_buffers.to_string().into()),
            ("clients", self.clients.into()),
            ("rate", self.rate.into()),
            ("data-iops", limit(self.data_iops)),
            ("data-bps", self.data_bps.to_string().into()),
            ("wal-iops", limit(self.wal_iops)),
            ("device-iops", limit(self.device_iops)),
            ("device-bps", self.device_bps.to_string().into()),
            ("seconds", self.seconds.0.into()),
            ("checkpoint-timeout", self.checkpoint_timeout.0.into()),
            ("sysctl", self.sysctl.name().into()),
            ("contestants", names.into()),
            (
                "volume",
                self.volume.as_ref().map(ToString::to_string).into(),
            ),
            (
                "mount-options",
                self.mount_options.as_ref().map(ToString::to_string).into(),
            ),
            ("set", set.into()),
            ("set-contestant", set_contestant.into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect()
    }

    /// Settings of each server of a contestant.
    pub(super) fn server_settings(&self, contestant: &Contestant) -> BTreeMap<String, String> {
        let mut settings: BTreeMap<String, String> = [
            (
                "shared_buffers",
                format!("{}kB", self.shared_buffers.0 >> 10),
            ),
            ("max_wal_size", "96MB".to_string()),
            ("min_wal_size", "32MB".to_string()),
            ("checkpoint_timeout", self.checkpoint_timeout.to_string()),
            ("max_connections", (self.clients + 10).to_string()),
            // The passes of all would begin at the same time, too; that is another subject.
            ("autovacuum", "off".to_string()),
            // The host's memory is for a hundred of them.
            ("work_mem", "1MB".to_string()),
            ("maintenance_work_mem", "16MB".to_string()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect();
        if contestant.module {
            settings.insert("pg_calm.page_map_memory".to_string(), "2MB".to_string());
            settings.insert("pg_calm.checkpoint_history".to_string(), "10".to_string());
        }
        settings.extend(
            self.set
                .iter()
                .map(|setting| (setting.name.clone(), setting.value.clone())),
        );
        settings.extend(contestant::settings_of(contestant, &self.set_contestant));
        settings
    }

    /// Size of a data volume.
    pub(super) fn data_size(&self) -> Size {
        let table = self.rows * ROW_BYTES;
        let size = table + table / 2 + DATA_OVERHEAD;
        Size(size.next_multiple_of(16 << 20))
    }

    /// Size of a WAL volume.
    pub(super) fn wal_size(&self) -> Size {
        Size(WAL_SIZE)
    }

    /// Size of the device that holds the volumes of all.
    pub(super) fn device_size(&self) -> Size {
        Size(u64::from(self.instances) * (self.data_size().bytes() + self.wal_size().bytes()))
    }
}
