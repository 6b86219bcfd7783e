//! Power cuts at every step of archiving: is each finished WAL segment still there, in `pg_wal` or whole in the archive?
//!
//! Data with WAL, the archive, and `archive_status` are on a file system each, so that no journal puts what is on one of them
//! into order with what is on another.

mod arena;
mod options;
mod part;
mod point;
pub mod report;
mod segments;

use std::collections::BTreeMap;

use anyhow::Context;
use fastrand::Rng;

use crate::archive_crash::arena::Arena;
use crate::archive_crash::part::Part;
use crate::archive_crash::point::{Interference, POINTS};
use crate::archive_crash::report::{Control, Cycle, Report};
use crate::interrupt::Interrupt;
use crate::options::{FsType, named};
use crate::scenarios::Help;
use crate::stage::{Needs, Stage};
use crate::tool;

pub use options::{Options, Sabotage};

/// What the command line says of it.
pub const HELP: Help = Help {
    name: "archive-crash",
    example: "Example: sudo pgcalm lab run archive-crash --fs both --cycles 20 --control directory,cp",
    text: "\
        Power cuts at every step of archiving: is a finished WAL segment lost, changed or announced in vain?\n\n\
        Data with WAL, the archive, and archive_status are on a file system each. In each cycle the archiver, a worker \
        of pg_calm or the checkpointer is stopped right after one of its calls (strace), and all three file systems are \
        shut down without flushing their logs, some of them right after a sync. After the mount and again after recovery \
        each finished segment has to be in pg_wal or whole in the archive. Works beside other labs: it locks its \
        directory only.",
};

/// Power cuts that a control has for its loss to be found; one or two do.
const CONTROL_CYCLES: u32 = 5;

/// Runs the cycles and returns their report; that something was lost is in the report. Whatever way it ends, the host is
/// as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    options.check()?;
    let needs = Needs { own_mounts: true, module: true, directory_only: true, ..Needs::default() };
    let stage = &Stage::open(&options.common, needs, interrupt)?;
    // Better now than after the devices are made.
    tool::run(tool::command("strace").arg("-V"), interrupt)?;
    let cycles_of_arena = options.cycles.max(CONTROL_CYCLES);
    let of_arena: u64 = Part::ALL.map(|part| part.size(cycles_of_arena).bytes()).iter().sum();
    let needed = of_arena * options.file_systems().len() as u64;
    stage.dir.need_space(needed, "fewer --cycles")?;
    let _run_dir = stage.run_dir(None)?;
    let mut report = Report {
        scenario: HELP.name.to_string(),
        host: stage.host("none")?,
        settings: named(options),
        server_settings: options.server_settings(),
        interrupted: false,
        cycles: Vec::new(),
        controls: Vec::new(),
    };
    match fill(options, stage, &mut report) {
        // As of torture: what was found until then counts.
        Err(_) if interrupt.check().is_err() && !report.cycles.is_empty() => report.interrupted = true,
        done => done?,
    }
    Ok(report)
}

/// The cycles, then the controls; what was done before an error is in the report, too.
fn fill(options: &Options, stage: &Stage<'_>, report: &mut Report) -> anyhow::Result<()> {
    let mut random = Rng::with_seed(options.seed);
    cycles(options, stage, &mut random, &mut report.cycles)?;
    for &sabotage in &options.control {
        for &fs_type in options.file_systems() {
            let control = control(options, stage, fs_type, sabotage, &mut random)
                .with_context(|| format!("control {} on {}", sabotage.name(), fs_type.name()))?;
            report.controls.push(control);
        }
    }
    Ok(())
}

/// The cycles, on all file systems in turn. They end early if a server does not recover.
fn cycles(options: &Options, stage: &Stage<'_>, random: &mut Rng, done: &mut Vec<Cycle>) -> anyhow::Result<()> {
    let fs = options.file_systems();
    let mut arenas: BTreeMap<&str, Arena<'_>> = BTreeMap::new();
    for number in 1..=options.cycles {
        stage.interrupt.check()?;
        let turn = number as usize - 1;
        let fs_type = fs[turn % fs.len()];
        let point = &POINTS[turn / fs.len() % POINTS.len()];
        let label = format!("cycle {number} of {} ({}, {})", options.cycles, fs_type.name(), point.name());
        if !arenas.contains_key(fs_type.name()) {
            let arena = Arena::create(options, stage, fs_type, None, options.cycles).with_context(|| label.clone())?;
            arenas.insert(fs_type.name(), arena);
        }
        let Some(arena) = arenas.get_mut(fs_type.name()) else { continue };
        let cycle = arena.cycle(number, Interference::Stop(point), random).with_context(|| label.clone())?;
        note(stage, &label, &cycle);
        let goes_on = cycle.recovery_s.is_some();
        done.push(cycle);
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// Power cuts of a server that does not archive as it should, until what it lost is found.
fn control(
    options: &Options,
    stage: &Stage<'_>,
    fs_type: FsType,
    sabotage: Sabotage,
    random: &mut Rng,
) -> anyhow::Result<Control> {
    let mut arena = Arena::create(options, stage, fs_type, Some(sabotage), CONTROL_CYCLES)?;
    let mut control = Control {
        name: sabotage.name().to_string(),
        sabotage: sabotage.description().to_string(),
        fs: fs_type.name().to_string(),
        cycles: Vec::new(),
    };
    for number in 1..=CONTROL_CYCLES {
        let cycle = arena.cycle(number, Interference::Sabotage(sabotage), random)?;
        let label = format!("control {} ({})", sabotage.name(), fs_type.name());
        note(stage, &label, &cycle);
        let goes_on = cycle.recovery_s.is_some();
        control.cycles.push(cycle);
        if control.detected() || !goes_on {
            break;
        }
    }
    Ok(control)
}

fn note(stage: &Stage<'_>, label: &str, cycle: &Cycle) {
    let how = match (&cycle.point, cycle.stopped) {
        (None, _) => "power cut".to_string(),
        (Some(_), true) => format!("stopped after call {}, power cut", cycle.call),
        (Some(_), false) => format!("call {} never came, power cut", cycle.call),
    };
    let outcome =
        if cycle.is_sound() { format!("{} segments as they must be", cycle.segments) } else { cycle.findings() };
    stage.progress.note(&format!("{label}: {how}; {outcome}"));
}
