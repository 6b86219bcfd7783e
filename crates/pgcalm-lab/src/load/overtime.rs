use std::time::{Duration, Instant};

use anyhow::bail;

use crate::cap::InForce;
use crate::progress::Progress;

/// How long clients may take to notice that their time is up before the caps are lifted for them.
const NOTICE: Duration = Duration::from_secs(2);

/// How long it may take after that.
const UNCAPPED: Duration = Duration::from_secs(180);

/// What is done about clients whose time is up and who do not end: a stall holds them, and ends with the caps.
#[derive(Debug)]
pub(crate) struct Overtime {
    begins: Instant,
}

impl Overtime {
    /// Of clients who should end at `end`.
    pub(crate) fn after(end: Instant) -> Self {
        Self { begins: end + NOTICE }
    }

    /// Whether they are late.
    pub(crate) fn has_come(&self) -> bool {
        Instant::now() > self.begins
    }

    /// Lifts the caps once they are late, and fails if that does not help. Whether it has lifted them now.
    pub(crate) fn check(
        &self,
        label: &str,
        caps: &mut Option<Vec<InForce>>,
        progress: &Progress,
    ) -> anyhow::Result<bool> {
        if !self.has_come() {
            return Ok(false);
        }
        if Instant::now() > self.begins + UNCAPPED {
            bail!("clients do not end {} s after the caps were lifted", UNCAPPED.as_secs());
        }
        let lifted = caps.take().is_some();
        if lifted {
            progress.note(&format!("{label}: time is up, but a stall holds the clients: the caps are lifted"));
        }
        Ok(lifted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_are_lifted_once_for_late_clients_who_then_have_to_end() {
        let now = Instant::now();
        let progress = Progress::new();
        let mut caps = Some(Vec::new());
        let check = |overtime: Overtime, caps: &mut _| overtime.check("x", caps, &progress);
        assert!(!check(Overtime::after(now), &mut caps).unwrap());
        assert!(check(Overtime::after(now - 2 * NOTICE), &mut caps).unwrap());
        assert!(caps.is_none());
        assert!(!check(Overtime::after(now - 2 * NOTICE), &mut caps).unwrap());
        assert!(check(Overtime::after(now - 2 * UNCAPPED), &mut caps).is_err());
    }
}
