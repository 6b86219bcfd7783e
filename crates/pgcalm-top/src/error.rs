//! How `pgcalm top` may end badly.

/// The endings that a caller tells apart; anything else is a plain failure.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// An option that can't work, or no terminal; the text names the way out.
    #[error("{0}")]
    Usage(String),
    /// No server, or none that answers.
    #[error("{0}")]
    Unreachable(String),
    /// A signal ended it.
    #[error("interrupted; the terminal is as it was")]
    Interrupted,
}
