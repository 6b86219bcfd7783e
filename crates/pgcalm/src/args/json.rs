//! `--json`, of every verb that has a document.

use std::path::{Path, PathBuf};

use clap::Args;

/// Standard output, where an option takes a file.
const STANDARD_OUTPUT: &str = "-";

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct JsonArg {
    /// Write JSON: into FILE, beside the text; without FILE, or as -, to standard output instead of the text.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STANDARD_OUTPUT)]
    pub json: Option<PathBuf>,
}

impl JsonArg {
    /// The file that it goes into, if it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.json.as_deref().filter(|file| *file != Path::new(STANDARD_OUTPUT))
    }

    /// Whether it takes the place of the text.
    pub(crate) fn replaces_text(&self) -> bool {
        self.json.is_some() && self.file().is_none()
    }
}
