//! The devices of a contest: one for the data and one for the WAL, or one for both, with their limits; and a server with a
//! loaded table and a warm page cache on them.
//!
//! Limits hold only while what [`Devices::limit`] returns is there: making and restoring needs no measured device.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pgcalm_volume::Volume;

use crate::cap::{Capper, Caps, InForce};
use crate::contest::report::{Cap, CapKind};
use crate::contest::{Options, recycled_wal};
use crate::contestant::Contestant;
use crate::control_group::ControlGroup;
use crate::device::{CLOUD_READ_AHEAD, Device, Kind};
use crate::device_files::DeviceFiles;
use crate::filesystem::{FileSystem, Layout};
use crate::options::{CapIn, CapWay, DeviceStore, MountOptions, VolumeLayout};
use crate::server::Server;
use crate::stage::Stage;
use crate::template::Template;
use crate::volume_process::{VolumeProcess, VolumeReader};
use crate::{Size, memory, tool, warm};

/// The devices and what holds for everything on them.
#[derive(Debug)]
pub(crate) struct Devices<'a> {
    stage: &'a Stage<'a>,
    // Undone in this order.
    /// With the data.
    pub data: Device,
    /// Absent where WAL lies on the device of the data.
    wal: Option<Device>,
    memory: Option<ControlGroup>,
    capper: Capper,
    _files: DeviceFiles<'a>,
}

impl<'a> Devices<'a> {
    /// Makes the devices, empty, and the group that plays the host's memory.
    pub(crate) fn create(stage: &'a Stage<'a>, options: &Options) -> anyhow::Result<Self> {
        let journal = &stage.journal;
        let volume = options.common.volume.as_ref();
        let capper = if volume.is_some() || options.cap == Some(CapWay::None) {
            Capper::of_volumes(journal)
        } else if options.cap_in == CapIn::Own {
            Capper::of_own_group(journal, "")?
        } else {
            Capper::new(journal)?
        };
        let memory = match options.memory {
            Some(size) => Some(memory::group(journal, size, "memory", "", capper.group_of_v2())?),
            None => None,
        };
        let layout = options.layout();
        stage.progress.note(&match layout {
            VolumeLayout::One => format!("making a device of {}", options.data_device_size()),
            VolumeLayout::Two => {
                format!("making devices of {} (data) and {} (WAL)", options.data_device_size(), options.wal_size())
            }
        });
        let files = DeviceFiles::create(&stage.dir, journal, options.devices, options.device_sizes())?;
        let device = |role: &str, size, volume: Option<&Volume>, max_io| {
            let directory = stage.dir.volume(role);
            let kind = match volume {
                Some(volume) => Kind::Volume { volume, directory: &directory },
                None => Kind::Loop { max_io },
            };
            let image = files.image(role);
            let mut device = Device::create(journal, &image, size, kind, stage.interrupt)?;
            device.stack(journal, options.stack, stage.interrupt)?;
            if let Some(size) = options.read_ahead {
                device.read_ahead(journal, size)?;
            }
            anyhow::Ok(device)
        };
        let data = device("data", options.data_device_size(), volume, options.data_max_io)?;
        let wal = match layout {
            VolumeLayout::One => None,
            VolumeLayout::Two => {
                Some(device("wal", options.wal_size(), options.wal_volume.as_ref().or(volume), options.wal_max_io)?)
            }
        };
        Ok(Self { stage, data, wal, memory, capper, _files: files })
    }

    /// How devices are capped, as reports name it.
    pub(crate) fn cap_mechanism(&self, options: &Options) -> &'static str {
        if options.cap == Some(CapWay::None) { "none" } else { self.capper.mechanism() }
    }

    /// What keeps the devices from being as fast as they are, for the headline of a report.
    pub(crate) fn cap(&self, options: &Options) -> Cap {
        let memory = options.memory.map(|size| format!("a control group of {size}"));
        let Some(volume) = &options.common.volume else {
            return Cap { memory, ..Cap::of_mechanism(self.cap_mechanism(options)) };
        };
        let wal = options.wal_volume.as_ref().filter(|wal| *wal != volume);
        let description = match (&self.wal, wal) {
            (None, _) => format!("one emulated {}", volume.description()),
            (Some(_), None) => format!("two volumes, each an emulated {}", volume.description()),
            (Some(_), Some(wal)) => {
                format!("data on an emulated {}; WAL on an emulated {}", volume.description(), wal.description())
            }
        };
        // Conditions have what was asked for.
        let description = match options.read_ahead {
            None => format!("{description}; read-ahead {CLOUD_READ_AHEAD}"),
            Some(_) => description,
        };
        Cap { kind: CapKind::CloudVolume, description, memory }
    }

    /// The group that plays the host's memory.
    pub(crate) fn memory_group(&self) -> Option<&ControlGroup> {
        self.memory.as_ref()
    }

    /// Names of the devices that hold data, and WAL alone.
    pub(crate) fn names(&self) -> (Vec<String>, Vec<String>) {
        (vec![self.data.name.clone()], self.wal.iter().map(|device| device.name.clone()).collect())
    }

    /// Of those that are emulated volumes.
    pub(crate) fn volume_readers(&self) -> Vec<VolumeReader> {
        let devices = std::iter::once(&self.data).chain(&self.wal);
        devices.filter_map(Device::volume).map(VolumeProcess::reader).collect()
    }

    /// Puts the limits of the devices in force, until the result is dropped.
    pub(crate) fn limit(&self, options: &Options, contestant: &Contestant) -> anyhow::Result<Vec<InForce>> {
        let mut limits = Vec::new();
        if contestant.data_capped {
            let caps = options.data_caps(contestant);
            limits.extend(self.capper.apply(&self.data, caps)?);
        }
        if let Some(wal) = &self.wal {
            limits.extend(self.capper.apply(wal, options.wal_caps())?);
        }
        Ok(limits)
    }

    /// Halves the limits that [`limit`](Self::limit) has put in force, until the result is dropped.
    pub(crate) fn halve(&self, options: &Options, contestant: &Contestant) -> anyhow::Result<Vec<InForce>> {
        const PERCENT: u32 = 50;
        let mut limits = Vec::new();
        let devices = [
            (Some(&self.data).filter(|_| contestant.data_capped), options.data_caps(contestant)),
            (self.wal.as_ref(), options.wal_caps()),
        ];
        for (device, caps) in devices {
            let Some(device) = device else { continue };
            match device.volume() {
                Some(volume) => limits.push(InForce::Volume(volume.limit_to(PERCENT)?)),
                None => {
                    let half = caps.scaled(PERCENT);
                    limits.extend(self.capper.change(&device.number, half, caps)?);
                }
            }
        }
        Ok(limits)
    }

    /// Lets the device of the data answer nothing for `time`, or until the result is dropped; with caps of control groups,
    /// which can't do that, an operation per second.
    pub(crate) fn hang(
        &self,
        options: &Options,
        contestant: &Contestant,
        time: Duration,
    ) -> anyhow::Result<Vec<InForce>> {
        match self.data.volume() {
            Some(volume) => Ok(vec![InForce::Volume(volume.hang(time)?)]),
            None => {
                let nearly = Caps { write_iops: Some(1), read_iops: Some(1), ..Caps::default() };
                let caps = options.data_caps(contestant);
                self.capper.change(&self.data.number, nearly, caps)
            }
        }
    }

    /// Takes a process into the memory that is played, if there is any.
    pub(crate) fn admit_to_memory(&self, pid: i32) -> anyhow::Result<()> {
        self.memory.as_ref().map_or(Ok(()), |memory| memory.admit(pid))
    }

    /// Takes a server and its processes into all groups.
    pub(crate) fn admit(&self, pid: i32) -> anyhow::Result<()> {
        self.capper.admit(pid)?;
        self.admit_to_memory(pid)
    }

    /// Takes a process beside the server into the groups that it would be in on such a host: under the same caps, unless they
    /// are the server's alone.
    pub(crate) fn admit_beside(&self, options: &Options, pid: i32) -> anyhow::Result<()> {
        if options.cap_in == CapIn::Root {
            self.capper.admit(pid)?;
        }
        self.admit_to_memory(pid)
    }

    /// A command for a program on the same volume as the server: under the same caps, unless they are the server's alone.
    pub(crate) fn command(&self, options: &Options, program: &Path) -> Command {
        match options.cap_in {
            CapIn::Root => self.capper.command(program),
            CapIn::Own => tool::command(program),
        }
    }

    /// The group that plays the host's memory, and its size.
    pub(crate) fn memory(&self, options: &Options) -> Option<(&ControlGroup, Size)> {
        self.memory.as_ref().zip(options.memory)
    }

    /// With cgroup v2, where what limits something else of the server has to go, too.
    pub(crate) fn group_of_v2(&self) -> Option<&Path> {
        let memory = self.memory.as_ref().and_then(ControlGroup::of_v2);
        memory.or_else(|| self.capper.group_of_v2())
    }

    /// Restores the table of `template` on new file systems, warms the page cache and starts a server with `settings`.
    pub(crate) fn serve(
        &self,
        options: &Options,
        template: &Template,
        settings: &BTreeMap<String, String>,
    ) -> anyhow::Result<Scene> {
        self.serve_after(options, template, settings, |_cluster| Ok(()))
    }

    /// The same; `before` comes between the filling of the page cache and the start.
    pub(crate) fn serve_after(
        &self,
        options: &Options,
        template: &Template,
        settings: &BTreeMap<String, String>,
        before: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<Scene> {
        let Stage { installation, interrupt, .. } = self.stage;
        let started = Instant::now();
        let mut data = self.file_system(options, "data", &self.data)?;
        let mut wal = match &self.wal {
            Some(device) => Some(self.file_system(options, "wal", device)?),
            None => None,
        };
        let cluster = data.path().join("cluster");
        let pg_wal = wal.as_ref().map(|wal| wal.path().join("pg_wal"));
        template.copy_to(&cluster, pg_wal.as_deref(), self.stage)?;
        recycled_wal::prepare(
            pg_wal.as_deref().unwrap_or(&cluster.join("pg_wal")),
            recycled_wal::bytes(options.seconds_to_recycling(), options.wal_size(), settings),
            installation,
            interrupt,
        )?;
        // Drops the page cache of the copy, whose folios are as large as its writes were.
        data.remount()?;
        if let Some(wal) = &mut wal {
            wal.remount()?;
        }
        let copied = Instant::now();
        self.warm(options, &cluster)?;
        before(&cluster)?;
        let read = Instant::now();
        let server = self.stage.start(self.stage.places(cluster.clone()), settings)?;
        self.admit(server.pid())?;
        Ok(Scene { server, cluster, data, wal, copying: copied - started, reading: read - copied })
    }

    /// Fills the page cache with the tables of a cluster.
    pub(crate) fn warm(&self, options: &Options, cluster: &Path) -> anyhow::Result<()> {
        let Stage { progress, interrupt, .. } = self.stage;
        match &self.memory {
            None => warm::warm(cluster, options.warm(), progress, interrupt),
            Some(memory) => warm::warm_in(memory, cluster, options.warm(), progress, interrupt),
        }
    }

    fn file_system(&self, options: &Options, role: &str, device: &Device) -> anyhow::Result<FileSystem> {
        if options.devices == DeviceStore::Memory {
            // What one contestant has written is not to be the next one's advantage.
            device.discard(self.stage.interrupt)?;
        }
        let mount_options = options.mount_options.as_ref();
        let mount_options = mount_options.map_or("", MountOptions::as_str);
        let layout = Layout { mount_options, ..Layout::default() };
        self.stage.file_system(role, device, options.fs, layout)
    }
}

/// A server on the devices.
#[derive(Debug)]
pub(crate) struct Scene {
    /// The server.
    pub server: Server,
    /// Its data directory.
    pub cluster: PathBuf,
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
    /// Where the file system with WAL is mounted.
    pub(crate) fn wal_path(&self) -> &Path {
        self.wal.as_ref().unwrap_or(&self.data).path()
    }

    /// Leaves on the devices of a killed server what a power cut would: its page cache is lost.
    pub(crate) fn lose_power(&mut self) -> anyhow::Result<()> {
        let file_systems = || [Some(&self.data), self.wal.as_ref()].into_iter().flatten();
        file_systems().try_for_each(FileSystem::shut_down)?;
        self.data.remount()?;
        self.wal.as_mut().map_or(Ok(()), FileSystem::remount)
    }

    /// Ends the server at once and throws its data away, so that unmounting has nothing to write.
    pub(crate) fn discard(self) -> anyhow::Result<()> {
        self.server.discard()?;
        self.data.discard_contents()?;
        if let Some(wal) = &self.wal {
            wal.discard_contents()?;
        }
        Ok(())
    }
}
