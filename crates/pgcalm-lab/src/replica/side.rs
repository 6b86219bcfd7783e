//! The devices of one server, and its cluster on them.

use std::fs;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use pgcalm_volume::Volume;

use crate::Size;
use crate::device::Device;
use crate::device::Kind;
use crate::filesystem::FileSystem;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::journal::Change;
use crate::journal::Journal;
use crate::journal::Undo;
use crate::lab_dir::LabDir;
use crate::network;
use crate::network::End;
use crate::options::FsType;
use crate::server::Places;
use crate::template;
use crate::tool;

/// One server's devices, which its clusters of all cases use in turn.
#[derive(Debug)]
pub struct Devices {
    end: End,
    /// With everything else.
    pub data: Device,
    /// With WAL only.
    pub wal: Device,
}

impl Devices {
    /// Makes them.
    pub fn create(
        journal: &Journal,
        lab: &LabDir,
        end: End,
        data_size: Size,
        wal_size: Size,
        volume: Option<&Volume>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let make = |role: &str, size| {
            let role = format!("{}-{role}", end.name());
            let directory = lab.volume(&role);
            let kind = Kind::of(volume, &directory);
            Device::create(journal, &lab.image(&role), size, kind, interrupt)
        };
        Ok(Self {
            end,
            data: make("data", data_size)?,
            wal: make("wal", wal_size)?,
        })
    }

    /// Mounts new file systems with a copy of `base`.
    pub fn mount(
        &self,
        journal: &Journal,
        lab: &LabDir,
        base: &Base,
        installation: &Installation,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Side> {
        let mount = |role: &str, device| {
            let target = lab.mountpoint(&format!("{}-{role}", self.end.name()));
            FileSystem::create(journal, device, FsType::Ext4, &target, interrupt)
        };
        let data = mount("data", &self.data)?;
        let wal = mount("wal", &self.wal)?;
        let name = self.end.name();
        // One letter: a socket's path has little room.
        let socket = lab.run().join(&name[..1]);
        template::create_private_dir(&socket, installation)?;
        let places = Places {
            data: data.path().join("cluster"),
            socket,
            log: lab.run().join(format!("{name}.log")),
        };
        template::copy_tree(
            &base.path,
            &places.data,
            Some(&wal.path().join("pg_wal")),
            installation,
            interrupt,
        )?;
        Ok(Side { places, data, wal })
    }
}

/// One server's mounted file systems.
#[derive(Debug)]
pub struct Side {
    /// Where its files are.
    pub places: Places,
    data: FileSystem,
    wal: FileSystem,
}

impl Side {
    /// Part of the WAL file system that is free, 0 to 1.
    pub fn wal_free(&self) -> anyhow::Result<f64> {
        let space = rustix::fs::statvfs(self.wal.path())?;
        Ok(space.f_bavail as f64 / space.f_blocks.max(1) as f64)
    }

    /// Removes everything, so that unmounting has nothing to write.
    pub fn discard_contents(&self) -> anyhow::Result<()> {
        self.data.discard_contents()?;
        self.wal.discard_contents()
    }
}

/// A new cluster, shut down: primary and standby begin as copies of it, which spares a base backup.
#[derive(Debug)]
pub struct Base {
    path: PathBuf,
    _directory: Undo,
}

impl Base {
    /// Makes it.
    pub fn create(
        journal: &Journal,
        lab: &LabDir,
        installation: &Installation,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let path = lab.base();
        let directory = journal.note(Change::Directory { path: path.clone() })?;
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        template::create_private_dir(&path, installation)?;
        let processes = journal.note(installation.processes_in(&path))?;
        tool::run(&mut installation.initdb(&path), interrupt)?;
        processes.now()?;
        // Nobody else is in that network.
        let access = path.join("pg_hba.conf");
        OpenOptions::new()
            .append(true)
            .open(&access)
            .and_then(|mut file| {
                writeln!(file, "host replication postgres {} trust", network::NETWORK)
            })
            .with_context(|| format!("write {}", access.display()))?;
        Ok(Self {
            path,
            _directory: directory,
        })
    }
}
