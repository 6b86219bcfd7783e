//! A file for node_exporter's textfile collector.

use std::path::PathBuf;

use anyhow::Context;
use pgcalm_host::replacement;
use pgcalm_host::replacement::{Durability, Replacement};

use crate::export::usage;
use pgcalm_host::Failure;

/// The collector is another user.
const MODE: u32 = 0o644;

/// A file that is replaced as a whole, so that a reader sees the old one or the new one.
#[derive(Debug)]
pub(super) struct Textfile {
    path: PathBuf,
    /// Beside it; the collector reads only what ends in `.prom`.
    temporary: PathBuf,
}

impl Textfile {
    /// Checks that it can be written, and that nothing else but a file is there.
    pub(super) fn new(path: PathBuf) -> Result<Self, Failure> {
        let display = path.display().to_string();
        let Some(name) = path.file_name() else { return Err(usage("--textfile", display, "names no file")) };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".tmp");
        let file = Self { temporary: path.with_file_name(hidden), path };
        replacement::check(&file.path).and_then(|()| Replacement::create(file.temporary.clone(), MODE)).map_err(
            |error| {
                usage(
                    "--textfile",
                    display,
                    format!("{error}; name a file in a directory that exists and can be written"),
                )
            },
        )?;
        Ok(file)
    }

    /// Replaces it. It is not synced: after a crash of the host there is nothing in it that anybody wants.
    pub(super) fn write(&self, text: &str) -> anyhow::Result<()> {
        let (text, unsynced) = (text.as_bytes(), Durability::Unsynced);
        replacement::write(&self.path, &self.temporary, MODE, text, unsynced)
            .with_context(|| format!("write {}", self.path.display()))
    }

    /// Removes it.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        replacement::remove(&self.path).with_context(|| format!("remove {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_file_is_replaced_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.prom");
        let file = Textfile::new(path.clone()).unwrap();
        assert!(!path.exists());
        for text in ["first\n", "2\n"] {
            file.write(text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_is_a_usage_error_and_nothing_is_left_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.prom");
        fs::create_dir(&path).unwrap();
        let error = Textfile::new(path.clone()).unwrap_err();
        assert!(matches!(error, Failure::Usage(_)));
        assert!(error.to_string().contains("is a directory and no file"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_a_usage_error() {
        let error = Textfile::new("/nonexistent/a.prom".into()).unwrap_err();
        assert!(matches!(error, Failure::Usage(_)));
        assert!(error.to_string().starts_with("--textfile /nonexistent/a.prom: "));
    }
}
