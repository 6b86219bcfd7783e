use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::chown;
use std::path::Path;

use anyhow::Context;

use crate::installation::Installation;

/// Creates a directory that only the servers' user may enter, as a data directory must be.
pub fn create(path: &Path, installation: &Installation) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .mode(0o700)
        .create(path)
        .and_then(|()| chown(path, Some(installation.uid), Some(installation.gid)))
        .with_context(|| format!("create {}", path.display()))
}
