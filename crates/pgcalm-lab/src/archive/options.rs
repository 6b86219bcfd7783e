use std::collections::BTreeMap;
use std::path::PathBuf;

use pgcalm_volume::Volume;
use serde_json::Value;

use crate::LabError;
use crate::Limit;
use crate::Seconds;
use crate::Size;
use crate::archive::archiver::Archiver;
use crate::archive::archiver::Way;
use crate::cap::Caps;
use crate::contestant::ServerSetting;
use crate::options::FsType;

/// Most files of a drain that is traced and ended by a crash: tracing is slow, and these are enough to count.
const MOST_CRASH_FILES: u32 = 16;

/// How many files of an empty backlog the checkpoint after it removes: enough that what precedes removal is done, and not
/// so many that removing, one sync for each, is what it measures.
const REMOVED_FILES: u64 = 64;

/// Size of the cluster's device: the table of pgbench, what it grows by, and pgBackRest's spool.
const DATA_SIZE: Size = Size(1 << 30);

/// Everything that can be chosen about archivers.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the lab.
    pub dir: PathBuf,
    /// Directory of the server programs; the newest installed if not given.
    pub pg_bindir: Option<PathBuf>,
    /// Directory where pg_calm was built; the installed one if not given.
    pub module_dir: Option<PathBuf>,
    /// The archive module that copies nothing, a shared library.
    pub noop_module: Option<PathBuf>,
    /// Who takes part.
    pub archivers: Vec<&'static Archiver>,
    /// WAL files of a drain.
    pub files: u32,
    /// Whether the files are empty and there is only acknowledging to do.
    pub empty: bool,
    /// Size of a WAL file.
    pub segment_size: Size,
    /// Write operations per second of pg_wal's device.
    pub wal_iops: Limit<u32>,
    /// Bytes written per second to pg_wal's device.
    pub wal_bps: Limit<Size>,
    /// Write operations per second of the archive's device.
    pub archive_iops: Limit<u32>,
    /// Bytes written per second to the archive's device.
    pub archive_bps: Limit<Size>,
    /// File system of all devices.
    pub fs: FsType,
    /// Connections of pgbench.
    pub clients: u32,
    /// Duration of pgbench; `None`: there is none.
    pub seconds: Limit<Seconds>,
    /// Runs of each archiver.
    pub repeat: u32,
    /// Server settings for all.
    pub set: Vec<ServerSetting>,
    /// The devices are volumes that behave like this, limits included, instead of what caps on them there would be.
    pub volume: Option<Volume>,
    /// Whether logs are kept.
    pub keep: bool,
}

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), LabError> {
        let ranges = [
            ("files", u64::from(self.files), 1, 100_000),
            ("clients", u64::from(self.clients), 1, 1000),
            ("repeat", u64::from(self.repeat), 1, 100),
        ];
        for (option, value, low, high) in ranges {
            if value < low || value > high {
                return Err(LabError::Usage(format!(
                    "--{option} {value}: use a value from {low} to {high}"
                )));
            }
        }
        let size = self.segment_size.bytes();
        if !size.is_power_of_two() || !(1 << 20..=1 << 30).contains(&size) {
            return Err(LabError::Usage(format!(
                "--segment-size {}: use a power of two from 1MB to 1GB",
                self.segment_size
            )));
        }
        if let Some(seconds) = self.seconds.0
            && !(5..=3600).contains(&seconds.0)
        {
            return Err(LabError::Usage(format!(
                "--seconds {seconds}: use a value from 5 to 3600, or none"
            )));
        }
        for archiver in &self.archivers {
            if matches!(archiver.way, Way::Noop { .. }) && self.noop_module.is_none() {
                return Err(LabError::Usage(format!(
                    "--archivers {}: name the module that copies nothing with --noop-module (make -C bench/noop_archive)",
                    archiver.name
                )));
            }
            if archiver.copies() && self.empty {
                return Err(LabError::Usage(format!(
                    "--empty: {} has nothing to copy then; use --archivers noop,noop-pg_calm",
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
        if self.empty {
            0
        } else {
            self.files.min(MOST_CRASH_FILES)
        }
    }

    /// WAL files of all drains.
    pub(super) fn backlog_files(&self) -> u32 {
        self.files + self.loaded_files() + self.crash_files()
    }

    /// Bytes of the backlog.
    pub(super) fn backlog_size(&self) -> u64 {
        if self.empty {
            0
        } else {
            u64::from(self.backlog_files()) * self.segment_size.bytes()
        }
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
        let names: Vec<&str> = self.archivers.iter().map(|a| a.name).collect();
        let set: Vec<String> = self
            .set
            .iter()
            .map(|s| format!("{}={}", s.name, s.value))
            .collect();
        [
            ("archivers", Value::from(names.join(","))),
            ("files", self.files.into()),
            ("empty", self.empty.into()),
            ("segment-size", self.segment_size.to_string().into()),
            ("wal-iops", self.wal_iops.to_string().into()),
            ("wal-bps", self.wal_bps.to_string().into()),
            ("archive-iops", self.archive_iops.to_string().into()),
            ("archive-bps", self.archive_bps.to_string().into()),
            ("fs", self.fs.name().into()),
            ("clients", self.clients.into()),
            (
                "seconds",
                match self.loaded_files() {
                    0 => "none".into(),
                    _ => self.seconds.to_string().into(),
                },
            ),
            ("repeat", self.repeat.into()),
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
        let keep = self
            .empty
            .then(|| ("wal_keep_size".to_string(), format!("{}MB", kept >> 20)));
        own.into_iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .chain(keep)
            .chain(self.set.iter().map(|s| (s.name.clone(), s.value.clone())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::archiver;
    use crate::scenarios::archive::full;

    fn refusal(options: &Options) -> String {
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn the_preset_is_accepted_and_what_cannot_work_is_named() {
        assert!(full().check().is_ok());
        let noop = archiver::parse_list("noop").unwrap();
        let without = Options {
            archivers: noop.clone(),
            ..full()
        };
        assert!(refusal(&without).contains("--noop-module"));
        let copies = Options {
            empty: true,
            ..full()
        };
        assert!(refusal(&copies).contains("cp-sync has nothing to copy"));
        let odd = Options {
            segment_size: Size(3 << 20),
            ..full()
        };
        assert!(refusal(&odd).contains("--segment-size 3MB"));
        let short = Options {
            seconds: Limit(Some(Seconds(1))),
            ..full()
        };
        assert!(refusal(&short).contains("--seconds"));
    }

    #[test]
    fn the_backlog_has_a_part_for_each_drain() {
        let all = full();
        assert_eq!(
            all.backlog_files(),
            all.files + all.files + MOST_CRASH_FILES
        );
        let alone = Options {
            seconds: Limit(None),
            files: 3,
            ..full()
        };
        assert_eq!(alone.backlog_files(), 6);
        let empty = Options {
            empty: true,
            files: 12_000,
            ..full()
        };
        assert_eq!((empty.backlog_files(), empty.backlog_size()), (12_000, 0));
    }
}
