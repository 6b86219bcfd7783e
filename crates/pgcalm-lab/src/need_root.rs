//! Who may run the lab.

use pgcalm_host::Failure;

/// Refuses to go on as another user, with what root is needed for.
pub(crate) fn need_root(purpose: &str) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::Host(format!("needs root for {purpose}: run it with sudo")))
}
