use anyhow::bail;
use clap::Args;
use pgcalm_host::Failure;
use pgcalm_lab::archive::archiver::ARCHIVERS;
use pgcalm_lab::clean;
use pgcalm_lab::contestant::CONTESTANTS;
use pgcalm_lab::guard::case::CASES as GUARD_CASES;
use pgcalm_lab::interference::LAYOUTS;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::predict::grid::POINTS;
use pgcalm_lab::replica::CASES;
use pgcalm_lab::report::Shown;
use pgcalm_lab::scenarios::SCENARIOS;
use pgcalm_lab::trouble::{TROUBLES, Trouble};
use pgcalm_lab::wal_full::CONTESTANTS as WAL_FULL_CONTESTANTS;
use pgcalm_volume::profiles::PROFILES;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::report_files::ReportFiles;
use crate::args::{CleanArgs, RunArgs, UpArgs};
use crate::output;

/// Scenarios, contestants, profiles.
pub(crate) fn list() -> anyhow::Result<()> {
    let mut text = String::from("Scenarios:\n");
    for help in SCENARIOS {
        text.push_str(&format!("  {:<15} {}\n", help.name, help.about()));
    }
    text.push_str("\nContestants:\n");
    for contestant in &CONTESTANTS {
        text.push_str(&format!("  {:<15} {}\n", contestant.name, contestant.description));
        for (name, value) in contestant.settings {
            text.push_str(&format!("  {:<15}   {name} = {value}\n", ""));
        }
    }
    text.push_str("\nTroubles of checkpoint (--trouble NAME[@SECOND]):\n");
    for trouble in &TROUBLES {
        text.push_str(&format!("  {:<24} {}{}\n", trouble.name, trouble.summary, conditions(trouble)));
    }
    let own = [
        (
            "Layouts of journal",
            15,
            LAYOUTS.iter().map(|one| (one.name, one.description.to_string())).collect::<Vec<_>>(),
        ),
        ("Archivers of archive", 22, ARCHIVERS.iter().map(|one| (one.name, one.description())).collect()),
        ("Cases of replica", 15, CASES.iter().map(|one| (one.name, one.description.to_string())).collect()),
        ("Cases of guard", 15, GUARD_CASES.iter().map(|one| (one.name, one.description.to_string())).collect()),
        (
            "Contestants of wal-full",
            15,
            WAL_FULL_CONTESTANTS.iter().map(|one| (one.name, one.description.to_string())).collect(),
        ),
    ];
    for (heading, width, choices) in own {
        text.push_str(&format!("\n{heading}:\n"));
        for (name, description) in choices {
            text.push_str(&format!("  {name:<width$} {description}\n"));
        }
    }
    text.push_str("\nPoints of predict:\n");
    for point in &POINTS {
        text.push_str(&format!(
            "  {:<22} {} rows, {} keys, {} operations/s, {}/s, shared_buffers {}, sysctl {}\n",
            point.name,
            point.rows,
            point.distribution.name(),
            point.data_iops,
            point.data_bps,
            point.shared_buffers,
            point.sysctl.name()
        ));
    }
    text.push_str("\nProfiles of volume:\n");
    for profile in &PROFILES {
        text.push_str(&format!("  {:<22} {}\n", profile.name, profile.description));
    }
    output::print(&text)
}

/// When a trouble comes unless told, and what it needs.
fn conditions(trouble: &Trouble) -> String {
    let mut words: Vec<String> = Vec::new();
    words.extend(trouble.at.map(|second| format!("second {second}")));
    words.extend(trouble.needs.iter().map(|need| format!("needs {}", need.told())));
    words.dedup();
    if words.is_empty() { String::new() } else { format!(" [{}]", words.join(", ")) }
}

/// Runs a scenario, shows its report and writes the files asked for; fails by what it found.
pub(crate) fn run_one<O: Args, R: Shown + Serialize + DeserializeOwned + PartialEq>(
    args: RunArgs<O>,
    run: impl FnOnce(&O, &Interrupt) -> anyhow::Result<R>,
) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    let files = args.report.checked()?;
    let report = run(&args.options, &interrupt)?;
    files.write(&report)?;
    match report.failure() {
        Some(failure) => bail!("{}: {failure}", report.document().subject),
        // The report may be of a part.
        None => Ok(interrupt.check()?),
    }
}

/// A server to connect to.
pub(crate) fn up(args: &UpArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    pgcalm_lab::up::run(&args.options, args.port, &interrupt, output::print)
}

impl ReportFiles {
    /// Fails at once, not after a long run, if a file can't be written.
    fn checked(self) -> anyhow::Result<Self> {
        output::check_writable("--json", self.json.file())?;
        output::check_writable("--html", self.html.as_deref())?;
        Ok(self)
    }

    /// Shows the text and writes what was asked for.
    pub(crate) fn write<R: Shown + Serialize + DeserializeOwned + PartialEq>(self, report: &R) -> anyhow::Result<()> {
        let presented = output::present(&self.json, report, &report.text());
        if let Some(file) = self.html {
            output::write(&file, &report.html())?;
            output::say(&format!("HTML: {}", file.display()));
        }
        presented
    }
}

/// Removes what a killed run has left.
pub(crate) fn clean(args: &CleanArgs) -> anyhow::Result<()> {
    let cleaned = match &args.dir {
        Some(dir) if !dir.exists() => bail!(Failure::Usage(format!(
            "--dir {}: no such directory; without --dir all are cleaned where the lab works unless told otherwise",
            dir.display()
        ))),
        Some(dir) => clean::clean(dir, args.templates)?,
        None => clean::clean_all(args.templates)?,
    };
    let mut text = match cleaned.changes {
        0 => "nothing was left".to_string(),
        1 => "1 leftover removed".to_string(),
        n => format!("{n} leftovers removed"),
    };
    if cleaned.templates_left {
        text.push_str("; loaded tables stay for later runs, --templates removes them");
    }
    text.push('\n');
    output::print(&text)
}
