use std::path::PathBuf;
use std::{fmt, io};

use crate::Unknown;

/// What a reader could not do. Each text is whole: it tells the kernel's reason, too, and so has no source that would tell
/// it once more.
#[derive(Debug)]
pub enum Error {
    /// A file or directory could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written.
    Write {
        /// The file.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// A file holds something that this version does not understand.
    Format {
        /// The file.
        path: PathBuf,
        /// What should stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// All could be read, and does not tell.
    Unknown(Unknown),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "read {}: {source}", path.display()),
            Self::Write { path, value, source } => write!(f, "write {value:?} to {}: {source}", path.display()),
            Self::Format { path, expected, found } => {
                write!(f, "{}: expected {expected}, found {found:?}", path.display())
            }
            Self::Unknown(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Unknown> for Error {
    fn from(why: Unknown) -> Self {
        Self::Unknown(why)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once_however_the_error_is_shown() {
        let error = Error::Read { path: "/x".into(), source: io::Error::from_raw_os_error(13) };
        assert_eq!(error.to_string(), "read /x: Permission denied (os error 13)");
        assert!(std::error::Error::source(&error).is_none());
    }
}
