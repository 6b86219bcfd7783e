//! Cases that can be computed by hand.

use super::bridge;
use super::caps::Demand;
use super::caps::Effort;
use super::caps::Work;
use super::fixture::no_time_for_drains;
use super::fixture::observation;
use super::region;
use super::schedule::Occasion;
use super::schedule::Schedule;
use super::*;
use crate::report::Outlook;
use crate::report::RegionClass;

const MIB: f64 = 1_048_576.0;

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{value} instead of {expected}");
}

fn caps(write_iops: f64, write_bytes: f64, operation_bytes: f64) -> Caps {
    Caps {
        write_iops,
        write_bytes,
        all_iops: f64::INFINITY,
        all_bytes: f64::INFINITY,
        foreground: Work::default(),
        wal: Work::default(),
        operation_bytes,
        request_bytes: operation_bytes,
    }
}

#[test]
fn the_longest_gap_is_that_of_the_module() {
    // 125 MB / 800 / 8 KiB is 20: strictly less pays.
    let bytes = 125.0 * MIB;
    assert_eq!(caps(800.0, bytes, 1.25 * MIB).longest_gap(), 19);
    assert_eq!(caps(3000.0, bytes, 1.25 * MIB).longest_gap(), 5);
    // An operation of 64 KiB is 8 pages.
    assert_eq!(caps(800.0, bytes, 65536.0).longest_gap(), 7);
    assert_eq!(caps(800.0, f64::INFINITY, 65536.0).longest_gap(), 8);
    assert_eq!(caps(f64::INFINITY, bytes, 65536.0).longest_gap(), 0);
}

#[test]
fn a_half_dirty_region_has_as_many_runs_as_coins_say() {
    // Half of the 511 pages after the first are not beside the one before, a quarter are more than one page away.
    let apart = bridge::work(512.0, 0, 4.0 * MIB);
    close(apart.operations, 256.5);
    close(apart.bytes, 512.0 * PAGE);
    let bridged = bridge::work(512.0, 1, 64.0 * MIB);
    close(bridged.operations, 128.75);
    // A quarter of them have one page between.
    close(bridged.bytes, 639.75 * PAGE);
    // One page, or one in half of the cases.
    let one = Work { operations: 1.0, bytes: PAGE, pages: 1.0 };
    assert_eq!(bridge::work(1.0, 19, MIB), one);
    close(bridge::work(0.5, 19, MIB).operations, 0.5);
    // All of it: 8 MiB, and half an operation more than they fill.
    let whole = bridge::work(1024.0, 0, MIB);
    close(whole.bytes, 8.0 * MIB);
    assert!((whole.operations - 8.5).abs() < 0.1, "{whole:?}");
}

#[test]
fn runs_are_those_of_pages_that_lie_at_random() {
    // Against counting, over 2000 regions with pages drawn by a generator of Knuth's.
    let mut state = 42_u64;
    for (dirty, gap) in [(50, 0), (50, 19), (300, 5), (700, 2)] {
        let (mut runs, mut pages) = (0_u32, 0_u32);
        for _ in 0..2000 {
            let mut region = [false; 1024];
            let mut left = dirty;
            while left > 0 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let page = (state >> 54) as usize;
                if !region[page] {
                    region[page] = true;
                    left -= 1;
                }
            }
            let mut last: Option<usize> = None;
            for page in (0..1024).filter(|page| region[*page]) {
                match last {
                    Some(last) if page - last - 1 <= gap => pages += (page - last) as u32,
                    _ => {
                        runs += 1;
                        pages += 1;
                    }
                }
                last = Some(page);
            }
        }
        // Operations so large that each run is one.
        let work = bridge::work(f64::from(dirty), gap as u32, 1e12);
        let error = |value: f64, counted: u32| value / (f64::from(counted) / 2000.0) - 1.0;
        assert!(error(work.operations, runs).abs() < 0.03, "{dirty} {gap} {work:?}");
        assert!(error(work.bytes / PAGE, pages).abs() < 0.03, "{dirty} {gap} {work:?}");
    }
}

#[test]
fn pages_get_dirty_as_even_writes_make_them() {
    let class = RegionClass { regions: 1.0, pages_first_second: 1024.0, exponent: 1.0, checkpoint_pages: 512.0 };
    close(region::dirty(&class, 1.0, 1.0), 1024.0 * (1.0 - (-1.0_f64).exp()));
    // Twice as fast, in half of the time.
    close(region::dirty(&class, 0.5, 2.0), region::dirty(&class, 1.0, 1.0));
    // Half of those that were clean.
    close(region::with_checkpoint(&class, 512.0), 768.0);
}

#[test]
fn a_region_is_flushed_when_the_first_of_its_occasions_comes() {
    let schedule = Schedule { checkpoint: 100.0, completion: 0.5, windows: false, visit: f64::INFINITY };
    let walk = |schedule: &Schedule, due: f64| {
        let mut flushes = Vec::new();
        let seconds = schedule.walk(due, 10.0, |interval, occasion| flushes.push((interval, occasion)));
        (flushes, seconds)
    };
    let (flushes, seconds) = walk(&schedule, f64::INFINITY);
    assert!(flushes.iter().all(|(_, o)| *o == Occasion::Sync));
    close(flushes.len() as f64 / seconds, 0.01);
    assert_eq!(flushes[0].0, 50.0);
    assert_eq!(flushes[1].0, 100.0);
    // Due three times between two syncs, 25 s being left of 100.
    let (flushes, _) = walk(&schedule, 30.0);
    let between: Vec<f64> = flushes[2..6].iter().map(|(interval, _)| *interval).collect();
    assert_eq!(between, [30.0, 30.0, 30.0, 10.0]);
    let all = Schedule { windows: true, visit: 40.0, ..schedule };
    let (flushes, seconds) = walk(&all, f64::INFINITY);
    let often = |occasion| {
        let number = flushes.iter().filter(|(_, o)| *o == occasion).count();
        number as f64 / seconds
    };
    close(often(Occasion::Window), 0.01);
    close(often(Occasion::Sync), 0.01);
    assert!((often(Occasion::Visit) - 0.025).abs() < 0.002);
}

#[test]
fn stock_writes_what_is_scattered_page_by_page() {
    // A region has up to 1000 pages at the sync, after 1000 s; but 0.1 % of the pages lie beside another after 1 s. With a
    // visit each second nothing is merged, and 1000 pages are 1000 operations.
    let mut observation = observation();
    observation.kernel.expire_s = 0.5;
    observation.kernel.interval_s = 1.0;
    let caps = Caps::of(&observation);
    let demand = stock::demand(&observation, &caps, 1.0, Effort::Answer).work;
    assert!((demand.operations - 1000.0).abs() < 10.0, "{demand:?}");
    // The device takes half of that, less what the file system needs, so half of the transactions.
    let prediction = predict(observation);
    assert!((prediction.stock.sustainable_tps - 499.0).abs() < 5.0, "{prediction:?}");
    assert_eq!(prediction.stock.bound_by, "operations");
}

#[test]
fn pg_calm_writes_regions_whole_when_they_are_dense_enough() {
    // After 100 s and one for the first page 96 of 1024 pages are dirty, 10 apart: with gaps of up to 127 pages that is one
    // run of nearly 8 MiB each 101 s.
    let mut observation = observation();
    no_time_for_drains(&mut observation);
    let caps = Caps::of(&observation);
    let demand = simulation::run(&observation, &caps, 1.0, Effort::Answer).work;
    let mib = demand.bytes / MIB;
    let whole = 1000.0 * 8.0 / 101.0;
    assert!(mib > 0.9 * whole && mib < 1.1 * whole, "{demand:?}");
    let operations = demand.operations / (1000.0 * 8.5 / 101.0);
    assert!(operations > 0.9 && operations < 1.1, "{demand:?}");
    let prediction = predict(observation);
    assert_eq!(prediction.pg_calm.bound_by, "server");
    close(prediction.pg_calm.sustainable_tps, 1000.0);
}

#[test]
fn what_may_wait_sets_the_density() {
    // 10 MiB may wait: 1280 pages in 1000 regions, so they are flushed at about twice that in the mean, 2.5 pages each.
    let mut observation = observation();
    observation.settings.unflushed_limit_bytes = 10 << 20;
    no_time_for_drains(&mut observation);
    // Gaps of two pages at most are worth it.
    observation.device.write_iops = Some(2000.0);
    observation.device.write_bytes_per_s = Some(40.0 * MIB);
    let caps = Caps::of(&observation);
    let demand = simulation::run(&observation, &caps, 1.0, Effort::Answer).work;
    // Nothing is near enough to be merged: as many operations as pages.
    assert!(demand.operations > 900.0 && demand.operations < 1050.0, "{demand:?}");
}

#[test]
fn without_full_page_writes_nothing_is_bridged() {
    let mut observation = observation();
    observation.settings.full_page_writes = false;
    no_time_for_drains(&mut observation);
    observation.device.write_iops = Some(2000.0);
    let caps = Caps::of(&observation);
    let demand = simulation::run(&observation, &caps, 1.0, Effort::Answer).work;
    // 96 pages of 1024, of which a tenth have a neighbour, each 101 s.
    assert!(demand.operations > 800.0 && demand.operations < 950.0, "{demand:?}");
}

#[test]
fn the_verdict_says_why() {
    // Each 21 s the kernel's flusher comes and finds 80 pages in each of 1000 regions: 3600 operations per second as they
    // are, 8.5 for each region with all gaps bridged.
    let mut calm = observation();
    calm.kernel.expire_s = 20.0;
    calm.kernel.interval_s = 2.0;
    calm.regions[0].pages_first_second = 4.0;
    calm.backend_pages_per_s = 4000.0;
    let prediction = predict(calm);
    assert!(prediction.helps, "{}", prediction.reason);

    let mut uncapped = observation();
    uncapped.device.write_iops = None;
    uncapped.device.write_bytes_per_s = None;
    let prediction = predict(uncapped);
    assert!(!prediction.helps);
    assert!(prediction.reason.contains("nothing caps"), "{}", prediction.reason);

    let mut idle = observation();
    idle.device.write_iops = Some(50_000.0);
    let prediction = predict(idle);
    assert!(!prediction.helps);
    assert!(prediction.reason.contains("far from its caps"), "{}", prediction.reason);

    let mut nothing = observation();
    nothing.regions.clear();
    let reason = predict(nothing).reason;
    assert!(reason.contains("hardly any page"), "{reason}");
}

#[test]
fn a_short_look_and_a_guess_are_cautioned_about() {
    let mut observation = observation();
    assert_eq!(verdict::cautions(&observation), Vec::<String>::new());
    observation.seconds = 60.0;
    observation.source = "cachestat".into();
    let cautions = verdict::cautions(&observation).join("\n");
    assert!(cautions.contains("--duration 1000"), "{cautions}");
    assert!(cautions.contains("shadow"), "{cautions}");
}

#[test]
fn the_worker_gets_what_reads_and_wal_leave_but_a_part_in_any_case() {
    let mut observation = observation();
    observation.device.all_iops = Some(3000.0);
    observation.device.write_iops = None;
    observation.device.reads_per_s = 600.0;
    observation.device.wal_writes_per_s = 400.0;
    let caps = Caps::of(&observation);
    assert_eq!(caps.write_iops, 3000.0);
    close(caps.left(1.0, 0.0).write_iops, 2000.0);
    close(caps.left(2.0, 0.0).write_iops, 1000.0);
    // Three tenths, and up to six where too much waits.
    close(caps.left(3.0, 0.0).write_iops, 900.0);
    close(caps.left(3.0, 0.5).write_iops, 1350.0);
    close(caps.left(3.0, 1.0).write_iops, 1800.0);
    // Where writes have bytes of their own, WAL alone takes of them.
    observation.device.write_bytes_per_s = Some(200.0 * MIB);
    observation.device.read_mib_per_s = 90.0;
    observation.wal_bytes_per_s = 50.0 * MIB;
    let caps = Caps::of(&observation);
    close(caps.left(1.0, 0.0).write_bytes, 150.0 * MIB);
    close(caps.left(4.0, 1.0).write_bytes, 120.0 * MIB);
    // Under caps on writes alone reads take nothing.
    observation.device.all_iops = None;
    observation.device.write_iops = Some(3000.0);
    close(Caps::of(&observation).left(3.0, 1.0).write_iops, 3000.0);
}

#[test]
fn reads_take_from_what_the_volume_sustains() {
    // 1000 pages per second, of which pg_calm makes some 85 operations; reads take 750 of 500 operations.
    let mut observation = observation();
    no_time_for_drains(&mut observation);
    observation.device.reads_per_s = 750.0;
    let free = predict(observation.clone());
    close(free.stock.sustainable_tps, 1000.0);
    close(free.pg_calm.sustainable_tps, 1000.0);
    observation.device.all_iops = Some(500.0);
    let Prediction { stock, pg_calm, .. } = predict(observation);
    assert!(stock.sustainable_tps < 600.0, "{stock:?}");
    assert!(pg_calm.sustainable_tps > 500.0 && pg_calm.sustainable_tps < 600.0, "{pg_calm:?}");
    assert_eq!(pg_calm.bound_by, "operations");
}

#[test]
fn what_is_possible_is_told_by_the_density_of_the_worker() {
    // 1000 pages, half of which the worker writes, five with each operation; the others write one or two. All like the worker's
    // would take 200 of 500 operations and 100 of 500 MiB.
    let mut observation = observation();
    let work = |operations, mib, pages| Work { operations, bytes: mib * MIB, pages };
    let demand = Demand { work: work(400.0, 60.0, 1000.0), worker: work(100.0, 50.0, 500.0), keeps_up: true };
    let outlook = Outlook {
        sustainable_tps: 1000.0,
        device_operations_per_s: 400.0,
        device_mib_per_s: 60.0,
        bound_by: "server".into(),
    };
    let possible = |observation: &Observation| {
        let caps = Caps::of(observation);
        sustainable::possible(observation, &caps, &outlook, &demand).unwrap()
    };
    let easily = possible(&observation);
    close(easily.volume_tps.unwrap(), 2500.0);
    close(easily.tps, 1000.0);
    close(easily.pages_per_operation, 5.0);
    assert!(!easily.holds_writers);
    observation.unhindered_tps = 4000.0;
    let held = possible(&observation);
    close(held.tps, 2500.0);
    assert!(held.holds_writers);
    // With 300 reads: as many operations again as there are, at twice the rate.
    observation.device.reads_per_s = 300.0;
    observation.device.all_iops = Some(1000.0);
    observation.device.write_iops = None;
    close(possible(&observation).tps, 2000.0);
    observation.device.write_bytes_per_s = None;
    observation.device.all_iops = None;
    let free = possible(&observation);
    assert_eq!(free.volume_tps, None);
    close(free.tps, 4000.0);
}
