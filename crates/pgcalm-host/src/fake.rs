//! A host for tests, here and in other crates.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::HostRoot;

/// A host in a temporary directory, which goes with it.
#[derive(Debug)]
pub struct FakeHost {
    root: HostRoot,
    _directory: TempDir,
}

impl Default for FakeHost {
    fn default() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { root: HostRoot::new(directory.path()), _directory: directory }
    }
}

impl Deref for FakeHost {
    type Target = HostRoot;

    fn deref(&self) -> &HostRoot {
        &self.root
    }
}

impl FakeHost {
    /// One with these files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let host = Self::default();
        for (path, text) in files {
            host.put(path, text);
        }
        host
    }

    /// Writes a file, in directories that are made if need be.
    pub fn put(&self, path: impl AsRef<Path>, text: &str) {
        self.make(path.as_ref().parent().unwrap());
        fs::write(self.path(path), text).unwrap();
    }

    /// Makes a link likewise.
    pub fn link(&self, path: impl AsRef<Path>, target: impl AsRef<Path>) {
        self.make(path.as_ref().parent().unwrap());
        symlink(target, self.path(path)).unwrap();
    }

    /// Makes a directory.
    pub fn make(&self, path: impl AsRef<Path>) {
        fs::create_dir_all(self.path(path)).unwrap();
    }
}
