use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::options::{Common, FileSystems, FsType, MountOptions, declared, range};
use crate::{DEFAULT_TORTURE_DIR, Limit, Seconds, Size};
use pgcalm_host::Failure;

/// How a cycle ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// All processes of the server.
    Kill,
    /// The file system, then the same.
    Shutdown,
}

pgcalm_host::names! { pub fn name(Crash): Kill "kill", Shutdown "shutdown" }

/// Kinds of crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crashes {
    /// SIGKILL to all processes of the server; the page cache survives.
    Kill,
    /// The file system is shut down without flushing its log, then the same; the page cache is lost.
    Shutdown,
    /// Both in turn.
    Both,
}

/// Everything that can be chosen about crash cycles.
#[derive(Debug, Clone, Args, Serialize)]
#[command(mut_args(declared))]
#[command(mut_arg("dir", |arg| arg.default_value(DEFAULT_TORTURE_DIR)))]
#[command(mut_arg("keep", |arg| arg.help(KEEP)))]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    #[arg(long, default_value = "20")]
    pub(crate) cycles: u32,
    /// File system of the cluster.
    #[arg(long, default_value = "both")]
    pub fs: FileSystems,
    /// Options that the clusters' file systems are mounted with, beside noatime, e.g. data=writeback,nodelalloc; with one
    /// file system only.
    #[arg(long)]
    pub mount_options: Option<MountOptions>,
    /// Fill free space with a pattern before each load that a shutdown ends, and count after it blocks that show it: in files that
    /// somebody wrote beside the server and never synced, and in the server's. ext4 shows them with
    /// data=writeback,nodelalloc.
    #[arg(long)]
    pub stale_blocks: bool,
    /// How a cycle ends.
    #[arg(long, value_name = "HOW", default_value = "both")]
    pub crash: Crashes,
    /// Rows of the table; half of them are there at the start.
    #[arg(long, default_value = "300000")]
    pub rows: u64,
    /// Connections that write.
    #[arg(long, default_value = "4")]
    pub clients: u32,
    /// Longest time under load before a crash; the shortest is 1 s.
    #[arg(long, default_value = "8")]
    pub seconds: Seconds,
    /// Write operations per second that the device takes until the crash, or none; so that much is unflushed then. Where
    /// caps are not in the root group of cgroup v1, there is none.
    #[arg(long = "data-iops", default_value = "1000")]
    pub iops: Limit<u32>,
    #[arg(long, default_value = "2GB")]
    pub(crate) size: Size,
    #[arg(long)]
    pub(crate) seed: u64,
    /// Crash two servers as well that don't sync as they should, one with fsync=off, one whose checkpointer's fsync of the
    /// table does nothing (by strace); it fails unless the losses are detected.
    #[arg(long)]
    pub control: bool,
    /// What every scenario has.
    #[command(flatten)]
    #[serde(flatten)]
    pub common: Common,
}

const KEEP: &str = "Keep server logs, and the cluster of a cycle that failed, in pgcalm-torture-kept of --dir; `lab clean` \
                    removes them";

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        range("cycles", self.cycles, 0, 100_000)?;
        range("rows", self.rows, 1000, 10_000_000)?;
        range("clients", self.clients, 1, 50)?;
        range("seconds", self.seconds.0, 2, 3600)?;
        // Rows have about 150 bytes with their index entry, are there several times, and WAL needs room, too.
        let needed = Size((512 << 20) + self.rows * 1000);
        if self.size < needed {
            return Err(Failure::Usage(format!(
                "--size {}: {} rows need {}MB",
                self.size,
                self.rows,
                needed.bytes().div_ceil(1 << 20)
            )));
        }
        if let (FileSystems::Both, Some(options)) = (self.fs, &self.mount_options) {
            return Err(Failure::Usage(format!(
                "--mount-options {options}: give --fs ext4 or --fs xfs, whose options they are"
            )));
        }
        if self.cycles == 0 && !self.control {
            return Err(Failure::Usage("--cycles 0: nothing to do without --control".to_string()));
        }
        Ok(())
    }

    /// File systems, taken in turn.
    pub(super) fn file_systems(&self) -> &'static [FsType] {
        self.fs.in_turn()
    }

    /// Kinds of crashes, taken in turn on each file system.
    pub(super) fn crashes(&self) -> &'static [Crash] {
        match self.crash {
            Crashes::Kill => &[Crash::Kill],
            Crashes::Shutdown => &[Crash::Shutdown],
            Crashes::Both => &[Crash::Shutdown, Crash::Kill],
        }
    }

    /// Settings of the server where they differ from PostgreSQL's.
    pub(super) fn server_settings(&self) -> BTreeMap<String, String> {
        self.common.over([
            // Small, so that backends write pages and read them again all the time.
            ("shared_buffers", "16MB"),
            ("checkpoint_timeout", "30s"),
            ("max_wal_size", "256MB"),
            // A spread checkpoint writes at once, so that its sync phase is in the cycle, too.
            ("checkpoint_completion_target", "0"),
            ("shared_preload_libraries", "pg_calm"),
            ("pg_calm.mode", "on"),
            // A cycle lasts seconds: pages must not wait for half of checkpoint_timeout.
            ("pg_calm.flush_age", "300ms"),
            // It is drained whatever little the worker has left.
            ("pg_calm.drain_threshold", "0"),
            // Gaps of up to 12 blocks, whatever the caps of the device are.
            ("pg_calm.write_iops", "1000"),
            ("pg_calm.write_bandwidth", "100MB"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{named, parsed};

    #[test]
    fn a_run_has_a_directory_of_its_own_and_tells_its_seed() {
        let options: Options = parsed(&["--seed", "42", "--fs", "xfs"]).unwrap();
        assert_eq!(options.common.dir.to_str(), Some(DEFAULT_TORTURE_DIR));
        let named = named(&options);
        assert_eq!(named["seed"], 42);
        assert_eq!((&named["fs"], &named["crash"]), (&"xfs".into(), &"both".into()));
        assert_eq!(options.file_systems(), [FsType::Xfs]);
        assert_eq!(options.crashes(), [Crash::Shutdown, Crash::Kill]);
    }

    #[test]
    fn mount_options_are_those_of_one_file_system() {
        let given = ["--mount-options", "data=writeback"];
        let both: Options = parsed(&given).unwrap();
        let error = both.check().unwrap_err().to_string();
        assert!(error.contains("--fs ext4"), "{error}");
        let one: Options = parsed(&[given[0], given[1], "--fs", "ext4"]).unwrap();
        one.check().unwrap();
        assert_eq!(named(&one)["mount-options"], "data=writeback");
    }
}
