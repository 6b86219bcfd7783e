//! How a trace may end badly.

/// The endings of a trace that a caller tells apart; anything else is a plain failure.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// An option holds something that can't work; the text names the option and the way out.
    #[error("{0}")]
    Usage(String),
    /// The host lacks a privilege or a kernel feature; the text names it and the way out.
    #[error("{0}")]
    Host(String),
    /// The server does not answer; the text says why, and the way out.
    #[error("{0}")]
    Unreachable(String),
    /// A signal ended the trace before it had what it was asked for.
    #[error("interrupted; all probes have been detached")]
    Interrupted,
    /// The server ended.
    #[error("the server (pid {pid}) ended while it was traced; all probes have been detached")]
    ServerEnded {
        /// Process id of the postmaster.
        pid: i32,
    },
}

/// Sets apart what the host lacks, and why: without eBPF a verb goes another way.
pub fn host_apart<T>(result: anyhow::Result<T>) -> anyhow::Result<Result<T, String>> {
    match result.map_err(anyhow::Error::downcast::<TraceError>) {
        Ok(value) => Ok(Ok(value)),
        Err(Ok(TraceError::Host(reason))) => Ok(Err(reason)),
        Err(Ok(error)) => Err(error.into()),
        Err(Err(error)) => Err(error),
    }
}
