//! The devices of one server, and its cluster on them.

use std::path::PathBuf;

use anyhow::Context;

use crate::device::{Device, Kind};
use crate::filesystem::{FileSystem, Layout};
use crate::journal::{Change, Undo};
use crate::network::End;
use crate::options::FsType;
use crate::replica::Options;
use crate::replica::options::DATA_SIZE;
use crate::server::Places;
use crate::stage::Stage;
use crate::{network, shared_file, template};

/// One server's devices, which its clusters of all cases use in turn.
#[derive(Debug)]
pub(super) struct Devices {
    end: End,
    /// With everything else.
    pub data: Device,
    /// With WAL only.
    pub wal: Device,
}

impl Devices {
    /// Makes them.
    pub(super) fn create(stage: &Stage<'_>, end: End, options: &Options) -> anyhow::Result<Self> {
        let device = |name: &str, size| {
            let role = format!("{}-{name}", end.name());
            match options.max_io {
                None => stage.device(&role, size),
                max_io => stage.device_of(Kind::Loop { max_io }, &role, size),
            }
        };
        Ok(Self { end, data: device("data", DATA_SIZE)?, wal: device("wal", options.wal_size)? })
    }

    /// Mounts new file systems with a copy of `base`.
    pub(super) fn mount(&self, stage: &Stage<'_>, base: &Base) -> anyhow::Result<Side> {
        let name = self.end.name();
        let mount = |role: &str, device| {
            let role = format!("{name}-{role}");
            stage.file_system(&role, device, FsType::Ext4, Layout::default())
        };
        let data = mount("data", &self.data)?;
        let wal = mount("wal", &self.wal)?;
        let run = stage.dir.run();
        let places = Places {
            data: data.path().join("cluster"),
            // One letter: a socket's path has little room.
            socket: run.join(&name[..1]),
            log: run.join(format!("{name}.log")),
        };
        stage.private_dir(&places.socket)?;
        template::copy_tree(
            &base.path,
            &places.data,
            Some(&wal.path().join("pg_wal")),
            &stage.installation,
            stage.interrupt,
        )?;
        Ok(Side { places, data, wal })
    }
}

/// One server's mounted file systems.
#[derive(Debug)]
pub(super) struct Side {
    /// Where its files are.
    pub places: Places,
    data: FileSystem,
    wal: FileSystem,
}

impl Side {
    /// Part of the WAL file system that is free, 0 to 1.
    pub(super) fn wal_free(&self) -> anyhow::Result<f64> {
        let space = rustix::fs::statvfs(self.wal.path())?;
        Ok(space.f_bavail as f64 / space.f_blocks.max(1) as f64)
    }

    /// Removes everything, so that unmounting has nothing to write.
    pub(super) fn discard_contents(&self) -> anyhow::Result<()> {
        self.data.discard_contents()?;
        self.wal.discard_contents()
    }
}

/// A new cluster, shut down: primary and standby begin as copies of it, which spares a base backup.
#[derive(Debug)]
pub(super) struct Base {
    path: PathBuf,
    _directory: Undo,
}

impl Base {
    /// Makes it.
    pub(super) fn create(stage: &Stage<'_>) -> anyhow::Result<Self> {
        let path = stage.dir.base();
        let directory = stage.journal.note(Change::Directory { path: path.clone() })?;
        stage.new_cluster(&path, &[])?;
        // Nobody else is in that network.
        let access = path.join("pg_hba.conf");
        let line = format!("host replication postgres {} trust\n", network::NETWORK);
        shared_file::append(&access, line).with_context(|| format!("write {}", access.display()))?;
        Ok(Self { path, _directory: directory })
    }
}
