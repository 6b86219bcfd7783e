/// The endings of a command that a caller tells apart, in every crate; anything else is a plain failure. Each text is complete in
/// itself: it names what failed, and the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// An option or a name holds what can't work or isn't clear.
    #[error("{0}")]
    Usage(String),
    /// The host, the server or the role lacks a privilege, a program or a feature.
    #[error("{0}")]
    Host(String),
    /// No server is there, or it does not answer, or it ended; no archive can be read, or no file of it written.
    #[error("{0}")]
    Unreachable(String),
    /// A signal asked for the end; the text says in what state that leaves things.
    #[error("interrupted; {0}")]
    Interrupted(&'static str),
}
