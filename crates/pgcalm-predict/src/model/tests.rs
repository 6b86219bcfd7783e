//! Cases that can be computed by hand.

use super::fixture::observation;
use super::use_of;
use super::use_of::Use;
use super::*;

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{value} instead of {expected}");
}

#[test]
fn what_is_left_of_the_caps_is_divided_by_what_a_transaction_costs() {
    // Of 1000 operations one for each transaction; or a fifth of one, and 8 of 100 MiB for 500 of them. The server makes 600.
    let prediction = predict(observation());
    let pg_calm = prediction.pg_calm.unwrap();
    close(prediction.stock.device_operations_per_s, 500.0);
    close(prediction.stock.sustainable_tps, 600.0);
    assert_eq!(prediction.stock.bound_by, "server");
    close(pg_calm.device_operations_per_s, 100.0);
    close(pg_calm.device_mib_per_s, 8.0);
    close(pg_calm.sustainable_tps, 600.0);
    assert_eq!(pg_calm.bound_by, "server");
    assert_eq!(prediction.helps, Some(true));

    // At the cap nobody knows what the server would make.
    let mut full = observation();
    full.device.write_iops = Some(500.0);
    let prediction = predict(full.clone());
    let pg_calm = prediction.pg_calm.unwrap();
    close(prediction.stock.sustainable_tps, 500.0);
    assert_eq!(prediction.stock.bound_by, "operations");
    close(pg_calm.sustainable_tps, 2500.0);
    assert_eq!(pg_calm.bound_by, "operations");
    assert!(prediction.reason.contains("up to 2500 transactions"), "{}", prediction.reason);
    full.device.write_bytes_per_s = Some(f64::from(10 << 20));
    let pg_calm = predict(full).pg_calm.unwrap();
    close(pg_calm.sustainable_tps, 625.0);
    assert_eq!(pg_calm.bound_by, "bandwidth");
}

#[test]
fn stock_takes_what_the_device_completed_less_wal_and_what_others_write() {
    let mut observation = observation();
    observation.device.wal_writes_per_s = 100.0;
    observation.wal_bytes_per_s = 1_048_576.0;
    // 400 of the 500 are not WAL's.
    let (data, others) = use_of::stock(&observation);
    assert_eq!(data, Use { operations: 400.0, bytes: 2.90625 * 1_048_576.0 });
    assert_eq!(others, Use::default());
    // No more than an operation for each of 500 pages.
    observation.device.operations_per_s = 900.0;
    let (data, others) = use_of::stock(&observation);
    assert_eq!((data.operations, others.operations), (500.0, 300.0));
    // Which are as much in pg_calm's way: 100 + 100 + 300 of 1000.
    let prediction = predict(observation.clone());
    let pg_calm = prediction.pg_calm.unwrap();
    close(prediction.stock.sustainable_tps, 500.0 / 0.9);
    close(pg_calm.sustainable_tps, 1000.0);
    // Where it can't be seen, it is the pages.
    observation.device.counted = false;
    assert_eq!(use_of::stock(&observation), (Use { operations: 500.0, bytes: 4_096_000.0 }, Use::default()));
}

/// As of a server that was built with `--with-blocksize=32`.
#[test]
fn pages_are_as_large_as_the_servers() {
    let mut observation = observation();
    observation.settings.page_bytes = 32_768;
    observation.device.counted = false;
    assert_eq!(use_of::stock(&observation).0, Use { operations: 500.0, bytes: 500.0 * 32_768.0 });
    observation.device.counted = true;
    observation.device.mib_per_s = 12.0;
    assert_eq!(use_of::stock(&observation).1.bytes, 0.0, "what the server wrote is no other's");
}

#[test]
fn reads_take_from_what_the_volume_sustains_where_they_count() {
    let mut observation = observation();
    observation.device.reads_per_s = 750.0;
    let free = predict(observation.clone());
    assert_eq!(free.stock.bound_by, "server");
    // 1250 and 850 of 1000.
    observation.device.all_iops = Some(1000.0);
    let prediction = predict(observation);
    let pg_calm = prediction.pg_calm.unwrap();
    close(prediction.stock.sustainable_tps, 400.0);
    close(pg_calm.sustainable_tps, 500.0 / 0.85);
}

#[test]
fn a_cap_for_writes_below_that_for_all_is_shown_beside_it() {
    let mut observation = observation();
    observation.device.all_iops = Some(3000.0);
    observation.device.all_bytes_per_s = observation.device.write_bytes_per_s;
    let text = crate::report::text::render(&predict(observation));
    let words: Vec<&str> = text.split_whitespace().collect();
    let caps = "takes 3000 (1000 for writes) operations and 100 MiB per second";
    assert!(words.join(" ").contains(caps), "{text}");
}

#[test]
fn without_a_count_nothing_is_predicted_for_pg_calm() {
    let mut observation = observation();
    observation.shadow = None;
    let prediction = predict(observation.clone());
    assert_eq!((prediction.pg_calm, prediction.helps), (None, None));
    assert!(prediction.reason.contains("is not what limits in the mean: 50 %"), "{}", prediction.reason);
    observation.device.write_iops = Some(510.0);
    let prediction = predict(observation);
    assert!(prediction.reason.contains("the device is what limits: 98 %"), "{}", prediction.reason);
}

#[test]
fn the_verdict_says_why_not() {
    let because = |change: fn(&mut Observation), part: &str| {
        let mut changed = observation();
        change(&mut changed);
        let prediction = predict(changed);
        assert_eq!(prediction.helps, Some(false), "{}", prediction.reason);
        assert!(prediction.reason.contains(part), "{}", prediction.reason);
    };
    because(|o| (o.device.write_iops, o.device.write_bytes_per_s) = (None, None), "nothing caps");
    because(|o| o.device.write_iops = None, "operations are not capped");
    because(|o| o.device.write_iops = Some(50_000.0), "far from its caps");
    because(|o| (o.checkpointer_pages_per_s, o.backend_pages_per_s) = (0.0, 0.5), "hardly any page");
    because(|o| o.shadow.as_mut().unwrap().device_operations_per_s = 490.0, "it saves too little: 490");
    // Fewer operations for more bytes than there are.
    because(|o| o.device.write_bytes_per_s = Some(8_388_608.0), "it saves too little: 100 operations and 8.0 MiB");
    because(
        |o| {
            o.settings.full_page_writes = false;
            o.shadow.as_mut().unwrap().device_operations_per_s = 490.0;
        },
        "no gaps are bridged",
    );
}

#[test]
fn pages_that_are_not_told_yet_leave_a_no_by_pages_open() {
    let late = |change: fn(&mut Observation)| {
        let mut changed = observation();
        changed.writes_are_late = true;
        change(&mut changed);
        predict(changed)
    };
    for prediction in [
        late(|o| (o.checkpointer_pages_per_s, o.backend_pages_per_s) = (0.0, 0.5)),
        late(|o| o.shadow.as_mut().unwrap().device_operations_per_s = 490.0),
    ] {
        assert_eq!(prediction.helps, None, "{}", prediction.reason);
        assert!(prediction.reason.contains("open transactions"), "{}", prediction.reason);
    }
    assert_eq!(late(|_| {}).helps, Some(true));
    assert_eq!(late(|o| o.device.write_iops = None).helps, Some(false));
}

/// Its writes would be taken for those of data files, which pg_calm would save.
#[test]
fn wal_that_nothing_counts_leaves_it_open() {
    let mut observation = observation();
    observation.device.wal_is_uncounted = true;
    assert_eq!(predict(observation.clone()).helps, None);
    // With all that the device does, it is idle.
    observation.device.write_iops = Some(50_000.0);
    assert_eq!(predict(observation).helps, Some(false));
}

#[test]
fn caps_that_can_not_be_seen_are_not_taken_for_none() {
    let mut observation = observation();
    (observation.device.write_iops, observation.device.write_bytes_per_s) = (None, None);
    observation.device.caps_source = "not known: the limits of groups above /cg".into();
    let prediction = predict(observation);
    assert_eq!(prediction.helps, None);
    assert!(prediction.reason.contains("groups above /cg"), "{}", prediction.reason);
    // The count is there.
    let text = crate::report::text::render(&prediction);
    assert!(!text.contains("load pg_calm"), "{text}");
}

#[test]
fn a_server_without_transactions_or_caps_has_figures_all_the_same() {
    let mut observation = observation();
    (observation.tps, observation.unhindered_tps) = (0.0, 0.0);
    observation.device.write_iops = Some(500.0);
    let prediction = predict(observation);
    assert_eq!(prediction.stock.sustainable_tps, 0.0);
    assert_eq!(prediction.helps, Some(true));
}

#[test]
fn what_makes_it_uncertain_is_told() {
    let mut observation = observation();
    assert_eq!(verdict::cautions(&observation), Vec::<String>::new());
    observation.seconds = 60.0;
    observation.device.counted = false;
    observation.device.caps_source = crate::report::OPTIONS.into();
    let cautions = verdict::cautions(&observation).join("\n");
    for part in ["--duration 1000", "an operation for each page", "set pg_calm.iops"] {
        assert!(cautions.contains(part), "{cautions}");
    }
}
