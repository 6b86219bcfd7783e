//! Archivers draining the same backlog of WAL in turn: how fast, at what cost, and whether what they acknowledge
//! survives a power cut.

pub mod archiver;
mod arena;
mod backlog;
mod cost;
mod feed;
mod options;
mod pgbackrest;
mod survivors;
mod tracer;

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_report::archive::Archiver;
use pgcalm_report::archive::Report;
use pgcalm_report::archive::SCENARIO;

use crate::LabError;
use crate::archive::archiver::Places;
use crate::archive::arena::Surroundings;
use crate::archive::backlog::Backlog;
use crate::cap::Capper;
use crate::device::Device;
use crate::device::Kind;
use crate::host_facts;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::lab_dir::LabDir;
use crate::module::Module;
use crate::mount_namespace;
use crate::need_root::need_root;
use crate::progress::Progress;
use crate::run_dir::RunDir;

pub use options::Options;

/// Runs the archivers and returns their report. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    options.check()?;
    let root = HostRoot::default();
    need_root("loop devices, mounts and cgroup limits")?;
    mount_namespace::enter_own()?;
    let installation = Installation::find(&root, options.pg_bindir.as_deref(), interrupt)?;
    let mut module = if options.archivers.iter().any(|a| a.needs_module()) {
        Some(Module::find(
            options.module_dir.as_deref(),
            &installation,
            interrupt,
        )?)
    } else {
        None
    };
    let lab = LabDir::open(&root, &options.dir)?;
    let progress = Progress::new();
    let journal = lab.clean_journal(&root, &progress)?;
    need_space(options, &lab)?;
    let started_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let backlog = {
        let _run_dir = RunDir::create(&lab, &journal, &installation)?;
        Backlog::obtain(options, &lab, &journal, &installation, &progress, interrupt)?
    };
    let libraries = Libraries::create(&lab, &journal, options, module.as_mut())?;
    let capper = Capper::of(&journal, options.volume.as_ref())?;
    progress.note(&format!(
        "making devices of {} (data), {} (pg_wal) and {} (archive)",
        options.data_size(),
        options.wal_size(),
        options.archive_size()
    ));
    let device = |role: &str, size| {
        let directory = lab.volume(role);
        let kind = Kind::of(options.volume.as_ref(), &directory);
        Device::create(&journal, &lab.image(role), size, kind, interrupt)
    };
    let data = device("data", options.data_size())?;
    let wal = device("wal", options.wal_size())?;
    let archive = device("archive", options.archive_size())?;
    let mut report = Report {
        scenario: SCENARIO.to_string(),
        host: host_facts::collect(&root, &installation, started_at, capper.mechanism())?,
        settings: options.named(),
        dd_mib_per_s: Vec::new(),
        archivers: options
            .archivers
            .iter()
            .map(|archiver| Archiver {
                name: archiver.name.to_string(),
                description: archiver.description(),
                copies: archiver.copies(),
                server_settings: archiver.settings(&Places {
                    archive: &lab.mountpoint("archive").join("wal"),
                    pgbackrest_configuration: &lab.run().join("pgbackrest.conf"),
                    noop_module: libraries.noop.as_ref(),
                }),
                runs: Vec::new(),
            })
            .collect(),
    };
    let context = Surroundings {
        options,
        lab: &lab,
        journal: &journal,
        installation: &installation,
        module: module.as_ref(),
        noop_module: libraries.noop.as_ref(),
        backlog: &backlog,
        capper: &capper,
        data: &data,
        wal: &wal,
        archive: &archive,
        progress: &progress,
        interrupt,
    };
    for repetition in 1..=options.repeat {
        if options.archivers.iter().any(|archiver| archiver.copies()) {
            let speed = context.dd_mib_per_s().context("dd")?;
            progress.note(&format!("dd conv=fsync: {speed:.0} MiB/s"));
            report.dd_mib_per_s.push(speed);
        }
        for (archiver, entry) in options.archivers.iter().zip(&mut report.archivers) {
            let label = if options.repeat > 1 {
                format!("{} (run {repetition} of {})", archiver.name, options.repeat)
            } else {
                archiver.name.to_string()
            };
            let run = context
                .run(archiver, &label)
                .with_context(|| label.clone())?;
            entry.runs.push(run);
        }
    }
    Ok(report)
}

/// The modules, where servers can read them, whatever directory they were built in, and stay the same until the end.
struct Libraries {
    noop: Option<PathBuf>,
    _directory: crate::journal::Undo,
}

impl Libraries {
    fn create(
        lab: &LabDir,
        journal: &Journal,
        options: &Options,
        module: Option<&mut Module>,
    ) -> anyhow::Result<Self> {
        let path = lab.libraries();
        let directory = journal.note(crate::journal::Change::Directory { path: path.clone() })?;
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir(&path).with_context(|| format!("create {}", path.display()))?;
        if let Some(module) = module {
            module.settle(&path)?;
        }
        let noop = match &options.noop_module {
            Some(source) => {
                let target = path.join("noop_archive.so");
                fs::copy(source, &target).map_err(|error| {
                    LabError::Usage(format!(
                        "--noop-module {}: {error}; make -C bench/noop_archive builds it",
                        source.display()
                    ))
                })?;
                Some(target)
            }
            None => None,
        };
        Ok(Self {
            noop,
            _directory: directory,
        })
    }
}

fn need_space(options: &Options, lab: &LabDir) -> anyhow::Result<()> {
    // The template holds the backlog once more.
    let needed = options.data_size().bytes()
        + options.wal_size().bytes()
        + options.archive_size().bytes()
        + options.backlog_size();
    lab.need_space(needed, "fewer --files")
}
