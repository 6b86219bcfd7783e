//! What a rule knows of what else there is, and what it says to do.

use super::*;

#[test]
fn the_wait_before_a_flush_is_half_of_what_one_takes() {
    let mut facts = Host::new().facts();
    calm(&mut facts).wal_flush_seconds = Some(0.0013);
    wal_cap(&mut facts, 3000);
    facts.sample.as_mut().unwrap().wal_flushes_per_second = Some(2000.0);
    facts.sample.as_mut().unwrap().commits_per_second = Some(4000.0);
    let commands = |facts: &Facts| find(&rules::judge(facts.clone()), "commit-delay").commands.clone();
    assert!(commands(&facts)[0].contains("commit_delay = '650'"), "{:?}", commands(&facts));
    server(&mut facts).pg_calm = None;
    assert_eq!(commands(&facts), ["pg_test_fsync"]);
}

#[test]
fn an_archive_that_stands_still_is_not_called_slow_and_one_that_cant_hang_is_none() {
    let judge = |change: fn(&mut Facts)| {
        let mut facts = Host::new().facts();
        let archiver = &mut server(&mut facts).archiver;
        archiver.ready_files = Some(65);
        archiver.oldest_ready_seconds = Some(3600.0);
        archiver.last_archived_seconds = Some(3600.0);
        change(&mut facts);
        rules::judge(facts)
    };
    let found = |change| {
        let report = judge(change);
        let ids = ids(&report).into_iter().map(str::to_string);
        ids.filter(|id| id.starts_with("archive")).collect::<Vec<_>>()
    };
    // The queue is the consequence, and a faster archiver no cure.
    assert_eq!(found(|_| {}), ["archiver-hangs"]);
    assert_eq!(found(|f| server(f).archiver.last_archived_seconds = None), ["archiver-hangs"]);
    let report = judge(|_| {});
    let evidence = &find(&report, "archiver-hangs").evidence;
    assert!(evidence[0].contains("3600 s"), "{evidence:?}");
    // It fails: that has an end, again and again.
    assert_eq!(
        found(|f| {
            let archiver = &mut server(f).archiver;
            archiver.last_failed = true;
            archiver.last_failed_seconds = Some(5.0);
        }),
        ["archiver-failing"]
    );
    // What waited while the server was down, or what it is slow at.
    assert_eq!(found(|f| server(f).up_seconds = Some(30.0)), ["archive-backlog"]);
    assert_eq!(found(|f| server(f).archiver.last_archived_seconds = Some(1.0)), ["archive-backlog"]);
    // A standby archives with always only.
    assert_eq!(found(|f| server(f).in_recovery = true), [""; 0]);
    // Without the privilege it can't be told.
    let report = judge(|f| {
        let archiver = &mut server(f).archiver;
        archiver.ready_files = None;
        archiver.oldest_ready_seconds = None;
    });
    let unanswered: Vec<&str> = report.unanswered.iter().map(|u| u.rule.as_str()).collect();
    assert_eq!(unanswered, ["archiver-hangs", "archive-backlog"]);
}

#[test]
fn a_pg_calm_that_is_on_takes_the_place_of_advice_for_a_stock_server() {
    let host = Host::new();
    host.sysctl("dirty_background_ratio", 40);
    host.sysctl("dirty_ratio", 70);
    host.sysctl("dirty_expire_centisecs", 30_000);
    let mut facts = host.facts();
    set(&mut facts, "checkpoint_flush_after", "0");
    calm(&mut facts);
    assert_eq!(ids(&rules::judge(facts.clone())), [""; 0]);
    // One that does less than its mode says does not.
    calm(&mut facts).degraded = Some("no cachestat".into());
    let report = rules::judge(facts);
    find(&report, "dirty-limit-beyond-checkpoint");
    find(&report, "no-checkpoint-flush-hint");
}

#[test]
fn what_keeps_or_brings_wal_is_as_good_as_a_slot() {
    let without = |change: fn(&mut Facts)| {
        let mut facts = Host::new().facts();
        set(&mut facts, "archive_mode", "off");
        server(&mut facts).standbys = Some(vec![fake::standby(None)]);
        change(&mut facts);
        let report = rules::judge(facts);
        ids(&report).contains(&"standby-without-slot")
    };
    assert!(without(|_| {}));
    assert!(!without(|f| set(f, "archive_mode", "on")));
    assert!(!without(|f| server(f).standbys = Some(vec![fake::standby(Some("near"))])));
    let guard = |f: &mut Facts, limit: &str, mode: &str| {
        for (name, value) in [("pg_calm_guard.max_lag", limit), ("pg_calm_guard.mode", mode)] {
            let setting = pgcalm_doctor::facts::Setting { value: value.into(), ..Default::default() };
            server(f).settings.insert(name.into(), setting);
        }
    };
    let with_guard = |limit: &str, mode: &str| {
        let mut facts = Host::new().facts();
        set(&mut facts, "archive_mode", "off");
        server(&mut facts).standbys = Some(vec![fake::standby(None)]);
        guard(&mut facts, limit, mode);
        let report = rules::judge(facts);
        ids(&report).contains(&"standby-without-slot")
    };
    assert!(with_guard("", "on"));
    assert!(with_guard("near = 64MB", "shadow"));
    assert!(!with_guard("near = 64MB", "on"));
}

/// It is the cure that the rule names. A standby has no writers that it could slow down.
#[test]
fn slots_are_bounded_by_a_guard_that_leaves_space_free() {
    let fires = |mode: &str, space: &str, in_recovery: bool| {
        let mut facts = Host::new().facts();
        set(&mut facts, "max_slot_wal_keep_size", "-1");
        server(&mut facts).in_recovery = in_recovery;
        for (name, value) in [("pg_calm_guard.mode", mode), ("pg_calm_guard.wal_space", space)] {
            let setting = pgcalm_doctor::facts::Setting { value: value.into(), ..Default::default() };
            server(&mut facts).settings.insert(name.into(), setting);
        }
        ids(&rules::judge(facts)).contains(&"slot-unbounded")
    };
    assert!(!fires("on", "-1", false));
    assert!(fires("shadow", "-1", false));
    assert!(fires("on", "0", false));
    assert!(fires("on", "-1", true));
}

#[test]
fn a_standby_that_falls_behind_is_told_when_it_is_too_old_and_one_that_catches_up_is_not() {
    let judged = |before, after| {
        let mut facts = Host::new().facts();
        lag(&mut facts, before, after);
        rules::judge(facts)
    };
    // 1 MB per second is made; 20 MB more are 30 s, at 1 MB per second.
    let report = judged(7_000_000, 10_000_000);
    let evidence = &find(&report, "standby-falls-behind").evidence[0];
    assert!(evidence.ends_with("what it shows is 30 s old in 20 s"), "{evidence}");
    let report = judged(37_000_000, 40_000_000);
    let evidence = &find(&report, "standby-falls-behind").evidence[0];
    assert!(evidence.ends_with("older than 30 s"), "{evidence}");
    let report = judged(40_000_000, 37_000_000);
    assert!(!ids(&report).contains(&"standby-falls-behind"));
}

/// The disk's own queue is short: what counts there is a segment.
#[test]
fn a_standby_waits_for_the_data_pages_in_its_groups_queue_unless_pg_calm_is_on() {
    let host = Host::new();
    host.link("srv/pg/pg_wal", "/srv/wal");
    host.write("srv/wal/x", "");
    let mut facts = host.facts();
    server(&mut facts).in_recovery = true;
    let fires = |facts: &Facts| ids(&rules::judge(facts.clone())).contains(&"replication-timeout-under-cap");
    assert!(!fires(&facts));
    // 2 GB of pages at 3000 per second are 87 s.
    let disks = &mut facts.host.as_mut().unwrap().disks;
    disks[0].write_iops.as_mut().unwrap().source = "/sys/fs/cgroup/pg/io.max".into();
    let report = rules::judge(facts.clone());
    let finding = find(&report, "replication-timeout-under-cap");
    assert!(finding.evidence[0].contains("scattered dirty pages"), "{:?}", finding.evidence);
    // A group of 2 GB may have 400 MB of them.
    let with_limit = |file: &str| {
        let mut small = facts.clone();
        small.host.as_mut().unwrap().memory_limit = Known::Is(Some(MemoryLimit { bytes: 2 * GIB, file: file.into() }));
        fires(&small)
    };
    assert!(!with_limit("/sys/fs/cgroup/pg/memory.max"));
    assert!(!with_limit("/sys/fs/cgroup/pg/memory.high"));
    // On v1 a group has the host's.
    assert!(with_limit("/sys/fs/cgroup/memory/pg/memory.limit_in_bytes"));
    calm(&mut facts);
    assert!(!fires(&facts));
}

#[test]
fn max_wal_size_is_not_raised_for_a_small_disk_nor_lowered_below_two_segments() {
    let proposed = |change: fn(&mut Facts)| {
        let mut facts = Host::new().facts();
        change(&mut facts);
        let report = rules::judge(facts);
        find(&report, "wal-disk-small").changes.first().and_then(|change| change.to.clone())
    };
    assert_eq!(proposed(|f| set(f, "wal_keep_size", &(95 * 1024).to_string())), None);
    let half = proposed(|f| {
        set(f, "wal_segment_size", &GIB.to_string());
        set(f, "max_wal_size", "65536");
        f.host.as_mut().unwrap().wal_file_system.as_mut().unwrap().available_bytes = GIB;
    });
    assert_eq!(half.as_deref(), Some("2048MB"));
}

#[test]
fn an_archiver_that_is_started_again_and_again_is_told_from_one_that_hangs() {
    let evidence = |age: Option<f64>| {
        let mut facts = Host::new().facts();
        let archiver = &mut server(&mut facts).archiver;
        archiver.oldest_ready_seconds = Some(3600.0);
        archiver.last_archived_seconds = Some(3600.0);
        archiver.process_seconds = age;
        find(&rules::judge(facts), "archiver-hangs").evidence.join("\n")
    };
    for again in [Some(20.0), None] {
        assert!(evidence(again).contains("over 125"), "{}", evidence(again));
    }
    assert!(!evidence(Some(4000.0)).contains("over 125"));
}

#[test]
fn huge_pages_are_not_charged_to_a_group() {
    let fires = |huge: &str| {
        let host = Host::new();
        host.write(&format!("{}/memory.max", fake::SERVICE), "314572800\n");
        host.write("proc/70/status", &format!("Name:\tpostgres\nHugetlbPages:\t{huge}\n"));
        ids(&rules::judge(host.facts())).contains(&"memory-too-small")
    };
    assert!(fires("0 kB"));
    assert!(!fires("10240 kB"));
}

#[test]
fn pages_tear_where_they_are_overwritten_in_place() {
    let fires = |change: fn(&mut Facts)| {
        let mut facts = Host::new().facts();
        set(&mut facts, "full_page_writes", "off");
        for place in &mut facts.host.as_mut().unwrap().instance.as_mut().unwrap().places {
            place.fs = "btrfs".into();
        }
        change(&mut facts);
        ids(&rules::judge(facts)).contains(&"full-page-writes-off")
    };
    assert!(!fires(|_| {}));
    assert!(fires(|f| {
        let places = &mut f.host.as_mut().unwrap().instance.as_mut().unwrap().places;
        places.iter_mut().find(|place| place.role == "data").unwrap().mount_options.push("nodatacow".into());
    }));
}

#[test]
fn a_queue_that_takes_no_number_is_not_to_get_one() {
    let host = Host::new();
    host.write("sys/devices/sda/queue/nr_requests", "128\n");
    find(&rules::judge(host.facts()), "queue-long");
    host.write("sys/devices/sda/dm/name", "vg-data\n");
    assert!(!ids(&rules::judge(host.facts())).contains(&"queue-long"));
}

/// Also where the cap that counts is known from elsewhere: the volume is then the host's, and its queue that of others, too.
#[test]
fn the_queue_of_a_disk_on_which_a_control_group_is_limited_stays() {
    let host = Host::new();
    host.write("sys/devices/sda/queue/nr_requests", "128\n");
    host.write("sys/devices/sda/queue/wbt_lat_usec", "0\n");
    let found = || {
        let report = rules::judge(host.facts());
        ["queue-long", "writeback-throttling"].map(|rule| ids(&report).contains(&rule))
    };
    assert_eq!(found(), [true; 2]);
    host.limit_data();
    assert_eq!(found(), [false; 2]);
}

#[test]
fn each_degraded_state_has_its_way_out() {
    let mut facts = facts("pg-calm-degraded", |f| {
        calm(f).degraded = Some(
            "the writeback worker does not respond: the server's flush hints are obeyed, and nothing waits for it; \
             no cap of the data directory's device is known: pages are only watched"
                .into(),
        );
    });
    let evidence = find(&judge(&facts), "pg-calm-degraded").evidence.join("\n");
    assert!(evidence.contains("/proc/PID/stack"), "{evidence}");
    assert!(evidence.contains("set pg_calm.write_iops"), "{evidence}");
    assert!(!evidence.contains("archive_status"), "{evidence}");
    facts = self::facts("pg-calm-degraded", |f| {
        calm(f).degraded = Some(
            "circuit breaker: gaps are not bridged, since the device wrote 10.9 times what pages and WAL account for \
             while they were, and 1.2 times while they were not"
                .into(),
        );
    });
    let evidence = find(&judge(&facts), "pg-calm-degraded").evidence.join("\n");
    assert!(evidence.contains("with what the volume allows"), "{evidence}");
    facts = self::facts("pg-calm-degraded", |f| calm(f).degraded = Some("something new".into()));
    assert_eq!(find(&judge(&facts), "pg-calm-degraded").evidence.len(), 1);
}

#[test]
fn commands_are_exact() {
    let commands = |rule: &str| {
        let case = cases().into_iter().find(|case| case.rule == rule).unwrap();
        find(&judge(&case), rule).commands.clone()
    };
    assert_eq!(commands("dirty-writeback-interval"), ["sudo sysctl -w vm.dirty_writeback_centisecs=500"]);
    assert_eq!(commands("device-dirty-limit"), ["echo 1000000 | sudo tee /sys/class/bdi/8:0/max_ratio_fine"]);
    assert_eq!(commands("writeback-throttling"), ["echo 1000 | sudo tee /sys/block/sda/queue/wbt_lat_usec"]);
    assert_eq!(commands("read-ahead-long"), ["echo 128 | sudo tee /sys/class/bdi/8:0/read_ahead_kb"]);
    assert_eq!(commands("queue-long"), ["echo 30 | sudo tee /sys/block/sda/queue/nr_requests"]);
    assert_eq!(commands("max-wal-size"), ["ALTER SYSTEM SET max_wal_size = '2048MB';", "SELECT pg_reload_conf();"]);
    // A quarter of 16 GB, smaller than the databases.
    assert_eq!(
        commands("shared-buffers-small"),
        ["ALTER SYSTEM SET shared_buffers = '4GB';", "-- then restart the server"]
    );
    assert_eq!(
        commands("slot-inactive"),
        ["SELECT pg_drop_replication_slot('gone'); -- if whoever read it is gone for good"]
    );
}

/// Nor is it by counts: they would say the same when it has been raised.
#[test]
fn max_wal_size_is_raised_by_a_rate_alone() {
    let mut facts = Host::new().facts();
    server(&mut facts).checkpoints.requested = 1_000_000;
    let report = rules::judge(facts);
    let finding = find(&report, "max-wal-size");
    assert_eq!(finding.changes, []);
    assert_eq!(finding.commands, ["ALTER SYSTEM SET max_wal_size = '2048MB'; -- once"]);
}

#[test]
fn max_wal_size_is_not_raised_beyond_the_room_that_it_has() {
    let mut facts = Host::new().facts();
    wal_average(&mut facts, 50_000_000);
    facts.host.as_mut().unwrap().grace = None;
    let report = rules::judge(facts.clone());
    let finding = find(&report, "max-wal-size");
    // 50 MB/s for 300 s, times 1.9 and 1.5.
    assert_eq!(finding.changes[0].to.as_deref(), Some("40GB"));
    facts.host.as_mut().unwrap().wal_file_system.as_mut().unwrap().available_bytes = 60 * GIB;
    let report = rules::judge(facts);
    let finding = find(&report, "max-wal-size");
    assert!(!finding.reversible);
    assert_eq!(finding.changes, []);
    assert!(finding.evidence.iter().any(|e| e.contains("too little")), "{:?}", finding.evidence);
}

/// A sample of some seconds may be of a burst, and a server that is killed while it recovers does not start at all.
#[test]
fn max_wal_size_is_raised_by_the_average_alone_and_not_beyond_what_a_start_may_take() {
    let judged = |change: fn(&mut Facts)| {
        let mut facts = Host::new().facts();
        change(&mut facts);
        let report = rules::judge(facts);
        let finding = find(&report, "max-wal-size");
        (finding.changes.len(), finding.commands[0].clone())
    };
    let raise = "ALTER SYSTEM SET max_wal_size = '2048MB';";
    assert_eq!(
        judged(|f| f.sample.as_mut().unwrap().wal_bytes_per_second = Some(1.9e6)),
        (0, format!("{raise} -- if WAL goes on at that rate"))
    );
    // 128 s of replay, and a checkpoint of 1 s.
    let long = |f: &mut Facts| {
        wal_average(f, 1_900_000);
        recover(f, 128.9);
    };
    assert_eq!(judged(long), (0, format!("{raise} -- once a start may take longer")));
    let short = |f: &mut Facts| {
        wal_average(f, 1_900_000);
        recover(f, 129.1);
    };
    assert_eq!(judged(short), (1, raise.to_string()));
}

#[test]
fn averages_over_a_short_time_do_not_count() {
    let mut facts = Host::new().facts();
    // A cluster that was just made.
    let wal = &mut server(&mut facts).wal;
    (wal.seconds, wal.buffers_full) = (Some(3.0), 1000);
    let report = rules::judge(facts.clone());
    assert_eq!(ids(&report), [""; 0]);
    assert_eq!(report.unanswered[0].rule, "wal-buffers-full");
    facts.sample = None;
    let report = rules::judge(facts);
    assert!(report.unanswered.iter().any(|u| u.rule == "max-wal-size"));
}

#[test]
fn reports_of_pg_calm_tell_checkpoints_by_wal_from_those_by_command() {
    let mut facts = Host::new().facts();
    server(&mut facts).checkpoints.requested = 1000;
    find(&rules::judge(facts.clone()), "max-wal-size");
    let module = calm(&mut facts);
    (module.checkpoints, module.checkpoints_by_wal) = (100, 50);
    let report = rules::judge(facts.clone());
    assert!(report.clear.iter().any(|id| id == "max-wal-size"));
    calm(&mut facts).checkpoints = 100;
    server(&mut facts).pg_calm.as_mut().unwrap().checkpoints_by_wal = 51;
    find(&rules::judge(facts), "max-wal-size");
}

#[test]
fn what_a_reload_cannot_do_is_only_printed() {
    let mut facts = Host::new().facts();
    set(&mut facts, "fsync", "off");
    let setting = server(&mut facts).settings.get_mut("fsync").unwrap();
    setting.source = "command line".into();
    let report = rules::judge(facts);
    let finding = find(&report, "fsync-off");
    assert!(!finding.reversible);
    assert!(finding.commands.iter().any(|c| c.contains("command line")));
    assert_eq!(rules::changes(&report, &[]), []);
}

#[test]
fn of_two_findings_that_change_the_same_thing_the_worst_decides() {
    let mut facts = Host::new().facts();
    let room = &mut facts.host.as_mut().unwrap().wal_file_system;
    room.as_mut().unwrap().available_bytes = 10 * GIB;
    set(&mut facts, "max_wal_size", &(12 * 1024).to_string());
    server(&mut facts).checkpoints.requested = 1000;
    let report = rules::judge(facts);
    find(&report, "wal-disk-small");
    find(&report, "max-wal-size");
    let changes = rules::changes(&report, &[]);
    let of_it: Vec<_> = changes.iter().filter(|c| c.name == "max_wal_size").collect();
    assert_eq!(of_it.len(), 1);
    // Half of the 11 GB that there are.
    assert_eq!(of_it[0].to.as_deref(), Some("6GB"));
    assert_eq!(rules::changes(&report, &["fsync-off".into()]), []);
    assert_eq!(of_it[0].target, Target::Setting);
}

#[test]
fn a_memory_limit_above_the_memory_is_none() {
    let mut facts = Host::new().facts();
    let host = facts.host.as_mut().unwrap();
    host.memory_limit = Known::Is(Some(MemoryLimit { bytes: 1 << 40, file: "/x".into() }));
    host.memory_bytes = Some(300 * MIB);
    let report = rules::judge(facts);
    assert!(find(&report, "memory-too-small").evidence[0].contains("/proc/meminfo"));
}

/// Which says nothing of a server in another.
#[test]
fn the_memory_limit_of_the_container_that_pgcalm_runs_in_is_not_judged_by() {
    let host = Host::new();
    host.write("proc/70/cgroup", "0::/../db\n");
    host.write("sys/fs/cgroup/memory.max", "1000\n");
    let mut facts = host.facts();
    server(&mut facts).buffers.backends = 85_001;
    let report = rules::judge(facts);
    for rule in ["memory-too-small", "shared-buffers-small"] {
        let why = unanswered(&report, rule);
        assert!(why.contains("/../db"), "{rule}: {why}");
    }
}

#[test]
fn autovacuum_has_memory_of_its_own_and_what_is_too_large_is_to_be_smaller() {
    let judged = |memory: u64, own: Option<&str>| {
        let mut facts = Host::new().facts();
        let host = facts.host.as_mut().unwrap();
        host.memory_limit = Known::Is(None);
        host.memory_bytes = Some(memory * MIB);
        let settings = &mut facts.server.as_mut().unwrap().settings;
        settings.get_mut("maintenance_work_mem").unwrap().value = "8388608".into();
        if let Some(value) = own {
            let mut setting = settings["maintenance_work_mem"].clone();
            setting.value = value.into();
            settings.insert("autovacuum_work_mem".into(), setting);
        }
        let report = rules::judge(facts);
        report.findings.iter().find(|finding| finding.rule == "memory-too-small").map(|found| found.commands[0].clone())
    };
    // Before 17 each takes 1 GB of those 8 at most.
    assert_eq!(judged(4096, None), None);
    assert_eq!(judged(3072, None).unwrap(), "ALTER SYSTEM SET autovacuum_work_mem = '256MB';");
    assert_eq!(judged(3072, Some("65536")), None);
    assert_eq!(judged(300, Some("65536")).unwrap(), "ALTER SYSTEM SET shared_buffers = '75MB';");
}
