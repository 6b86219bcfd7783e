//! Where WAL goes: its disk, the archive, the synchronous standby.

use pgcalm_monitor::model::WaitCause;
use pgcalm_render::number::{bytes, short};

use super::Found;
use super::evidence::{disk_evidence, evidence, name, shares, waits_evidence, wal};
use super::window::Window;

pub(super) fn wal_at_cap(window: &Window) -> Option<Found> {
    let causes = [WaitCause::Wal, WaitCause::WalLock];
    let (written, before) = window.means(|second| Some(second.wal_bytes));
    let (on_disk, _) = window.means(|second| second.wal.as_ref().map(|disk| disk.write_bytes));
    // On a disk that data pages fill, or whose cap was lowered, WAL is who suffers.
    let is_wal = written >= 0.4 * on_disk && window.cut(wal).is_none();
    let alone = window.disk(wal).is_some_and(|disk| !disk.is_shared);
    (window.waiting(&causes) >= 0.4 && window.is_full(wal) >= 0.5 && (is_wal || alone)).then(|| {
        let mut rows = vec![waits_evidence(window, &causes, "WAL")];
        rows.push(evidence("WAL per second", bytes(written), bytes(before)));
        let (images, images_before) = window.means(|second| Some(second.page_images));
        rows.push(evidence("full-page images per second", short(images), short(images_before)));
        rows.extend(disk_evidence(window, wal));
        let disk = name(window.disk(wal));
        (format!("WAL was more than {disk} takes: commits queued for its flush."), rows)
    })
}

pub(super) fn archive_blocks(window: &Window) -> Option<Found> {
    let guarded = window.share(|second| second.guard.as_deref() == Some("archive"));
    let (queue, before) = window.means(|second| second.archives.then_some(second.archive_queue as f64));
    let fails = window.share(|second| second.archive_fails);
    let grows = queue >= before + 2.0 && (window.is_full(wal) >= 0.5 || fails >= 0.5) && window.waiting_for_io() >= 0.3;
    (guarded >= 0.3 || grows).then(|| {
        let mut rows = vec![evidence("files that waited to be archived", short(queue), short(before))];
        if fails > 0.0 {
            rows.push(shares("seconds after an attempt that failed", fails, 0.0));
        }
        let whom = if guarded >= 0.3 { "pg_calm_guard held writers for it" } else { "it took the disk from commits" };
        (format!("The archive did not keep up with WAL, and {whom}."), rows)
    })
}

pub(super) fn synchronous_standby(window: &Window) -> Option<Found> {
    let causes = [WaitCause::SynchronousReplication];
    if window.waiting(&causes) < 0.4 {
        return None;
    }
    let standbys = window.during.iter().flat_map(|second| &second.standbys);
    let slowest = standbys
        .filter(|standby| matches!(standby.sync_state.as_str(), "sync" | "quorum"))
        .max_by(|a, b| a.flush_lag_seconds.unwrap_or(0.0).total_cmp(&b.flush_lag_seconds.unwrap_or(0.0)));
    let mut rows = vec![waits_evidence(window, &causes, "waiting for the standby")];
    let name = match slowest {
        None => "A synchronous standby".to_string(),
        Some(standby) => {
            if let Some(lag) = standby.flush_lag_seconds {
                rows.push(evidence("lag of its durable WAL, most", format!("{} s", short(lag)), String::new()));
            }
            if let Some(place) = &standby.held_up_at {
                rows.push(evidence("where WAL was held up", place.clone(), String::new()));
            }
            format!("The synchronous standby {}", standby.name)
        }
    };
    Some((format!("{name} was slow to confirm, and commits waited for it."), rows))
}
