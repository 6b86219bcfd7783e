//! `lab run suite`: rows of a file, one after the other, and the matrix of their results.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::{ArgAction, CommandFactory, Parser};
use pgcalm_host::{Failure, replacement};
use pgcalm_lab::chosen::Chosen;
use pgcalm_lab::document::Document;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::scenarios::SCENARIOS;
use pgcalm_lab::suite::report::Report;
use pgcalm_lab::suite::{Found, Given, Results, Row, Stamp, Suite};

use crate::args::suite::{FailOnVerdict, SuiteArgs};
use crate::args::{Cli, LabVerb, Verb};
use crate::{output, usage};

/// A row that can be run.
struct Runnable<'a> {
    row: &'a Row,
    options: Chosen,
    /// As it is typed.
    command: String,
    is_selected: bool,
    /// What is there of it, of the same options.
    found: Option<Found>,
    failure: Option<String>,
}

pub(crate) fn run(args: &SuiteArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    let suite = Suite::read(&args.file)?;
    let selected: HashSet<&str> =
        suite.select(&args.rows, args.part.as_deref())?.into_iter().map(|row| row.name.as_str()).collect();
    let mut rows = Vec::new();
    for row in &suite.rows {
        interrupt.check()?;
        let (options, command) = parse(row, args)
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
        let of_options = |found: &Found| found.stamp.options == row.options.named();
        row.found = results.find(&row.row.name)?.filter(of_options);
    }
    if args.plan {
        return list(&rows, args, &interrupt);
    }
    if !args.show {
        results.check()?;
        run_rows(&mut rows, &results, args, &interrupt)?;
    }
    finish(&suite, rows, args, &interrupt)
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
fn parse(row: &Row, args: &SuiteArgs) -> Result<(Chosen, String), String> {
    let name = row.scenario.as_str();
    let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    if !names.contains(&name) {
        return Err(format!("scenario {name:?}: no such scenario; there are {}", names.join(", ")));
    }
    let command = Cli::command();
    let scenario = ["lab", "run", name]
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
    // What lies beside the file is named by it, wherever it is called from.
    let folder = args.file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let folder = folder.display().to_string();
    let words: Vec<String> = shown.arguments(is_repeated).iter().map(|word| word.replace("{suite}", &folder)).collect();
    let mut all = words.clone();
    if let Some(dir) = &args.dir {
        // Of this host, and not of the run.
        all.retain(|word| !word.starts_with("--dir="));
        all.push(format!("--dir={}", dir.display()));
    }
    let command_line = ["pgcalm", "lab", "run", name].into_iter().map(String::from).chain(all);
    let parsed = Cli::try_parse_from(command_line).map_err(|error| {
        if error.use_stderr() {
            usage::one_line(&error)
        } else {
            "help and version are no options of a row".to_string()
        }
    })?;
    let chosen = match parsed.verb {
        Some(Verb::Lab(LabVerb::Run(scenario))) => scenario.chosen(),
        _ => None,
    };
    let (options, report) = chosen.ok_or("no such scenario")?;
    if report.json.json.is_some() || report.html.is_some() {
        return Err("json and html: the suite writes its results itself; leave them out".to_string());
    }
    options.check().map_err(|error| error.to_string())?;
    Ok((options, typed(name, &words)))
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

fn run_rows(
    rows: &mut [Runnable<'_>],
    results: &Results,
    args: &SuiteArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let count = rows.iter().filter(|row| row.is_selected).count();
    for (index, row) in rows.iter_mut().filter(|row| row.is_selected).enumerate() {
        interrupt.check()?;
        let name = &row.row.name;
        let place = format!("row {} of {count}, {name}", index + 1);
        let stamp = Stamp::of(&row.options, interrupt)?;
        if !args.again && is_done(row.found.as_ref(), &stamp) {
            output::say(&format!("{place}: its result is there"));
            continue;
        }
        output::say(&format!("{place}: {}", row.row.title));
        let outcome =
            row.options.run(interrupt).and_then(|document| results.put(name, &stamp, &document).map(|()| document));
        match outcome {
            Ok(document) => row.found = Some(Found { stamp, document }),
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

fn is_done(found: Option<&Found>, now: &Stamp) -> bool {
    found.is_some_and(|found| found.stamp.differs_from(now).is_none())
}

fn list(rows: &[Runnable<'_>], args: &SuiteArgs, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut text = String::new();
    let mut total = Duration::ZERO;
    let mut due = 0;
    for row in rows.iter().filter(|row| row.is_selected) {
        interrupt.check()?;
        let now = Stamp::of(&row.options, interrupt)?;
        let difference = row.found.as_ref().map(|found| found.stamp.differs_from(&now));
        let takes = row.options.estimate();
        let about = takes.map_or_else(|| "to be run".to_string(), |takes| format!("about {}", minutes(takes)));
        let state = match difference {
            Some(None) if !args.again => "its result is there".to_string(),
            Some(Some(difference)) if !args.again => {
                format!("{about} (its result is of {difference})")
            }
            _ => about,
        };
        if args.again || !is_done(row.found.as_ref(), &now) {
            total += takes.unwrap_or_default();
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

/// Shows the matrix, writes the files asked for, and fails if a row has.
fn finish(suite: &Suite, rows: Vec<Runnable<'_>>, args: &SuiteArgs, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut renewed = HashSet::new();
    let mut failed = Vec::new();
    let count = rows.iter().filter(|row| row.is_selected).count();
    let mut shown = Vec::new();
    for row in rows {
        interrupt.check()?;
        if row.is_selected && row.failure.is_none() {
            renewed.insert(row.row.name.clone());
        }
        if row.failure.is_some() {
            failed.push(row.row.name.clone());
        }
        // A failure is not to hide behind an earlier result.
        let found = row.found.filter(|_| row.failure.is_none());
        let module = found.as_ref().and_then(|found| found.stamp.module.clone());
        let (report, document) = match found.map(|found| found.document) {
            Some(Document::Checkpoint(report)) => (Some(*report), None),
            Some(other) => {
                if row.is_selected && other.shown().failure().is_some() {
                    failed.push(row.row.name.clone());
                }
                (None, Some(other.value()?))
            }
            None => (None, None),
        };
        let row_of = pgcalm_lab::suite::report::Row::new;
        let mut made = row_of(row.row.name.clone(), row.row.title.clone(), row.row.part.clone(), row.command, report);
        made.document = document;
        made.failure = row.failure;
        made.module = module;
        shown.push(made);
    }
    let report = Report::new(suite.title.clone(), suite.about.clone(), shown);
    if let Some(file) = &args.markdown {
        let of_row = |row: &pgcalm_lab::suite::report::Row| renewed.contains(&row.name);
        write_markdown(&report, file, of_row)?;
        output::say(&format!("Markdown: {}", file.display()));
    }
    args.report.clone().write(&report)?;
    if !failed.is_empty() {
        bail!("suite: {} of {count} rows failed: {}", failed.len(), failed.join(", "));
    }
    match args.fail_on {
        Some(FailOnVerdict::Worse) => judge(&report).map_err(anyhow::Error::from),
        None => Ok(()),
    }
}

/// Rows in which pg_calm is worse than stock in something, or failed where stock did not.
#[derive(Debug)]
pub(crate) struct WorseThanStock {
    rows: Vec<String>,
}

impl std::error::Error for WorseThanStock {}

impl fmt::Display for WorseThanStock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--fail-on worse: pg_calm is worse than stock in {}", self.rows.join(", "))
    }
}

fn judge(report: &Report) -> Result<(), WorseThanStock> {
    // One that died, or became no steadier however long it ran, has few figures to be worse in, or none.
    let rows: Vec<String> = report
        .rows
        .iter()
        .filter_map(|row| match row.failed_alone() {
            Some(failed) => Some(format!("{} ({failed}, unlike stock)", row.name)),
            None => row.is_worse().then(|| row.name.clone()),
        })
        .collect();
    if rows.is_empty() { Ok(()) } else { Err(WorseThanStock { rows }) }
}

/// Fails if the document can't be written, or is none: it is read first, and what takes text only has none.
pub(crate) fn check_document(file: Option<&Path>) -> anyhow::Result<()> {
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
pub(crate) fn write_markdown(
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
    use crate::args::ScenarioArgs;
    use crate::exit;

    fn args() -> SuiteArgs {
        let cli = Cli::try_parse_from(["pgcalm", "lab", "run", "suite", "some/x.toml"]).unwrap();
        match cli.verb {
            Some(Verb::Lab(LabVerb::Run(ScenarioArgs::Suite(args)))) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn parsed(text: &str, args: &SuiteArgs) -> Result<(Chosen, String), String> {
        let suite = Suite::parse(&format!("title = 'x'\n[[row]]\nname = 'a'\n{text}"))?;
        parse(&suite.rows[0], args)
    }

    #[test]
    fn options_are_the_scenarios_own() {
        let mut args = args();
        let (options, command) =
            parsed("seconds = 30\nset = ['a=1', 'b=x y']\ncontestants = ['stock', 'pg_calm']", &args).unwrap();
        assert_eq!(options.named()["seconds"], 30);
        assert_eq!(options.common().set.len(), 2);
        assert_eq!(
            command,
            "pgcalm lab run checkpoint --seconds 30 --set a=1 --set 'b=x y' --contestants stock,pg_calm"
        );
        args.dir = Some("/var/tmp/x".into());
        args.option = vec!["seconds=40".parse().unwrap()];
        let (options, command) = parsed("seconds = 30", &args).unwrap();
        assert_eq!(options.named()["seconds"], 40);
        assert_eq!(options.common().dir, PathBuf::from("/var/tmp/x"));
        assert_eq!(command, "pgcalm lab run checkpoint --seconds 40");
        let (_, command) = parsed("set = ['log_directory={suite}/x']", &args).unwrap();
        assert_eq!(command, "pgcalm lab run checkpoint --set log_directory=some/x --seconds 40");
        let (options, command) = parsed("scenario = 'wal-full'\nkind = ['slot']", &args).unwrap();
        assert!(matches!(options, Chosen::WalFull(_)), "{options:?}");
        assert_eq!(options.named()["kind"], serde_json::json!(["slot"]));
        assert_eq!(command, "pgcalm lab run wal-full --kind slot --seconds 40");
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
            ("scenario = 'stall'", "scenario \"stall\": no such scenario; there are checkpoint, "),
            ("scenario = 'suite'", "scenario \"suite\""),
            ("scenario = 'torture'\nrows = 7", "--rows"),
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
    fn a_row_in_which_pg_calm_alone_failed_counts_as_worse() {
        use serde_json::{Value, json};
        let died = json!({"server_failure": {"at_s": 3.0, "message": "No space left on device"}});
        let unsteady = json!({"steadiness": {"objection": "no checkpoint", "warm_up_s": 0.0, "dirty": []}});
        let troubled = json!({"troubles": [{"name": "pg-dump", "failure": "pg_dump failed"}]});
        let contestant = |name: &str, failed: &Value| {
            let mut run = json!({
                "tps_mean": 100.0, "tps_median": 100.0, "tps_min": 100.0, "tps_p5": 100.0,
                "seconds_below_half_median": 0, "seconds_zero": 0, "checkpoints": [],
                "series": {
                    "tps": [], "latency_p50_ms": [], "latency_p99_ms": [], "latency_max_ms": [],
                    "dirty_mib": [], "writeback_mib": [], "data_write_ops": [], "data_write_mib": [],
                    "data_read_ops": [], "wal_write_ops": [], "wal_write_mib": [], "blocked_processes": [],
                    "server": {},
                },
            });
            if let (Some(run), Some(failed)) = (run.as_object_mut(), failed.as_object()) {
                run.extend(failed.clone());
            }
            json!({"name": name, "description": "", "server_settings": {}, "runs": [run]})
        };
        let judged = |stock: &Value, pg_calm: &Value| {
            let report = json!({
                "scenario": "checkpoint",
                "host": {
                    "kernel": "6.18", "cpus": 2, "memory_mib": 1000, "postgres": "PostgreSQL 15.20",
                    "pgcalm": "0.1.0", "started_at": "2026-11-23T22:00:00Z", "sysctls": {}, "cap_mechanism": "none",
                },
                "settings": {},
                "contestants": [contestant("stock", stock), contestant("pg_calm", pg_calm)],
            });
            let report = Some(serde_json::from_value(report).unwrap());
            let row = pgcalm_lab::suite::report::Row::new("a".into(), "a".into(), None, String::new(), report);
            judge(&Report::new("x".into(), String::new(), vec![row])).map_err(|worse| worse.to_string())
        };
        let well = Value::Null;
        let worse = |words: &str| {
            Err::<(), _>(format!("--fail-on worse: pg_calm is worse than stock in a ({words}, unlike stock)"))
        };
        assert_eq!(judged(&well, &well), Ok(()));
        assert_eq!(judged(&well, &died), worse("gave up"));
        assert_eq!(judged(&well, &unsteady), worse("was not steady"));
        assert_eq!(judged(&well, &troubled), worse("its trouble failed"));
        assert_eq!(judged(&unsteady, &died), worse("gave up"));
        for (stock, pg_calm) in
            [(&died, &died), (&unsteady, &unsteady), (&died, &well), (&unsteady, &well), (&troubled, &troubled)]
        {
            assert_eq!(judged(stock, pg_calm), Ok(()), "{stock} {pg_calm}");
        }
    }

    #[test]
    fn results_lie_in_the_working_directory_unless_told_otherwise() {
        let mut args = args();
        assert_eq!(directory(&args), PathBuf::from("x-results"));
        args.results = Some("there".into());
        assert_eq!(directory(&args), PathBuf::from("there"));
    }
}
