//! Two instances of which one is capped and noisy: what becomes of the other, by how they are laid out.

mod hang;
mod layout;
mod neighbour;
mod options;
mod phase;
mod probe;

use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_report::journal as model;

use crate::Size;
use crate::cap::Capper;
use crate::cap::Caps;
use crate::device::Device;
use crate::device::Kind;
use crate::filesystem;
use crate::filesystem::FileSystem;
use crate::host_facts;
use crate::installation::Installation;
use crate::interference::phase::Pair;
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::lab_dir::LabDir;
use crate::mount_namespace;
use crate::need_root::need_root;
use crate::progress::Progress;
use crate::run_dir::RunDir;
use crate::server::Places;
use crate::server::Server;
use crate::template;
use crate::tool;

pub use layout::LAYOUTS;
pub use layout::Layout;
pub use layout::parse_list;
pub use options::Options;

/// Room for the log of XFS.
const LOG_SIZE: Size = Size(128 << 20);

/// What all layouts of a run share.
struct Surroundings<'a> {
    options: &'a Options,
    lab: &'a LabDir,
    journal: &'a Journal,
    installation: &'a Installation,
    progress: &'a Progress,
    interrupt: &'a Interrupt,
}

/// The devices, which all layouts use in turn.
struct Devices {
    shared: Device,
    /// The neighbour's, where it has one.
    own: Option<Device>,
    log: Option<Device>,
}

/// Runs the layouts and returns the report. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<model::Report> {
    options.check()?;
    let root = HostRoot::default();
    need_root("loop devices, mounts and control groups")?;
    mount_namespace::enter_own()?;
    let installation = Installation::find(&root, options.pg_bindir.as_deref(), interrupt)?;
    let lab = LabDir::open(&root, &options.dir)?;
    let progress = Progress::new();
    let journal = lab.clean_journal(&root, &progress)?;
    need_space(options, &lab)?;
    let started_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let surroundings = Surroundings {
        options,
        lab: &lab,
        journal: &journal,
        installation: &installation,
        progress: &progress,
        interrupt,
    };
    let capper = Capper::of_own_group(&journal)?;
    let mut report = model::Report {
        scenario: model::SCENARIO.to_string(),
        host: host_facts::collect(&root, &installation, started_at, capper.mechanism())?,
        settings: options.named(),
        server_settings: options.server_settings(),
        layouts: Vec::new(),
    };
    progress.note("making devices");
    let devices = devices(&surroundings)?;
    for layout in &options.layouts {
        let result = surroundings
            .run(layout, &devices, &capper)
            .with_context(|| layout.name.to_string())?;
        progress.note(&format!(
            "{}: {:.0} TPS alone, {:.1} with the neighbour; files {:.0} and {:.1} per second; longest connect {:.0} and \
             {:.0} ms",
            layout.name,
            result.alone.tps_mean,
            result.noisy.tps_mean,
            result.alone.files_per_s,
            result.noisy.files_per_s,
            result.alone.connect_max_ms,
            result.noisy.connect_max_ms,
        ));
        report.layouts.push(result);
    }
    Ok(report)
}

fn devices(context: &Surroundings<'_>) -> anyhow::Result<Devices> {
    let Surroundings {
        options,
        lab,
        journal,
        interrupt,
        ..
    } = *context;
    let make = |role: &str, size| {
        let directory = lab.volume(role);
        let kind = Kind::of(options.volume.as_ref(), &directory);
        Device::create(journal, &lab.image(role), size, kind, interrupt)
    };
    let any = |wanted: fn(&Layout) -> bool| options.layouts.iter().any(|layout| wanted(layout));
    Ok(Devices {
        shared: make("victim", options.size)?,
        own: any(|layout| layout.separate)
            .then(|| make("neighbour", options.size))
            .transpose()?,
        log: any(|layout| layout.external_log)
            .then(|| make("log", LOG_SIZE))
            .transpose()?,
    })
}

impl Surroundings<'_> {
    fn run(
        &self,
        layout: &Layout,
        devices: &Devices,
        capper: &Capper,
    ) -> anyhow::Result<model::Layout> {
        self.progress
            .note(&format!("{}: making two clusters", layout.name));
        // Files of this layout only.
        let _run_dir = RunDir::create(self.lab, self.journal, self.installation)?;
        let shared = self.file_system("victim", layout, &devices.shared, devices)?;
        let own = match devices.own.as_ref().filter(|_| layout.separate) {
            Some(device) => Some(self.file_system("neighbour", layout, device, devices)?),
            None => None,
        };
        let capped = match devices.own.as_ref().filter(|_| layout.separate) {
            Some(device) => device,
            None => &devices.shared,
        };
        let victim = self.server(shared.path(), "victim", "v")?;
        let neighbour = self.server(own.as_ref().unwrap_or(&shared).path(), "neighbour", "n")?;
        tool::run(
            victim.client("pgbench").args([
                "-i",
                "-q",
                "-s",
                &self.options.scale.to_string(),
                "postgres",
            ]),
            self.interrupt,
        )?;
        for server in [&victim, &neighbour] {
            server.sql("checkpoint", self.interrupt)?;
        }
        // Twice: what was forked by one that had not been moved yet is seen by then.
        for _ in 0..2 {
            capper.admit(neighbour.pid())?;
        }
        let pair = Pair {
            context: self,
            label: layout.name,
            victim: &victim,
            victim_socket: self.socket("v"),
            neighbour: &neighbour,
            neighbour_socket: self.socket("n"),
            directory: shared.path().to_path_buf(),
            device: &devices.shared,
            capped,
            capper,
            caps: Caps {
                write_iops: Some(self.options.write_iops),
                ..Caps::default()
            },
        };
        let (alone, _) = pair.measure(false)?;
        let (noisy, hangs) = pair.measure(true)?;
        neighbour.discard()?;
        victim.discard()?;
        shared.discard_contents()?;
        if let Some(own) = &own {
            own.discard_contents()?;
        }
        Ok(model::Layout {
            name: layout.name.to_string(),
            description: layout.description.to_string(),
            mount_options: layout.mount_options.to_string(),
            alone,
            noisy,
            hangs,
        })
    }

    fn file_system(
        &self,
        role: &str,
        layout: &Layout,
        device: &Device,
        devices: &Devices,
    ) -> anyhow::Result<FileSystem> {
        FileSystem::create_as(
            self.journal,
            device,
            layout.fs_type,
            filesystem::Layout {
                mount_options: layout.mount_options,
                log: devices.log.as_ref().filter(|_| layout.external_log),
            },
            &self.lab.mountpoint(role),
            self.interrupt,
        )
    }

    /// The name is short: a socket's path has little room.
    fn socket(&self, name: &str) -> PathBuf {
        self.lab.run().join(name)
    }

    fn server(&self, file_system: &Path, name: &str, socket: &str) -> anyhow::Result<Server> {
        let places = Places {
            data: file_system.join(name),
            socket: self.socket(socket),
            log: self.lab.run().join(format!("{name}.log")),
        };
        template::create_private_dir(&places.socket, self.installation)?;
        template::create_private_dir(&places.data, self.installation)?;
        let processes = self
            .journal
            .note(self.installation.processes_in(&places.data))?;
        tool::run(&mut self.installation.initdb(&places.data), self.interrupt)?;
        processes.now()?;
        Server::start(
            self.journal,
            self.installation,
            places,
            &self.options.server_settings(),
            self.interrupt,
        )
    }
}

fn need_space(options: &Options, lab: &LabDir) -> anyhow::Result<()> {
    let needed = options.size.bytes() * 2 + LOG_SIZE.bytes();
    lab.need_space(needed, "a smaller --size")
}
