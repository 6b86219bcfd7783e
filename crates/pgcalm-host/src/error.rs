use std::io;
use std::path::PathBuf;

/// What a reader could not do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("write {value:?} to {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// A file holds something that this version does not understand.
    #[error("{}: expected {expected}, found {found:?}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What should stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
}

impl Error {
    /// Whether the file does not exist, which for many files of /proc means: the process has ended.
    pub fn is_not_found(&self) -> bool {
        match self {
            // ESRCH is what /proc/PID files give when the process ends between open and read.
            Self::Read { source, .. } => {
                source.kind() == io::ErrorKind::NotFound || source.raw_os_error() == Some(ESRCH)
            }
            _ => false,
        }
    }

    /// Whether this user may not read it, which for files of /proc means: another user's process.
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Read { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }
}

const ESRCH: i32 = 3;

/// Result of a reader.
pub type Result<T> = std::result::Result<T, Error>;
