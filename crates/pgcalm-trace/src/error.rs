//! How a trace may end badly.

use pgcalm_host::Failure;

/// A signal ended the trace before it had what it was asked for.
pub const INTERRUPTED: Failure = Failure::Interrupted("all probes have been detached");

/// The server with this postmaster ended.
pub fn server_ended(pid: i32) -> Failure {
    Failure::Unreachable(format!("the server (pid {pid}) ended while it was traced; all probes have been detached"))
}

/// Sets apart what the host lacks, and why: without eBPF a verb goes another way.
pub fn host_apart<T>(result: anyhow::Result<T>) -> anyhow::Result<Result<T, String>> {
    match result.map_err(anyhow::Error::downcast::<Failure>) {
        Ok(value) => Ok(Ok(value)),
        Err(Ok(Failure::Host(reason))) => Ok(Err(reason)),
        Err(Ok(error)) => Err(error.into()),
        Err(Err(error)) => Err(error),
    }
}
