/// The endings of doctor that a caller tells apart; anything else is a plain failure.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// An option names what isn't there or can't be; the text names the option and the way out.
    #[error("{0}")]
    Usage(String),
    /// The host or the server lacks a privilege; the text names it and the way out.
    #[error("{0}")]
    Host(String),
}
