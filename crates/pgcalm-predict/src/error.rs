//! How an observation may end badly.

/// The endings that a caller tells apart; anything else is a plain failure.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// An option holds something that can't work; the text names the option and the way out.
    #[error("{0}")]
    Usage(String),
    /// The host or the server lacks what is needed; the text names it and the way out.
    #[error("{0}")]
    Host(String),
    /// A signal came before enough had been seen.
    #[error("interrupted; nothing was changed")]
    Interrupted,
}
