//! What pg_calm asks of the device.

use pgcalm_report::predict::Observation;
use pgcalm_report::predict::RegionClass;

use super::PAGE;
use super::bridge;
use super::caps::Caps;
use super::caps::Work;
use super::flusher;
use super::region;
use super::schedule::Occasion;
use super::schedule::Schedule;
use crate::checkpoint;

/// Rounds in which the kernel's share of dirty memory for the device, which follows what is written to it, settles.
const ROUNDS: u32 = 4;

/// Halvings in the search for the density at which regions are flushed.
const HALVINGS: u32 = 14;

/// What the worker flushes per second, and how much waits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Flushed {
    work: Work,
    unflushed_bytes: f64,
}

/// How it decides: flush regions this old, or with this many dirty pages, bridging gaps of this length.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Policy {
    age: f64,
    pages: f64,
    gap: u32,
}

/// Work per second at `speed` times the observed rate.
///
/// More may wait than the worker wants, as long as the kernel does not start by itself: so when the device can't keep up,
/// regions get denser up to that, which is twice what is wanted (writeback.c, `unflushed_limit_bytes`).
pub(super) fn demand(observation: &Observation, caps: &Caps, speed: f64) -> Work {
    let wanted = settled(observation, caps, speed, 1.0);
    let busy = caps.seconds(wanted);
    if busy <= 1.0 {
        return wanted + drain(observation, caps, speed, 1.0 - busy);
    }
    let most = settled(observation, caps, speed, 2.0);
    if caps.seconds(most) < caps.seconds(wanted) {
        most
    } else {
        wanted
    }
}

/// Operations per second of draining before checkpoints' fsyncs, as far as the device has time left for them.
///
/// Rounds get shorter and end soon where the device takes more operations than the server writes pages meanwhile. Where it
/// does not, each finds pages that are too fresh to be merged, and they go on for the time that there is: what
/// `checkpoint_completion_target` leaves of `checkpoint_timeout` (`timeout_ms` and `promising` in extension/pg_calm/drain.c).
fn drain(observation: &Observation, caps: &Caps, speed: f64, left: f64) -> Work {
    let pages = observation.background_writer_pages_per_s + observation.backend_pages_per_s;
    if pages * speed <= caps.write_iops {
        return Work::default();
    }
    let settings = &observation.settings;
    let interval = checkpoint::interval(settings, observation.wal_bytes_per_s * speed);
    let part =
        (1.0 - settings.checkpoint_completion_target) * settings.checkpoint_timeout_s / interval;
    let operations = caps.write_iops * part.min(left);
    Work {
        operations,
        bytes: (operations * PAGE).min(caps.write_bytes * left),
    }
}

fn settled(observation: &Observation, caps: &Caps, speed: f64, excess: f64) -> Work {
    let schedule = Schedule {
        checkpoint: checkpoint::interval(
            &observation.settings,
            observation.wal_bytes_per_s * speed,
        ),
        completion: observation.settings.checkpoint_completion_target,
        windows: true,
        visit: flusher::visit_interval(observation),
    };
    let mut bytes_per_s = observation.device.mib_per_s * f64::from(1 << 20);
    let mut unflushed = 0.0;
    let mut work = Work::default();
    for _ in 0..ROUNDS {
        let limit = limit_bytes(observation, bytes_per_s, speed, unflushed) * excess;
        let flushed = with_limit(observation, caps, speed, &schedule, limit);
        work = flushed.work;
        unflushed = flushed.unflushed_bytes;
        // What is more than the device takes is not written.
        bytes_per_s = (bytes_per_s + work.bytes.min(caps.write_bytes)) / 2.0;
    }
    work
}

/// Bytes that may wait: `unflushed_limit_bytes` in extension/pg_calm/writeback.c.
fn limit_bytes(observation: &Observation, bytes_per_s: f64, speed: f64, unflushed: f64) -> f64 {
    match observation.settings.unflushed_limit_bytes {
        0 => flusher::device_threshold(observation, bytes_per_s, speed, unflushed) / 2.0,
        set => set as f64,
    }
}

/// Seconds that a page may wait: `flush_age_ms` in writeback.c.
fn flush_age(observation: &Observation) -> f64 {
    let settings = &observation.settings;
    if settings.flush_age_s > 0.0 {
        return settings.flush_age_s;
    }
    let half = settings.checkpoint_timeout_s / 2.0;
    if observation.kernel.expire_s > 0.0 {
        half.min(observation.kernel.expire_s)
    } else {
        half
    }
}

/// If all that waits until it is old is more than `limit`, regions are flushed earlier, those with most pages first: all of
/// them when they have a certain number of dirty pages, which is searched for here. Gaps are then bridged so that it takes
/// least time.
fn with_limit(
    observation: &Observation,
    caps: &Caps,
    speed: f64,
    schedule: &Schedule,
    limit: f64,
) -> Flushed {
    let bridges = observation.settings.bridge && observation.settings.full_page_writes;
    let relaxed = Policy {
        age: flush_age(observation),
        pages: region::PAGES,
        gap: if bridges { caps.longest_gap() } else { 0 },
    };
    let flushed = flush(observation, caps, speed, schedule, &relaxed);
    if flushed.unflushed_bytes <= limit {
        return flushed;
    }
    let (mut low, mut high) = (0.0, region::PAGES);
    for _ in 0..HALVINGS {
        let pages = (low + high) / 2.0;
        let policy = Policy { pages, ..relaxed };
        if unflushed_bytes(observation, speed, schedule, &policy) > limit {
            high = pages;
        } else {
            low = pages;
        }
    }
    let mut policy = Policy {
        pages: high,
        ..relaxed
    };
    if bridges {
        let densities: Vec<(f64, f64)> = observation
            .regions
            .iter()
            .map(|class| (mean_dirty(class, speed, schedule, &policy), class.regions))
            .collect();
        policy.gap = bridge::quickest_gap(&densities, caps);
    }
    flush(observation, caps, speed, schedule, &policy)
}

fn due(class: &RegionClass, speed: f64, policy: &Policy) -> f64 {
    // Its age counts from its first page.
    let old = region::seconds_until(class, 1.0, speed) + policy.age;
    old.min(region::seconds_until(class, policy.pages, speed))
}

/// Work and waiting pages of all regions.
fn flush(
    observation: &Observation,
    caps: &Caps,
    speed: f64,
    schedule: &Schedule,
    policy: &Policy,
) -> Flushed {
    let mut flushed = Flushed {
        work: Work::default(),
        unflushed_bytes: unflushed_bytes(observation, speed, schedule, policy),
    };
    for class in &observation.regions {
        let mut work = Work::default();
        let seconds = schedule.walk(
            due(class, speed, policy),
            class.checkpoint_pages,
            |interval, occasion| {
                let dirty = region::dirty(class, interval, speed);
                let dirty = match occasion {
                    Occasion::Window => region::with_checkpoint(class, dirty),
                    Occasion::Due | Occasion::Visit | Occasion::Sync => dirty,
                };
                work += bridge::work(dirty, policy.gap, caps.operation_bytes);
            },
        );
        flushed.work += work * (class.regions / seconds);
    }
    flushed
}

fn unflushed_bytes(
    observation: &Observation,
    speed: f64,
    schedule: &Schedule,
    policy: &Policy,
) -> f64 {
    observation
        .regions
        .iter()
        .map(|class| mean_dirty(class, speed, schedule, policy) * class.regions * PAGE)
        .sum()
}

/// Dirty pages of a region in the mean over time, by Simpson's rule over each interval.
fn mean_dirty(class: &RegionClass, speed: f64, schedule: &Schedule, policy: &Policy) -> f64 {
    let mut page_seconds = 0.0;
    let seconds = schedule.walk(
        due(class, speed, policy),
        class.checkpoint_pages,
        |interval, _| {
            let middle = region::dirty(class, interval / 2.0, speed);
            let end = region::dirty(class, interval, speed);
            page_seconds += interval * (4.0 * middle + end) / 6.0;
        },
    );
    page_seconds / seconds
}
