use std::io;
use std::path::PathBuf;

/// Why a file was not restored. Only [`NotFound`](Self::NotFound) may be taken for the end of the archived WAL.
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
        "archive {}: {source}; name the directory that pg_calm.archive_directory names, and see that it is mounted",
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
    pub(crate) fn io(action: &'static str, path: &std::path::Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_path_buf(),
            source,
        }
    }
}
