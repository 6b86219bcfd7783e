use crate::IsolateError;

/// Fails without root.
///
/// # Errors
///
/// [`IsolateError::Host`], with what can be done without.
pub fn need_root() -> Result<(), IsolateError> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(IsolateError::Host(
        "needs root to change control groups: run it with sudo, or look at the plan first, without --apply".to_string(),
    ))
}
