use std::path::Path;

/// A path as one word of an archive_command or restore_command, in which `%` has a meaning, too.
pub(crate) fn word(path: &Path) -> String {
    let path = path.display().to_string();
    format!("'{}'", path.replace('\'', "'\\''").replace('%', "%%"))
}
