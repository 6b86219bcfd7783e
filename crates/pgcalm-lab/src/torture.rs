//! Crash cycles: load, a crash, recovery, and the comparison of every row with what clients were told.

mod arena;
mod ledger;
mod load;
mod options;
mod sabotage;
mod verify;

use std::collections::BTreeMap;
use std::time::SystemTime;

use anyhow::Context;
use fastrand::Rng;
use pgcalm_host::HostRoot;
use pgcalm_report::torture::Control;
use pgcalm_report::torture::Cycle;
use pgcalm_report::torture::Report;
use pgcalm_report::torture::SCENARIO;

use crate::cap::Capper;
use crate::host_facts;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::lab_dir::LabDir;
use crate::module::Module;
use crate::mount_namespace;
use crate::need_root::need_root;
use crate::options::FsType;
use crate::progress::Progress;
use crate::run_dir::RunDir;
use crate::torture::arena::Arena;
use crate::torture::arena::Surroundings;
use crate::torture::sabotage::Sabotage;

pub use options::Crash;
pub use options::Options;

/// Crashes that a control has for its loss to be found; one or two do.
const CONTROL_CYCLES: u32 = 12;

/// Runs the cycles and returns their report; that something was lost is in the report. Whatever way it ends, the host is
/// as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    options.check()?;
    let root = HostRoot::default();
    need_root("loop devices, mounts and cgroup limits")?;
    mount_namespace::enter_own()?;
    let installation = Installation::find(&root, options.pg_bindir.as_deref(), interrupt)?;
    let mut module = Module::find(options.module_dir.as_deref(), &installation, interrupt)?;

    let lab = LabDir::open_torture(&options.dir)?;
    let progress = Progress::new();
    let journal = lab.clean_journal(&root, &progress)?;
    need_space(options, &lab)?;
    let started_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let _run_dir = RunDir::create(&lab, &journal, &installation)?;
    module.settle(&lab.run())?;
    let capper = match (&options.volume, options.iops.0) {
        (None, Some(_)) => Capper::of_root_group(&journal)?,
        // A volume has limits of its own.
        (Some(_), _) | (None, None) => None,
    };
    let mut server_settings = options.server_settings();
    server_settings.extend(module.settings());
    let context = Surroundings {
        options,
        lab: &lab,
        journal: &journal,
        installation: &installation,
        module: &module,
        capper: capper.as_ref(),
        progress: &progress,
        interrupt,
    };
    let mechanism = capper.as_ref().map_or("none", Capper::mechanism);
    let mut report = Report {
        scenario: SCENARIO.to_string(),
        host: host_facts::collect(&root, &installation, started_at, mechanism)?,
        settings: options.named(),
        server_settings,
        cycles: Vec::new(),
        controls: Vec::new(),
    };
    let mut random = Rng::with_seed(options.seed);
    report.cycles = cycles(&context, &report.server_settings, &mut random)?;
    if options.control {
        for &fs_type in &options.fs {
            for sabotage in [Sabotage::FsyncOff, Sabotage::UnsyncedFiles] {
                let control = control(
                    &context,
                    fs_type,
                    sabotage,
                    &report.server_settings,
                    &mut random,
                )
                .with_context(|| format!("control on {}", fs_type.name()))?;
                report.controls.push(control);
            }
        }
    }
    Ok(report)
}

/// The cycles, on all file systems in turn.
fn cycles(
    context: &Surroundings<'_>,
    settings: &BTreeMap<String, String>,
    random: &mut Rng,
) -> anyhow::Result<Vec<Cycle>> {
    let Options {
        cycles, fs, crash, ..
    } = context.options;
    let mut arenas: Vec<Option<Arena<'_>>> = fs.iter().map(|_| None).collect();
    let mut done = Vec::new();
    for number in 1..=*cycles {
        context.interrupt.check()?;
        let turn = number as usize - 1;
        let fs_type = fs[turn % fs.len()];
        let crash = crash[turn / fs.len() % crash.len()];
        let label = format!(
            "cycle {number} of {cycles} ({}, {})",
            fs_type.name(),
            crash.name()
        );
        let place = &mut arenas[turn % fs.len()];
        let mut arena = match place.take() {
            Some(arena) => arena,
            None => Arena::create(context, fs_type, settings).with_context(|| label.clone())?,
        };
        let cycle = arena
            .cycle(number, crash, random)
            .with_context(|| label.clone())?;
        note(context, &label, &cycle);
        if cycle.is_sound() {
            *place = Some(arena);
        } else {
            // The next one on this file system starts afresh, so that one loss isn't counted again.
            arena.keep_cluster(&cycle)?;
        }
        done.push(cycle);
    }
    Ok(done)
}

/// Crashes of a server that doesn't sync as it should, until what it lost is found.
fn control(
    context: &Surroundings<'_>,
    fs_type: FsType,
    sabotage: Sabotage,
    settings: &BTreeMap<String, String>,
    random: &mut Rng,
) -> anyhow::Result<Control> {
    let own = sabotage.settings();
    let mut settings = settings.clone();
    settings.extend(own.clone());
    let mut arena = Arena::create(context, fs_type, &settings)?;
    arena.sabotage = Some(sabotage);
    let mut control = Control {
        sabotage: sabotage.name().to_string(),
        server_settings: own,
        cycles: Vec::new(),
    };
    for number in 1..=CONTROL_CYCLES {
        let cycle = arena.cycle(number, Crash::Shutdown, random)?;
        note(
            context,
            &format!("control ({}, {})", fs_type.name(), sabotage.name()),
            &cycle,
        );
        control.cycles.push(cycle);
        if control.detected() {
            break;
        }
    }
    Ok(control)
}

fn note(context: &Surroundings<'_>, label: &str, cycle: &Cycle) {
    let during = if cycle.checkpoint.is_some() {
        " in a checkpoint"
    } else {
        ""
    };
    let outcome = if cycle.is_sound() {
        format!("{} rows as they must be", cycle.rows_compared)
    } else {
        cycle.findings()
    };
    context.progress.note(&format!(
        "{label}: {} commits in {:.1} s, crashed{during}, {} pages bridged, {} flushed; {outcome}",
        cycle.commits, cycle.load_s, cycle.bridged_pages, cycle.flushed_pages
    ));
}

fn need_space(options: &Options, lab: &LabDir) -> anyhow::Result<()> {
    // The control's device comes when those of the cycles are gone.
    let needed = options.size.bytes() * options.fs.len() as u64;
    lab.need_space(needed, "a smaller --size")
}
