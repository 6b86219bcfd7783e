//! Where a server is watched: devices with their limits, the kernel's and the host's memory, file systems, a restored
//! table in a warm page cache, and the server.
//!
//! The host is changed by [`Stage::build`] and what it calls, and is as before when all of it is dropped. Limits hold only
//! while what [`Stage::limit`] returns is there: making and restoring needs no measured device.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use pgcalm_report::model::Cap;
use pgcalm_report::model::CapKind;
use pgcalm_volume::Volume;

use crate::cap::Capper;
use crate::cap::InForce;
use crate::contest::Options;
use crate::contest::recycled_wal;
use crate::contestant::Contestant;
use crate::device::Device;
use crate::device::Kind;
use crate::device_files::DeviceFiles;
use crate::filesystem::FileSystem;
use crate::filesystem::Layout;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::journal::Undo;
use crate::lab_dir::LabDir;
use crate::memory::MemoryGroup;
use crate::options::CapIn;
use crate::options::CapWay;
use crate::options::DeviceStore;
use crate::options::MountOptions;
use crate::options::VolumeLayout;
use crate::progress::Progress;
use crate::server::Places;
use crate::server::Server;
use crate::sysctl;
use crate::template::Template;
use crate::warm;

/// What of the host a stage is made with.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// Where files are.
    pub lab: &'a LabDir,
    /// Where changes are noted.
    pub journal: &'a Journal,
    /// Whose programs run.
    pub installation: &'a Installation,
    /// Where it is told what goes on.
    pub progress: &'a Progress,
    /// What ends it early.
    pub interrupt: &'a Interrupt,
}

/// The devices and what holds for everything on them.
#[derive(Debug)]
pub struct Stage<'a> {
    options: &'a Options,
    host: Surroundings<'a>,
    // Undone in this order.
    data: Device,
    /// Absent where WAL lies on the device of the data.
    wal: Option<Device>,
    memory: Option<MemoryGroup>,
    capper: Capper,
    _files: DeviceFiles<'a>,
    _sysctls: Vec<Undo>,
}

impl<'a> Stage<'a> {
    /// Makes the devices, empty, and the group that plays the host's memory; sets sysctls.
    pub fn build(options: &'a Options, host: Surroundings<'a>) -> anyhow::Result<Self> {
        let Surroundings { lab, journal, .. } = host;
        let sysctls = sysctl::apply(journal, options.sysctl())?;
        let capper = if options.volume.is_some() || options.cap == Some(CapWay::None) {
            Capper::of_volumes(journal)
        } else if options.cap_in == CapIn::Own {
            Capper::of_own_group(journal)?
        } else {
            Capper::new(journal)?
        };
        let memory = match options.memory {
            Some(size) => Some(MemoryGroup::create(journal, size, capper.group_of_v2())?),
            None => None,
        };
        let layout = options.layout();
        host.progress.note(&match layout {
            VolumeLayout::One => format!("making a device of {}", options.data_device_size()),
            VolumeLayout::Two => format!(
                "making devices of {} (data) and {} (WAL)",
                options.data_device_size(),
                options.wal_size()
            ),
        });
        let files = DeviceFiles::create(lab, journal, options.devices, options.device_sizes())?;
        let device = |role: &str, size, volume: Option<&Volume>, max_io| {
            let directory = lab.volume(role);
            let kind = match volume {
                Some(volume) => Kind::Volume {
                    volume,
                    directory: &directory,
                },
                None => Kind::Loop { max_io },
            };
            Device::create(journal, &files.image(role), size, kind, host.interrupt)
        };
        let volume = options.volume.as_ref();
        let data = device(
            "data",
            options.data_device_size(),
            volume,
            options.data_max_io,
        )?;
        let wal = match layout {
            VolumeLayout::One => None,
            VolumeLayout::Two => Some(device(
                "wal",
                options.wal_size(),
                options.wal_volume.as_ref().or(volume),
                options.wal_max_io,
            )?),
        };
        Ok(Self {
            options,
            host,
            data,
            wal,
            memory,
            capper,
            _files: files,
            _sysctls: sysctls,
        })
    }

    /// How devices are capped, as reports name it.
    pub fn cap_mechanism(&self) -> &'static str {
        if self.options.cap == Some(CapWay::None) {
            "none"
        } else {
            self.capper.mechanism()
        }
    }

    /// What keeps the devices from being as fast as they are, for the headline of a report.
    pub fn cap(&self) -> Cap {
        let options = self.options;
        let memory = options
            .memory
            .map(|size| format!("a control group of {size}"));
        let Some(volume) = &options.volume else {
            return Cap {
                memory,
                ..Cap::of_mechanism(self.cap_mechanism())
            };
        };
        let wal = options.wal_volume.as_ref().filter(|wal| *wal != volume);
        let description = match (&self.wal, wal) {
            (None, _) => format!("one volume like {}", volume.description()),
            (Some(_), None) => format!("two volumes, each like {}", volume.description()),
            (Some(_), Some(wal)) => format!(
                "a data volume like {}; a WAL volume like {}",
                volume.description(),
                wal.description()
            ),
        };
        Cap {
            kind: CapKind::CloudVolume,
            description,
            memory,
        }
    }

    /// Name of the device that holds data.
    pub fn data_device_name(&self) -> &str {
        &self.data.name
    }

    /// Names of the devices that hold data, and WAL alone.
    pub fn device_names(&self) -> (Vec<String>, Vec<String>) {
        (
            vec![self.data.name.clone()],
            self.wal.iter().map(|device| device.name.clone()).collect(),
        )
    }

    /// Puts the limits of the devices in force, until the result is dropped.
    pub fn limit(&self, contestant: &Contestant) -> anyhow::Result<Vec<InForce>> {
        let mut limits = Vec::new();
        if contestant.data_capped {
            let caps = self.options.data_caps(contestant);
            limits.extend(self.capper.apply(&self.data, caps)?);
        }
        if let Some(wal) = &self.wal {
            limits.extend(self.capper.apply(wal, self.options.wal_caps())?);
        }
        Ok(limits)
    }

    /// Restores the table of `template` on new file systems, warms the page cache and starts a server with `settings`.
    pub fn serve(
        &self,
        template: &Template,
        settings: &BTreeMap<String, String>,
    ) -> anyhow::Result<Scene> {
        let Surroundings {
            lab,
            journal,
            installation,
            progress,
            interrupt,
        } = self.host;
        let started = Instant::now();
        let mut data = self.file_system("data", &self.data)?;
        let mut wal = match &self.wal {
            Some(device) => Some(self.file_system("wal", device)?),
            None => None,
        };
        let cluster = data.path().join("cluster");
        let pg_wal = wal.as_ref().map(|wal| wal.path().join("pg_wal"));
        template.copy_to(&cluster, pg_wal.as_deref(), installation, interrupt)?;
        recycled_wal::prepare(
            pg_wal.as_deref().unwrap_or(&cluster.join("pg_wal")),
            recycled_wal::bytes(
                self.options.warm_up.0 + self.options.seconds.0,
                self.options.wal_size(),
                settings,
            ),
            installation,
            interrupt,
        )?;
        // Drops the page cache of the copy, whose folios are as large as its writes were.
        data.remount()?;
        if let Some(wal) = &mut wal {
            wal.remount()?;
        }
        let copied = Instant::now();
        match &self.memory {
            None => warm::warm(&cluster, self.options.warm, progress, interrupt)?,
            Some(memory) => {
                warm::warm_in(memory, &cluster, self.options.warm, progress, interrupt)?;
            }
        }
        let read = Instant::now();
        let server = Server::start(
            journal,
            installation,
            Places {
                data: cluster,
                socket: lab.run(),
                log: lab.run().join("server.log"),
            },
            settings,
            interrupt,
        )?;
        self.capper.admit(server.pid())?;
        if let Some(memory) = &self.memory {
            memory.admit(server.pid())?;
        }
        Ok(Scene {
            server,
            data,
            wal,
            copying: copied - started,
            reading: read - copied,
        })
    }

    fn file_system(&self, role: &str, device: &Device) -> anyhow::Result<FileSystem> {
        if self.options.devices == DeviceStore::Memory {
            // What one contestant has written is not to be the next one's advantage.
            device.discard(self.host.interrupt)?;
        }
        let mount_options = self.options.mount_options.as_ref();
        FileSystem::create_as(
            self.host.journal,
            device,
            self.options.fs,
            Layout {
                mount_options: mount_options.map_or("", MountOptions::as_str),
                log: None,
            },
            &self.host.lab.mountpoint(role),
            self.host.interrupt,
        )
        .with_context(|| format!("file system of {role}"))
    }
}

/// A server on a stage.
#[derive(Debug)]
pub struct Scene {
    /// The server.
    pub server: Server,
    /// What its data lie on.
    pub data: FileSystem,
    /// What its WAL lies on, where that is not the same.
    wal: Option<FileSystem>,
    /// How long it took to make the file systems and to copy the table to them.
    pub copying: Duration,
    /// How long it took to fill the page cache.
    pub reading: Duration,
}

impl Scene {
    /// Ends the server at once and throws its data away, so that unmounting has nothing to write.
    pub fn discard(self) -> anyhow::Result<()> {
        self.server.discard()?;
        self.data.discard_contents()?;
        if let Some(wal) = &self.wal {
            wal.discard_contents()?;
        }
        Ok(())
    }
}
