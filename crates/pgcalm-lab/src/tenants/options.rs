use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use pgcalm_host::quantity;
use serde::Serialize;

use crate::contestant::{Contestant, ContestantSetting};
use crate::options::{Common, MountOptions, SysctlProfile, count, declared, range, serialize_names};
use crate::tenants::contestant::parse;
use crate::{Limit, Seconds, Size, contestant, cpu};
use pgcalm_host::Failure;

/// Bytes of table and index per row, as for a contest.
const ROW_BYTES: u64 = 125;

/// An empty cluster, the file system itself, and room for the table to grow.
const DATA_OVERHEAD: u64 = 112 << 20;

/// A tenant's WAL volume: several times its max_wal_size, since a checkpoint that starves keeps more.
const WAL_SIZE: u64 = 192 << 20;

/// The log in the log directory of a server with a logging collector.
pub(super) const LOG_FILE: &str = "server.log";

/// What the processes of a server take beside shared buffers.
const INSTANCE_OVERHEAD: u64 = 32 << 20;

/// WAL of one of many on a shared file system, which take the room that few need from those that need little.
const SHARED_WAL_SIZE: u64 = 128 << 20;

/// Whose the file systems are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ownership {
    /// Each instance has two of its own, on volumes, and the caps are those of the volumes.
    Own,
    /// All instances share two, for data and WAL; each has caps of its own on both devices, by a control group (cgroup v1): what
    /// the kernel's flusher and the journal write escapes them. The logging collector is on, its log lies with the data.
    Shared,
}

/// Everything that can be chosen about tenants of one device.
#[derive(Debug, Clone, Args, Serialize)]
#[command(mut_args(declared))]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    /// Servers.
    #[arg(long, value_name = "N", default_value = "20", value_parser = count::<u32>)]
    pub instances: u32,
    /// Rows of the table of each, about 125 bytes each with its index.
    #[arg(long, default_value = "300000")]
    pub rows: u64,
    /// shared_buffers of each.
    #[arg(long, default_value = "8MB")]
    pub shared_buffers: Size,
    /// Connections to each.
    #[arg(long, default_value = "4")]
    pub clients: u32,
    /// Transactions per second that are begun on each, at random intervals; none: as many as its clients can get.
    #[arg(long, default_value = "15")]
    pub rate: Limit<u32>,
    /// Memory of each, by a control group: the server's own and the page cache that it fills; clients are outside.
    #[arg(long, value_name = "SIZE")]
    pub instance_memory: Option<Size>,
    /// Processors that each gets the time of, by a control group, e.g. 0.25; clients are outside.
    #[arg(long, value_name = "N", value_parser = quantity::processors)]
    pub instance_cpus: Option<f64>,
    /// Whose the file systems are.
    #[arg(long, value_name = "WHOSE", value_enum, default_value = "own")]
    pub file_systems: Ownership,
    /// Write operations per second that a data volume takes, or an instance may give a shared device, or none.
    #[arg(long, default_value = "800")]
    pub data_iops: Limit<u32>,
    /// Bytes per second, likewise.
    #[arg(long, default_value = "125MB")]
    pub data_bps: Limit<Size>,
    /// Write operations per second that a WAL volume takes, or an instance may give a shared device, or none.
    #[arg(long, default_value = "4000")]
    pub wal_iops: Limit<u32>,
    /// Write operations per second that the device below all volumes takes, or a shared data device of kernel's flusher and
    /// journal, or none.
    #[arg(long, value_name = "N|none", default_value = "1000")]
    pub device_iops: Limit<u32>,
    /// Bytes per second that it takes, or none.
    #[arg(long, value_name = "SIZE|none", default_value = "125MB")]
    pub device_bps: Limit<Size>,
    /// Duration of each run.
    #[arg(long, default_value = "120")]
    pub seconds: Seconds,
    #[arg(long, default_value = "60")]
    pub(crate) checkpoint_timeout: Seconds,
    #[arg(long, default_value = "default")]
    pub(crate) sysctl: SysctlProfile,
    /// Options that the file systems (ext4) are mounted with, beside noatime: e.g. nodelalloc,data=writeback or barrier=0.
    #[arg(long)]
    pub mount_options: Option<MountOptions>,
    /// Who takes part, separated by commas: stock, pg_calm (each instance by itself), pg_calm-share (they share the
    /// device's budget).
    #[arg(long, default_value = "stock,pg_calm,pg_calm-share",
          value_parser = parse)]
    #[serde(serialize_with = "serialize_names")]
    pub contestants: Vec<&'static Contestant>,
    #[arg(long)]
    pub(crate) set_contestant: Vec<ContestantSetting>,
    /// What every scenario has.
    #[command(flatten)]
    #[serde(flatten)]
    pub common: Common,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        range("instances", self.instances, 1, 500)?;
        range("rows", self.rows, 1000, 100_000_000)?;
        range("clients", self.clients, 1, 100)?;
        if let Some(rate) = self.rate.0 {
            range("rate", rate, 1, 100_000)?;
        }
        range("seconds", self.seconds.0, 3, 86_400)?;
        // PostgreSQL's own range.
        range("checkpoint-timeout", self.checkpoint_timeout.0, 30, 86_400)?;
        if self.shared_buffers < Size(1 << 20) {
            return Err(Failure::Usage(format!("--shared-buffers {}: use 1MB or more", self.shared_buffers)));
        }
        if let Some(memory) = self.instance_memory {
            let least = Size(self.shared_buffers.bytes() + INSTANCE_OVERHEAD);
            range("instance-memory", memory, least, Size(1 << 40))?;
        }
        if let Some(cpus) = self.instance_cpus {
            range("instance-cpus", cpus, cpu::LEAST, 1024.0)?;
        }
        contestant::check_settings(&self.contestants, &self.set_contestant)
    }

    /// Settings of each server of a contestant.
    pub(super) fn server_settings(&self, contestant: &Contestant) -> BTreeMap<String, String> {
        let own = [
            ("shared_buffers", format!("{}kB", self.shared_buffers.0 >> 10)),
            ("max_wal_size", "96MB".to_string()),
            ("min_wal_size", "32MB".to_string()),
            ("checkpoint_timeout", self.checkpoint_timeout.to_string()),
            ("max_connections", (self.clients + 10).to_string()),
            // The passes of all would begin at the same time, too; that is another subject.
            ("autovacuum", "off".to_string()),
            // The host's memory is for a hundred of them.
            ("work_mem", "1MB".to_string()),
            ("maintenance_work_mem", "16MB".to_string()),
        ];
        let module = contestant.module.then(|| ("pg_calm.page_map_memory", "2MB".to_string()));
        let logger = [("logging_collector", "on"), ("log_filename", LOG_FILE), ("log_rotation_age", "0")];
        let logger = logger.map(|(name, value)| (name, value.to_string())).into_iter();
        let logger = logger.filter(|_| self.file_systems == Ownership::Shared);
        let mut settings = self.common.over(own.into_iter().chain(module).chain(logger));
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

    /// Sizes of devices that all share, of data and WAL; on that of WAL there is room for the file system of few.
    pub(super) fn shared_sizes(&self) -> [Size; 2] {
        let number = u64::from(self.instances);
        [Size(number * self.data_size().bytes()), Size(number * SHARED_WAL_SIZE + DATA_OVERHEAD)]
    }

    /// What the lab's directory has to hold beside the loaded table.
    pub(super) fn space(&self) -> u64 {
        match self.file_systems {
            Ownership::Own => self.device_size().bytes() + 2 * (self.data_size().bytes() + self.wal_size().bytes()),
            Ownership::Shared => self.shared_sizes().iter().map(|size| size.bytes()).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parsed;

    #[test]
    fn instances_on_shared_file_systems_log_there_and_take_less_room() {
        let own: Options = parsed(&["--instances=100", "--rows=100000"]).unwrap();
        assert_eq!(own.file_systems, Ownership::Own);
        let stock = own.contestants[0];
        assert!(!own.server_settings(stock).contains_key("logging_collector"));
        let shared = Options { file_systems: Ownership::Shared, ..own.clone() };
        shared.check().unwrap();
        let settings = shared.server_settings(stock);
        assert_eq!((settings["logging_collector"].as_str(), settings["log_filename"].as_str()), ("on", LOG_FILE));
        assert!(shared.space() < own.space(), "{} {}", shared.space(), own.space());
        // A small number has room for the file system itself.
        let one = Options { instances: 1, ..shared };
        assert!(one.shared_sizes()[1] > Size(SHARED_WAL_SIZE + (64 << 20)));
        assert!(parsed::<Options>(&["--file-systems=both"]).is_err());
    }
}
