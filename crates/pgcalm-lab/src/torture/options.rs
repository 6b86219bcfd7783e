use std::collections::BTreeMap;
use std::path::PathBuf;

use pgcalm_volume::Volume;
use serde_json::Value;

use crate::LabError;
use crate::Limit;
use crate::Seconds;
use crate::Size;
use crate::contestant::ServerSetting;
use crate::options::FsType;

/// How a cycle ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// All processes of the server.
    Kill,
    /// The file system, then the same.
    Shutdown,
}

impl Crash {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Everything that can be chosen about crash cycles.
#[derive(Debug, Clone)]
pub struct Options {
    /// Working directory.
    pub dir: PathBuf,
    /// Directory of the server programs; the newest installed if not given.
    pub pg_bindir: Option<PathBuf>,
    /// Directory of the module, with its SQL script; the installed one if not given.
    pub module_dir: Option<PathBuf>,
    /// Crashes.
    pub cycles: u32,
    /// File systems, taken in turn.
    pub fs: Vec<FsType>,
    /// Kinds of crashes, taken in turn on each file system.
    pub crash: Vec<Crash>,
    /// Keys; half of them are there at the start.
    pub rows: u32,
    /// Connections that write.
    pub clients: u32,
    /// Longest time under load before a crash.
    pub seconds: Seconds,
    /// Write operations per second of the device under load.
    pub iops: Limit<u32>,
    /// Size of each device.
    pub size: Size,
    /// Server settings on top of the scenario's.
    pub set: Vec<ServerSetting>,
    /// The devices are volumes that behave like this, limits included, instead of what caps on them there would be.
    pub volume: Option<Volume>,
    /// Of all random choices.
    pub seed: u64,
    /// Whether a control run with fsync=off follows.
    pub control: bool,
    /// Whether server logs are kept, and the cluster of a cycle that failed.
    pub keep: bool,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), LabError> {
        let ranges = [
            ("cycles", u64::from(self.cycles), 0, 100_000),
            ("rows", u64::from(self.rows), 1000, 10_000_000),
            ("clients", u64::from(self.clients), 1, 50),
            ("seconds", u64::from(self.seconds.0), 2, 3600),
        ];
        for (option, value, low, high) in ranges {
            if value < low || value > high {
                return Err(LabError::Usage(format!(
                    "--{option} {value}: use a value from {low} to {high}"
                )));
            }
        }
        // Rows have about 150 bytes with their index entry, are there several times, and WAL needs room, too.
        let needed = Size((512 << 20) + u64::from(self.rows) * 1000);
        if self.size < needed {
            return Err(LabError::Usage(format!(
                "--size {}: {} rows need {}MB",
                self.size,
                self.rows,
                needed.bytes().div_ceil(1 << 20)
            )));
        }
        if self.cycles == 0 && !self.control {
            return Err(LabError::Usage(
                "--cycles 0: nothing to do without --control".to_string(),
            ));
        }
        Ok(())
    }

    /// By name on the command line, as the report shows them.
    pub(super) fn named(&self) -> BTreeMap<String, Value> {
        let list = |names: Vec<&str>| Value::from(names.join(","));
        let set: Vec<String> = self
            .set
            .iter()
            .map(|s| format!("{}={}", s.name, s.value))
            .collect();
        [
            ("cycles", Value::from(self.cycles)),
            ("fs", list(self.fs.iter().map(|fs| fs.name()).collect())),
            (
                "crash",
                list(self.crash.iter().map(|crash| crash.name()).collect()),
            ),
            ("rows", self.rows.into()),
            ("clients", self.clients.into()),
            ("seconds", self.seconds.0.into()),
            ("iops", self.iops.0.map_or("none".into(), Value::from)),
            ("size", self.size.to_string().into()),
            (
                "volume",
                self.volume.as_ref().map(ToString::to_string).into(),
            ),
            ("set", set.into()),
            ("seed", self.seed.into()),
            ("control", self.control.into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect()
    }

    /// Settings of the server where they differ from PostgreSQL's, without the module's place.
    pub(super) fn server_settings(&self) -> BTreeMap<String, String> {
        let own = [
            // Small, so that backends write pages and read them again all the time.
            ("shared_buffers", "16MB"),
            ("checkpoint_timeout", "30s"),
            ("max_wal_size", "256MB"),
            ("shared_preload_libraries", "pg_calm"),
            ("pg_calm.mode", "on"),
            // A cycle lasts seconds: pages must not wait for half of checkpoint_timeout.
            ("pg_calm.flush_age", "300ms"),
            // Gaps of up to 12 blocks, whatever the caps of the device are.
            ("pg_calm.write_iops", "1000"),
            ("pg_calm.write_bandwidth", "100MB"),
        ];
        own.into_iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .chain(self.set.iter().map(|s| (s.name.clone(), s.value.clone())))
            .collect()
    }
}
