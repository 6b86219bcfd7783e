//! Every rule on a fake host: it applies when one thing is wrong, and does not when nothing is.

mod advice;
mod caps;

use crate::fake;

use std::collections::BTreeSet;

use pgcalm_doctor::collect::{Options, collect};
use pgcalm_doctor::facts::{Cap, Facts, MemoryLimit, PgCalm, Server, StandbyLag};
use pgcalm_doctor::report::{Finding, Report, Severity, Target};
use pgcalm_doctor::rules;
use pgcalm_doctor::rules::Rule;
use pgcalm_doctor::rules::table::RULES;
use pgcalm_host::Known;

use fake::{GIB, Host, MIB};

/// One thing that is wrong with the host, and with what was read.
struct Case {
    rule: &'static str,
    host: fn(&Host),
    facts: fn(&mut Facts),
}

/// Only the host.
fn host(rule: &'static str, host: fn(&Host)) -> Case {
    Case { rule, host, facts: |_| {} }
}

/// Only what was read.
fn facts(rule: &'static str, facts: fn(&mut Facts)) -> Case {
    Case { rule, host: |_| {}, facts }
}

fn server(facts: &mut Facts) -> &mut Server {
    facts.server.as_mut().unwrap()
}

fn set(facts: &mut Facts, name: &str, value: &str) {
    server(facts).settings.get_mut(name).unwrap().value = value.into();
}

/// WAL per second of the last day.
fn wal_average(facts: &mut Facts, bytes: u64) {
    let wal = &mut server(facts).wal;
    (wal.bytes, wal.seconds) = (bytes * 86_400, Some(86_400.0));
}

fn shared_bandwidth() -> Cap {
    Cap { value: 125 * MIB, source: "options".into() }
}

/// The log tells that 16 MiB/s are replayed, 3000 pages are dirty, and a start may take so long.
fn recover(facts: &mut Facts, patience: f64) {
    server(facts).dirty_buffers = Some(3000);
    let host = facts.host.as_mut().unwrap();
    host.replay_bytes_per_second = Some(16.0 * MIB as f64);
    host.grace.as_mut().unwrap().start_seconds = Some(patience);
}

/// A standby with a slot that is so far behind at both ends of the sample.
fn lag(facts: &mut Facts, before_bytes: u64, after_bytes: u64) {
    server(facts).standbys = Some(vec![fake::standby(Some("near"))]);
    facts.sample.as_mut().unwrap().standbys =
        vec![StandbyLag { application_name: "near".into(), before_bytes, after_bytes }];
}

/// A standby with a slot, and a cap on operations of the disk of pg_wal.
fn wal_cap(facts: &mut Facts, operations: u64) {
    server(facts).standbys = Some(vec![fake::standby(Some("near"))]);
    let disks = &mut facts.host.as_mut().unwrap().disks;
    let mut cap = disks[0].write_iops.clone().unwrap();
    cap.value = operations;
    disks[1].write_iops = Some(cap);
}

fn calm(facts: &mut Facts) -> &mut PgCalm {
    let memory = pgcalm_doctor::facts::Setting {
        value: "32768".into(),
        unit: Some("kB".into()),
        context: "postmaster".into(),
        ..Default::default()
    };
    let server = server(facts);
    server.settings.insert("pg_calm.page_map_memory".into(), memory);
    server.pg_calm.insert(PgCalm { mode: "on".into(), has_views: true, ..PgCalm::default() })
}

fn cases() -> Vec<Case> {
    vec![
        facts("fsync-off", |f| set(f, "fsync", "off")),
        // All of shared_buffers are more than the 30,000 pages that a disk with 3000 operations writes in 10 s.
        facts("stop-longer-than-grace", |f| {
            set(f, "shared_buffers", "30001");
            f.host.as_mut().unwrap().grace.as_mut().unwrap().stop_seconds = Some(10.0);
        }),
        // 64 s of replay, and a checkpoint of 1 s.
        facts("recovery-longer-than-start", |f| recover(f, 64.9)),
        facts("init-sync-method", |f| f.host.as_mut().unwrap().data_files = Some(10_001)),
        host("cache-counted-as-memory", |h| {
            h.write(&format!("{}/memory.max", fake::SERVICE), "10000000000\n");
            h.write(&format!("{}/memory.current", fake::SERVICE), "9000000000\n");
            let stat = "anon 1\nfile 5500000000\nshmem 1000000000\nfile_dirty 0\nfile_writeback 0\n";
            h.write(&format!("{}/memory.stat", fake::SERVICE), stat);
        }),
        facts("full-page-writes-off", |f| set(f, "full_page_writes", "off")),
        facts("archive-goes-nowhere", |f| set(f, "archive_command", "")),
        facts("archiver-failing", |f| server(f).archiver.last_failed = true),
        facts("archiver-hangs", |f| {
            let archiver = &mut server(f).archiver;
            archiver.oldest_ready_seconds = Some(121.0);
            archiver.last_archived_seconds = Some(122.0);
        }),
        // 65 of 16 MB are one more than 1 GB.
        facts("archive-backlog", |f| server(f).archiver.ready_files = Some(65)),
        facts("wal-disk-small", |f| set(f, "max_wal_size", &(91 * 1024 + 1).to_string())),
        facts("slot-inactive", |f| server(f).slots = vec![fake::slot("gone", false, GIB + 1)]),
        facts("slot-lost", |f| server(f).slots[0].wal_status = Some("unreserved".into())),
        facts("slot-unbounded", |f| set(f, "max_slot_wal_keep_size", "-1")),
        facts("standby-without-slot", |f| {
            set(f, "archive_mode", "off");
            server(f).standbys = Some(vec![fake::standby(None)]);
        }),
        // 3 MB are made in the sample of 3 s.
        facts("standby-falls-behind", |f| lag(f, 2_000_000, 3_000_001)),
        // A segment is 64 operations of 256 kB.
        facts("replication-timeout-under-cap", |f| wal_cap(f, 2)),
        // 128 MB of buffers and three workers with 64 MB.
        host("memory-too-small", |h| h.write(&format!("{}/memory.max", fake::SERVICE), "335544319\n")),
        facts("device-at-cap", |f| {
            let rates = &mut f.sample.as_mut().unwrap().disks[0];
            rates.write_operations_per_second = 2700.0;
        }),
        // 10 % is the background threshold, half of the limit of 20 %.
        host("device-dirty-limit", |h| h.write("sys/class/bdi/8:0/max_ratio_fine", "500000\n")),
        // 3000 pages of 8 kB per second are 6.9 GB in 300 s; 10 GB are dirtyable.
        host("dirty-limit-beyond-checkpoint", |h| h.sysctl("dirty_ratio", 70)),
        host("dirty-writeback-interval", |h| h.sysctl("dirty_writeback_centisecs", 0)),
        host("writeback-throttling", |h| h.write("sys/devices/sda/queue/wbt_lat_usec", "1001\n")),
        // 10 ms of 125 MB per second are 1280 kB, and some.
        Case {
            rule: "read-ahead-long",
            host: |h| h.write("sys/class/bdi/8:0/read_ahead_kb", "1536\n"),
            facts: |f| f.host.as_mut().unwrap().disks[0].all_bandwidth = Some(shared_bandwidth()),
        },
        // 10 ms of 3000 operations per second are 30, and twice that is let pass.
        host("queue-long", |h| h.write("sys/devices/sda/queue/nr_requests", "61\n")),
        host("dirty-expire-short", |h| h.sysctl("dirty_expire_centisecs", 2999)),
        host("dirty-background-over-limit", |h| h.sysctl("dirty_background_ratio", 20)),
        Case {
            rule: "dirty-sysctls-for-pg-calm",
            host: |h| {
                h.sysctl("dirty_background_ratio", 40);
                h.sysctl("dirty_ratio", 60);
                h.sysctl("dirty_expire_centisecs", 29_999);
            },
            facts: |f| {
                calm(f);
            },
        },
        Case {
            rule: "device-dirty-share",
            host: |h| {
                h.sysctl("dirty_background_ratio", 40);
                h.sysctl("dirty_ratio", 60);
                h.sysctl("dirty_expire_centisecs", 30_000);
                h.write("sys/class/bdi/8:0/min_ratio_fine", "249999\n");
            },
            facts: |f| {
                calm(f);
            },
        },
        host("shared-journal", |h| {
            h.server(80, "srv/two", 5433);
            h.limit_data();
        }),
        host("wal-on-capped-device", |h| {
            h.link("srv/pg/pg_wal", "/srv/wal");
            h.write("srv/wal/x", "");
            h.limit_data();
        }),
        host("wal-with-data", |h| {
            h.link("srv/pg/pg_wal", "/srv/wal");
            h.write("srv/wal/x", "");
        }),
        host("journal-device-capped", |h| {
            h.mounts(70, "xfs");
            h.limit_data();
        }),
        host("log-on-capped-device", |h| {
            h.write("var/log/pg.log", "");
            h.write("proc/70/fdinfo/2", "flags:\t0102001\n");
            h.link("proc/70/fd/2", "/var/log/pg.log");
            h.limit_data();
        }),
        host("journal-waits-for-data", |h| h.ext4("sda", "rw\nnodelalloc\ndioread_nolock\ndata=ordered\n")),
        host("unwritten-blocks-shown", |h| h.ext4("sdb", "rw\nnodelalloc\ndioread_nolock\ndata=writeback\n")),
        host("data-journal", |h| h.ext4("sdb", "rw\ndelalloc\ndata=journal\n")),
        host("writeback-escapes-limit", |h| h.v1("/db")),
        host("limit-not-passed-down", |h| h.v1("")),
        host("no-memory-controller", |h| {
            h.limit_data();
            h.write("sys/fs/cgroup/cgroup.controllers", "cpu io\n");
        }),
        host("split-instance", |h| h.write("proc/71/cgroup", "0::/elsewhere\n")),
        // 1 GB / 1.9 in 300 s is reached at 1.89 MB/s.
        facts("max-wal-size", |f| wal_average(f, 1_900_000)),
        facts("checkpoint-completion-target", |f| set(f, "checkpoint_completion_target", "0.5")),
        // A tenth of 300 s is left; 102 checkpoints.
        facts("checkpoint-sync-long", |f| server(f).checkpoints.sync_time_ms = 102.0 * 30_001.0),
        facts("no-checkpoint-flush-hint", |f| set(f, "checkpoint_flush_after", "0")),
        facts("shared-buffers-small", |f| server(f).buffers.backends = 85_001),
        // Of 10 GB, 655,361 pages are a page more than half.
        facts("wal-compression", |f| server(f).wal.full_page_images = 655_361),
        facts("checkpoint-timeout", |f| set(f, "checkpoint_timeout", "299")),
        facts("wal-buffers-full", |f| server(f).wal.buffers_full = 86_401),
        facts("commit-delay", |f| {
            wal_cap(f, 3000);
            f.sample.as_mut().unwrap().wal_flushes_per_second = Some(1500.0);
            f.sample.as_mut().unwrap().commits_per_second = Some(1800.0);
        }),
        facts("wal-writer-flushes-often", |f| {
            set(f, "wal_writer_flush_after", "0");
            let disks = &mut f.host.as_mut().unwrap().disks;
            let cap = disks[0].write_iops.clone();
            disks[1].write_iops = cap;
        }),
        facts("wal-writer-bursts", |f| set(f, "wal_writer_flush_after", "2049")),
        facts("pg-calm-degraded", |f| calm(f).degraded = Some("no cachestat".into())),
        facts("pg-calm-map-full", |f| calm(f).map_full = 1),
        facts("log-checkpoints-off", |f| set(f, "log_checkpoints", "off")),
        host("kernel-without-cachestat", |h| h.write("proc/sys/kernel/osrelease", "6.4.0\n")),
        host("kernel-without-populate-write", |h| h.write("proc/sys/kernel/osrelease", "5.13.0\n")),
        host("kernel-without-btf", |h| std::fs::remove_file(h.root.path("sys/kernel/btf/vmlinux")).unwrap()),
        facts("server-without-usdt", |f| f.host.as_mut().unwrap().usdt_probes = Some(0)),
    ]
}

fn judge(case: &Case) -> Report {
    let host = Host::new();
    (case.host)(&host);
    let mut facts = host.facts();
    (case.facts)(&mut facts);
    rules::judge(facts)
}

fn ids(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|f| f.rule.as_str()).collect()
}

fn find<'a>(report: &'a Report, rule: &str) -> &'a Finding {
    let found = report.findings.iter().find(|f| f.rule == rule);
    found.unwrap_or_else(|| panic!("{rule} does not apply: {:?}, {:?}", ids(report), report.unanswered))
}

#[test]
fn no_rule_applies_and_none_is_left_unanswered_where_nothing_is_wrong() {
    let report = rules::judge(Host::new().facts());
    assert_eq!(ids(&report), [""; 0], "{:?}", report.findings);
    assert_eq!(report.unanswered, []);
    assert_eq!(report.clear.len(), RULES.len());
}

#[test]
fn every_rule_applies_when_its_thing_is_wrong_and_says_what_was_seen_and_what_to_do() {
    for case in cases() {
        let report = judge(&case);
        let finding = find(&report, case.rule);
        assert!(!finding.evidence.is_empty(), "{}", case.rule);
        assert!(finding.evidence.iter().all(|e| !e.is_empty()));
        assert!(!finding.cure.is_empty() && !finding.effect.is_empty());
        assert_eq!(finding.reversible, !finding.changes.is_empty(), "{}", case.rule);
        let table = RULES.iter().find(|rule| rule.id == case.rule).unwrap();
        assert_eq!(finding.reversible, table.reversible, "{}", case.rule);
    }
}

#[test]
fn every_rule_of_the_table_has_a_case_and_a_name_of_its_own() {
    let tested: BTreeSet<&str> = cases().iter().map(|case| case.rule).collect();
    let table: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(tested, table);
    assert_eq!(table.len(), RULES.len());
}

#[test]
fn an_archiver_that_has_a_library_and_a_command_refuses_both_from_16_on() {
    let report = |version| {
        let mut facts = Host::new().facts();
        set(&mut facts, "archive_library", "pg_calm_archive");
        server(&mut facts).version_num = version;
        rules::judge(facts)
    };
    let refused = report(160_000);
    let finding = find(&refused, "archive-goes-nowhere");
    assert!(finding.evidence[0].contains("both"), "{finding:?}");
    assert!(finding.commands[0].contains("archive_command = '';"), "{finding:?}");
    let taken = report(150_020);
    assert!(!ids(&taken).contains(&"archive-goes-nowhere"), "{:?}", taken.findings);
}

#[test]
fn a_threshold_is_not_passed_by_reaching_it() {
    let at_the_edge = [
        facts("archive-backlog", |f| server(f).archiver.ready_files = Some(64)),
        facts("slot-inactive", |f| server(f).slots = vec![fake::slot("gone", false, GIB)]),
        facts("standby-without-slot", |f| {
            set(f, "archive_mode", "off");
            set(f, "wal_keep_size", "1024");
            server(f).standbys = Some(vec![fake::standby(None)]);
        }),
        facts("standby-falls-behind", |f| lag(f, 2_000_000, 3_000_000)),
        // 32 s are half of it.
        facts("replication-timeout-under-cap", |f| {
            wal_cap(f, 2);
            set(f, "wal_sender_timeout", "64000");
            set(f, "wal_receiver_timeout", "0");
        }),
        facts("stop-longer-than-grace", |f| {
            set(f, "shared_buffers", "30000");
            f.host.as_mut().unwrap().grace.as_mut().unwrap().stop_seconds = Some(10.0);
        }),
        // What is dirty counts, where it is known.
        facts("stop-longer-than-grace", |f| {
            server(f).dirty_buffers = Some(100);
            f.host.as_mut().unwrap().grace.as_mut().unwrap().stop_seconds = Some(1.0);
        }),
        facts("recovery-longer-than-start", |f| recover(f, 65.0)),
        // A standby makes no checkpoint then, and what pg_calm tells of the rate counts.
        facts("recovery-longer-than-start", |f| {
            recover(f, 64.0);
            server(f).in_recovery = true;
        }),
        facts("recovery-longer-than-start", |f| {
            recover(f, 62.0);
            calm(f).replay_bytes_per_second = Some(17.0 * MIB as f64);
        }),
        facts("init-sync-method", |f| f.host.as_mut().unwrap().data_files = Some(10_000)),
        facts("wal-disk-small", |f| set(f, "max_wal_size", &(91 * 1024).to_string())),
        host("memory-too-small", |h| h.write(&format!("{}/memory.max", fake::SERVICE), "335544320\n")),
        host("device-dirty-limit", |h| h.write("sys/class/bdi/8:0/max_ratio_fine", "500100\n")),
        host("dirty-limit-beyond-checkpoint", |h| h.sysctl("dirty_ratio", 68)),
        host("dirty-writeback-interval", |h| h.sysctl("dirty_writeback_centisecs", 3000)),
        facts("max-wal-size", |f| f.sample.as_mut().unwrap().wal_bytes_per_second = Some(1.88e6)),
        facts("checkpoint-sync-long", |f| server(f).checkpoints.sync_time_ms = 102.0 * 29_999.0),
        facts("device-at-cap", |f| {
            let rates = &mut f.sample.as_mut().unwrap().disks[0];
            rates.write_operations_per_second = 2699.0;
        }),
        facts("wal-compression", |f| server(f).wal.full_page_images = 655_360),
        facts("shared-buffers-small", |f| server(f).buffers.backends = 85_000),
        facts("wal-writer-bursts", |f| set(f, "wal_writer_flush_after", "2048")),
        // Half of the operations would be 1500.
        facts("commit-delay", |f| {
            wal_cap(f, 3000);
            f.sample.as_mut().unwrap().wal_flushes_per_second = Some(1499.0);
            f.sample.as_mut().unwrap().commits_per_second = Some(1800.0);
        }),
        facts("commit-delay", |f| {
            wal_cap(f, 3000);
            f.sample.as_mut().unwrap().wal_flushes_per_second = Some(1500.0);
            f.sample.as_mut().unwrap().commits_per_second = Some(1799.0);
        }),
    ];
    for case in at_the_edge {
        let report = judge(&case);
        assert!(
            report.clear.iter().any(|id| id == case.rule),
            "{}: {:?}, {:?}",
            case.rule,
            ids(&report),
            report.unanswered
        );
    }
}

fn unanswered<'a>(report: &'a Report, rule: &str) -> &'a str {
    let found = report.unanswered.iter().find(|u| u.rule == rule);
    let found = found.unwrap_or_else(|| panic!("{rule}: {:?}, {:?}", ids(report), report.clear));
    &found.why
}

#[test]
fn what_may_be_where_nothing_is_known_is_not_clear() {
    let host = Host::new();
    // A btrfs on two devices: on which a file is nobody tells.
    host.write("proc/70/mountinfo", "1 0 0:40 / / rw - btrfs /dev/sda1 rw\n2 1 8:17 / /wal rw - ext4 /dev/sdb1 rw\n");
    for device in ["sda1", "sdb1"] {
        host.write(&format!("sys/fs/btrfs/1/devices/{device}/x"), "");
    }
    host.write(&format!("{}/io.max", fake::SERVICE), "8:16 wiops=5000\n");
    let report = rules::judge(host.facts());
    for rule in [
        "device-at-cap",
        "device-dirty-limit",
        "shared-journal",
        "wal-on-capped-device",
        "journal-waits-for-data",
        "unwritten-blocks-shown",
        "writeback-throttling",
    ] {
        let why = unanswered(&report, rule);
        assert!(why.contains("sda1, sdb1"), "{rule}: {why}");
    }
    // What is known is told nevertheless.
    host.ext4("sdb", "rw\ndelalloc\ndata=journal\n");
    find(&rules::judge(host.facts()), "data-journal");
    // Control groups that something covers may have limits on memory, too.
    let host = Host::new();
    host.write(
        "proc/self/mountinfo",
        "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n42 41 0:9 / /sys/fs/cgroup rw - tmpfs x rw\n",
    );
    let report = rules::judge(host.facts());
    for rule in ["memory-too-small", "wal-on-capped-device"] {
        let why = unanswered(&report, rule);
        assert!(why.contains("covered"), "{rule}: {why}");
    }
}

#[test]
fn the_worst_comes_first() {
    let host = Host::new();
    host.sysctl("dirty_writeback_centisecs", 0);
    let mut facts = host.facts();
    set(&mut facts, "log_checkpoints", "off");
    set(&mut facts, "checkpoint_timeout", "30");
    set(&mut facts, "fsync", "off");
    let report = rules::judge(facts);
    let severities: Vec<Severity> = report.findings.iter().map(|f| f.severity).collect();
    assert_eq!(severities.first(), Some(&Severity::Outage));
    assert_eq!(severities.last(), Some(&Severity::Blind));
    assert!(severities.is_sorted(), "{severities:?}");
}

#[test]
fn without_server_or_host_its_rules_are_unanswered_and_say_why() {
    let mut facts = Host::new().facts();
    facts.server = None;
    let report = rules::judge(facts.clone());
    assert_eq!(ids(&report), [""; 0]);
    let why = |report: &Report, rule: &str| {
        let unanswered = report.unanswered.iter().find(|u| u.rule == rule);
        unanswered.map(|u| u.why.clone()).unwrap_or_default()
    };
    assert!(why(&report, "fsync-off").contains("--connect"));
    assert!(report.clear.iter().any(|id| id == "dirty-expire-short"));
    facts.host = None;
    facts.server = Some(fake::server());
    let report = rules::judge(facts);
    assert!(why(&report, "dirty-expire-short").contains("host"));
    assert!(report.clear.iter().any(|id| id == "fsync-off"));
}

#[test]
fn the_table_in_the_documentation_is_the_table_of_rules() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/doctor-rules.md");
    let text = std::fs::read_to_string(file).unwrap();
    let table = rules::markdown(&RULES);
    let (before, rest) = text.split_once("<!-- rules -->\n").expect("a place for the table");
    let (shown, after) = rest.split_once("<!-- end of rules -->\n").unwrap();
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        let text = format!("{before}<!-- rules -->\n{table}<!-- end of rules -->\n{after}");
        std::fs::write(file, text).unwrap();
        return;
    }
    assert!(
        shown == table,
        "the rules in docs/reference/doctor-rules.md are not those of the table: UPDATE_SCHEMA=1 cargo test -p pgcalm-doctor"
    );
}

#[test]
fn a_pipe_in_a_cell_does_not_end_it() {
    let rule = Rule {
        id: "x",
        severity: Severity::Slow,
        problem: "p",
        looks_at: "a|b",
        applies: "always",
        reason: "r",
        cure: "c",
        effect: "e",
        reversible: true,
        condition: |_| Ok(None),
    };
    let table = rules::markdown(&[rule]);
    assert!(table.contains("| `x` | p | a\\|b | always | r | c | e | yes |"), "{table}");
}
