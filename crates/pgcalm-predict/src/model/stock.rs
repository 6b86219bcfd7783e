//! What PostgreSQL without pg_calm asks of the device.

use super::PAGE;
use super::bridge;
use super::caps::Caps;
use super::caps::Demand;
use super::caps::Effort;
use super::caps::Work;
use super::flusher;
use super::region;
use super::schedule::Occasion;
use super::schedule::Schedule;
use crate::checkpoint;
use crate::report::Observation;
use crate::report::RegionClass;

/// Halvings in the search for how long the kernel lets pages wait.
const HALVINGS: u32 = 14;

/// Work per second at `speed` times the observed rate: nothing but neighbours is merged.
///
/// - The background writer's pages are pushed out at once (`bgwriter_flush_after`), in batches of 64 that are scattered over
///   all files: an operation each.
/// - So are a checkpoint's (`checkpoint_flush_after`), sorted.
/// - What backends write stays in the page cache until the kernel's flusher visits the file, by time or when more waits than
///   the device's share of the background threshold, or a checkpoint syncs it.
pub(super) fn demand(observation: &Observation, caps: &Caps, speed: f64, _effort: Effort) -> Demand {
    let settings = &observation.settings;
    let background_writer =
        if settings.bgwriter_flush_after_bytes > 0 { observation.background_writer_pages_per_s } else { 0.0 };
    let written = observation.background_writer_pages_per_s + observation.backend_pages_per_s;
    let stays =
        if settings.backend_flush_after_bytes > 0 || written <= 0.0 { 0.0 } else { 1.0 - background_writer / written };
    let at_once = (written * (1.0 - stays)) * speed;
    let schedule = Schedule {
        checkpoint: checkpoint::interval(&observation.settings, observation.wal_bytes_per_s * speed),
        completion: settings.checkpoint_completion_target,
        windows: settings.checkpoint_flush_after_bytes > 0,
        visit: flusher::visit_interval(observation),
    };
    let classes: Vec<RegionClass> = observation
        .regions
        .iter()
        .map(|class| RegionClass { pages_first_second: class.pages_first_second * stays, ..class.clone() })
        .collect();

    let threshold =
        flusher::device_threshold(observation, observation.device.mib_per_s * f64::from(1 << 20), speed, 0.0);
    let mut due = f64::INFINITY;
    if waiting(&classes, speed, &schedule, due) > threshold {
        let (mut low, mut high) = (0.0, schedule.checkpoint);
        for _ in 0..HALVINGS {
            due = (low + high) / 2.0;
            if waiting(&classes, speed, &schedule, due) > threshold {
                high = due;
            } else {
                low = due;
            }
        }
    }
    let mut all = Work { operations: at_once, bytes: at_once * PAGE, pages: at_once };
    for class in &classes {
        let mut work = Work::default();
        let seconds = schedule.walk(due, class.checkpoint_pages, |interval, occasion| {
            let dirty = region::dirty(class, interval, speed);
            let dirty = match occasion {
                Occasion::Window => region::with_checkpoint(class, dirty),
                // With checkpoint_flush_after = 0 they have waited for it.
                Occasion::Sync if !schedule.windows => region::with_checkpoint(class, dirty),
                Occasion::Due | Occasion::Visit | Occasion::Sync => dirty,
            };
            work += bridge::work(dirty, 0, caps.request_bytes);
        });
        all += work * (class.regions / seconds);
    }
    let (operations, bytes) = caps.uses(all, speed);
    Demand { work: all, worker: Work::default(), keeps_up: operations.max(bytes) <= 1.0 }
}

/// Bytes that wait in the mean.
fn waiting(classes: &[RegionClass], speed: f64, schedule: &Schedule, due: f64) -> f64 {
    classes
        .iter()
        .map(|class| {
            let mut page_seconds = 0.0;
            let seconds = schedule.walk(due, class.checkpoint_pages, |interval, _| {
                let middle = region::dirty(class, interval / 2.0, speed);
                let end = region::dirty(class, interval, speed);
                page_seconds += interval * (4.0 * middle + end) / 6.0;
            });
            page_seconds / seconds * class.regions * PAGE
        })
        .sum()
}
