//! Who may run the lab.

use crate::LabError;

/// Refuses to go on as another user, with what root is needed for.
pub(crate) fn need_root(purpose: &str) -> Result<(), LabError> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(LabError::Host(format!("needs root for {purpose}: run it with sudo")))
}
