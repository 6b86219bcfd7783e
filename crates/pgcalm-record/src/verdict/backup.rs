//! Base backups and dumps: what they read, and the checkpoint they ask for.

use pgcalm_monitor::model::WaitCause;
use pgcalm_render::number::bytes;

use super::Found;
use super::evidence::{data, disk_evidence, evidence, name, shares};
use super::window::Window;

pub(super) fn backup_checkpoint(window: &Window) -> Option<Found> {
    let waits = window.share(|second| {
        let waits = |phase: &Option<String>| phase.as_ref().is_some_and(|phase| phase.contains("checkpoint"));
        second.maintenance.iter().any(|one| one.kind == "base_backup" && waits(&one.phase))
    });
    // While it waits for a spread one, others hold users.
    (waits >= 0.3 && window.syncs() && window.cut(data).is_none()).then(|| {
        let mut rows = vec![shares("seconds in which a base backup waited for its checkpoint", waits, 0.0)];
        rows.extend(disk_evidence(window, data));
        (
            "A base backup asked for a checkpoint at once, which wrote and synced all it had at full speed."
                .to_string(),
            rows,
        )
    })
}

pub(super) fn backup_reads(window: &Window) -> Option<Found> {
    let runs = window.share(|second| second.runs("base_backup") || second.runs("dump"));
    let (read, before) = window.means(|second| second.data.as_ref().map(|disk| disk.read_bytes));
    let takes = window.is_full(data) >= 0.5 || window.waiting(&[WaitCause::DataIo]) >= 0.4;
    let (total, _) = window.means(|second| second.data.as_ref().map(|disk| disk.read_bytes + disk.write_bytes));
    (runs >= 0.5 && takes && read >= 0.4 * total && read > 0.0).then(|| {
        let mut rows = vec![evidence("bytes read per second from the data's disk", bytes(read), bytes(before))];
        rows.extend(disk_evidence(window, data));
        let kind = if window.share(|second| second.runs("base_backup")) > 0.0 { "base backup" } else { "dump" };
        (format!("A {kind} read from {} as fast as it could.", name(window.disk(data))), rows)
    })
}
