//! Where the report of a run goes besides standard output.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Clone, Args)]
pub struct ReportFiles {
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
