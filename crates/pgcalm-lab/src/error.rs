/// The endings of a lab command that a caller tells apart; anything else is a plain failure.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// An option holds something that can't work; the text names the option and the way out.
    #[error("{0}")]
    Usage(String),
    /// The host lacks a privilege, a program or a kernel feature; the text names it and the way out.
    #[error("{0}")]
    Host(String),
    /// SIGINT, SIGTERM or SIGHUP arrived.
    #[error("interrupted; the lab has been taken down")]
    Interrupted,
}
