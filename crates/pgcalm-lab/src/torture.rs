//! Crash cycles: load, a crash, recovery, and the comparison of every row with what clients were told.

mod arena;
mod ledger;
mod load;
mod options;
pub mod report;
mod sabotage;
mod stale;
mod verify;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use fastrand::Rng;

use crate::cap::Capper;
use crate::interrupt::Interrupt;
use crate::options::{FsType, named};
use crate::scenarios::Help;
use crate::stage::{Needs, Stage};
use crate::torture::arena::{Arena, Surroundings};
use crate::torture::report::{Control, Cycle, Report};
use crate::torture::sabotage::Sabotage;

pub use options::{Crash, Options};

/// What the command line says of it.
pub const HELP: Help = Help {
    name: "torture",
    example: "Example: sudo pgcalm lab run torture --cycles 20",
    text: "\
        Crashes under load with pg_calm: is anything lost that was acknowledged, is anything corrupt?\n\n\
        Each cycle: clients upsert rows and note what is acknowledged, checkpoints are asked for at random moments, the \
        server is crashed after 1 to 8 s, recovers, and every row is compared with the notes; then pg_amcheck and \
        pg_checksums. Works beside other labs: it changes no sysctls, and locks its directory only.",
};

/// Crashes that a control has for its loss to be found. Usually one or two do; twelve were too few once, since the crash must come right after a
/// checkpoint, before the worker has flushed what that did not sync.
const CONTROL_CYCLES: u32 = 40;

/// Runs the cycles and returns their report; that something was lost is in the report. Whatever way it ends, the host is
/// as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    options.check()?;
    let needs = Needs { own_mounts: true, module: true, directory_only: true, ..Needs::default() };
    let mut stage = Stage::open(&options.common, needs, interrupt)?;
    // pg_calm.flush_age is there under test only.
    stage.installation.under_test(Path::new("/"));
    let stage = &stage;
    // The control's device comes when those of the cycles are gone.
    let needed = options.size.bytes() * options.file_systems().len() as u64;
    stage.dir.need_space(needed, "a smaller --size")?;
    let _run_dir = stage.run_dir(None)?;
    let capper = match (&options.common.volume, options.iops.0) {
        (Some(_), _) => Some(Capper::of_volumes(&stage.journal)),
        (None, Some(_)) => Capper::of_root_group(&stage.journal)?,
        (None, None) => None,
    };
    let context = Surroundings { options, stage, capper: capper.as_ref() };
    let mechanism = capper.as_ref().map_or("none", Capper::mechanism);
    let mut report = Report {
        scenario: HELP.name.to_string(),
        host: stage.host(mechanism)?,
        settings: named(options),
        server_settings: options.server_settings(),
        interrupted: false,
        cycles: Vec::new(),
        controls: Vec::new(),
    };
    match fill(&context, &mut report) {
        // Cycles may have been made for hours; a loss among them counts.
        Err(_) if interrupt.check().is_err() && !report.cycles.is_empty() => report.interrupted = true,
        done => done?,
    }
    Ok(report)
}

/// The cycles, then the controls; what was done before an error is in the report, too.
fn fill(context: &Surroundings<'_>, report: &mut Report) -> anyhow::Result<()> {
    let mut random = Rng::with_seed(context.options.seed);
    cycles(context, &report.server_settings, &mut random, &mut report.cycles)?;
    if context.options.control {
        for &fs_type in context.options.file_systems() {
            for sabotage in [Sabotage::FsyncOff, Sabotage::UnsyncedFiles] {
                let control = control(context, fs_type, sabotage, &report.server_settings, &mut random)
                    .with_context(|| format!("control on {}", fs_type.name()))?;
                report.controls.push(control);
            }
        }
    }
    Ok(())
}

/// The cycles, on all file systems in turn.
fn cycles(
    context: &Surroundings<'_>,
    settings: &BTreeMap<String, String>,
    random: &mut Rng,
    done: &mut Vec<Cycle>,
) -> anyhow::Result<()> {
    let options = context.options;
    let (cycles, fs, crash) = (options.cycles, options.file_systems(), options.crashes());
    let mut arenas: Vec<Option<Arena<'_>>> = fs.iter().map(|_| None).collect();
    for number in 1..=cycles {
        context.stage.interrupt.check()?;
        let turn = number as usize - 1;
        let fs_type = fs[turn % fs.len()];
        let crash = crash[turn / fs.len() % crash.len()];
        let label = format!("cycle {number} of {cycles} ({}, {})", fs_type.name(), crash.name());
        let place = &mut arenas[turn % fs.len()];
        let mut arena = match place.take() {
            Some(arena) => arena,
            None => Arena::create(context, fs_type, settings).with_context(|| label.clone())?,
        };
        let cycle = arena.cycle(number, crash, random).with_context(|| label.clone())?;
        note(context, &label, &cycle);
        if cycle.is_sound() {
            *place = Some(arena);
        } else {
            // The next one on this file system starts afresh, so that one loss isn't counted again.
            arena.keep_cluster(&cycle)?;
        }
        done.push(cycle);
    }
    Ok(())
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
    let mut place: Option<Arena<'_>> = None;
    let mut control = Control { sabotage: sabotage.name().to_string(), server_settings: own, cycles: Vec::new() };
    for number in 1..=CONTROL_CYCLES {
        let mut arena = match place.take() {
            Some(arena) => arena,
            None => Arena::create(context, fs_type, &settings)?,
        };
        arena.sabotage = Some(sabotage);
        let cycle = arena.cycle(number, Crash::Shutdown, random)?;
        note(context, &format!("control ({}, {})", fs_type.name(), sabotage.name()), &cycle);
        // What went wrong need not be a loss, and what did can't be crashed again.
        place = cycle.is_sound().then_some(arena);
        control.cycles.push(cycle);
        if control.detected() {
            break;
        }
    }
    Ok(control)
}

fn note(context: &Surroundings<'_>, label: &str, cycle: &Cycle) {
    let during = if cycle.checkpoint.is_some() { " in a checkpoint" } else { "" };
    let outcome =
        if cycle.is_sound() { format!("{} rows as they must be", cycle.rows_compared) } else { cycle.findings() };
    context.stage.progress.note(&format!(
        "{label}: {} commits in {:.1} s, {} checkpoints drained, crashed{during}, {} pages bridged, {} flushed; {outcome}",
        cycle.commits, cycle.load_s, cycle.drained_checkpoints, cycle.bridged_pages, cycle.flushed_pages
    ));
}
