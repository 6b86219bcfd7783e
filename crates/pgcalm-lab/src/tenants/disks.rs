//! What the instances' files lie on: volumes of each on one device, or two file systems that all of them share.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;

use anyhow::Context;

use crate::cap::{Capper, Caps, InForce};
use crate::device::{Device, Kind};
use crate::filesystem::{FileSystem, Layout};
use crate::options::{FsType, MountOptions};
use crate::stage::Stage;
use crate::template::Template;
use crate::tenants::options::{Options, Ownership};
use crate::tenants::pool;
use crate::tenants::pool::{Volume, Volumes};

/// For names of the device that all volumes are on, and of where these are mounted.
const POOL: &str = "tenants";

/// Devices for all contestants, and what is copied to them.
pub(super) enum Disks<'a> {
    /// Parts of a pool are the volumes; file systems are copied block by block.
    Own { pool: Box<Device>, models: Box<[Device; 2]> },
    /// Data and WAL of all; new file systems for each contestant.
    Shared { devices: Box<[Device; 2]>, template: &'a Template },
}

impl<'a> Disks<'a> {
    pub(super) fn create(options: &Options, stage: &Stage<'_>, template: &'a Template) -> anyhow::Result<Self> {
        let (number, size) = (options.instances, options.device_size());
        match options.file_systems {
            Ownership::Own => {
                stage.progress.note(&format!("making a device of {size} for {number} instances"));
                Ok(Self::Own {
                    pool: Box::new(stage.device(POOL, size)?),
                    models: Box::new(models(options, stage, template)?),
                })
            }
            Ownership::Shared => {
                let [data, wal] = options.shared_sizes();
                stage.progress.note(&format!("making devices of {data} (data) and {wal} (WAL) for {number} instances"));
                let devices = Box::new([stage.device("data", data)?, stage.device("wal", wal)?]);
                Ok(Self::Shared { devices, template })
            }
        }
    }

    /// The device whose writes are reported as those of data.
    pub(super) fn data(&self) -> &Device {
        match self {
            Self::Own { pool, .. } => pool,
            Self::Shared { devices, .. } => &devices[0],
        }
    }

    /// Limits of the devices themselves, or of the root group: for all that is sent to a pool; on a shared device for what is in
    /// no instance's group, the kernel's flusher and the journal.
    pub(super) fn cap(&self, capper: &Capper, options: &Options) -> anyhow::Result<Vec<InForce>> {
        let mut caps = match self.data().limit()? {
            Some(limits) => vec![InForce::Volume(limits)],
            None => capper.apply(self.data(), Caps::on_writes(options.device_iops, options.device_bps))?,
        };
        if let Self::Shared { devices, .. } = self {
            caps.extend(devices[1].limit()?.map(InForce::Volume));
        }
        Ok(caps)
    }

    /// What a contestant's instances are put on.
    pub(super) fn mount<'b>(&'b self, options: &Options, stage: &'b Stage<'_>) -> anyhow::Result<Mounted<'b>> {
        Ok(match self {
            Self::Own { pool, models } => Mounted::Own(
                Box::new(Volumes::new(
                    &stage.journal,
                    pool,
                    &stage.dir.image(POOL),
                    stage.dir.mountpoint(POOL),
                    options.mount_options.as_ref(),
                )?),
                models,
            ),
            Self::Shared { devices, template } => {
                let mount = |role: &str, device: &'b Device| -> anyhow::Result<_> {
                    Ok((device, stage.file_system(role, device, FsType::Ext4, Layout::default())?))
                };
                Mounted::Shared(Box::new([mount("data", &devices[0])?, mount("wal", &devices[1])?]), template)
            }
        })
    }
}

/// File systems of data and WAL that those of all tenants are copies of, with a loaded cluster; not mounted.
fn models(options: &Options, stage: &Stage<'_>, template: &Template) -> anyhow::Result<[Device; 2]> {
    let device = |role: &str, size| -> anyhow::Result<Device> {
        let device = stage.device_of(Kind::LOOP, &format!("model-{role}"), size)?;
        pool::mark_untouched(&device, size, stage.interrupt)?;
        Ok(device)
    };
    let models = [device("data", options.data_size())?, device("wal", options.wal_size())?];
    let mount = |role: &str, device: &Device| {
        let role = format!("model-{role}");
        stage.file_system(&role, device, FsType::Ext4, Layout::default())
    };
    let data = mount("data", &models[0])?;
    let wal = mount("wal", &models[1])?;
    template.copy_to(&data.path().join("cluster"), Some(&wal.path().join("pg_wal")), stage)?;
    Ok(models)
}

/// Mounted for a contestant. Undone when dropped.
pub(super) enum Mounted<'a> {
    /// Each instance gets volumes of its own.
    Own(Box<Volumes<'a>>, &'a [Device; 2]),
    /// Each gets a directory on both: data and WAL.
    Shared(Box<[(&'a Device, FileSystem); 2]>, &'a Template),
}

impl Mounted<'_> {
    /// Copies the loaded cluster for the instance of this index: where its data and its WAL are.
    pub(super) fn add(&self, options: &Options, stage: &Stage<'_>, index: u32) -> anyhow::Result<[Volume; 2]> {
        let number = index + 1;
        match self {
            Self::Own(volumes, models) => {
                let (data_size, wal_size) = (options.data_size(), options.wal_size());
                let offset = u64::from(index) * (data_size.bytes() + wal_size.bytes());
                let interrupt = stage.interrupt;
                let data = volumes.add(&format!("data-{number}"), &models[0], offset, data_size, interrupt)?;
                let offset = offset + data_size.bytes();
                let wal = volumes.add(&format!("wal-{number}"), &models[1], offset, wal_size, interrupt)?;
                let link = data.path.join("cluster/pg_wal");
                fs::remove_file(&link).with_context(|| format!("remove {}", link.display()))?;
                symlink(wal.path.join("pg_wal"), &link)?;
                Ok([data, wal])
            }
            Self::Shared(file_systems, template) => {
                let place = |(device, file_system): &(&Device, FileSystem)| -> anyhow::Result<Volume> {
                    let path = file_system.path().join(number.to_string());
                    stage.private_dir(&path)?;
                    Ok(Volume { name: device.name.clone(), number: device.number.clone(), path })
                };
                let [data, wal] = [place(&file_systems[0])?, place(&file_systems[1])?];
                template.copy_again_to(&data.path.join("cluster"), &wal.path.join("pg_wal"), stage)?;
                Ok([data, wal])
            }
        }
    }

    /// When all are there: shared file systems are mounted again, with the options asked for, and with nothing cached.
    pub(super) fn settle(&mut self, options: &Options) -> anyhow::Result<()> {
        if let Self::Shared(file_systems, _) = self {
            let asked = CString::new(options.mount_options.as_ref().map_or("", MountOptions::as_str))?;
            for (_, file_system) in file_systems.iter_mut() {
                file_system.remount_with(&asked)?;
            }
        }
        Ok(())
    }

    /// When all have ended: nothing of them needs to be written.
    pub(super) fn discard(&self) -> anyhow::Result<()> {
        match self {
            Self::Own(..) => Ok(()),
            Self::Shared(file_systems, _) => file_systems.iter().try_for_each(|(_, on)| on.discard_contents()),
        }
    }
}
