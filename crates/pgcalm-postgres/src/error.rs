//! Why there is no connection.

/// One line each, complete in itself: what failed, where, why, and the way out. No password is ever part of it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// What was given can't be used: a string that can't be read, an unknown service, a value out of range, a file that is
    /// not there.
    #[error("{0}")]
    Parameters(String),
    /// A signal has asked this process to end before there was one.
    #[error("interrupted while connecting")]
    Interrupted,
    /// No server let this session in.
    #[error("{text}")]
    Refused {
        /// With each host that was tried.
        text: String,
        /// What the first of them said, for where the server is named already.
        reason: String,
        /// Whether that one said nothing in time, rather than no.
        timed_out: bool,
        /// Whether that one takes no session of anybody, as it starts, recovers or stops.
        closed: bool,
        /// Whether that one answers, and only does not let this role in, or not into this database.
        denied: bool,
    },
}

impl ConnectError {
    /// Why, without host, database and role.
    pub fn reason(&self) -> &str {
        match self {
            Self::Parameters(text) => text,
            Self::Interrupted => "interrupted while connecting",
            Self::Refused { reason, .. } => reason,
        }
    }
}
