//! Stops and crashes at random moments of a load, held against what was told just before: how long will a fast stop take, how long
//! recovery?

mod options;
mod play;
pub mod report;

use crate::contest::devices::Devices;
use crate::contest::need;
use crate::interrupt::Interrupt;
use crate::scenarios::Help;
use crate::stage::{Needs, Stage};
use crate::stop_start::report::Report;
use crate::sysctl;
use crate::template::Template;

pub use options::Options;

/// What the command line says of it.
pub const HELP: Help = Help {
    name: "stop-start",
    example: "Example: sudo pgcalm lab run stop-start --volume gp3 --memory 2GB --shared-buffers 512MB --table-size 1GB",
    text: "\
        Stops and crashes at random moments of a load: how right was what pgcalm had told just before?\n\n\
        In each round clients work for --warm-up and a random part of --seconds. Then the server is stopped fast, or it is \
        killed and its file system, too, as by a power cut. It is started again, under the limits. How long stop and recovery \
        took is held against pg_calm_status, and against what pgcalm says without the module. All contestants have the same \
        rounds.",
};

/// Runs all rounds of all contestants. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    options.check()?;
    let mut contest = options.contest();
    // A file system that was shut down must go when it is unmounted: no copy of the mount may hold it.
    let needs =
        Needs { own_mounts: true, module: contest.contestants.iter().any(|one| one.module), ..Needs::default() };
    let stage = &Stage::open(&options.contest.common, needs, interrupt)?;
    need::stack(stage, &contest)?;
    need::space(stage, &contest)?;
    let _run_dir = stage.run_dir(None)?;
    let template = Template::obtain(stage, &contest.preparation()?)?;
    contest.load.settle(template.table_bytes()?);
    let contest = &contest;
    let devices = Devices::create(stage, contest)?;
    let _sysctls = sysctl::apply(&stage.journal, contest.sysctl())?;
    let host = stage.host(devices.cap_mechanism(contest))?;
    let arena = play::Arena { options, contest, stage, devices: &devices, template: &template };
    let played = contest.contestants.iter().map(|one| arena.play(one));
    Ok(Report {
        scenario: HELP.name.to_string(),
        contestants: played.collect::<anyhow::Result<_>>()?,
        host,
        settings: options.named(),
        title: String::new(),
        about: String::new(),
    })
}
