use std::io;
use std::path::PathBuf;

/// Why a file was not restored. Only what [is absent](Self::is_absence) may be taken for the end of the archived WAL.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The archive does not hold the file, in no form.
    #[error("{file} is not in the archive {}", archive.display())]
    NotFound {
        /// Name without suffix.
        file: String,
        /// The directory.
        archive: PathBuf,
    },
    /// The archive holds it unfinished, and a standby asks, which will ask again.
    #[error("{file} is not in the archive yet: {} is not finished", found.display())]
    NotYet {
        /// Name without suffix.
        file: String,
        /// What there is.
        found: PathBuf,
    },
    /// The archive holds the file, but in no form that can be read.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// What there is.
        path: PathBuf,
        /// Why it can't be used, and what to do.
        reason: String,
    },
    /// What is at the target is no file, and would be lost if it were replaced.
    #[error("{}: {source}; name a file, or check without one with --check", path.display())]
    Target {
        /// Where the file was to appear.
        path: PathBuf,
        /// What is there.
        source: io::Error,
    },
    /// The archive holds the file, but not as it was archived, or it is another system's. The text says what is wrong.
    #[error(
        "{}: {reason}; restore this file from another copy of the archive, or end recovery before it with \
         recovery_target_lsn",
        path.display()
    )]
    Damaged {
        /// The file in the archive.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory of the archive is not there, or can't be read.
    #[error(
        "archive {}: {source}; name the directory that pg_calm_archive.directory names, and see that it is mounted",
        archive.display()
    )]
    NoArchive {
        /// The directory.
        archive: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The name is none that PostgreSQL gives to a file in pg_wal.
    #[error(
        "{0:?} is not the name of a WAL segment, a timeline history file or a backup history file; give %f of \
         restore_command"
    )]
    BadName(String),
    /// A file could not be read or written.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried, e.g. `write`.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl RestoreError {
    /// Whether the archive does not hold the file, or not yet.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::NotYet { .. })
    }

    pub(crate) fn io(action: &'static str, path: &std::path::Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_path_buf(), source }
    }
}
