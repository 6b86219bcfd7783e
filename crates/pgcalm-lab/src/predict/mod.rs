//! Predictions against measurements: for each point of a grid a server is observed in shadow mode, what pg_calm would do is
//! predicted, and then measured with pg_calm on.

pub mod grid;
pub mod report;

mod arena;
mod measured;
mod options;

use anyhow::Context;

use crate::contest::devices::Devices;
use crate::contest::need;
use crate::contestant::{CONTESTANTS, Contestant};
use crate::interrupt::Interrupt;
use crate::predict::report as model;
use crate::scenarios::Help;
use crate::stage::{Needs, Stage};
use arena::Arena;

pub use options::Options;

/// What the command line says of it.
pub const HELP: Help = Help {
    name: "predict",
    example: "Example: sudo pgcalm lab run predict --quick",
    text: "\
        Over a grid of tables, loads, caps and buffers: is what is predicted for pg_calm what it then does?\n\n\
        At each point a new server is observed under load in shadow mode, as `pgcalm predict` does; then pg_calm is \
        switched on, and what the device and the server do is measured.",
};

/// How the server is started at each point.
fn shadow() -> &'static Contestant {
    // CONTESTANTS has it, which a test sees to.
    CONTESTANTS.iter().find(|contestant| contestant.name == "pg_calm-shadow").unwrap_or(&CONTESTANTS[0])
}

/// Runs all points and returns the report. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<model::Report> {
    options.check()?;
    let needs = Needs { module: true, ..Needs::default() };
    let stage = &Stage::open(&options.common, needs, interrupt)?;
    let points = options.points();
    // The point with the largest table needs most of everything.
    let largest = points.iter().max_by_key(|point| point.rows).map(|point| options.of(point)).context("no point")?;
    need::space(stage, &largest)?;
    let _run_dir = stage.run_dir(None)?;
    let devices = Devices::create(stage, &largest)?;
    let mut report = model::Report {
        scenario: HELP.name.to_string(),
        host: stage.host(devices.cap_mechanism(&largest))?,
        settings: options.named(),
        points: Vec::new(),
    };
    let arena = Arena { options, stage, devices: &devices };
    for point in points {
        let done = arena.run(point).with_context(|| format!("point {}", point.name))?;
        let [operations, kib, tps] =
            done.figures().map(|(predicted, measured)| format!("{predicted:.3} {measured:.3}"));
        stage.progress.note(&format!(
            "{}: predicted and measured operations/transaction {operations}, KiB/transaction {kib}, TPS {tps}",
            point.name
        ));
        report.points.push(done);
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    #[test]
    fn servers_start_in_shadow_mode() {
        assert_eq!(super::shadow().name, "pg_calm-shadow");
        assert!(super::shadow().module && super::shadow().data_capped);
    }
}
