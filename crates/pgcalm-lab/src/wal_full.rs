//! A rehearsal: something keeps WAL, and WAL fills its volume. Stock dies of it; does the guard warn in time, and does it hold?
//!
//! Each kind is a contest with one trouble, so that devices, load and figures are the same as there.

mod options;
pub mod report;

use anyhow::Context;

use crate::contest;
use crate::contestant::Contestant;
use crate::guard::case::{ALL_ARE_HELD, LIBRARIES, ON, contestant};
use crate::interrupt::Interrupt;
use crate::scenarios::Help;
use crate::wal_full::report::{Case, Report};

pub use options::Options;

/// What the command line says of it.
pub const HELP: Help = Help {
    name: "wal-full",
    example: "Example: sudo pgcalm lab run wal-full --kind slot",
    text: "\
        Archive down or slow, slot forgotten, standby slow: WAL fills its volume; does the guard warn in time, and hold?\n\n\
        For each kind and contestant a new cluster under full load; after 20 s WAL begins to be kept, until a minute \
        before the end. Stock has to end with a PANIC, and is started again with 64 MB more; the guard has to warn in \
        time, in shadow as well, and on it has to hold: even, without a second at zero, at full rate 10 s after the \
        cause. Each kind is a contest as in scenario checkpoint, without caps.",
};

/// PostgreSQL as it comes.
const STOCK: &str = "stock";

/// The guard watches and warns.
const SHADOW: &str = "shadow";

/// The guard holds writers.
const GUARD_ON: &str = "on";

/// All that there are.
pub static CONTESTANTS: [Contestant; 3] = [
    contestant(STOCK, "PostgreSQL as it comes.", &[]),
    contestant(SHADOW, "With pg_calm_guard loaded, in shadow as it comes: it warns, and holds nobody.", &[LIBRARIES]),
    contestant(GUARD_ON, "With pg_calm_guard switched on: it holds writers.", &[LIBRARIES, ON, ALL_ARE_HELD]),
];

/// Runs the cases and returns their report. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    options.check()?;
    let mut host = None;
    let mut cases = Vec::new();
    for kind in &options.kind {
        let report =
            contest::run_as(HELP.name, &options.contest(kind), interrupt).with_context(|| kind.name.to_string())?;
        host.get_or_insert(report.host);
        cases.extend(
            report.contestants.into_iter().filter_map(|one| Case::of(kind.name, one, options.wal_size.bytes())),
        );
    }
    Ok(Report {
        scenario: HELP.name.to_string(),
        host: host.context("no case was run")?,
        settings: options.named(),
        cases,
    })
}
