mod limits;

use std::collections::BTreeMap;

use clap::Args;
use pgcalm_volume::Volume;
use serde::Serialize;
use serde_json::Value;

use crate::cap::Caps;
use crate::contestant::{Contestant, ContestantSetting};
use crate::load::choice::LoadChoice;
use crate::load::preparation::Preparation;
use crate::load::workload::Workload;
use crate::options::{
    CapIn, CapWay, Common, DeviceStore, Distribution, FsType, MountOptions, Stack, SysctlProfile, VolumeLayout, Warm,
    as_text, count, declared_without_volume, defaults, named, range, serialize_names,
};
use crate::trouble::Scheduled;
use crate::trouble::caps_told::Truth;
use crate::{Limit, Seconds, Size, contestant, trouble};
use pgcalm_host::Failure;

/// What the kernel, the system's other programs and what servers have besides shared buffers take of a host with little
/// memory. It can't be dirty.
const REST_OF_HOST: u64 = 300 << 20;

/// Everything that can be chosen about a contest. Declared here once: for the command line, for the files of suites, and,
/// serialized, for the settings that a report names.
#[derive(Debug, Clone, Args, Serialize)]
#[command(mut_args(declared_without_volume))]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    /// The quick form: 10000000 rows, 128MB shared_buffers, 60 s runs, 30 s checkpoints; other options still hold.
    #[serde(skip)]
    #[arg(long)]
    pub quick: bool,
    /// What loads the server, and the size of its tables.
    #[command(flatten)]
    #[serde(flatten)]
    pub load: Workload,
    /// Rows of the table, about 125 bytes each with its index; of tpcb: accounts, 157 bytes, rounded up to 100000; of tpcc:
    /// stock, 510 bytes with all other tables.
    #[arg(long, default_value = "20000000", default_value_if("quick", "true", "10000000"))]
    pub rows: u64,
    /// shared_buffers of all contestants.
    #[arg(long, default_value = "256MB", default_value_if("quick", "true", "128MB"))]
    pub shared_buffers: Size,
    /// The volume of WAL, where there are two and they differ.
    #[arg(long, value_name = "PROFILE", requires = "volume")]
    #[serde(serialize_with = "as_text")]
    pub wal_volume: Option<Volume>,
    /// Data and WAL on one volume, or on two [default: one with --volume, else two].
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<VolumeLayout>,
    /// How devices are capped: cgroup is by control groups, writes with the --data-* and --wal-* options below; none not at
    /// all [default: cgroup, unless there is --volume].
    #[arg(long, value_name = "HOW", conflicts_with = "volume")]
    pub cap: Option<CapWay>,
    /// The control group with the caps: root is all that is in no child group, the kernel's flusher included; own is the
    /// server's alone, as tenants of one host have them: with cgroup v1 the kernel's flusher then escapes.
    #[arg(long, value_name = "GROUP", default_value = "root", conflicts_with = "volume")]
    pub cap_in: CapIn,
    /// Memory of the host that is played: server and page cache are in a control group of this size, and the kernel's dirty
    /// limits are what its defaults come to there.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,
    #[arg(long, default_value = "800")]
    pub(crate) data_iops: Limit<u32>,
    #[arg(long, default_value = "125MB")]
    pub(crate) data_bps: Limit<Size>,
    #[arg(long, default_value = "none")]
    pub(crate) data_read_iops: Limit<u32>,
    /// Largest operation sent to the data device, e.g. 256kB so that 1 MiB counts as four operations, as on EBS
    /// [default: what the kernel chooses].
    #[arg(long, value_name = "SIZE", conflicts_with = "volume")]
    pub data_max_io: Option<Size>,
    #[arg(long, default_value = "4000")]
    pub(crate) wal_iops: Limit<u32>,
    #[arg(long, default_value = "none")]
    pub(crate) wal_bps: Limit<Size>,
    /// Largest operation sent to the WAL device [default: what the kernel chooses].
    #[arg(long, value_name = "SIZE", conflicts_with = "volume")]
    pub wal_max_io: Option<Size>,
    /// Room for WAL, on a device of its own or beside the data; max_wal_size is half of it, 8 GB at most. If it runs full,
    /// the run of that contestant ends there, and the report says so [default: 100 MiB for each second, up to 16 GB; up to
    /// 8 GB in memory].
    #[arg(long)]
    #[serde(skip)]
    pub wal_size: Option<Size>,
    /// What the devices lie on: disk is --dir; memory is a tmpfs, for a host whose own disk is slower or less even
    /// than the caps; it holds up to 8 GB of WAL, and max_wal_size is 4 GB then.
    #[arg(long, value_name = "WHERE", default_value = "disk")]
    pub devices: DeviceStore,
    #[arg(long, default_value = "ext4")]
    pub(crate) fs: FsType,
    #[arg(long)]
    pub(crate) mount_options: Option<MountOptions>,
    /// What lies between the devices and their file systems: nothing, dm-linear as LVM makes it, dm-crypt as LUKS makes it,
    /// or md RAID 1 with one of its two disks missing.
    #[arg(long, value_name = "WHAT", default_value = "none")]
    pub stack: Stack,
    /// Read-ahead of all devices, e.g. 4MB as tuned profiles of some distributions have it [default: 128kB of volumes, else the
    /// kernel's].
    #[arg(long, value_name = "SIZE")]
    pub read_ahead: Option<Size>,
    #[arg(long, default_value = "4")]
    pub(crate) clients: u32,
    #[arg(long, default_value = "none")]
    pub(crate) rate: Limit<u32>,
    /// Load before what is measured, under the same caps.
    #[arg(long, value_name = "S", default_value = "0")]
    pub warm_up: Seconds,
    /// Measure until it is steady: from the first end of a checkpoint after --warm-up, for --seconds at least, until three more
    /// have ended and as much is dirty (shared buffers, and the kernel's Dirty and Writeback) as at the beginning, within 10 %
    /// or 32 MiB; with the module it may also be less. There is no drain then.
    #[arg(long)]
    pub steady: bool,
    /// The longest load of a run with --steady, warm-up included; where it is not steady by then the report says so.
    #[arg(long, value_name = "S", default_value = "720")]
    pub at_most: Seconds,
    /// What is measured of each run.
    #[arg(long, default_value = "150", default_value_if("quick", "true", "60"))]
    pub seconds: Seconds,
    /// How long what was put off may take to be written after the load, with the limits in force; a run that does not get
    /// that far reports so. none: not waited for. Clients that a stall holds at the end are waited for as long, too.
    #[arg(long, value_name = "S|none", default_value = "60")]
    pub drain: Limit<Seconds>,
    #[arg(long, default_value = "60", default_value_if("quick", "true", "30"))]
    pub(crate) checkpoint_timeout: Seconds,
    /// Writeback sysctls during the runs: default is the kernel's (dirty_background_ratio 10, dirty_ratio 20,
    /// dirty_expire_centisecs 3000), default:SIZE what these ratios come to where SIZE of memory can be dirty (small: 4 GB,
    /// 400 and 800 million bytes), roomy gives dirty pages room and time (40, 60, 30000), early is what some hosts with many instances
    /// have: background 102.4 MB, limit 95 %, the flusher looks each second; former values come back
    /// [default: default, with --memory what that comes to there].
    #[arg(long)]
    #[serde(skip)]
    pub sysctl: Option<SysctlProfile>,
    /// Who takes part, separated by commas; `pgcalm lab list` tells who there is. NAME+SETTING=VALUE is NAME with that server setting,
    /// e.g. stock+commit_delay=400.
    #[arg(long, default_value = "stock,stock-tuned,pg_calm",
          value_parser = contestant::parse)]
    #[serde(serialize_with = "serialize_names")]
    pub contestants: Vec<&'static Contestant>,
    /// Which rows upsert touches: uniform is all alike, zipfian (1.05) is few often and most rarely, with the frequent
    /// ones scattered over the table [default: uniform].
    #[arg(long, value_name = "D")]
    #[serde(skip)]
    pub distribution: Option<Distribution>,
    /// How the page cache is filled before a run: random reads single blocks without read-ahead, so that the cache
    /// holds small folios like that of a server in use; sequential reads ahead, which makes large folios, of which one
    /// written block dirties up to 2 MiB in the kernel's count; none leaves it cold.
    #[arg(long, value_name = "HOW", default_value = "random")]
    pub warm: Warm,
    #[arg(long, default_value = "1")]
    pub(crate) repeat: u32,
    /// Go on with another run of each while the mean TPS of one spreads by more than 10 % of its median, up to so many
    /// [default: --repeat].
    #[arg(long, value_name = "N", value_parser = count::<u32>)]
    pub repeat_at_most: Option<u32>,
    #[arg(long)]
    pub(crate) set_contestant: Vec<ContestantSetting>,
    /// What every scenario has.
    #[command(flatten)]
    #[serde(flatten)]
    pub common: Common,
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        // The id of the table is an int.
        range("rows", self.table_rows(), 1000, 2_000_000_000)?;
        if let Some(size) = self.load.table_size {
            self.load.rows_of(size)?;
        }
        self.load.check()?;
        if self.rate.0.is_some() && !self.load.choice.is_pgbench() {
            return Err(Failure::Usage("--rate is for loads by pgbench: give the program its own option".to_string()));
        }
        if self.distribution.is_some() && self.load.choice != LoadChoice::Upsert {
            return Err(Failure::Usage(format!(
                "--distribution is for upsert: load {} chooses its rows itself",
                self.load.choice
            )));
        }
        range("shared-buffers", self.shared_buffers, Size(1 << 20), Size(1 << 40))?;
        range("clients", self.clients, 1, 1000)?;
        if let Some(rate) = self.rate.0 {
            range("rate", rate, 1, 1_000_000)?;
        }
        range("seconds", self.seconds, Seconds(3), Seconds(86_400))?;
        // PostgreSQL's own range.
        range("checkpoint-timeout", self.checkpoint_timeout, Seconds(30), Seconds(86_400))?;
        range("repeat", self.repeat, 1, 100)?;
        if let Some(most) = self.repeat_at_most {
            range("repeat-at-most", most, self.repeat, 100)?;
        }
        if self.steady {
            range("at-most", self.at_most, Seconds(self.warm_up.0 + self.seconds.0), Seconds(86_400))?;
        }
        if let Some(drain) = self.drain.0 {
            range("drain", drain, Seconds(1), Seconds(3600))?;
        }
        range("warm-up", self.warm_up, Seconds(0), Seconds(86_400))?;
        if let Some(memory) = self.memory {
            range("memory", memory, Size(512 << 20), Size(1 << 40))?;
            if !self.fits(memory) {
                return Err(Failure::Usage(format!(
                    "--memory {memory}: shared_buffers of {} do not fit: give less --shared-buffers or more --memory",
                    self.shared_buffers
                )));
            }
        }
        if self.wal_volume.is_some() && self.layout() == VolumeLayout::One {
            return Err(Failure::Usage(
                "--wal-volume: data and WAL lie on one volume: give --layout two as well".to_string(),
            ));
        }
        for (option, max_io) in [("data-max-io", self.data_max_io), ("wal-max-io", self.wal_max_io)] {
            let Some(max_io) = max_io else { continue };
            range(option, max_io, Size(4 << 10), Size(1 << 30))?;
            if !max_io.bytes().is_multiple_of(4096) {
                return Err(Failure::Usage(format!("--{option} {max_io}: use a multiple of 4kB")));
            }
        }
        if let Some(size) = self.read_ahead {
            range("read-ahead", size, Size(0), Size(1 << 30))?;
            if !size.bytes().is_multiple_of(4096) {
                return Err(Failure::Usage(format!("--read-ahead {size}: use a multiple of 4kB")));
            }
        }
        if let Some(size) = self.wal_size {
            // Below, no segments are left beside those that the server keeps (min_wal_size) and the file system's journal.
            range("wal-size", size, Size(128 << 20), Size(1 << 40))?;
        }
        trouble::check(self)?;
        contestant::check_settings(&self.contestants, &self.set_contestant)
    }

    /// Those of a contestant, whose volumes may have more operations.
    pub(crate) fn of(&self, contestant: &Contestant) -> Result<Self, Failure> {
        let mut options = self.clone();
        let times = contestant.operations;
        if times == 1 {
            return Ok(options);
        }
        let volumes = [&mut options.common.volume, &mut options.wal_volume];
        for volume in volumes.into_iter().flatten() {
            *volume = limits::with_operations(volume, times)?;
        }
        for iops in [&mut options.data_iops, &mut options.data_read_iops, &mut options.wal_iops] {
            iops.0 = iops.0.map(|iops| iops.saturating_mul(times));
        }
        Ok(options)
    }

    /// By name on the command line, as the report shows them: what is in force.
    pub fn named(&self) -> BTreeMap<String, Value> {
        let mut named = named(self);
        named.insert("rows".into(), self.table_rows().into());
        if self.load.choice == LoadChoice::Upsert {
            let distribution = self.distribution().name();
            named.insert("distribution".into(), distribution.into());
        }
        named.insert("layout".into(), self.layout().name().into());
        named.insert("sysctl".into(), self.sysctl().name().into());
        named.insert("warm".into(), self.warm().name().into());
        named.insert("wal-size".into(), self.wal_size().to_string().into());
        if !self.steady {
            named.remove("steady");
            named.remove("at-most");
        }
        if self.common.volume.is_some() || self.cap == Some(CapWay::None) {
            for without in CAPS {
                named.remove(without);
            }
        }
        named
    }

    /// Rows of the table: as given, or what the size that was asked for comes to.
    pub(crate) fn table_rows(&self) -> u64 {
        self.load.table_size.and_then(|size| self.load.rows_of(size).ok()).unwrap_or_else(|| self.load.whole(self.rows))
    }

    /// Which rows upsert touches.
    pub(crate) fn distribution(&self) -> Distribution {
        self.distribution.unwrap_or(Distribution::Uniform)
    }

    /// How its tables are made.
    pub(crate) fn preparation(&self) -> Result<Preparation, Failure> {
        self.load.preparation(self.table_rows(), self.clients, self.seconds.0)
    }

    /// Seconds of load of a run at most.
    pub(crate) fn load_seconds(&self) -> u32 {
        if self.steady { self.at_most.0 } else { self.warm_up.0 + self.seconds.0 }
    }

    /// Seconds of load for which there are to be segments of WAL to write into: until the first checkpoint has ended, which one
    /// on time has by the second interval's end; without --steady nobody waits for that.
    pub(crate) fn seconds_to_recycling(&self) -> u32 {
        if self.steady { self.at_most.0.min(2 * self.checkpoint_timeout.0) } else { self.load_seconds() }
    }

    /// How many runs of each contestant there can be.
    pub(crate) fn most_runs(&self) -> u32 {
        self.repeat_at_most.unwrap_or(self.repeat)
    }

    /// Where data and WAL lie.
    pub(crate) fn layout(&self) -> VolumeLayout {
        self.layout.unwrap_or(if self.common.volume.is_some() { VolumeLayout::One } else { VolumeLayout::Two })
    }

    /// The sysctls of a run. With `--memory` those that the kernel's defaults come to there: their ratios are of memory that
    /// is free or page cache (global_dirtyable_memory, mm/page-writeback.c), which shared buffers are not.
    pub(crate) fn sysctl(&self) -> SysctlProfile {
        match (self.sysctl, self.memory) {
            (Some(profile), _) => profile,
            (None, Some(memory)) => {
                let taken = self.shared_buffers.bytes() + REST_OF_HOST;
                SysctlProfile::DefaultOn(Size(memory.bytes().saturating_sub(taken)))
            }
            (None, None) => SysctlProfile::Default,
        }
    }

    /// The troubles that come in a run.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = &Scheduled> {
        let all = self.common.trouble.iter();
        all.filter(|scheduled| scheduled.trouble.name != "none")
    }

    /// How the page cache is filled: not at all where trouble does that.
    pub(crate) fn warm(&self) -> Warm {
        if self.troubles().any(|one| trouble::reads_files(one.trouble)) { Warm::None } else { self.warm }
    }

    /// Whether devices have limits.
    pub(crate) fn has_caps(&self) -> bool {
        let capped = Caps { read_iops: self.data_read_iops.0, ..Caps::on_writes(self.data_iops, self.data_bps) };
        self.common.volume.is_some()
            || self.cap != Some(CapWay::None) && (capped.is_some() || self.wal_caps().is_some())
    }

    /// Whether so much memory holds shared buffers and the rest of a host.
    pub(crate) fn fits(&self, memory: Size) -> bool {
        self.shared_buffers.bytes() + REST_OF_HOST < memory.bytes()
    }

    /// The table and its index, then what the run adds and the file system needs for itself.
    pub(crate) fn data_size(&self) -> Size {
        let table = self.load.table_bytes(self.table_rows());
        let growth = (u64::from(self.load_seconds()) * (20 << 20)).min(3 << 30);
        let trouble: u64 = self.troubles().map(|one| (one.trouble.room)(self)).sum();
        round(table + table / 3 + growth + (768 << 20) + trouble)
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
        round((768 << 20) + (u64::from(self.load_seconds()) * (100 << 20)).min(most))
    }

    /// Of the device that data lie on: that of WAL, too, where there is one for both.
    pub(crate) fn data_device_size(&self) -> Size {
        match self.layout() {
            VolumeLayout::One => self.device_sizes(),
            VolumeLayout::Two => self.data_size(),
        }
    }

    /// Of all devices together.
    pub(crate) fn device_sizes(&self) -> Size {
        Size(self.data_size().bytes() + self.wal_size().bytes())
    }

    /// The loaded cluster and its WAL.
    pub(crate) fn template_size(&self) -> Size {
        Size(self.load.table_bytes(self.table_rows()) + (512 << 20))
    }

    pub(crate) fn server_settings(&self, contestant: &Contestant) -> BTreeMap<String, String> {
        let max_wal_size = (self.wal_size().bytes() / 2).min(8 << 30) >> 20;
        let mut settings = self.common.over([
            ("shared_buffers", format!("{}kB", self.shared_buffers.0 >> 10)),
            ("max_wal_size", format!("{max_wal_size}MB")),
            ("checkpoint_timeout", self.checkpoint_timeout.to_string()),
            ("max_connections", (self.clients + 20).to_string()),
            ("fsync", "on".to_string()),
            ("full_page_writes", "on".to_string()),
            ("synchronous_commit", "on".to_string()),
        ]);
        settings.extend(self.settings_of(contestant));
        settings
    }

    /// Where a contestant differs from `stock`.
    pub(crate) fn settings_of(&self, contestant: &Contestant) -> BTreeMap<String, String> {
        let mut settings = if contestant.module { self.told_caps() } else { BTreeMap::new() };
        settings.extend(contestant::settings_of(contestant, &self.set_contestant));
        settings
    }

    /// What the module is told of the limits.
    fn told_caps(&self) -> BTreeMap<String, String> {
        let volume = self.common.volume.as_ref().map(Volume::limits);
        match (volume, Truth::of(self)) {
            (Some(limits), Truth::Whole) => limits::module_caps(&limits),
            (Some(limits), Truth::Share(percent)) => limits::module_caps(&limits.scaled(percent)),
            (Some(limits), Truth::Nothing) => {
                let mut settings = limits::module_caps(&limits);
                settings.retain(|name, _| name == "pg_calm.io_size");
                settings
            }
            // Those of control groups are found without being told.
            (None, Truth::Whole | Truth::Nothing) => BTreeMap::new(),
            (None, Truth::Share(percent)) => {
                let caps = Caps::on_writes(self.data_iops, self.data_bps).scaled(percent);
                let iops = caps.write_iops.map(|iops| iops.to_string());
                let bandwidth = caps.write_bps.map(|bytes| format!("{}kB", bytes >> 10));
                [("pg_calm.write_iops", iops), ("pg_calm.write_bandwidth", bandwidth)]
                    .into_iter()
                    .filter_map(|(name, value)| Some((name.to_string(), value?)))
                    .collect()
            }
        }
    }

    pub(crate) fn data_caps(&self, contestant: &Contestant) -> Caps {
        if contestant.data_capped && self.cap != Some(CapWay::None) {
            Caps { read_iops: self.data_read_iops.0, ..Caps::on_writes(self.data_iops, self.data_bps) }
        } else {
            Caps::default()
        }
    }

    pub(crate) fn wal_caps(&self) -> Caps {
        if self.cap == Some(CapWay::None) { Caps::default() } else { Caps::on_writes(self.wal_iops, self.wal_bps) }
    }
}

/// Options that only caps by control groups have.
const CAPS: [&str; 8] =
    ["cap-in", "data-iops", "data-bps", "data-read-iops", "data-max-io", "wal-iops", "wal-bps", "wal-max-io"];

/// To whole MiB.
fn round(bytes: u64) -> Size {
    Size(bytes.next_multiple_of(1 << 20))
}

#[cfg(test)]
mod tests;
