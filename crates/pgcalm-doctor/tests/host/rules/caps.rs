//! Caps that are known, shared, or not known.

use super::*;

#[test]
fn without_a_known_cap_wal_beside_data_is_not_judged_whatever_the_disk_says_of_rotating() {
    for rotational in ["1\n", "0\n"] {
        let host = Host::new();
        host.write("sys/devices/sda/queue/rotational", rotational);
        host.link("srv/pg/pg_wal", "/srv/wal");
        host.write("srv/wal/x", "");
        let mut facts = host.facts();
        for disk in &mut facts.host.as_mut().unwrap().disks {
            (disk.write_iops, disk.write_bandwidth) = (None, None);
        }
        let report = rules::judge(facts);
        let why = report.unanswered.iter().find(|u| u.rule == "wal-with-data");
        let why = why.unwrap_or_else(|| panic!("{rotational}: {:?}", ids(&report)));
        assert!(why.why.contains("--iops"), "{}", why.why);
    }
}

#[test]
fn a_disk_whose_counters_count_nothing_is_not_judged_to_be_below_its_cap() {
    let host = Host::new();
    for (disk, stat) in [("sda", "0 0 0 0 0 0 0 0 0 0 0\n"), ("sdb", "9 0 8 0 10 0 80 0 0 1000 0\n")] {
        host.write(&format!("sys/devices/{disk}/stat"), stat);
    }
    let options = Options {
        instance: Some("5432".to_string()),
        write_iops: Some(Some(3000)),
        sample: std::time::Duration::from_millis(10),
        ..Options::default()
    };
    let judged = || rules::judge(collect(&host.root, &options).unwrap().facts);
    let report = judged();
    let why = unanswered(&report, "device-at-cap");
    assert!(why.contains("sda") && why.contains("multipath"), "{why}");
    host.write("sys/devices/sda/stat", "9 0 8 0 10 0 80 0 0 1000 0\n");
    // Of the disk of pg_wal no cap is known.
    let report = judged();
    let why = unanswered(&report, "device-at-cap");
    assert!(why.starts_with("sdb (wal)"), "{why}");
    host.write("sys/devices/sdb/queue/iostats", "0\n");
    let report = judged();
    assert!(unanswered(&report, "device-at-cap").contains("iostats"));
}

#[test]
fn a_cap_that_is_unknown_is_no_cap_that_is_clear() {
    let mut facts = Host::new().facts();
    for disk in &mut facts.host.as_mut().unwrap().disks {
        disk.write_iops = None;
        disk.write_bandwidth = None;
    }
    let report = rules::judge(facts);
    let unanswered: Vec<&str> = report.unanswered.iter().map(|u| u.rule.as_str()).collect();
    assert!(unanswered.contains(&"device-at-cap"), "{unanswered:?}");
    assert!(report.unanswered.iter().all(|u| u.why.contains("--iops")));
}

/// Of 3000 operations that reads and writes share, as `--iops` has it, reads take what they take.
#[test]
fn reads_count_against_a_cap_that_they_share() {
    let host = Host::new();
    host.sysctl("dirty_ratio", 40);
    // 4 GB are more than 1500 pages of 8 kB per second make in 300 s, and less than 3000 make.
    let reading = |reads: f64, shared: bool| {
        let mut facts = host.facts();
        let rates = &mut facts.sample.as_mut().unwrap().disks[0];
        rates.write_operations_per_second = 1250.0;
        rates.read_operations_per_second = reads;
        if shared {
            let disk = &mut facts.host.as_mut().unwrap().disks[0];
            disk.all_iops = disk.write_iops.clone();
        }
        rules::judge(facts)
    };
    assert_eq!(ids(&reading(1500.0, false)), [""; 0]);
    assert_eq!(ids(&reading(0.0, true)), [""; 0]);
    let report = reading(1500.0, true);
    let evidence = find(&report, "device-at-cap").evidence.join("\n");
    assert!(evidence.contains("2750 read and write operations per second, 92 % of its cap"), "{evidence}");
    let evidence = find(&report, "dirty-limit-beyond-checkpoint").evidence.join("\n");
    assert!(evidence.contains("1500 write operations per second (options, less 1500 reads per second)"), "{evidence}");
    // Writes come to a part even where reads would take all.
    let evidence = find(&reading(5000.0, true), "dirty-limit-beyond-checkpoint").evidence.join("\n");
    assert!(evidence.contains("takes 900 write operations"), "{evidence}");
}

#[test]
fn a_shared_cap_is_known_from_options() {
    let options = Options { instance: Some("5432".to_string()), iops: Some(3000), ..Options::default() };
    let facts = collect(&Host::new().root, &options).unwrap().facts;
    let disks = &facts.host.unwrap().disks;
    let of = |role: &str| disks.iter().find(|disk| disk.roles.iter().any(|of_it| of_it == role)).unwrap();
    let cap = of("data").all_iops.as_ref().unwrap();
    assert_eq!((cap.value, cap.source.as_str()), (3000, "options"));
    assert_eq!(of("data").all_bandwidth, None);
    assert_eq!(of("wal").all_iops, None);
}

#[test]
fn bytes_read_count_against_a_bandwidth_that_they_share() {
    let mut facts = Host::new().facts();
    let disk = &mut facts.host.as_mut().unwrap().disks[0];
    disk.all_bandwidth = disk.write_bandwidth.clone();
    facts.sample.as_mut().unwrap().disks[0].read_bytes_per_second = 120.0 * MIB as f64;
    let evidence = find(&rules::judge(facts), "device-at-cap").evidence.join("\n");
    assert!(evidence.contains("121 MB read and written per second, 97 % of its cap"), "{evidence}");
}

/// Others on the disk do 716 operations per second, of which 150 are allowed to the server's group.
#[test]
fn a_group_s_limit_is_compared_with_what_the_group_writes() {
    let judged = |by_group: Option<f64>| {
        let mut facts = Host::new().facts();
        for disk in &mut facts.host.as_mut().unwrap().disks {
            let source = "/sys/fs/cgroup/blkio/db/blkio.throttle.write_iops_device".to_string();
            (disk.write_iops, disk.write_bandwidth) = (Some(Cap { value: 150, source }), None);
        }
        for rates in &mut facts.sample.as_mut().unwrap().disks {
            rates.write_operations_per_second = 716.0;
            rates.group_write_operations_per_second = by_group;
        }
        rules::judge(facts)
    };
    let report = judged(Some(75.0));
    assert!(report.clear.iter().any(|id| id == "device-at-cap"), "{:?}", ids(&report));
    // What a burst asks for beyond the limit waits.
    let evidence = find(&judged(Some(900.0)), "device-at-cap").evidence.join("\n");
    assert!(evidence.contains("150 write operations per second by its control group, 100 % of its cap"), "{evidence}");
    let report = judged(None);
    let why = unanswered(&report, "device-at-cap");
    assert!(why.contains("sda (data): the limit is a control group's, whose counters"), "{why}");
}

#[test]
fn the_counters_of_the_limit_s_group_are_sampled() {
    let host = Host::new();
    host.limit_data();
    for disk in ["sda", "sdb"] {
        host.write(&format!("sys/devices/{disk}/stat"), "9 0 8 0 10 0 80 0 0 1000 0\n");
    }
    let options = Options {
        instance: Some("5432".to_string()),
        sample: std::time::Duration::from_millis(10),
        ..Options::default()
    };
    let rates = || collect(&host.root, &options).unwrap().facts.sample.unwrap().disks[0].clone();
    assert_eq!(rates().group_write_operations_per_second, None);
    host.write(&format!("{}/io.stat", fake::SERVICE), "8:0 rbytes=0 wbytes=4096 rios=0 wios=1 dbytes=0 dios=0\n");
    let rates = rates();
    assert_eq!((rates.name.as_str(), rates.group_write_operations_per_second), ("sda", Some(0.0)));
    assert_eq!(rates.group_write_bytes_per_second, None);
}

#[test]
fn pg_calm_is_no_cure_where_it_is_on() {
    let mut facts = Host::new().facts();
    facts.sample.as_mut().unwrap().disks[0].write_operations_per_second = 2900.0;
    let cure = |facts: &Facts| find(&rules::judge(facts.clone()), "device-at-cap").cure.clone();
    assert!(cure(&facts).starts_with("Fewer, larger writes: pg_calm, "));
    calm(&mut facts);
    assert!(cure(&facts).starts_with("pg_calm is on. Beyond it: "));
}
