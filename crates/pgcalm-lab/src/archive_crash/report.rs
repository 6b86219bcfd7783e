//! The result of power cuts at the steps of archiving, as data: the document that `pgcalm lab run archive-crash --json`
//! writes. Units are in the field names.

mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::Host;

/// Violations of a cycle that are told in words.
const SHOWN: usize = 3;

/// Cycles on a file system in one of which a process has to have been stopped: in fewer, its calls may not have come to the one
/// that was chosen.
const LEAST: usize = 8;

/// Power cuts and their controls: the document written by `pgcalm lab run archive-crash --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `archive-crash`.
    pub scenario: String,
    /// Where the run happened.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, serde_json::Value>"))]
    pub host: Host,
    /// Every option of the run with the value in force, by its command-line name without the dashes.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// The settings of the servers where they differ from PostgreSQL's defaults, but for those that name a place.
    pub server_settings: BTreeMap<String, String>,
    /// Whether a signal ended the run; what was under way then is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The cycles in the order in which they were run.
    pub cycles: Vec<Cycle>,
    /// Each control that was asked for, on each file system; empty if none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Control>,
}

/// Archiving up to a power cut, what is there then, recovery, and what is there after it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cycle {
    /// Counts from 1; in a control, from 1 again.
    pub number: u32,
    /// File system: `ext4` or `xfs`.
    pub fs: String,
    /// The call after which a process is stopped, e.g. `archiver: rename`; null in a control.
    pub point: Option<String>,
    /// Which of these calls, from 1; 0 in a control.
    pub call: u32,
    /// Whether it came, so that the process was stopped when the power went.
    pub stopped: bool,
    /// What was synced right before the power went: `archive`, `data`, `status`.
    pub synced: Vec<String>,
    /// Finished segments of all cycles so far on this file system, each of which was looked for.
    pub segments: u64,
    /// From the start of the server after the power cut until it took connections; null if it didn't, or if the cycle of a
    /// control had found its loss before.
    pub recovery_s: Option<f64>,
    /// Segments that were lost, changed, or announced although they are gone: the segment and what is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<String>,
    /// What else went wrong after the power cut: the server does not recover, or archiving does not go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// The same with a server that does not archive as it should: if that is not found out, the cycles prove nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Control {
    /// As on the command line, e.g. `directory`.
    pub name: String,
    /// What was done so that something is lost.
    pub sabotage: String,
    /// File system: `ext4` or `xfs`.
    pub fs: String,
    /// Cycles until the loss was found; all but the last have found nothing.
    pub cycles: Vec<Cycle>,
}

impl Cycle {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && self.problems.is_empty()
    }

    /// What is wrong, in one line; of many segments the first.
    pub fn findings(&self) -> String {
        let shown = self.violations.iter().take(SHOWN).chain(&self.problems);
        let mut all: Vec<String> = shown.cloned().collect();
        let more = self.violations.len().saturating_sub(SHOWN);
        if more > 0 {
            all.push(format!("{more} more violations"));
        }
        all.join("; ")
    }
}

impl Control {
    /// Whether a segment was found to be lost, changed or announced in vain.
    pub fn detected(&self) -> bool {
        self.cycles.iter().any(|cycle| !cycle.violations.is_empty())
    }
}

impl Report {
    /// Cycles in which the process was stopped at its point.
    pub fn stopped(&self) -> usize {
        self.cycles.iter().filter(|cycle| cycle.stopped).count()
    }

    /// Why the run counts as failed; `None` if all is well.
    pub fn failure(&self) -> Option<String> {
        let unsound: Vec<&Cycle> = self.cycles.iter().filter(|c| !c.is_sound()).collect();
        if let Some(first) = unsound.first() {
            let more = match unsound.len() {
                1 => String::new(),
                n => format!("; {} more failed", n - 1),
            };
            return Some(format!(
                "cycle {} ({}, {}): {}{more}",
                first.number,
                first.fs,
                first.point.as_deref().unwrap_or("no point"),
                first.findings()
            ));
        }
        if let Some(control) = self.controls.iter().find(|control| !control.detected()) {
            return Some(format!(
                "control {} ({}): no loss was found in {} power cuts, so the other cycles prove nothing",
                control.name,
                control.fs,
                control.cycles.len()
            ));
        }
        // What did not come in the part that was run may have come in the rest.
        if self.interrupted {
            return None;
        }
        if !self.cycles.is_empty() && self.stopped() == 0 {
            return Some("no process was stopped at its point in any cycle".to_string());
        }
        self.never_stopped()
            .map(|(fs, process)| format!("{fs}: {process}: it was stopped in none of its cycles, which prove nothing"))
    }

    /// A process that was stopped at none of its points, and the file system: it is not traced. A single point may
    /// never come: where workers are quick, the archiver has nothing left to copy.
    fn never_stopped(&self) -> Option<(&str, &str)> {
        let mut processes: BTreeMap<(&str, &str), Vec<bool>> = BTreeMap::new();
        for cycle in &self.cycles {
            let process = cycle.point.as_deref().and_then(|point| point.split(':').next());
            processes.entry((&cycle.fs, process.unwrap_or_default())).or_default().push(cycle.stopped);
        }
        let never = |stopped: &[bool]| stopped.len() >= LEAST && !stopped.contains(&true);
        processes.into_iter().find(|(_, stopped)| never(stopped)).map(|(process, _)| process)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn cycle(number: u32, point: &str) -> Cycle {
        Cycle {
            number,
            fs: "ext4".into(),
            point: Some(point.into()),
            call: 2,
            stopped: true,
            synced: vec!["data".into()],
            segments: 9,
            recovery_s: Some(0.5),
            ..Cycle::default()
        }
    }

    pub(crate) fn report() -> Report {
        Report {
            scenario: crate::archive_crash::HELP.name.into(),
            host: Host::of_a_test("none"),
            settings: BTreeMap::from([("seed".into(), 1.into())]),
            server_settings: BTreeMap::from([("archive_library".into(), "pg_calm_archive".into())]),
            interrupted: false,
            cycles: vec![cycle(1, "archiver: rename"), cycle(2, "archiver: fsync")],
            controls: vec![Control {
                name: "status".into(),
                sabotage: "the archiver's fsync of the archive directory does nothing".into(),
                fs: "ext4".into(),
                cycles: vec![Cycle { violations: vec!["0001 was recycled or removed".into()], ..cycle(1, "") }],
            }],
        }
    }

    #[test]
    fn a_sound_run_with_a_control_that_was_found_out_has_no_failure() {
        assert_eq!(report().failure(), None);
    }

    #[test]
    fn whatever_is_wrong_fails_the_run() {
        let failure = |change: fn(&mut Report)| {
            let mut report = report();
            change(&mut report);
            report.failure().unwrap_or_default()
        };
        let lost = failure(|report| report.cycles[1].violations.push("0002 is gone".into()));
        assert_eq!(lost, "cycle 2 (ext4, archiver: fsync): 0002 is gone");
        let many = failure(|report| report.cycles[1].violations = vec!["gone".into(); 5]);
        assert!(many.ends_with("gone; gone; gone; 2 more violations"), "{many}");
        let stuck = failure(|report| report.cycles[0].problems.push("stuck".into()));
        assert!(stuck.ends_with("stuck"), "{stuck}");
        let blind = failure(|report| report.controls[0].cycles[0].violations.clear());
        assert!(blind.contains("prove nothing"), "{blind}");
        // A server that does not come back has lost no segment.
        let blind = failure(|report| {
            let cycle = &mut report.controls[0].cycles[0];
            cycle.problems.append(&mut cycle.violations);
        });
        assert!(blind.contains("prove nothing"), "{blind}");
        let idle = failure(|report| report.cycles.iter_mut().for_each(|c| c.stopped = false));
        assert!(idle.contains("was stopped"), "{idle}");
    }

    #[test]
    fn a_process_that_was_never_stopped_fails_the_run() {
        let with = |cycles: usize| {
            let mut report = report();
            report.cycles.extend((0..cycles).map(|number| {
                let call = if number % 2 == 0 { "fsync" } else { "renameat2" };
                Cycle { stopped: false, ..cycle(3, &format!("pg_calm archive worker: {call}")) }
            }));
            report
        };
        let report = with(LEAST);
        let words = report.failure().unwrap();
        assert!(words.starts_with("ext4: pg_calm archive worker: it was stopped in none"), "{words}");
        assert_eq!(Report { interrupted: true, ..report }.failure(), None);
        assert_eq!(with(LEAST - 1).failure(), None);
        // One point of its others is enough.
        let mut once = with(LEAST);
        once.cycles[5].stopped = true;
        assert_eq!(once.failure(), None);
    }
}
