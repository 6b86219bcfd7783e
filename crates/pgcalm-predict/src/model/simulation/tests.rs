//! Mechanisms one by one, with figures that can be computed by hand.

use super::super::fixture;
use super::growth::Beat;
use super::*;
use crate::report::RegionClass;

const MIB: f64 = 1_048_576.0;

/// 100 regions that nobody but checkpoints writes to, 20 pages each; checkpoints come each 100 s and write for 90. Gaps of up
/// to 127 pages are bridged. The kernel keeps away.
fn observation() -> Observation {
    let mut observation = fixture::observation();
    observation.seconds = 200.0;
    observation.checkpointer_pages_per_s = 20.0;
    observation.backend_pages_per_s = 0.0;
    observation.settings.checkpoint_timeout_s = 100.0;
    observation.settings.flush_age_s = 50.0;
    observation.checkpoint_pages = 2000.0;
    observation.regions =
        vec![RegionClass { regions: 100.0, pages_first_second: 0.0, exponent: 1.0, checkpoint_pages: 20.0 }];
    observation.files = 2.0;
    observation
}

/// Regions that 1000 pages per second are written to evenly by backends, and with no time for drains.
fn busy() -> Observation {
    let mut observation = without_checkpoint_pages();
    fixture::no_time_for_drains(&mut observation);
    observation
}

/// The same, but checkpoints leave time.
fn without_checkpoint_pages() -> Observation {
    let mut observation = observation();
    observation.backend_pages_per_s = 1000.0;
    observation.regions[0].pages_first_second = 10.0;
    observation.regions[0].checkpoint_pages = 0.0;
    observation
}

fn close(value: f64, expected: f64, part: f64) {
    assert!((value / expected - 1.0).abs() < part, "{value} instead of {expected}");
}

fn demand(observation: &Observation) -> Demand {
    run(observation, &Caps::of(observation), 1.0, Effort::Answer)
}

#[test]
fn a_region_is_flushed_once_when_the_checkpointer_has_passed_it() {
    let observation = observation();
    let demand = demand(&observation);
    // 20 pages, 51 apart in the mean: nearly all in one run, 100 of them in 100 s.
    let one = bridge::work(20.0, 127, MIB);
    close(demand.work.operations, one.operations, 0.02);
    close(demand.work.bytes, one.bytes, 0.02);
    assert!(demand.keeps_up);
}

#[test]
fn a_region_is_flushed_by_age_and_when_a_checkpoint_ends() {
    // Of each 100 s and a little for the fsyncs: 60 s after they were flushed, and at the fsync that comes 40 s later.
    let mut observation = busy();
    observation.settings.flush_age_s = 60.0;
    let demand = demand(&observation);
    let dirty = |seconds: f64| 1024.0 * (1.0 - (-10.0 * seconds / 1024.0_f64).exp());
    let caps = Caps::of(&observation);
    let bytes = [60.0, 40.0].map(|seconds| bridge::work(dirty(seconds), 127, MIB).bytes);
    close(demand.work.bytes, bytes.iter().sum(), 0.1);
    assert!(demand.work.bytes < 0.2 * caps.write_bytes);
}

#[test]
fn rounds_go_on_as_long_as_they_get_shorter() {
    // 100 pages per second at 500 operations and 500 MiB per second.
    let mut observation = without_checkpoint_pages();
    observation.backend_pages_per_s = 100.0;
    observation.regions[0].pages_first_second = 1.0;
    observation.files = 1.0;
    let caps = Caps::of(&observation);
    let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
    let began = until_it_drains(&mut simulation);
    while simulation.checkpointer.draining().is_some() {
        simulation.step(0.02);
    }
    // 100 regions with 31 pages each; then, one by one, the 77 pages that came into those that were done. The 10 of that time are few
    // enough.
    close(simulation.now - began, 1.36 + 77.0 / 500.0, 0.05);
}

#[test]
fn a_drain_without_hope_ends_after_its_trial() {
    // A tenth of what checkpoints leave, of 30 s at least; of what is left until WAL asks for the next, where it does.
    let mut observation = hopeless();
    for (completion, trial) in [(0.9, 3.0), (0.6, 4.0)] {
        observation.settings.checkpoint_completion_target = completion;
        close(first_drain(&observation), trial, 0.05);
    }
    observation.settings.max_wal_bytes = 80;
    observation.wal_bytes_per_s = 1.0;
    close(first_drain(&observation), (50.0 - 30.0) / 10.0, 0.05);
}

/// 10000 pages per second at 50 operations per second.
fn hopeless() -> Observation {
    let mut observation = without_checkpoint_pages();
    observation.regions[0].pages_first_second = 100.0;
    observation.backend_pages_per_s = 10_000.0;
    observation.device.write_iops = Some(50.0);
    observation.device.write_bytes_per_s = Some(5.0 * MIB);
    observation
}

/// How long it takes.
fn first_drain(observation: &Observation) -> f64 {
    let caps = Caps::of(observation);
    let mut simulation = Simulation::new(observation, &caps, 1.0, 0.5);
    let began = until_it_drains(&mut simulation);
    while simulation.checkpointer.draining().is_some() {
        simulation.step(0.02);
    }
    simulation.now - began
}

#[test]
fn each_file_is_drained_right_before_its_fsync() {
    let observation = hopeless();
    let caps = Caps::of(&observation);
    let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
    until_it_drains(&mut simulation);
    assert_eq!(simulation.checkpointer.draining(), Some(0));
    while simulation.checkpointer.draining().is_some() {
        simulation.step(0.02);
    }
    // It is synced, and the other one has to wait for that.
    assert_eq!(simulation.unflushed_pages(Some(0)), 0.0);
    assert!(simulation.unflushed_pages(Some(1)) > 10_000.0);
    until_it_drains(&mut simulation);
    assert_eq!(simulation.checkpointer.draining(), Some(1));
    assert_eq!(simulation.checkpointer.ended(), 0);
}

fn until_it_drains(simulation: &mut Simulation) -> f64 {
    while simulation.checkpointer.draining().is_none() {
        simulation.step(0.25);
        assert!(simulation.now < 300.0);
    }
    simulation.now
}

/// 20000 of 102400 pages are in shared buffers, which take 20 s to be turned over. 1000 pages per second are evicted, so
/// 1243 are changed: each page each 82.4 s.
fn buffered() -> Observation {
    let mut observation = without_checkpoint_pages();
    observation.settings.shared_buffers_bytes = 20_000 * 8192;
    observation.settings.clean_buffers = true;
    observation
}

const BEAT: Beat = Beat { speed: 1.0, turn: 20.0, interval: 100.0, started: 0.0 };

#[test]
fn what_the_cleaner_writes_is_what_is_dirty_in_buffers_and_not_in_use() {
    let observation = buffered();
    let class = &observation.regions[0];
    let (mut regions, _) = growth::regions(&observation, 1.0, 100.0);
    let region = &mut regions[0];
    // Eight tenths of the buffers are dirty, less what was changed in the last hundredth of a second.
    let again = |seconds: f64| 160.0 * (1.0 - (1.0 - seconds / 20.0) * (-seconds / 82.38).exp());
    region.clean(class, 50.0, &BEAT);
    close(region.marked(), 160.0 - again(0.01), 1e-5);
    assert!(region.marked() < 159.95);
    // 5 s later: what has come into buffers since, and what of the rest was changed.
    region.flushed();
    region.clean(class, 55.0, &BEAT);
    close(region.marked(), again(5.01) - again(0.01), 1e-3);
    // What a checkpoint finds of 100 pages after 5 s more; and nothing where the cleaner has been since it started.
    region.checkpoint_pages = 100.0;
    region.flushed();
    let beat = Beat { started: 58.0, ..BEAT };
    let mut passed = region.clone();
    passed.checkpoint(class, 60.0, &beat);
    close(passed.marked(), 100.0 / 160.0 * again(5.01), 1e-3);
    region.clean(class, 59.0, &beat);
    region.flushed();
    region.checkpoint(class, 60.0, &beat);
    assert_eq!(region.marked(), 0.0);
}

#[test]
fn after_a_cleaning_only_what_is_changed_again_is_evicted() {
    let observation = buffered();
    let evicted_after = |seconds: u32| {
        let (mut regions, _) = growth::regions(&observation, 1.0, 100.0);
        let region = &mut regions[0];
        region.clean(&observation.regions[0], 50.0, &BEAT);
        region.flushed();
        for step in 1..=seconds * 100 {
            region.grow(&observation, 1.0, 50.0 + f64::from(step) * 0.01, 0.01);
        }
        region.marked()
    };
    // Of 10 per second those that were changed in the time since: the integral of 1 - exp(-t / 82.4).
    let part = |seconds: f64| seconds - 82.4 * (1.0 - (-seconds / 82.4).exp());
    close(evicted_after(10), 10.0 * part(10.0), 0.01);
    // After the turn all of them are dirty.
    let all = 10.0 * (part(20.0) + 10.0);
    close(evicted_after(30), 1024.0 * (1.0 - (-all / 1024.0).exp()), 0.01);
}

#[test]
fn a_region_is_cleaned_right_before_it_is_flushed() {
    let mut observation = buffered();
    let flushed = |observation: &Observation| {
        let caps = Caps::of(observation);
        let mut simulation = Simulation::new(observation, &caps, 1.0, 0.5);
        while simulation.now < 53.0 {
            simulation.step(0.25);
        }
        (simulation.worker.pages, simulation.unflushed_pages(None))
    };
    // By age, after 50 s: 100 times the 396 that were evicted, and 160 in buffers, of 1024 pages. Then there is little to evict.
    let (pages, left) = flushed(&observation);
    close(pages, 100.0 * (1024.0 - 628.0 * (1.0 - 160.0 / 1024.0)), 0.02);
    assert!(left < 100.0, "{left}");
    observation.settings.clean_buffers = false;
    let (pages, left) = flushed(&observation);
    close(pages, 100.0 * 396.0, 0.02);
    assert!(left > 1000.0, "{left}");
}

#[test]
fn buffers_that_are_not_turned_over_get_dirty_as_a_checkpoint_found_them() {
    // 200000 buffers for 102400 pages, 1000 of which are evicted per second, 20 of each region are found after 100 s.
    let mut observation = without_checkpoint_pages();
    observation.settings.shared_buffers_bytes = 200_000 * 8192;
    observation.regions[0].pages_first_second = 0.0;
    observation.backend_pages_per_s = 0.0;
    observation.regions[0].checkpoint_pages = 20.0;
    let (mut regions, _) = growth::regions(&observation, 1.0, 100.0);
    let region = &mut regions[0];
    let class = &observation.regions[0];
    let beat = Beat { turn: f64::INFINITY, ..BEAT };
    region.clean(class, 50.0, &beat);
    region.flushed();
    region.clean(class, 100.0, &beat);
    // 1024 · 0.9 pages are there, of which half as many are dirty after half of the time.
    close(region.marked(), 10.0, 0.02);
}

#[test]
fn the_kernels_visit_writes_what_was_made_dense() {
    // Each 20.6 s. It would find 190 pages in each region, 5 apart: half of them with a gap of more than 3.
    let mut observation = busy();
    observation.kernel.expire_s = 20.0;
    observation.kernel.interval_s = 5.0;
    let prepared = demand(&observation);
    close(prepared.work.bytes, 100.0 * 8.0 * MIB / 20.6, 0.25);
    observation.settings.bridge = false;
    let bare = demand(&observation);
    assert!(bare.work.operations > 5.0 * prepared.work.operations);
    assert!(bare.work.bytes < 0.5 * prepared.work.bytes);
}

#[test]
fn a_visit_by_amount_is_prepared_for_as_well() {
    // The worker leaves all to it. Others write so much that an eighth of 400 MiB is the device's part.
    let mut observation = busy();
    observation.settings.unflushed_limit_bytes = 1 << 40;
    observation.device.other_mib_per_s = 10_000.0;
    observation.kernel.expire_s = 0.0;
    observation.kernel.interval_s = 5.0;
    observation.kernel.background_bytes = 400 << 20;
    observation.kernel.limit_bytes = 10 << 30;
    let prepared = demand(&observation);
    observation.settings.bridge = false;
    let bare = demand(&observation);
    assert!(bare.work.operations > 3.0 * prepared.work.operations);
    // No room for it.
    observation.settings.bridge = true;
    observation.kernel.limit_bytes = 400 << 20;
    observation.kernel.background_bytes = 20 << 20;
    let unprepared = demand(&observation);
    assert!(unprepared.work.operations > 3.0 * prepared.work.operations);
}

/// A visit of the kernel comes after 10.3 s, 20.6 s after the one before it, on a volume that counts reads or not. Until then
/// nothing has to be flushed.
fn before_a_visit(counts_reads: bool) -> Observation {
    let mut observation = buffered();
    observation.settings.flush_age_s = 1000.0;
    observation.kernel.expire_s = 20.0;
    observation.kernel.interval_s = 5.0;
    observation.device.write_iops = Some(5000.0);
    if counts_reads {
        observation.device.all_iops = Some(5000.0);
    }
    observation
}

#[test]
fn where_reads_count_a_file_is_flushed_before_a_visit_and_not_left_to_it() {
    for counts_reads in [true, false] {
        let observation = before_a_visit(counts_reads);
        let caps = Caps::of(&observation);
        let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
        while simulation.now < 6.0 {
            simulation.step(0.25);
        }
        assert_eq!(simulation.worker.pages, 0.0);
        // It may come from 9.7 s on.
        while simulation.now < 10.25 {
            simulation.step(0.25);
            assert!(!counts_reads || !simulation.flusher.guards(0));
        }
        if counts_reads {
            // What was evicted in 10 s, without the 16000 pages that are dirty in buffers.
            close(simulation.worker.pages, 10_000.0, 0.1);
            assert!(simulation.dirty_bytes() < 600.0 * 8192.0);
            assert!(simulation.flusher.is_near(0));
        } else {
            assert!(simulation.flusher.guards(0));
            assert_eq!(simulation.worker.pages, 0.0);
            close(simulation.dirty_bytes(), 10_000.0 * 8192.0, 0.1);
        }
        // It is seen, and nothing is near any more.
        simulation.step(0.25);
        simulation.step(0.25);
        assert!(!simulation.flusher.is_near(0) && !simulation.flusher.guards(0));
    }
}

#[test]
fn where_reads_count_nothing_is_cleaned_for_a_drain() {
    for (counts_reads, cleaned) in [(false, true), (true, false)] {
        let mut observation = buffered();
        observation.settings.flush_age_s = 1000.0;
        observation.files = 1.0;
        if counts_reads {
            observation.device.all_iops = Some(5000.0);
        }
        let caps = Caps::of(&observation);
        let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
        until_it_drains(&mut simulation);
        for _ in 0..200 {
            simulation.step(0.02);
        }
        // What was evicted in 90 s, a part of it twice in rounds; and 16 % of the other pages.
        let evicted = 102_400.0 * (1.0 - (-900.0_f64 / 1024.0).exp());
        let more = simulation.worker.pages - evicted;
        assert_eq!(more > 6000.0, cleaned, "{more}");
    }
}

#[test]
fn the_worker_takes_more_from_reads_the_more_is_unflushed() {
    // 900 reads leave less than three tenths of 1000 operations. 100,000 pages per second pass 8 MiB, then 64 MiB in the first
    // second.
    let mut observation = without_checkpoint_pages();
    observation.regions[0].pages_first_second = 1000.0;
    observation.settings.unflushed_limit_bytes = 8 << 20;
    observation.kernel.background_bytes = 64 << 20;
    observation.device.mib_per_s = 100.0;
    observation.device.all_iops = Some(1000.0);
    observation.device.write_iops = None;
    observation.device.reads_per_s = 900.0;
    let caps = Caps::of(&observation);
    let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
    simulation.step(0.01);
    close(simulation.caps.write_iops, 300.0, 1e-9);
    for _ in 0..10 {
        simulation.step(0.25);
    }
    close(simulation.caps.write_iops, 600.0, 1e-9);
}

#[test]
fn what_waits_and_what_comes_while_it_is_visited_stay_below_the_threshold() {
    for (dirtied_per_visited, part) in [(0.0, 0.5), (2.0, 0.3), (20.0, 0.125)] {
        let mut observation = without_checkpoint_pages();
        observation.settings.unflushed_limit_bytes = 0;
        let caps = Caps::of(&observation);
        let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
        simulation.visit_seconds = 1e-6;
        simulation.dirtied.most_bytes_per_second = dirtied_per_visited * 1e6 / VISIT_FACTOR;
        close(simulation.unflushed_limit(), simulation.device_bytes() * part, 1e-9);
    }
}

#[test]
fn a_visit_takes_more_than_bandwidth_asks_for_and_less_than_an_operation_for_each_page() {
    let observation = without_checkpoint_pages();
    let caps = Caps::of(&observation);
    let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
    for _ in 0..4 {
        simulation.step(0.25);
    }
    let scattered = 1.0 / caps.write_iops / PAGE;
    assert!(
        simulation.visit_seconds > 1.0 / caps.write_bytes && simulation.visit_seconds < 0.9 * scattered,
        "{} of {scattered}",
        simulation.visit_seconds
    );
    assert!(simulation.dirtied.most_bytes_per_second > 0.0);
}

#[test]
fn what_is_more_than_may_wait_is_flushed_at_once() {
    // 20 MiB are 2560 pages, which is what is written in 2.6 s: so each region has 51 pages or fewer when its turn comes.
    let mut observation = busy();
    observation.settings.unflushed_limit_bytes = 20 << 20;
    let limited = demand(&observation);
    observation.settings.unflushed_limit_bytes = 1 << 40;
    let free = demand(&observation);
    assert!(limited.work.bytes > 4.0 * free.work.bytes, "{limited:?} {free:?}");
}

#[test]
fn a_device_that_is_too_slow_does_not_keep_up() {
    let mut observation = busy();
    observation.device.write_iops = Some(3.0);
    observation.device.write_bytes_per_s = Some(MIB);
    observation.kernel.background_bytes = 100 << 20;
    observation.kernel.limit_bytes = 200 << 20;
    assert!(!demand(&observation).keeps_up);
}

#[test]
fn the_queue_is_worked_on_in_its_order() {
    let caps = Caps { write_iops: 100.0, write_bytes: 10.0 * MIB, ..Caps::of(&observation()) };
    let mut queue = Queue::default();
    // A second of operations, then two of bytes.
    queue.add(Work { operations: 100.0, bytes: MIB, pages: 0.0 });
    queue.add(Work { operations: 10.0, bytes: 20.0 * MIB, pages: 0.0 });
    close(queue.seconds(&caps), 3.0, 1e-9);
    assert_eq!(queue.work(&caps, 2.0), 0.0);
    close(queue.bytes(), 10.0 * MIB, 1e-9);
    close(queue.work(&caps, 3.0), 2.0, 1e-9);
    assert_eq!(queue.bytes(), 0.0);
    close(queue.worked(), 3.0, 1e-9);
}

#[test]
fn a_gap_follows_the_budget_that_runs_out() {
    let caps = Caps { write_iops: 100.0, write_bytes: 100.0 * MIB, ..Caps::of(&observation()) };
    // It begins with the quickest; all operations and half of the bytes of each second make it longer, the reverse shorter.
    for (operations, bytes, expected) in [(100.0, 50.0, 20), (50.0, 100.0, 5), (100.0, 100.0, 10)] {
        let mut balance = Balance::default();
        assert_eq!(balance.gap(&caps, 127, 0.0, || 10), 10);
        balance.written += Work { operations, bytes: bytes * MIB, pages: 0.0 };
        assert_eq!(balance.gap(&caps, 127, 1.0, || 99), expected);
    }
    // Where neither is used up there is nothing to follow.
    let mut balance = Balance::default();
    balance.gap(&caps, 127, 0.0, || 10);
    balance.written += Work { operations: 10.0, bytes: 20.0 * MIB, pages: 0.0 };
    assert_eq!(balance.gap(&caps, 127, 1.0, || 99), 99);
    // After a pause it begins anew, and no gap is longer than the longest.
    let mut balance = Balance::default();
    balance.gap(&caps, 127, 0.0, || 10);
    assert_eq!(balance.gap(&caps, 127, 5.0, || 3), 3);
    balance.written += Work { operations: 1000.0, bytes: MIB, pages: 0.0 };
    assert_eq!(balance.gap(&caps, 127, 6.0, || 3), 127);
}

#[test]
fn what_a_stuck_checkpointer_does_not_report_is_seen_in_the_map() {
    // 1000 pages per second get dirty, and nothing is reported.
    let mut observation = without_checkpoint_pages();
    observation.backend_pages_per_s = 0.0;
    close(growth::evicted(&observation, 1.0), 1000.0, 1e-9);
    close(growth::evicted(&observation, 2.0), 2000.0, 1e-9);
}
