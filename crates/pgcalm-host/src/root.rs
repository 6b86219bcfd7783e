use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The directory under which a host's files are found: `/`, or a temporary directory in tests.
#[derive(Debug, Clone)]
pub struct HostRoot(PathBuf);

impl Default for HostRoot {
    fn default() -> Self {
        Self(PathBuf::from("/"))
    }
}

impl HostRoot {
    /// A host whose files lie under `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// The real path of `path`, whether that is given as absolute or relative to the root.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = self.path(path);
        match fs::read(&path) {
            // Process names may hold any byte.
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// Writes a kernel file in a single write, as sysfs and cgroupfs need it.
    pub fn write(&self, path: impl AsRef<Path>, value: &str) -> Result<()> {
        let path = self.path(path);
        fs::write(&path, value).map_err(|source| Error::Write { path, value: value.to_string(), source })
    }

    /// Names of the entries of a directory, sorted.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<String>> {
        let path = self.path(path);
        let read = || -> std::io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&path)? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            names.sort();
            Ok(names)
        };
        read().map_err(|source| Error::Read { path: path.clone(), source })
    }
}
