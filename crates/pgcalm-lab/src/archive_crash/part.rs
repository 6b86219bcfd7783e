//! The three file systems, each on a device of its own.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::Size;
use crate::device::Device;
use crate::filesystem::{FileSystem, Layout};
use crate::options::FsType;
use crate::stage::Stage;

/// XFS refuses less than 300 MB.
const LEAST: u64 = 320 << 20;

/// Segments of 1 MB that a cycle finishes at most, and some room.
const PER_CYCLE: u64 = 24 << 20;

/// What has a file system of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The archive.
    Archive,
    /// The data directory, `pg_wal` included.
    Data,
    /// `pg_wal/archive_status`.
    Status,
}

pgcalm_host::names! { pub fn name(Part), ALL: Archive "archive", Data "data", Status "status" }

impl Part {
    /// Size of its device for so many cycles.
    pub fn size(self, cycles: u32) -> Size {
        Size(match self {
            Self::Archive => LEAST.max((128 << 20) + u64::from(cycles) * PER_CYCLE),
            Self::Data => 512 << 20,
            Self::Status => LEAST,
        })
    }
}

/// A mounted part.
#[derive(Debug)]
pub(super) struct Volume {
    /// Which one.
    pub part: Part,
    // Unmounted before the device goes.
    file_system: FileSystem,
    _device: Device,
}

impl Volume {
    /// Makes device and file system.
    pub(super) fn create(stage: &Stage<'_>, part: Part, fs_type: FsType, cycles: u32) -> anyhow::Result<Self> {
        let role = format!("{}-{}", fs_type.name(), part.name());
        let layout = Layout {
            // No commit of the journal but those that somebody asks for.
            mount_options: match fs_type {
                FsType::Ext4 => "commit=300",
                FsType::Xfs => "",
            },
            ..Layout::default()
        };
        let device = stage.device(&role, part.size(cycles))?;
        Ok(Self { part, file_system: stage.file_system(&role, &device, fs_type, layout)?, _device: device })
    }

    /// What is in it: the data directory, the archive, the directory of status files.
    pub(super) fn directory(&self) -> PathBuf {
        self.file_system.path().join(match self.part {
            Part::Archive => "wal",
            Part::Data => "cluster",
            Part::Status => "archive_status",
        })
    }

    /// Lets everything reach the device.
    pub(super) fn sync(&self) -> anyhow::Result<()> {
        sync(self.file_system.path())
    }

    /// Lets nothing more reach the device, not even the part of the log that is only in memory.
    pub(super) fn cut_power(&self) -> anyhow::Result<()> {
        self.file_system.shut_down()
    }

    /// Mounts what is on the device.
    pub(super) fn mount_again(&mut self) -> anyhow::Result<()> {
        self.file_system.remount()
    }
}

fn sync(directory: &Path) -> anyhow::Result<()> {
    let sync = || -> std::io::Result<()> { Ok(rustix::fs::syncfs(File::open(directory)?)?) };
    sync().with_context(|| format!("sync the file system at {}", directory.display()))
}
