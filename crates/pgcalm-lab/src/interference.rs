//! Two instances of which one is capped and noisy: what becomes of the other, by how they are laid out.

mod device_rates;
mod hang;
mod layout;
mod login;
mod neighbour;
mod options;
mod phase;
mod probe;
pub mod report;

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cap::{Capper, Caps};
use crate::device::Device;
use crate::filesystem;
use crate::filesystem::FileSystem;
use crate::interference::phase::Pair;
use crate::interference::report as model;
use crate::interrupt::Interrupt;
use crate::options::{MountOptions, named};
use crate::scenarios::Help;
use crate::server::{Places, Server};
use crate::stage::{Needs, Stage};
use crate::tool;

pub use layout::{LAYOUTS, Layout};
pub use options::Options;

/// What the command line says of it.
pub const HELP: Help = Help {
    name: "journal",
    example: "Example: sudo pgcalm lab run journal --quick",
    text: "\
        Two instances, one capped and making databases: does the other hang in the journal, and which layout helps?\n\n\
        For each layout: two new clusters; pgbench, connects and a process that makes and syncs files on the one, first \
        with the other idle, then with sessions of the other making databases under its cap; and a look, ten times a \
        second, at where processes are stuck in the kernel.",
};

/// What all layouts of a run share; the devices are used in turn.
struct Surroundings<'a> {
    options: &'a Options,
    stage: &'a Stage<'a>,
    shared: Device,
    /// The neighbour's, where it has one.
    own: Option<Device>,
    log: Option<Device>,
    capper: Capper,
}

/// Runs the layouts and returns the report. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<model::Report> {
    options.check()?;
    let needs = Needs { own_mounts: true, ..Needs::default() };
    let stage = &Stage::open(&options.common, needs, interrupt)?;
    let needed = options.size.bytes() * 2 + options.log_size.bytes();
    stage.dir.need_space(needed, "a smaller --size")?;
    let capper = Capper::of_own_group(&stage.journal, "")?;
    stage.progress.note("making devices");
    let any = |wanted: fn(&Layout) -> bool| options.layouts.iter().any(|layout| wanted(layout));
    let surroundings = Surroundings {
        options,
        stage,
        shared: stage.device("victim", options.size)?,
        own: any(|layout| layout.separate).then(|| stage.device("neighbour", options.size)).transpose()?,
        log: any(|layout| layout.external_log).then(|| stage.device("log", options.log_size)).transpose()?,
        capper,
    };
    let mut report = model::Report {
        scenario: HELP.name.to_string(),
        host: stage.host(surroundings.capper.mechanism())?,
        settings: named(options),
        server_settings: options.server_settings(),
        layouts: Vec::new(),
    };
    for layout in &options.layouts {
        let result = surroundings.run(layout).with_context(|| layout.name.to_string())?;
        stage.progress.note(&format!(
            "{}: {:.0} TPS alone, {:.1} with the neighbour; files {:.0} and {:.1} per second; longest connect {:.0} and \
             {:.0} ms, with a cold relcache {:.0} and {:.0} ms",
            layout.name,
            result.alone.tps_mean,
            result.noisy.tps_mean,
            result.alone.files_per_s,
            result.noisy.files_per_s,
            result.alone.connect_max_ms,
            result.noisy.connect_max_ms,
            result.alone.cold_connect_max_ms,
            result.noisy.cold_connect_max_ms,
        ));
        report.layouts.push(result);
    }
    Ok(report)
}

impl Surroundings<'_> {
    fn run(&self, layout: &Layout) -> anyhow::Result<model::Layout> {
        let stage = self.stage;
        stage.progress.note(&format!("{}: making two clusters", layout.name));
        // Files of this layout only.
        let _run_dir = stage.run_dir(Some(&format!("journal-{}", layout.name)))?;
        let shared = self.file_system("victim", layout, &self.shared)?;
        let device = self.own.as_ref().filter(|_| layout.separate);
        let own = device.map(|device| self.file_system("neighbour", layout, device)).transpose()?;
        let capped = device.unwrap_or(&self.shared);
        let victim = self.server(shared.path(), "victim", "v")?;
        let neighbour = self.server(own.as_ref().unwrap_or(&shared).path(), "neighbour", "n")?;
        tool::run(
            victim.client("pgbench").args(["-i", "-q", "-s", &self.options.scale.to_string(), "postgres"]),
            stage.interrupt,
        )?;
        for server in [&victim, &neighbour] {
            server.sql("checkpoint", stage.interrupt)?;
        }
        // Twice: what was forked by one that had not been moved yet is seen by then.
        for _ in 0..2 {
            self.capper.admit(neighbour.pid())?;
        }
        let pair = Pair {
            context: self,
            label: layout.name,
            victim: &victim,
            victim_socket: self.socket("v"),
            victim_data: data(shared.path(), "victim"),
            neighbour: &neighbour,
            neighbour_socket: self.socket("n"),
            directory: shared.path().to_path_buf(),
            devices: std::iter::once(("data", &self.shared))
                .chain(device.map(|own| ("neighbour", own)))
                .chain(self.log.as_ref().filter(|_| layout.external_log).map(|log| ("log", log)))
                .collect(),
            capped,
            caps: Caps { write_iops: Some(self.options.write_iops), ..Caps::default() },
        };
        let (alone, _) = pair.measure(false)?;
        let (noisy, hangs) = pair.measure(true)?;
        let mount_options = shared.options()?;
        neighbour.discard()?;
        victim.discard()?;
        shared.discard_contents()?;
        if let Some(own) = &own {
            own.discard_contents()?;
        }
        Ok(model::Layout {
            name: layout.name.to_string(),
            description: layout.description.to_string(),
            mount_options,
            alone,
            noisy,
            hangs,
        })
    }

    fn file_system(&self, role: &str, layout: &Layout, device: &Device) -> anyhow::Result<FileSystem> {
        let given = self.options.mount_options.as_ref().map_or("", MountOptions::as_str);
        let mount_options = [layout.mount_options, given].into_iter().filter(|options| !options.is_empty());
        let how = filesystem::Layout {
            mount_options: &mount_options.collect::<Vec<_>>().join(","),
            mkfs_options: self.options.mkfs_options.as_ref(),
            log: self.log.as_ref().filter(|_| layout.external_log),
        };
        self.stage.file_system(role, device, layout.fs_type, how)
    }

    /// The name is short: a socket's path has little room.
    fn socket(&self, name: &str) -> PathBuf {
        self.stage.dir.run().join(name)
    }

    fn server(&self, file_system: &Path, name: &str, socket: &str) -> anyhow::Result<Server> {
        let places = Places {
            data: data(file_system, name),
            socket: self.socket(socket),
            log: self.stage.dir.run().join(format!("{name}.log")),
        };
        self.stage.private_dir(&places.socket)?;
        self.stage.new_cluster(&places.data, &[])?;
        self.stage.start(places, &self.options.server_settings())
    }
}

/// The data directory of an instance.
fn data(file_system: &Path, name: &str) -> PathBuf {
    file_system.join(name)
}
