//! A file for node_exporter's textfile collector.

use std::fs;
use std::fs::OpenOptions;
use std::fs::Permissions;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::Context;
use rustix::fs::OFlags;

use crate::MonitorError;
use crate::export::usage;

/// A file that is replaced as a whole, so that a reader sees the old one or the new one.
#[derive(Debug)]
pub struct Textfile {
    path: PathBuf,
    /// Beside it; the collector reads only what ends in `.prom`.
    temporary: PathBuf,
}

impl Textfile {
    /// Checks that it can be written.
    pub fn new(path: PathBuf) -> Result<Self, MonitorError> {
        let display = path.display().to_string();
        let Some(name) = path.file_name() else {
            return Err(usage("--textfile", display, "names no file"));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".tmp");
        let file = Self {
            temporary: path.with_file_name(hidden),
            path,
        };
        file.write_temporary("")
            .and_then(|()| fs::remove_file(&file.temporary))
            .map_err(|error| {
                usage(
                    "--textfile",
                    display,
                    format!("{error}; name a file in a directory that exists and can be written"),
                )
            })?;
        Ok(file)
    }

    /// Replaces it. It is not synced: after a crash of the host there is nothing in it that anybody wants.
    pub fn write(&self, text: &str) -> anyhow::Result<()> {
        self.write_temporary(text)
            .with_context(|| format!("write {}", self.temporary.display()))?;
        fs::rename(&self.temporary, &self.path)
            .with_context(|| format!("rename to {}", self.path.display()))
    }

    /// Removes it.
    pub fn remove(&self) -> anyhow::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }

    fn write_temporary(&self, text: &str) -> io::Result<()> {
        // Whoever else may write to the directory must not lead the writer elsewhere by a link.
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&self.temporary)?;
        // The collector is another user, whatever this process's umask is.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

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
    fn a_link_in_place_of_the_temporary_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let file = Textfile::new(directory.path().join("a.prom")).unwrap();
        symlink(&victim, directory.path().join(".a.prom.tmp")).unwrap();
        assert!(file.write("x").is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_directory_that_is_not_there_is_a_usage_error() {
        let error = Textfile::new("/nonexistent/a.prom".into()).unwrap_err();
        assert!(matches!(error, MonitorError::Usage(_)));
        assert!(
            error
                .to_string()
                .starts_with("--textfile /nonexistent/a.prom: ")
        );
    }
}
