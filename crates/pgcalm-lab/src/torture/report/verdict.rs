//! What the figures of crash cycles come to.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Control, Cycle, Report, Stale};

/// Cycles of which one has to have done something for them to prove anything: fewer may all have been crashed before it came
/// to that.
const LEAST: usize = 8;

impl Cycle {
    /// Whether nothing was lost and nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.rows_lost == 0 && self.rows_corrupt == 0 && self.rows_torn == 0 && self.problems.is_empty()
    }

    /// What is wrong, in one line.
    pub fn findings(&self) -> String {
        let mut parts: Vec<String> = [
            (self.rows_lost, "acknowledged rows lost"),
            (self.rows_corrupt, "rows corrupt"),
            (self.rows_torn, "rows of torn transactions"),
        ]
        .iter()
        .filter(|(rows, _)| *rows > 0)
        .map(|(rows, what)| format!("{rows} {what}"))
        .collect();
        parts.extend(self.problems.iter().cloned());
        parts.join("; ")
    }
}

/// How problems begin that a recovered cluster has only if data was lost. A server that does not start, or a program that can't
/// connect, tells of none.
const OF_DATA: [&str; 3] = [
    "reading through the index",
    // It found something; with 1 it could not look.
    "pg_amcheck failed (exit status: 2)",
    "pg_checksums failed (exit status: 1): pg_checksums: error: checksum verification failed",
];

impl Control {
    /// Whether the loss was found.
    pub fn detected(&self) -> bool {
        let of_data = |problem: &String| OF_DATA.iter().any(|words| problem.starts_with(words));
        self.cycles.last().is_some_and(|cycle| {
            let rows = cycle.rows_lost + cycle.rows_corrupt + cycle.rows_torn;
            cycle.recovery_s.is_some() && (rows > 0 || cycle.problems.iter().any(of_data))
        })
    }
}

impl Report {
    /// Why the run counts as failed; `None` if all is well.
    pub fn failure(&self) -> Option<String> {
        let unsound: Vec<&Cycle> = self.cycles.iter().filter(|c| !c.is_sound()).collect();
        if let Some(first) = unsound.first() {
            let more = match unsound.len() {
                1 => String::new(),
                n => format!("; {} more failed", n - 1),
            };
            return Some(format!("cycle {} ({}, {}): {}{more}", first.number, first.fs, first.crash, first.findings()));
        }
        let stale = |cycle: &&Cycle| cycle.stale.as_ref().is_some_and(|stale| stale.after_recovery > 0);
        if !self.is_mounted_with("data=writeback")
            && let Some(cycle) = self.cycles.iter().find(stale)
        {
            return Some(format!(
                "cycle {} ({}, {}): a deleted file's data in the server's files after recovery",
                cycle.number, cycle.fs, cycle.crash
            ));
        }
        for control in &self.controls {
            if !control.detected() {
                let fs = control.cycles.first().map_or("", |cycle| &cycle.fs);
                return Some(format!(
                    "control ({fs}, {}): no loss was detected in {} cycles, so the other cycles prove nothing",
                    control.sabotage,
                    control.cycles.len()
                ));
            }
        }
        // What did not come in the part that was run may have come in the rest.
        if self.interrupted {
            return None;
        }
        if let Some(cycles) = self.idle(1, |cycle| cycle.commits) {
            return Some(format!("no transaction was acknowledged in any {cycles}"));
        }
        if self.module_is_on() {
            if let Some(cycles) = self.idle(1, |cycle| cycle.bridged_pages) {
                return Some(format!("pg_calm bridged no page in any {cycles}"));
            }
            if let Some(cycles) = self.idle(1, |cycle| cycle.flushed_pages) {
                return Some(format!("pg_calm flushed no page in any {cycles}"));
            }
            // Most crashes come before one is complete.
            if let Some(cycles) = self.idle(LEAST, |cycle| cycle.drained_checkpoints) {
                return Some(format!("pg_calm drained no checkpoint in any {cycles}"));
            }
        }
        let stale: Vec<&Stale> = self.cycles.iter().filter_map(|cycle| cycle.stale.as_ref()).collect();
        let shows = ["data=writeback", "nodelalloc"].iter().all(|option| self.is_mounted_with(option));
        if shows && stale.len() >= LEAST && stale.iter().all(|stale| stale.in_unsynced_files == 0) {
            return Some(format!(
                "no deleted file's data showed in {} crashes with data=writeback, so that other mounts show none proves nothing",
                stale.len()
            ));
        }
        None
    }

    /// Cycles none of which counts anything: all, if they are so many, or those of a file system and a crash, of which others need
    /// tell nothing.
    fn idle(&self, least_of_all: usize, count: fn(&Cycle) -> u64) -> Option<String> {
        let mut kinds: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
        for cycle in &self.cycles {
            kinds.entry((&cycle.fs, &cycle.crash)).or_default().push(count(cycle));
        }
        if self.cycles.len() >= least_of_all && kinds.values().flatten().all(|count| *count == 0) {
            return Some("cycle".to_string());
        }
        let is_idle = |counts: &[u64]| counts.len() >= LEAST && counts.iter().all(|count| *count == 0);
        let ((fs, crash), _) = kinds.into_iter().find(|(_, counts)| is_idle(counts))?;
        Some(format!("cycle of {fs} {crash}"))
    }

    fn is_mounted_with(&self, option: &str) -> bool {
        let options = self.settings.get("mount-options").and_then(Value::as_str);
        options.is_some_and(|options| options.split(',').any(|one| one == option))
    }

    fn module_is_on(&self) -> bool {
        self.server_settings.get("pg_calm.mode").is_some_and(|mode| mode == "on")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::report::view::tests::report;

    #[test]
    fn a_sound_run_with_a_control_that_failed_has_no_failure() {
        assert_eq!(report().failure(), None);
    }

    type Damage = fn(&mut Cycle);

    #[test]
    fn each_kind_of_damage_fails_the_run() {
        let damages: [(Damage, &str); 4] = [
            (|cycle| cycle.rows_lost = 3, "3 acknowledged rows lost"),
            (|cycle| cycle.rows_corrupt = 2, "2 rows corrupt"),
            (|cycle| cycle.rows_torn = 1, "1 rows of torn"),
            (|cycle| cycle.problems.push("pg_checksums: bad".into()), "pg_checksums: bad"),
        ];
        for (damage, words) in damages {
            let mut report = report();
            damage(&mut report.cycles[1]);
            let failure = report.failure().unwrap();
            assert!(failure.starts_with("cycle 2 (xfs, kill): "), "{failure}");
            assert!(failure.contains(words), "{failure}");
        }
    }

    /// Of so many crashes with these options, in which blocks showed in files that were not synced, and in the server's.
    fn with_stale_blocks(mount_options: &str, crashes: usize, in_unsynced_files: u64, after_recovery: u64) -> Report {
        let mut report = report();
        report.settings.insert("mount-options".into(), mount_options.into());
        let stale = Stale { in_unsynced_files, after_recovery, ..Stale::default() };
        let cycle = Cycle { stale: Some(stale), ..report.cycles[0].clone() };
        report.cycles = vec![cycle; crashes];
        report
    }

    #[test]
    fn a_deleted_files_data_in_the_servers_files_fails_the_run_but_where_the_mount_is_known_to_show_it() {
        for (mount_options, fails) in [("data=ordered,nodelalloc", true), ("data=writeback,nodelalloc", false)] {
            let failure = with_stale_blocks(mount_options, 3, 9, 1).failure();
            assert_eq!(failure.is_some(), fails, "{failure:?}");
            assert_eq!(with_stale_blocks(mount_options, 3, 9, 0).failure(), None);
        }
        let failure = with_stale_blocks("", 1, 0, 1).failure().unwrap();
        assert_eq!(failure, "cycle 1 (ext4, shutdown): a deleted file's data in the server's files after recovery");
    }

    #[test]
    fn a_mount_that_is_known_to_show_a_deleted_files_data_has_to() {
        let failure = |mount_options, crashes| with_stale_blocks(mount_options, crashes, 0, 0).failure();
        let of_control = failure("data=writeback,nodelalloc", LEAST).unwrap();
        assert!(of_control.contains("proves nothing"), "{of_control}");
        assert_eq!(failure("data=writeback,nodelalloc", LEAST - 1), None);
        assert_eq!(failure("data=writeback", LEAST), None);
        assert_eq!(failure("data=ordered,nodelalloc", LEAST), None);
    }

    #[test]
    fn a_control_that_finds_nothing_fails_the_run() {
        let mut report = report();
        report.controls[0].cycles[0].rows_lost = 0;
        report.controls[0].cycles[0].problems.clear();
        assert!(report.failure().unwrap().starts_with("control (ext4, fsync=off)"));
        report.controls[0].cycles.clear();
        assert!(report.failure().unwrap().starts_with("control"));
    }

    #[test]
    fn a_control_is_found_out_by_its_data_and_not_by_whatever_went_wrong() {
        let found = |recovery_s, problem: &str| {
            let mut report = report();
            let cycle = &mut report.controls[0].cycles[0];
            (cycle.rows_lost, cycle.recovery_s, cycle.problems) = (0, recovery_s, vec![problem.into()]);
            report.failure().is_none()
        };
        for problem in [
            "reading through the index gives 9 rows, reading the table 10, and they differ",
            "pg_amcheck failed (exit status: 2): btree index \"ledger_pkey\": ERROR: x",
            "pg_checksums failed (exit status: 1): pg_checksums: error: checksum verification failed in file \"x\"",
        ] {
            assert!(found(Some(1.0), problem), "{problem}");
            assert!(!found(None, problem), "{problem}");
        }
        assert!(!found(None, "server did not start (exit status: 1): FATAL:  bogus data in lock file"));
        for problem in [
            "before the crash: the server has ended; the server's log: PANIC:  could not write",
            "reading the ledger: connection closed",
            "pg_amcheck failed (exit status: 1): error: connection to server failed",
            "pg_checksums failed (exit status: 1): pg_checksums: error: cluster must be shut down",
        ] {
            assert!(!found(Some(1.0), problem), "{problem}");
        }
    }

    #[test]
    fn a_module_that_did_nothing_fails_the_run() {
        let mut report = report();
        for cycle in &mut report.cycles {
            cycle.bridged_pages = 0;
        }
        assert!(report.failure().unwrap().contains("bridged no page"));
        report.server_settings.insert("pg_calm.mode".into(), "off".into());
        assert_eq!(report.failure(), None);
    }

    #[test]
    fn of_some_cycles_one_has_to_have_drained_a_checkpoint() {
        let failure = |cycles: usize| {
            let mut report = report();
            let idle = Cycle { drained_checkpoints: 0, ..report.cycles[0].clone() };
            report.cycles = (0..cycles).map(|n| Cycle { fs: ["ext4", "xfs"][n % 2].into(), ..idle.clone() }).collect();
            report.failure()
        };
        assert_eq!(failure(LEAST).as_deref(), Some("pg_calm drained no checkpoint in any cycle"));
        assert_eq!(failure(LEAST - 1), None);
    }

    #[test]
    fn a_module_that_did_nothing_on_a_file_system_or_in_a_kind_of_crash_fails_the_run() {
        let failure = |cycles: usize, change: Damage| {
            let mut report = report();
            let mut idle = report.cycles[1].clone();
            change(&mut idle);
            report.cycles.extend(vec![Cycle { crash: "shutdown".into(), ..idle }; cycles]);
            report.failure()
        };
        let cases: [(Damage, &str); 4] = [
            (|cycle| cycle.bridged_pages = 0, "pg_calm bridged no page in any cycle of xfs shutdown"),
            (|cycle| cycle.flushed_pages = 0, "pg_calm flushed no page in any cycle of xfs shutdown"),
            (|cycle| cycle.drained_checkpoints = 0, "pg_calm drained no checkpoint in any cycle of xfs shutdown"),
            (|cycle| cycle.commits = 0, "no transaction was acknowledged in any cycle of xfs shutdown"),
        ];
        for (change, words) in cases {
            assert_eq!(failure(LEAST, change).as_deref(), Some(words));
            // They may all have been crashed before it came to that.
            assert_eq!(failure(LEAST - 1, change), None);
        }
    }
}
