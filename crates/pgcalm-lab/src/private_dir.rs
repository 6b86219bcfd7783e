use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::Context;

use crate::installation::Installation;
use crate::shared_file;

/// Creates a directory that only the servers' user may enter, as a data directory must be.
pub(crate) fn create(path: &Path, installation: &Installation) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .mode(0o700)
        .create(path)
        .and_then(|()| shared_file::give(path, installation))
        .with_context(|| format!("create {}", path.display()))
}
