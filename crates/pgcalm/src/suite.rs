//! `lab run suite`: rows of a file, one after the other, and the matrix of their results.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::{ArgAction, Args, CommandFactory, Parser};
use pgcalm_host::{Failure, replacement};
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::report::Shown;
use pgcalm_lab::suite::report::Report;
use pgcalm_lab::suite::{Found, Given, Results, Row, Stamp, Suite};
use pgcalm_lab::{contest, stop_start, suite};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::suite::{FailOnVerdict, SuiteArgs};
use crate::args::{Cli, LabVerb, RunArgs, ScenarioArgs, Verb};
use crate::{output, usage};

/// Options of a scenario that a suite can have rows of.
trait RowOptions: Args {
    type Report: Shown + Clone + PartialEq + Serialize + DeserializeOwned;
    /// As the command line calls it.
    const SCENARIO: &str;
    /// Those of a command line.
    fn of(args: ScenarioArgs) -> Option<RunArgs<Self>>;
    fn checked(&self) -> Result<(), Failure>;
    /// By which results are found.
    fn in_force(&self) -> BTreeMap<String, Value>;
    /// The contest that it is, or has.
    fn contest(&self) -> contest::Options;
    fn takes(&self) -> Duration;
    fn run(&self, interrupt: &Interrupt) -> anyhow::Result<Self::Report>;
    /// Shows the results, and writes the files asked for. What --fail-on is about, if there is any.
    fn show(suite: &Suite, rows: Vec<Runnable<'_, Self>>, args: &SuiteArgs) -> anyhow::Result<Option<WorseThanStock>>;
}

/// What both scenarios do by what they have.
macro_rules! of_scenario {
    ($module:ident, $variant:ident) => {
        type Report = $module::report::Report;
        const SCENARIO: &str = $module::HELP.name;

        fn of(args: ScenarioArgs) -> Option<RunArgs<Self>> {
            if let ScenarioArgs::$variant(args) = args { Some(*args) } else { None }
        }

        fn checked(&self) -> Result<(), Failure> {
            self.check()
        }

        fn in_force(&self) -> BTreeMap<String, Value> {
            self.named()
        }

        fn run(&self, interrupt: &Interrupt) -> anyhow::Result<Self::Report> {
            $module::run(self, interrupt)
        }
    };
}

impl RowOptions for contest::Options {
    of_scenario!(contest, Checkpoint);

    fn contest(&self) -> contest::Options {
        self.clone()
    }

    fn takes(&self) -> Duration {
        suite::estimate(self)
    }

    fn show(suite: &Suite, rows: Vec<Runnable<'_, Self>>, args: &SuiteArgs) -> anyhow::Result<Option<WorseThanStock>> {
        let renewed: HashSet<String> = rows
            .iter()
            .filter(|row| row.is_selected && row.failure.is_none())
            .map(|row| row.row.name.clone())
            .collect();
        let shown = rows.into_iter().map(|row| {
            let module = row.found.as_ref().and_then(|found| found.stamp.module.clone());
            let mut made = suite::report::Row::new(
                row.row.name.clone(),
                row.row.title.clone(),
                row.row.part.clone(),
                row.command,
                row.found.map(|found| found.report),
            );
            made.failure = row.failure;
            made.module = module;
            made
        });
        let report = Report::new(suite.title.clone(), suite.about.clone(), shown.collect());
        if let Some(file) = &args.markdown {
            write_markdown(&report, file, |row| renewed.contains(&row.name))?;
            output::say(&format!("Markdown: {}", file.display()));
        }
        args.report.clone().write(&report)?;
        Ok(judge(&report).err())
    }
}

impl RowOptions for stop_start::Options {
    of_scenario!(stop_start, StopStart);

    fn contest(&self) -> contest::Options {
        self.contest()
    }

    fn takes(&self) -> Duration {
        // Stop or recovery, and a page cache filled again.
        const ROUND: Duration = Duration::from_secs(15);
        let rounds = self.stops + self.kills;
        let mut contest = self.contest();
        // The random part of a load is half of it in the mean.
        contest.seconds.0 -= rounds * self.contest.seconds.0 / 2;
        suite::estimate(&contest) + ROUND * rounds * self.contest.contestants.len() as u32
    }

    fn show(suite: &Suite, rows: Vec<Runnable<'_, Self>>, args: &SuiteArgs) -> anyhow::Result<Option<WorseThanStock>> {
        let results = rows.into_iter().filter_map(|row| Some((row.row.title.clone(), row.found?.report)));
        let Some(report) = Self::Report::of_suite(&suite.title, &suite.about, results.collect()) else {
            output::say("no row has a result");
            return Ok(None);
        };
        if let Some(file) = &args.markdown {
            output::write(file, &report.document().markdown())?;
            output::say(&format!("Markdown: {}", file.display()));
        }
        args.report.clone().write(&report)?;
        Ok(None)
    }
}

/// A row that can be run.
struct Runnable<'a, O: RowOptions> {
    row: &'a Row,
    options: O,
    /// As it is typed.
    command: String,
    is_selected: bool,
    /// What is there of it, of the same options.
    found: Option<Found<O::Report>>,
    failure: Option<String>,
}

pub fn run(args: &SuiteArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    let suite = Suite::read(&args.file)?;
    // Their results are shown together.
    match suite.rows.iter().all(|row| row.scenario == stop_start::Options::SCENARIO) {
        true if args.fail_on.is_some() => {
            Err(Failure::Usage("--fail-on: rows of stop-start are not compared with stock: leave it out".into()).into())
        }
        true => run_of::<stop_start::Options>(&suite, args, &interrupt),
        false => run_of::<contest::Options>(&suite, args, &interrupt),
    }
}

fn run_of<O: RowOptions>(suite: &Suite, args: &SuiteArgs, interrupt: &Interrupt) -> anyhow::Result<()> {
    let selected: HashSet<&str> =
        suite.select(&args.rows, args.part.as_deref())?.into_iter().map(|row| row.name.as_str()).collect();
    let mut rows = Vec::new();
    for row in &suite.rows {
        interrupt.check()?;
        let (options, command) = parse::<O>(row, args)
            .map_err(|error| Failure::Usage(format!("{}: row {}: {error}", args.file.display(), row.name)))?;
        rows.push(Runnable {
            row,
            options,
            command,
            is_selected: selected.contains(row.name.as_str()),
            found: None,
            failure: None,
        });
    }
    output::check_writable("--json", args.report.json.file())?;
    output::check_writable("--html", args.report.html.as_deref())?;
    check_document(args.markdown.as_deref())?;
    let results = Results::new(&directory(args));
    for row in &mut rows {
        interrupt.check()?;
        let of_options = |found: &Found<O::Report>| found.stamp.options == row.options.in_force();
        row.found = results.find(&row.row.name)?.filter(of_options);
    }
    if args.plan {
        return list(&rows, args, interrupt);
    }
    if !args.show {
        results.check()?;
        run_rows(&mut rows, &results, args, interrupt)?;
    }
    finish(suite, rows, args, interrupt)
}

/// What a result is of that would be made now.
fn stamp_of<O: RowOptions>(options: &O, interrupt: &Interrupt) -> anyhow::Result<Stamp> {
    Ok(Stamp { options: options.in_force(), ..Stamp::of(&options.contest(), interrupt)? })
}

/// Beside the caller, not beside the file: that may be a package's.
fn directory(args: &SuiteArgs) -> PathBuf {
    args.results.clone().unwrap_or_else(|| {
        let stem = args.file.file_stem().unwrap_or_default();
        let mut name = stem.to_os_string();
        name.push("-results");
        PathBuf::from(name)
    })
}

/// Has the scenario's own command line read the options, so that they are declared there and nowhere else.
fn parse<O: RowOptions>(row: &Row, args: &SuiteArgs) -> Result<(O, String), String> {
    if row.scenario != O::SCENARIO {
        return Err(format!(
            "scenario {:?}: a suite's rows are all of checkpoint, or all of stop-start; run others on their own",
            row.scenario
        ));
    }
    let command = Cli::command();
    let scenario = ["lab", "run", O::SCENARIO]
        .iter()
        .try_fold(&command, |command, name| command.find_subcommand(name))
        .ok_or("no such scenario")?;
    let is_repeated = |name: &str| {
        scenario.get_arguments().any(|argument| {
            // Lists with commas are one value, which a row replaces.
            argument.get_long() == Some(name)
                && matches!(argument.get_action(), ArgAction::Append)
                && argument.get_value_delimiter().is_none()
        })
    };
    let given = args.option.iter().map(|option| (option.name.clone(), Given::One(option.value.clone()))).collect();
    let mut shown = row.clone();
    shown.levels.push(given);
    let words = shown.arguments(is_repeated);
    let mut all = words.clone();
    if let Some(dir) = &args.dir {
        // Of this host, and not of the run.
        all.retain(|word| !word.starts_with("--dir="));
        all.push(format!("--dir={}", dir.display()));
    }
    let command_line = ["pgcalm", "lab", "run", O::SCENARIO].into_iter().map(String::from).chain(all);
    let parsed = Cli::try_parse_from(command_line).map_err(|error| {
        if error.use_stderr() {
            usage::one_line(&error)
        } else {
            "help and version are no options of a row".to_string()
        }
    })?;
    let parsed = match parsed.verb {
        Some(Verb::Lab(LabVerb::Run(scenario))) => O::of(scenario),
        _ => None,
    };
    let parsed = parsed.ok_or("no such scenario")?;
    if parsed.report.json.json.is_some() || parsed.report.html.is_some() {
        return Err("json and html: the suite writes its results itself; leave them out".to_string());
    }
    let options = parsed.options;
    options.checked().map_err(|error| error.to_string())?;
    Ok((options, typed(O::SCENARIO, &words)))
}

/// The command with its options as one types them.
fn typed(scenario: &str, words: &[String]) -> String {
    let mut text = format!("pgcalm lab run {scenario}");
    for word in words {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        text.push_str(&format!(" {name}"));
        if let Some(value) = value {
            text.push(' ');
            text.push_str(&quoted(value));
        }
    }
    text
}

/// For a shell.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:=/%+@".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        value.to_string()
    } else {
        format!("'{}'", value.replace('\'', r"'\''"))
    }
}

fn run_rows<O: RowOptions>(
    rows: &mut [Runnable<'_, O>],
    results: &Results,
    args: &SuiteArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let count = rows.iter().filter(|row| row.is_selected).count();
    for (index, row) in rows.iter_mut().filter(|row| row.is_selected).enumerate() {
        interrupt.check()?;
        let name = &row.row.name;
        let place = format!("row {} of {count}, {name}", index + 1);
        let stamp = stamp_of(&row.options, interrupt)?;
        if !args.again && is_done(row.found.as_ref(), &stamp) {
            output::say(&format!("{place}: its result is there"));
            continue;
        }
        output::say(&format!("{place}: {}", row.row.title));
        let outcome = row.options.run(interrupt).and_then(|report| results.put(name, &stamp, &report).map(|()| report));
        match outcome {
            Ok(report) => row.found = Some(Found { stamp, report }),
            Err(error) => {
                if let Some(Failure::Interrupted(_)) = error.downcast_ref() {
                    return Err(error);
                }
                let text = error.downcast_ref::<Failure>().map_or_else(|| format!("{error:#}"), ToString::to_string);
                output::say(&format!("{place}: failed: {text}"));
                row.failure = Some(text);
            }
        }
    }
    Ok(())
}

fn is_done<R>(found: Option<&Found<R>>, now: &Stamp) -> bool {
    found.is_some_and(|found| found.stamp.differs_from(now).is_none())
}

fn list<O: RowOptions>(rows: &[Runnable<'_, O>], args: &SuiteArgs, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut text = String::new();
    let mut total = Duration::ZERO;
    let mut due = 0;
    for row in rows.iter().filter(|row| row.is_selected) {
        interrupt.check()?;
        let now = stamp_of(&row.options, interrupt)?;
        let difference = row.found.as_ref().map(|found| found.stamp.differs_from(&now));
        let takes = row.options.takes();
        let state = match difference {
            Some(None) if !args.again => "its result is there".to_string(),
            Some(Some(difference)) if !args.again => {
                format!("about {} (its result is of {difference})", minutes(takes))
            }
            _ => format!("about {}", minutes(takes)),
        };
        if args.again || !is_done(row.found.as_ref(), &now) {
            total += takes;
            due += 1;
        }
        let part = row.row.part.as_deref().map_or_else(String::new, |part| format!(", part {part}"));
        text.push_str(&format!("{}{part}: {state}\n  {}\n", row.row.name, row.command));
    }
    let rows = if due == 1 { "row" } else { "rows" };
    text.push_str(&format!("{due} {rows} to run, about {} and the loading of tables\n", minutes(total)));
    output::print(&text)
}

fn minutes(duration: Duration) -> String {
    let minutes = duration.as_secs().div_ceil(60);
    if minutes < 120 { format!("{minutes} min") } else { format!("{} h {} min", minutes / 60, minutes % 60) }
}

/// Shows the results, writes the files asked for, and fails if a row has.
fn finish<O: RowOptions>(
    suite: &Suite,
    mut rows: Vec<Runnable<'_, O>>,
    args: &SuiteArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    interrupt.check()?;
    let count = rows.iter().filter(|row| row.is_selected).count();
    let mut failed = Vec::new();
    for row in rows.iter_mut().filter(|row| row.failure.is_some()) {
        failed.push(row.row.name.clone());
        // A failure is not to hide behind an earlier result.
        row.found = None;
    }
    let worse = O::show(suite, rows, args)?;
    if !failed.is_empty() {
        bail!("suite: {} of {count} rows failed: {}", failed.len(), failed.join(", "));
    }
    match (args.fail_on, worse) {
        (Some(FailOnVerdict::Worse), Some(worse)) => Err(worse.into()),
        _ => Ok(()),
    }
}

/// Rows in which pg_calm is worse than stock in something.
#[derive(Debug)]
pub struct WorseThanStock {
    rows: Vec<String>,
}

impl std::error::Error for WorseThanStock {}

impl fmt::Display for WorseThanStock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--fail-on worse: pg_calm is worse than stock in {}", self.rows.join(", "))
    }
}

fn judge(report: &Report) -> Result<(), WorseThanStock> {
    let worse = report.rows.iter().filter(|row| row.is_worse());
    let rows: Vec<String> = worse.map(|row| row.name.clone()).collect();
    match rows.is_empty() {
        true => Ok(()),
        false => Err(WorseThanStock { rows }),
    }
}

/// Fails if the document can't be written, or is none: it is read first, and what takes text only has none.
pub fn check_document(file: Option<&Path>) -> anyhow::Result<()> {
    output::check_writable("--markdown", file)?;
    let kind = file.and_then(|file| std::fs::metadata(file).ok());
    match (file, kind.map(|metadata| metadata.file_type())) {
        (Some(file), Some(kind)) if !kind.is_file() => Err(Failure::Usage(format!(
            "--markdown {}: {}; name a file, whose other sections are kept",
            file.display(),
            replacement::not_a_file(kind)
        ))
        .into()),
        _ => Ok(()),
    }
}

/// Writes the document over the one that is there, of which it takes the sections that are not renewed.
pub fn write_markdown(
    report: &Report,
    file: &Path,
    is_renewed: impl Fn(&pgcalm_lab::suite::report::Row) -> bool,
) -> anyhow::Result<()> {
    let old = match std::fs::read_to_string(file) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => bail!("read {}: {error}", file.display()),
    };
    output::write(file, &pgcalm_lab::suite::report::markdown::render(report, &old, is_renewed))
}

#[cfg(test)]
mod tests {
    use pgcalm_lab::suite::report::{Comparison, Verdict};

    use super::*;
    use crate::exit;

    fn args() -> SuiteArgs {
        let cli = Cli::try_parse_from(["pgcalm", "lab", "run", "suite", "some/x.toml"]).unwrap();
        match cli.verb {
            Some(Verb::Lab(LabVerb::Run(ScenarioArgs::Suite(args)))) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn parsed(text: &str, args: &SuiteArgs) -> Result<(contest::Options, String), String> {
        let suite = Suite::parse(&format!("title = 'x'\n[[row]]\nname = 'a'\n{text}"))?;
        parse(&suite.rows[0], args)
    }

    #[test]
    fn options_are_the_scenarios_own() {
        let mut args = args();
        let (options, command) =
            parsed("seconds = 30\nset = ['a=1', 'b=x y']\ncontestants = ['stock', 'pg_calm']", &args).unwrap();
        assert_eq!(options.seconds.0, 30);
        assert_eq!(options.common.set.len(), 2);
        assert_eq!(
            command,
            "pgcalm lab run checkpoint --seconds 30 --set a=1 --set 'b=x y' --contestants stock,pg_calm"
        );
        args.dir = Some("/var/tmp/x".into());
        args.option = vec!["seconds=40".parse().unwrap()];
        let (options, command) = parsed("seconds = 30", &args).unwrap();
        assert_eq!(options.seconds.0, 40);
        assert_eq!(options.common.dir, PathBuf::from("/var/tmp/x"));
        assert_eq!(command, "pgcalm lab run checkpoint --seconds 40");
    }

    #[test]
    fn mistakes_are_those_of_the_command_line() {
        let args = args();
        for (text, expected) in [
            ("secnds = 30", "--secnds"),
            ("seconds = 'x'", "--seconds"),
            ("seconds = 1", "--seconds 1"),
            ("contestants = ['stick']", "no contestant \"stick\""),
            ("set-contestant = ['stick:a=1']", "stick"),
            ("scenario = 'torture'", "scenario \"torture\""),
            ("json = 'x'", "json and html"),
            ("help = true", "help and version"),
        ] {
            let error = parsed(text, &args).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_row_that_is_worse_in_something_has_an_exit_code_of_its_own() {
        let row = |name: &str, verdict| {
            let mut row = pgcalm_lab::suite::report::Row::new(name.into(), name.into(), None, String::new(), None);
            row.comparisons = ["tps_mean", "tps_min"]
                .into_iter()
                .zip([Verdict::Better, verdict])
                .map(|(metric, verdict)| Comparison {
                    contestant: "pg_calm".into(),
                    metric: metric.into(),
                    value: 1.0,
                    range: None,
                    checkpoints: 3,
                    baseline: 1.0,
                    baseline_range: None,
                    baseline_checkpoints: 3,
                    ratio: None,
                    verdict,
                })
                .collect();
            row
        };
        let judged = |rows| judge(&Report::new("x".into(), String::new(), rows));
        assert!(judged(vec![row("a", Verdict::Better), row("b", Verdict::Same)]).is_ok());
        let rows = vec![row("a", Verdict::Worse), row("b", Verdict::Same), row("c", Verdict::Worse)];
        let worse = judged(rows).unwrap_err();
        assert_eq!(worse.to_string(), "--fail-on worse: pg_calm is worse than stock in a, c");
        assert_eq!(exit::of(&worse.into()), exit::Exit::Worse);
    }

    #[test]
    fn results_lie_in_the_working_directory_unless_told_otherwise() {
        let mut args = args();
        assert_eq!(directory(&args), PathBuf::from("x-results"));
        args.results = Some("there".into());
        assert_eq!(directory(&args), PathBuf::from("there"));
    }
}
