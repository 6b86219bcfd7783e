/// The endings of an isolate command that a caller tells apart; anything else is a plain failure.
#[derive(Debug, thiserror::Error)]
pub enum IsolateError {
    /// An option names what isn't there or can't be; the text names the option and the way out.
    #[error("{0}")]
    Usage(String),
    /// The host lacks a privilege or a kernel feature; the text names it and the way out.
    #[error("{0}")]
    Host(String),
    /// A signal asked the command to end before all was set; what had been done is undone.
    #[error("interrupted; all is as before")]
    Interrupted,
}
