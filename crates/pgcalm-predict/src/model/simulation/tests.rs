//! Mechanisms one by one, with figures that can be computed by hand.

use pgcalm_report::predict::Device;
use pgcalm_report::predict::Kernel;
use pgcalm_report::predict::RegionClass;
use pgcalm_report::predict::Settings;

use super::*;

const MIB: f64 = 1_048_576.0;

/// 100 regions that nobody but checkpoints writes to, 20 pages each; checkpoints come each 100 s and write for 90. Gaps of up
/// to 127 pages are bridged. The kernel keeps away.
fn observation() -> Observation {
    Observation {
        source: "shadow".into(),
        seconds: 200.0,
        tps: 1000.0,
        unhindered_tps: 1000.0,
        checkpointer_pages_per_s: 20.0,
        background_writer_pages_per_s: 0.0,
        backend_pages_per_s: 0.0,
        wal_bytes_per_s: 1.0,
        settings: Settings {
            server_version: 150_000,
            checkpoint_timeout_s: 100.0,
            checkpoint_completion_target: 0.9,
            max_wal_bytes: 1 << 40,
            shared_buffers_bytes: 1 << 30,
            checkpoint_flush_after_bytes: 256 << 10,
            bgwriter_flush_after_bytes: 512 << 10,
            backend_flush_after_bytes: 0,
            full_page_writes: true,
            flush_age_s: 50.0,
            unflushed_limit_bytes: 1 << 40,
            bridge: true,
        },
        kernel: Kernel {
            background_bytes: 1 << 40,
            limit_bytes: 1 << 41,
            expire_s: 0.0,
            interval_s: 0.0,
        },
        device: Device {
            name: "vdb".into(),
            write_iops: Some(500.0),
            write_bytes_per_s: Some(500.0 * MIB),
            operation_bytes: 1 << 20,
            max_segments: 0,
            caps_source: String::new(),
            operations_per_s: 0.0,
            mib_per_s: 0.0,
            other_mib_per_s: 0.0,
            counted_times: 1,
        },
        checkpoint_pages: 2000.0,
        regions: vec![RegionClass {
            regions: 100.0,
            pages_first_second: 0.0,
            exponent: 1.0,
            checkpoint_pages: 20.0,
        }],
        files: 2.0,
        shadow: None,
    }
}

/// Regions that 1000 pages per second are written to evenly by backends, and with no time for drains.
fn busy() -> Observation {
    let mut observation = observation();
    observation.settings.checkpoint_completion_target = 1.0;
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
    let mut observation = busy();
    observation.settings.checkpoint_completion_target = 0.9;
    let caps = Caps::of(&observation.device);
    let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
    let mut drained = 0.0;
    while simulation.now < 150.0 {
        simulation.step(0.02);
        if simulation.checkpointer.is_draining() {
            drained += 0.02;
        }
    }
    // A tenth of 100 s.
    close(drained, 10.0, 0.05);
}

#[test]
fn a_drain_without_hope_ends_after_its_trial() {
    // 10000 pages per second at 50 operations per second.
    let mut observation = busy();
    observation.settings.checkpoint_completion_target = 0.9;
    observation.regions[0].pages_first_second = 100.0;
    observation.backend_pages_per_s = 10_000.0;
    observation.device.write_iops = Some(50.0);
    observation.device.write_bytes_per_s = Some(5.0 * MIB);
    let caps = Caps::of(&observation.device);
    let mut simulation = Simulation::new(&observation, &caps, 1.0, 0.5);
    while !simulation.checkpointer.is_draining() {
        simulation.step(0.25);
        assert!(simulation.now < 200.0);
    }
    let began = simulation.now;
    while simulation.checkpointer.draining() == Some(None) {
        simulation.step(0.02);
    }
    // A tenth of the 10 s that the checkpoint leaves, and then one file alone.
    close(simulation.now - began, 1.0, 0.05);
    assert_eq!(simulation.checkpointer.draining(), Some(Some(0)));
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
