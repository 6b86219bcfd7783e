//! Where scenarios play: a directory of this host with a journal of what is changed, PostgreSQL's programs, perhaps the
//! module, and what is built of these: devices, file systems, clusters, servers.
//!
//! Whatever is made here is taken down when the guard that stands for it is dropped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use pgcalm_host::HostRoot;

use crate::device::{Device, Kind};
use crate::filesystem::{FileSystem, Layout};
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::journal::{Change, Journal, Undo};
use crate::lab_dir::LabDir;
use crate::module::Module;
use crate::need_root::need_root;
use crate::options::{Common, FsType};
use crate::progress::Progress;
use crate::report::Host;
use crate::run_dir::RunDir;
use crate::server::{Places, Server};
use crate::{Size, host_facts, mount_namespace, private_dir, tool};

/// What a scenario needs besides.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    /// Mounts of which nobody else on the host can have a copy.
    pub own_mounts: bool,
    /// The server module.
    pub module: bool,
    /// Nothing: it can have trouble.
    pub troubles: bool,
    /// Nothing but its directory: others may measure beside it.
    pub directory_only: bool,
}

/// A lab at work.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    /// What was chosen for all scenarios.
    pub common: &'a Common,
    /// What ends it early.
    pub interrupt: &'a Interrupt,
    /// Whose programs run.
    pub installation: Installation,
    /// Where it is told what goes on.
    pub progress: Progress,
    module: Option<Module>,
    started_at: String,
    _libraries: Undo,
    /// Where changes are noted.
    pub journal: Journal,
    /// Where files are; given up last.
    pub dir: LabDir,
}

impl<'a> Stage<'a> {
    /// Takes the directory, cleans up after an earlier run, and finds the programs. From now on this process is the only lab
    /// on the host, or in the directory.
    pub(crate) fn open(common: &'a Common, needs: Needs, interrupt: &'a Interrupt) -> anyhow::Result<Self> {
        if !needs.troubles {
            common.refuse_trouble()?;
        }
        let root = HostRoot::default();
        need_root("loop devices, mounts and control groups")?;
        if needs.own_mounts {
            mount_namespace::enter_own()?;
        }
        let installation = Installation::find(&root, common.pg_bindir.as_deref(), interrupt)?;
        let mut module =
            needs.module.then(|| Module::find(common.module_dir.as_deref(), &installation, interrupt)).transpose()?;
        let dir =
            if needs.directory_only { LabDir::open_torture(&common.dir)? } else { LabDir::open(&root, &common.dir)? };
        let progress = Progress::new();
        let journal = dir.clean_journal(&root, &progress)?;
        let started_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let path = dir.libraries();
        let libraries = journal.note(Change::Directory { path: path.clone() })?;
        fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        if let Some(module) = &mut module {
            module.settle(&path)?;
        }
        Ok(Self { common, interrupt, installation, progress, module, started_at, _libraries: libraries, journal, dir })
    }

    /// The host.
    pub(crate) fn root(&self) -> &HostRoot {
        self.journal.root()
    }

    /// What a report says about the host; `cap_mechanism` is how devices are capped.
    pub(crate) fn host(&self, cap_mechanism: &str) -> anyhow::Result<Host> {
        host_facts::collect(
            self.root(),
            &self.installation,
            self.module.as_ref().map(|module| module.sum.clone()),
            self.started_at.clone(),
            cap_mechanism,
        )
    }

    /// Makes the directory of a run, for its sockets and logs. With `--keep` it stays under `name` if there is one.
    pub(crate) fn run_dir(&self, name: Option<&str>) -> anyhow::Result<RunDir> {
        let mut run_dir = RunDir::create(&self.dir, &self.journal, &self.installation)?;
        run_dir.keep_as = name.filter(|_| self.common.keep).map(|name| self.dir.kept().join(name));
        Ok(run_dir)
    }

    /// Where a file appears in place of `source`, which servers may not be able to reach, and stays the same until the end.
    pub(crate) fn library(&self, source: &Path, name: &str) -> std::io::Result<PathBuf> {
        let target = self.dir.libraries().join(name);
        fs::copy(source, &target)?;
        Ok(target)
    }

    /// Makes a device for `role`: a volume if one was asked for.
    pub(crate) fn device(&self, role: &str, size: Size) -> anyhow::Result<Device> {
        let directory = self.dir.volume(role);
        let kind = Kind::of(self.common.volume.as_ref(), &directory);
        self.device_of(kind, role, size)
    }

    /// Makes a device that is what it is, whatever was asked for.
    pub(crate) fn device_of(&self, kind: Kind<'_>, role: &str, size: Size) -> anyhow::Result<Device> {
        let image = self.dir.image(role);
        Device::create(&self.journal, &image, size, kind, self.interrupt)
    }

    /// Makes a file system and mounts it.
    pub(crate) fn file_system(
        &self,
        role: &str,
        device: &Device,
        fs_type: FsType,
        layout: Layout<'_>,
    ) -> anyhow::Result<FileSystem> {
        FileSystem::create_as(&self.journal, device, fs_type, layout, &self.dir.mountpoint(role), self.interrupt)
            .with_context(|| format!("file system of {role}"))
    }

    /// A new directory of the servers' user.
    pub(crate) fn private_dir(&self, path: &Path) -> anyhow::Result<()> {
        private_dir::create(path, &self.installation)
    }

    /// Makes a cluster in `data`, in the place of whatever is there.
    pub(crate) fn new_cluster(&self, data: &Path, arguments: &[&str]) -> anyhow::Result<()> {
        if data.exists() {
            fs::remove_dir_all(data)?;
        }
        self.private_dir(data)?;
        let processes = self.journal.note(self.installation.processes_in(data))?;
        tool::run(self.installation.initdb(data).args(arguments), self.interrupt)?;
        processes.now()
    }

    /// Starts a server; it finds the module.
    pub(crate) fn start(&self, places: Places, settings: &BTreeMap<String, String>) -> anyhow::Result<Server> {
        let mut settings = settings.clone();
        settings.extend(self.module.as_ref().and_then(Module::settings));
        Server::start(&self.journal, &self.installation, places, &settings, self.interrupt)
    }

    /// Places of a server on `data`, with socket and log in the directory of the run.
    pub(crate) fn places(&self, data: PathBuf) -> Places {
        let run = self.dir.run();
        Places { data, log: run.join("server.log"), socket: run }
    }

    /// Creates functions and views of what the server has loaded.
    pub(crate) fn create_functions(&self, server: &Server) -> anyhow::Result<()> {
        if let Some(module) = &self.module {
            let loaded = server.sql("show shared_preload_libraries", self.interrupt)?;
            server.sql(&module.create(loaded.trim()), self.interrupt).context("create the functions of pg_calm")?;
        }
        Ok(())
    }
}
