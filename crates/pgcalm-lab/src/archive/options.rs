use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::archive::archiver;
use crate::archive::archiver::{Archiver, Way};
use crate::cap::Caps;
use crate::options::{Common, FsType, count, declared, each_once, named, range, serialize_names};
use crate::{Limit, Seconds, Size};
use pgcalm_host::Failure;

/// Most files of a drain that is traced and ended by a crash: tracing is slow, and these are enough to count.
const MOST_CRASH_FILES: u32 = 16;

/// How many files of an empty backlog the checkpoint after it removes: enough that what precedes removal is done, and not
/// so many that removing, one sync for each, is what it measures.
const REMOVED_FILES: u64 = 64;

/// Size of the cluster's device: the table of pgbench, what it grows by, and pgBackRest's spool.
const DATA_SIZE: Size = Size(1 << 30);

/// Everything that can be chosen about archivers.
#[derive(Debug, Clone, Args, Serialize)]
#[command(mut_args(declared))]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    /// Who takes part, separated by commas; `pgcalm lab list` tells who there is.
    #[arg(long, value_name = "LIST", default_value = "cp-sync,basic_archive,pg_calm-2", value_delimiter = ',',
          value_parser = archiver::parse)]
    #[serde(serialize_with = "serialize_names")]
    pub archivers: Vec<&'static Archiver>,
    /// WAL files of a drain.
    #[arg(long, value_name = "N", default_value = "64", value_parser = count::<u32>)]
    pub files: u32,
    /// Empty WAL files, so that there is only acknowledging to do; for archivers that copy nothing.
    #[arg(long)]
    pub empty: bool,
    /// Size of a WAL file, 1MB to 1GB.
    #[arg(long, value_name = "SIZE", default_value = "16MB")]
    pub segment_size: Size,
    /// Write operations per second that the device of pg_wal takes, or none.
    #[arg(long, default_value = "800")]
    pub wal_iops: Limit<u32>,
    /// Bytes per second that the device of pg_wal takes, or none.
    #[arg(long, default_value = "125MB")]
    pub wal_bps: Limit<Size>,
    /// Write operations per second that the device of the archive takes, or none.
    #[arg(long, value_name = "N|none", default_value = "800")]
    pub archive_iops: Limit<u32>,
    /// Bytes per second that the device of the archive takes, or none.
    #[arg(long, value_name = "SIZE|none", default_value = "125MB")]
    pub archive_bps: Limit<Size>,
    #[arg(long, default_value = "ext4")]
    pub(crate) fs: FsType,
    /// Connections of pgbench.
    #[arg(long, default_value = "4")]
    pub clients: u32,
    /// Seconds of pgbench from the start of the drain beside it, or none for no such drain.
    #[arg(long, value_name = "S|none", default_value = "20")]
    pub seconds: Limit<Seconds>,
    /// Runs of each archiver, in turn; figures are medians.
    #[arg(long, default_value = "1")]
    pub repeat: u32,
    /// The shared library of the archive module that copies nothing, for noop; bench/noop_archive.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub noop_module: Option<PathBuf>,
    /// What every scenario has.
    #[command(flatten)]
    #[serde(flatten)]
    pub common: Common,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        each_once("archivers", &self.archivers)?;
        range("files", self.files, 1, 100_000)?;
        range("clients", self.clients, 1, 1000)?;
        range("repeat", self.repeat, 1, 100)?;
        let size = self.segment_size.bytes();
        if !size.is_power_of_two() || !(1 << 20..=1 << 30).contains(&size) {
            return Err(Failure::Usage(format!(
                "--segment-size {}: use a power of two from 1MB to 1GB",
                self.segment_size
            )));
        }
        if let Some(seconds) = self.seconds.0
            && !(5..=3600).contains(&seconds.0)
        {
            return Err(Failure::Usage(format!("--seconds {seconds}: use a value from 5 to 3600, or none")));
        }
        for archiver in &self.archivers {
            if matches!(archiver.way, Way::Noop) && self.noop_module.is_none() {
                return Err(Failure::Usage(format!(
                    "--archivers {}: name the module that copies nothing with --noop-module (make -C bench/noop_archive)",
                    archiver.name
                )));
            }
            if archiver.copies() && self.empty {
                return Err(Failure::Usage(format!(
                    "--empty: {} has nothing to copy then; use --archivers noop",
                    archiver.name
                )));
            }
        }
        Ok(())
    }

    /// WAL files of the drain beside pgbench.
    pub(super) fn loaded_files(&self) -> u32 {
        match self.seconds.0 {
            Some(_) if !self.empty => self.files,
            _ => 0,
        }
    }

    /// WAL files of the drain that a crash ends.
    pub(super) fn crash_files(&self) -> u32 {
        if self.empty { 0 } else { self.files.min(MOST_CRASH_FILES) }
    }

    /// WAL files of all drains.
    pub(super) fn backlog_files(&self) -> u32 {
        self.files + self.loaded_files() + self.crash_files()
    }

    /// Bytes of the backlog.
    pub(super) fn backlog_size(&self) -> u64 {
        if self.empty { 0 } else { u64::from(self.backlog_files()) * self.segment_size.bytes() }
    }

    pub(super) fn data_size(&self) -> Size {
        DATA_SIZE
    }

    /// The backlog, the WAL of pgbench, and what the server keeps ready.
    pub(super) fn wal_size(&self) -> Size {
        Size(self.backlog_size() + 8 * self.segment_size.bytes() + (2 << 30))
    }

    /// The backlog, what pgbench adds to it, and the archivers' own files.
    pub(super) fn archive_size(&self) -> Size {
        Size(self.backlog_size() + 8 * self.segment_size.bytes() + (1 << 30))
    }

    pub(super) fn wal_caps(&self) -> Caps {
        Caps::on_writes(self.wal_iops, self.wal_bps)
    }

    pub(super) fn archive_caps(&self) -> Caps {
        Caps::on_writes(self.archive_iops, self.archive_bps)
    }

    /// By name on the command line, as the report shows them.
    pub(super) fn named(&self) -> BTreeMap<String, Value> {
        let mut named = named(self);
        if self.loaded_files() == 0 {
            named.insert("seconds".to_string(), "none".into());
        }
        named
    }

    /// Settings of all servers.
    pub(super) fn server_settings(&self) -> BTreeMap<String, String> {
        let own = [
            ("shared_buffers", "128MB"),
            // No checkpoint but those asked for: it would recycle WAL, and mark the rest of the backlog as ready.
            ("checkpoint_timeout", "1h"),
            ("max_wal_size", "100GB"),
            ("autovacuum", "off"),
            // A file of an empty backlog must not become WAL.
            ("wal_recycle", "off"),
        ];
        let kept = u64::from(self.files).saturating_sub(REMOVED_FILES) * self.segment_size.bytes();
        let keep = self.empty.then(|| ("wal_keep_size", format!("{}MB", kept >> 20)));
        let own = own.map(|(name, value)| (name, value.to_string()));
        self.common.over(own.into_iter().chain(keep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parsed;

    fn options(words: &[&str]) -> Options {
        parsed(words).unwrap()
    }

    #[test]
    fn the_defaults_are_accepted_and_what_cannot_work_is_named() {
        let all = options(&[]);
        all.check().unwrap();
        assert_eq!(all.named()["archivers"][0], "cp-sync");
        assert_eq!(all.named()["wal-iops"], 800);
        for (words, part) in [
            (["--archivers", "noop"], "--noop-module"),
            (["--archivers", "cp,cp"], "named twice"),
            (["--empty", "--fs=xfs"], "cp-sync has nothing to copy"),
            (["--segment-size", "3MB"], "--segment-size 3MB"),
            (["--seconds", "1"], "--seconds"),
        ] {
            let refusal = options(&words).check().unwrap_err().to_string();
            assert!(refusal.contains(part), "{refusal}");
        }
    }

    #[test]
    fn the_backlog_has_a_part_for_each_drain() {
        let all = options(&[]);
        assert_eq!(all.backlog_files(), all.files + all.files + MOST_CRASH_FILES);
        let alone = options(&["--seconds", "none", "--files", "3"]);
        assert_eq!(alone.backlog_files(), 6);
        let empty = options(&["--empty", "--files", "12000"]);
        assert_eq!((empty.backlog_files(), empty.backlog_size()), (12_000, 0));
        assert_eq!(empty.named()["seconds"], "none");
    }
}
