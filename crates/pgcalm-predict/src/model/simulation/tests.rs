//! Mechanisms one by one, with figures that can be computed by hand.

use pgcalm_report::predict::RegionClass;

use super::super::fixture;
use super::*;

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
    observation.regions = vec![RegionClass {
        regions: 100.0,
        pages_first_second: 0.0,
        exponent: 1.0,
        checkpoint_pages: 20.0,
    }];
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
    assert!(
        (value / expected - 1.0).abs() < part,
        "{value} instead of {expected}"
    );
}

fn demand(observation: &Observation) -> Demand {
    run(
        observation,
        &Caps::of(&observation.device),
        1.0,
        Effort::Answer,
    )
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
    let caps = Caps::of(&observation.device);
    let bytes = [60.0, 40.0].map(|seconds| bridge::work(dirty(seconds), 127, MIB).bytes);
    close(demand.work.bytes, bytes.iter().sum(), 0.1);
    assert!(demand.work.bytes < 0.2 * caps.write_bytes);
}

#[test]
fn a_drain_takes_the_time_that_checkpoints_leave() {
    // Each round finds pages that were written in the one before, but fewer: there is hope until the time is over.
    let mut observation = without_checkpoint_pages();
    observation.settings.clean_buffers = false;
    observation.settings.checkpoint_completion_target = 0.6;
    let caps = Caps::of(&observation.device);
    let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
    let mut drained = 0.0;
    while simulation.now < 140.0 {
        simulation.step(0.02);
        if simulation.checkpointer.is_draining() {
            drained += 0.02;
        }
    }
    // Four tenths of 100 s.
    close(drained, 40.0, 0.05);
}

#[test]
fn a_drain_without_hope_ends_after_its_trial() {
    // 10000 pages per second at 50 operations per second.
    let mut observation = without_checkpoint_pages();
    observation.settings.clean_buffers = false;
    observation.regions[0].pages_first_second = 100.0;
    observation.backend_pages_per_s = 10_000.0;
    observation.device.write_iops = Some(50.0);
    observation.device.write_bytes_per_s = Some(5.0 * MIB);
    let caps = Caps::of(&observation.device);
    let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
    let began = until_it_drains(&mut simulation);
    while simulation.checkpointer.draining() == Some(None) {
        simulation.step(0.02);
    }
    // A tenth of the 30 s that it may take at least, and then one file alone.
    close(simulation.now - began, 3.0, 0.05);
    assert_eq!(simulation.checkpointer.draining(), Some(Some(0)));
}

fn until_it_drains(simulation: &mut Simulation) -> f64 {
    while !simulation.checkpointer.is_draining() {
        simulation.step(0.25);
        assert!(simulation.now < 200.0);
    }
    simulation.now
}

#[test]
fn a_file_is_swept_where_rounds_do_not_get_shorter() {
    // 1000 pages per second at 500 operations per second; the clock sweep takes 131 s for a turn.
    let observation = without_checkpoint_pages();
    let caps = Caps::of(&observation.device);
    let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
    let began = until_it_drains(&mut simulation);
    while simulation.checkpointer.draining() == Some(None) {
        simulation.step(0.02);
    }
    close(simulation.now - began, 0.3, 0.1);
    assert!(simulation.checkpointer.is_sweeping());
    while simulation.checkpointer.draining() == Some(Some(0)) {
        simulation.step(0.02);
    }
    // 50 regions of 8 MiB at 500 MiB/s, less what rounds over both files have done; nothing is evicted to those that are done.
    close(simulation.now - began - 0.3, 0.8 - 0.15, 0.1);
    assert_eq!(simulation.unflushed_pages(Some(0)), 0.0);
    assert!(simulation.unflushed_pages(Some(1)) > 1000.0);
}

#[test]
fn what_is_cleaned_in_a_sweep_is_what_has_gathered_in_buffers() {
    // 20 pages for each region in shared buffers, which are not turned over in an interval of 100 s.
    let mut observation = without_checkpoint_pages();
    observation.settings.shared_buffers_bytes = 200_000 * 8192;
    observation.regions[0].checkpoint_pages = 20.0;
    let (mut regions, _) = growth::regions(&observation, 1.0, 100.0);
    let region = &mut regions[0];
    let class = &observation.regions[0];
    region.clean(class, 1.0, 50.0, 100.0, 100.0);
    close(region.marked(), 20.0, 0.01);
    region.flushed();
    // Half of them are dirty again half of the time later, and none has been evicted.
    region.grow(&observation, 1.0, 100.0, 50.0);
    close(region.marked() + 1.0, 1.0, 1e-9);
    region.clean(class, 1.0, 100.0, 100.0, 100.0);
    close(region.marked(), 10.0, 0.01);
}

#[test]
fn after_a_sweep_only_what_is_changed_again_is_evicted() {
    // 20000 of 102400 pages are in shared buffers, which take 20 s to be turned over. 1000 pages per second are evicted, so
    // 1243 are changed: each page each 82.4 s.
    let mut observation = without_checkpoint_pages();
    observation.settings.shared_buffers_bytes = 20_000 * 8192;
    let evicted_after = |observation: &Observation, seconds: u32| {
        let (mut regions, _) = growth::regions(observation, 1.0, 100.0);
        let region = &mut regions[0];
        region.clean(&observation.regions[0], 1.0, 50.0, 20.0, 20.0);
        region.flushed();
        for step in 1..=seconds * 100 {
            region.grow(observation, 1.0, 50.0 + f64::from(step) * 0.01, 0.01);
        }
        region.marked()
    };
    // Of 10 per second those that were changed in the time since: the integral of 1 - exp(-t / 82.4).
    let part = |seconds: f64| seconds - 82.4 * (1.0 - (-seconds / 82.4).exp());
    close(evicted_after(&observation, 10), 10.0 * part(10.0), 0.01);
    // After the turn all of them are dirty.
    let all = 10.0 * (part(20.0) + 10.0);
    close(
        evicted_after(&observation, 30),
        1024.0 * (1.0 - (-all / 1024.0).exp()),
        0.01,
    );
    // What is as large as the interval is long is not turned over.
    observation.settings.shared_buffers_bytes = 200_000 * 8192;
    assert_eq!(evicted_after(&observation, 10), 0.0);
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

#[test]
fn what_is_more_than_may_wait_is_flushed_at_once() {
    // 20 MiB are 2560 pages, which is what is written in 2.6 s: so each region has 51 pages or fewer when its turn comes.
    let mut observation = busy();
    observation.settings.unflushed_limit_bytes = 20 << 20;
    let limited = demand(&observation);
    observation.settings.unflushed_limit_bytes = 1 << 40;
    let free = demand(&observation);
    assert!(
        limited.work.bytes > 4.0 * free.work.bytes,
        "{limited:?} {free:?}"
    );
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
    let caps = Caps {
        write_iops: 100.0,
        write_bytes: 10.0 * MIB,
        operation_bytes: MIB,
        request_bytes: MIB,
    };
    let mut queue = Queue::default();
    // A second of operations, then two of bytes.
    queue.add(Work {
        operations: 100.0,
        bytes: MIB,
    });
    queue.add(Work {
        operations: 10.0,
        bytes: 20.0 * MIB,
    });
    close(queue.seconds(&caps), 3.0, 1e-9);
    assert_eq!(queue.work(&caps, 2.0), 0.0);
    close(queue.bytes(), 10.0 * MIB, 1e-9);
    close(queue.work(&caps, 3.0), 2.0, 1e-9);
    assert_eq!(queue.bytes(), 0.0);
    close(queue.worked(), 3.0, 1e-9);
}

#[test]
fn a_gap_follows_the_budget_that_runs_out() {
    let caps = Caps {
        write_iops: 100.0,
        write_bytes: 100.0 * MIB,
        operation_bytes: MIB,
        request_bytes: MIB,
    };
    // It begins with the quickest; all operations and half of the bytes of each second make it longer, the reverse shorter.
    for (operations, bytes, expected) in [(100.0, 50.0, 20), (50.0, 100.0, 5), (100.0, 100.0, 10)] {
        let mut balance = Balance::default();
        assert_eq!(balance.gap(&caps, 127, 0.0, || 10), 10);
        balance.written += Work {
            operations,
            bytes: bytes * MIB,
        };
        assert_eq!(balance.gap(&caps, 127, 1.0, || 99), expected);
    }
    // Where neither is used up there is nothing to follow.
    let mut balance = Balance::default();
    balance.gap(&caps, 127, 0.0, || 10);
    balance.written += Work {
        operations: 10.0,
        bytes: 20.0 * MIB,
    };
    assert_eq!(balance.gap(&caps, 127, 1.0, || 99), 99);
    // After a pause it begins anew, and no gap is longer than the longest.
    let mut balance = Balance::default();
    balance.gap(&caps, 127, 0.0, || 10);
    assert_eq!(balance.gap(&caps, 127, 5.0, || 3), 3);
    balance.written += Work {
        operations: 1000.0,
        bytes: MIB,
    };
    assert_eq!(balance.gap(&caps, 127, 6.0, || 3), 127);
}

#[test]
fn what_a_stuck_checkpointer_does_not_report_is_seen_in_the_map() {
    // 1000 pages per second get dirty, and nothing is reported; nor has a checkpoint written anything.
    let mut observation = without_checkpoint_pages();
    observation.settings.shared_buffers_bytes = 10_000 * 8192;
    observation.checkpoint_pages = 0.0;
    observation.backend_pages_per_s = 0.0;
    close(growth::evicted(&observation, 1.0), 1000.0, 1e-9);
    close(growth::evicted(&observation, 2.0), 2000.0, 1e-9);
    let cleaned = |observation: &Observation| {
        let (mut regions, _) = growth::regions(observation, 1.0, 100.0);
        regions[0].clean(&observation.regions[0], 1.0, 50.0, 10.0, 10.0);
        regions[0].marked()
    };
    // Eight tenths of the buffers are dirty, spread over 100 regions.
    close(cleaned(&observation), 80.0, 0.01);
    // Nor does it matter what a checkpoint was seen to write: a sweep also finds what got dirty after it had begun.
    observation.checkpoint_pages = 2000.0;
    observation.regions[0].checkpoint_pages = 20.0;
    close(cleaned(&observation), 80.0, 0.01);
    // What does not turn over in an interval has other pages in it than these.
    observation.checkpoint_pages = 0.0;
    observation.regions[0].checkpoint_pages = 0.0;
    observation.settings.shared_buffers_bytes = 1_000_000 * 8192;
    assert_eq!(cleaned(&observation), 0.0);
}
