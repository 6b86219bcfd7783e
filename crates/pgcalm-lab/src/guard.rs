//! A load that the data volume can't take, and a volume for WAL that it fills: does the server get through it, with pg_calm's
//! guard and without? And what does the guard cost where it has nothing to do?
//!
//! Each part is a contest, so that devices, caps, load and figures are the same as there.

pub mod case;
mod options;
pub mod report;

use anyhow::Context;

use crate::contest;
use crate::contest::report as model;
use crate::guard::case::Kind;
use crate::guard::report::{Case, Idle, Pair, Report};
use crate::interrupt::Interrupt;
use crate::scenarios::Help;

pub use options::Options;

/// What the command line says of it.
pub const HELP: Help = Help {
    name: "guard",
    example: "Example: sudo pgcalm lab run guard --quick",
    text: "\
        A load that the data volume can't take: does the server get through it, with pg_calm_guard and without?\n\n\
        Clients upsert random rows as fast as they can, the data device is capped, and WAL has a small device of its \
        own: stock has to run that full and end with a PANIC, servers with the guard must not. Two cases more: clients \
        that keep to a rate, and what the guard costs where it has nothing to do. Each is a contest as in scenario \
        checkpoint.",
};

/// Runs the cases and returns their report; that a server gave up is in it. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    options.check()?;
    let mut host = None;
    let mut cases = Vec::new();
    let mut contest = |options: &contest::Options| {
        let report = contest::run_as(HELP.name, options, interrupt)?;
        host.get_or_insert(report.host);
        anyhow::Ok(report.contestants)
    };
    for kind in options.kinds() {
        match kind {
            Kind::Overload => {
                let contestants = contest(&options.overload())?;
                cases.extend(contestants.into_iter().map(|one| case(one, None)));
            }
            Kind::Paced => {
                for &rate in &options.rates {
                    let contestants =
                        contest(&options.paced(rate)).with_context(|| format!("at {rate} transactions/s"))?;
                    cases.extend(contestants.into_iter().map(|one| case(one, Some(rate))));
                }
            }
            Kind::Idle => {}
        }
    }
    let idle = if options.kinds().contains(&Kind::Idle) {
        let mut pairs = Vec::new();
        for number in 1..=options.pairs {
            let contestants =
                contest(&options.idle(number)).with_context(|| format!("pair {number} of {}", options.pairs))?;
            pairs.extend(pair(&contestants));
        }
        Some(Idle { pairs })
    } else {
        None
    };
    Ok(Report {
        scenario: HELP.name.to_string(),
        host: host.context("no case was run")?,
        settings: options.named(),
        skip_s: options.skip.0,
        cases: cases.into_iter().flatten().collect(),
        idle,
    })
}

/// A contestant's only run.
fn case(mut contestant: model::Contestant, rate: Option<u32>) -> Option<Case> {
    Some(Case {
        run: contestant.runs.pop()?,
        name: contestant.name,
        description: contestant.description,
        rate,
        server_settings: contestant.server_settings,
        held_up_runs: contestant.held_up_runs,
    })
}

fn pair(contestants: &[model::Contestant]) -> Option<Pair> {
    let run = |name| {
        let contestant = contestants.iter().find(|one| one.name == name)?;
        contestant.runs.first()
    };
    let (off, on) = (run(case::IDLE_OFF)?, run(case::IDLE_ON)?);
    Some(Pair { off_tps: off.tps_mean, on_tps: on.tps_mean, holds: report::holds(on) })
}
