//! `lab run suite`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::report_files::ReportFiles;

#[derive(Debug, Args)]
pub(crate) struct SuiteArgs {
    /// The suite, a TOML file; docs/guides/lab.md has the format, bench/suites those of this project.
    /// {suite} in a value is replaced by its directory.
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    /// Run these rows only, separated by commas; the matrix still has all that have a result.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub rows: Vec<String>,
    /// Run the rows of this part only; likewise.
    #[arg(long, value_name = "PART")]
    pub part: Option<String>,
    /// Directory of the results, one NAME.json for each row, written when the row has ended [default: the suite's file
    /// name without .toml, and -results, in the working directory].
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Also run rows that have a result of the same options, build of pgcalm, kernel, server and module.
    #[arg(long)]
    pub again: bool,
    /// List the rows, whether each has to be run, and about how long that takes; run nothing.
    #[arg(long, conflicts_with = "show")]
    pub plan: bool,
    /// Run nothing: the matrix of the results that are there. Needs no root.
    #[arg(long)]
    pub show: bool,
    /// An option of the scenario for all rows, over what the file gives; may be repeated. Results are those of the options,
    /// so a trial needs its own --results.
    #[arg(long, value_name = "NAME=VALUE")]
    pub option: Vec<RowOption>,
    /// Directory for devices, the loaded tables and logs, of all rows [default: the scenario's].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub report: ReportFiles,
    /// Write the rows that were selected as sections of a Markdown file; it keeps its sections of the others.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// End with exit code 6 if, in a row that has a result, pg_calm is worse than stock in a figure that is compared, or if
    /// it alone gave up, was not steady or had a trouble that failed.
    #[arg(long, value_name = "VERDICT")]
    pub fail_on: Option<FailOnVerdict>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOnVerdict {
    /// In mean TPS, worst second, p99.9 or longest transaction, beyond the spread of the runs.
    Worse,
}

/// An option of a row given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowOption {
    /// Without the dashes.
    pub name: String,
    pub value: String,
}

impl std::str::FromStr for RowOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty() && !name.starts_with('-'))
            .ok_or("give name=value without dashes, e.g. seconds=30")?;
        Ok(Self { name: name.to_string(), value: value.to_string() })
    }
}
