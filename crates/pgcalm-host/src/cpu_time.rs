//! The first line of /proc/stat.

use crate::{Error, HostRoot, Result};

const PATH: &str = "proc/stat";

/// What all CPUs together did since boot, in ticks (fs/proc/stat.c).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user and kernel mode and in interrupts; guests of this host included.
    pub busy: u64,
    /// Ready to run, but the hypervisor ran somebody else.
    pub stolen: u64,
    /// All of it, idle time included.
    pub total: u64,
}

impl CpuTime {
    /// Reads the current figures.
    pub fn read(root: &HostRoot) -> Result<Self> {
        let text = root.read(PATH)?;
        parse(&text).ok_or_else(|| Error::Format {
            path: root.path(PATH),
            expected: "a line cpu with eight figures",
            found: text.chars().take(80).collect(),
        })
    }

    /// Share of the time since `before` in which the CPUs were busy, in percent.
    pub fn busy_percent_since(&self, before: &Self) -> f64 {
        self.percent(before, |time| time.busy)
    }

    /// Share of the time since `before` that the hypervisor withheld, in percent.
    pub fn steal_percent_since(&self, before: &Self) -> f64 {
        self.percent(before, |time| time.stolen)
    }

    fn percent(&self, before: &Self, of: impl Fn(&Self) -> u64) -> f64 {
        let total = self.total.saturating_sub(before.total);
        if total == 0 {
            return 0.0;
        }
        // A counter may step back (iowait does), so a share can't be trusted to stay below all.
        (100.0 * of(self).saturating_sub(of(before)) as f64 / total as f64).min(100.0)
    }
}

fn parse(text: &str) -> Option<CpuTime> {
    let figures: Vec<u64> = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))?
        .split_whitespace()
        .map(|figure| figure.parse().ok())
        .collect::<Option<_>>()?;
    // guest and guest_nice follow, and are part of user and nice.
    let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = figures[..] else { return None };
    let busy = user + nice + system + irq + softirq;
    Some(CpuTime { busy, stolen, total: busy + stolen + idle + iowait })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CpuTime> {
        CpuTime::read(&crate::fake::FakeHost::with(&[(PATH, text)]))
    }

    #[test]
    fn shares_are_of_the_time_between_two_readings_and_guests_count_once() {
        let before = read("cpu  100 10 50 700 100 5 5 30 40 4\ncpu0 1 1 1 1 1 1 1 1 0 0\n").unwrap();
        let after = read("cpu  120 10 70 730 100 5 15 50 60 4\ncpu0 1 1 1 1 1 1 1 1 0 0\n").unwrap();
        assert_eq!(after.busy_percent_since(&before), 50.0);
        assert_eq!(after.steal_percent_since(&before), 20.0);
        assert_eq!(after.busy_percent_since(&after), 0.0);
    }

    #[test]
    fn what_is_no_such_line_is_an_error_that_names_the_file() {
        for text in ["cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4\n", "cpu  a b c d e f g h\n"] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains("proc/stat"), "{error}");
        }
    }
}
