//! Where the report of a run goes besides standard output.

use std::path::PathBuf;

use clap::Args;

use super::json::JsonArg;

#[derive(Debug, Clone, Args)]
pub(crate) struct ReportFiles {
    #[command(flatten)]
    pub json: JsonArg,
    /// Write the report as one HTML file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
