use pgcalm_host::Failure;

/// Fails without root.
///
/// # Errors
///
/// [`Failure::Host`], with what can be done without.
pub fn need_root() -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::Host(
        "needs root to change control groups: run it with sudo, or look at the plan first, without --apply".to_string(),
    ))
}
