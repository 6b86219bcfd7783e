//! `--fail-on`, of every verb that judges: for scripts.

use std::fmt;

use clap::{Args, ValueEnum};
use pgcalm_doctor::report::Severity;

#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct FailOnArg {
    /// End with exit code 5 if something is found that is this bad, or worse.
    #[arg(long, value_name = "SEVERITY")]
    pub fail_on: Option<FailOn>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Data can be lost, or the server, a standby or the archive stops.
    Outage,
    /// Or transactions stand still for seconds.
    Stall,
    /// Or throughput is lost, or a limit or setting doesn't do what it seems to.
    Slow,
}

impl From<FailOn> for Severity {
    fn from(fail_on: FailOn) -> Self {
        match fail_on {
            FailOn::Outage => Self::Outage,
            FailOn::Stall => Self::Stall,
            FailOn::Slow => Self::Slow,
        }
    }
}

/// What the option says was found.
#[derive(Debug)]
pub(crate) struct Found {
    severity: Severity,
    count: usize,
}

impl std::error::Error for Found {}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, count } = self;
        write!(f, "--fail-on {}: found {count}", severity.name())
    }
}

impl FailOnArg {
    /// An error if any of `found` is as bad as was said.
    pub(crate) fn judge(self, found: impl IntoIterator<Item = Severity>) -> Result<(), Found> {
        let Some(fail_on) = self.fail_on else { return Ok(()) };
        let severity = Severity::from(fail_on);
        // Worst comes first.
        let count = found.into_iter().filter(|found| *found <= severity).count();
        match count {
            0 => Ok(()),
            count => Err(Found { severity, count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worse_counts_and_what_is_less_bad_does_not() {
        let judge = |fail_on, found| FailOnArg { fail_on }.judge([found]).is_err();
        assert!(judge(Some(FailOn::Stall), Severity::Outage));
        assert!(judge(Some(FailOn::Stall), Severity::Stall));
        assert!(!judge(Some(FailOn::Stall), Severity::Slow));
        assert!(judge(Some(FailOn::Slow), Severity::Stall));
        assert!(!judge(Some(FailOn::Slow), Severity::Blind));
        assert!(!judge(None, Severity::Outage));
    }
}
