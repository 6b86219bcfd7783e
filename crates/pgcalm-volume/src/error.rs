use std::io;

/// Why a volume is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A value that can't work; the text names it and the way out.
    #[error("{0}")]
    Usage(String),
    /// The host lacks a privilege or a kernel feature; the text names it and the way out.
    #[error("{0}")]
    Host(String),
    /// A file operation failed.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted, with the file.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl VolumeError {
    /// For `map_err`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
