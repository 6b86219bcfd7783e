//! Base backups and dumps: what they read, and the checkpoint they ask for.

use pgcalm_monitor::model::{CheckpointPhase, WaitCause};
use pgcalm_render::number::bytes;

use super::Found;
use super::evidence::{data, disk_evidence, evidence, name, shares};
use super::window::Window;
use crate::second::Second;

pub(super) fn backup_checkpoint(window: &Window) -> Option<Found> {
    let waits = window.share(waits_for_checkpoint);
    // While it waits for a spread one, others hold users.
    (waits >= 0.3 && (window.syncs() || hurries(window)) && window.cut(data).is_none()).then(|| {
        let mut rows = vec![shares("seconds in which a base backup waited for its checkpoint", waits, 0.0)];
        rows.extend(disk_evidence(window, data));
        (
            "A base backup asked for a checkpoint at once, which wrote or synced all it had at full speed.".to_string(),
            rows,
        )
    })
}

fn waits_for_checkpoint(second: &Second) -> bool {
    let waits = |phase: &Option<String>| phase.as_ref().is_some_and(|phase| phase.contains("checkpoint"));
    second.maintenance.iter().any(|one| one.kind == "base_backup" && waits(&one.phase))
}

/// Whether users were held from when the backup began to wait, by a checkpoint that writes without pauses: what such a one writes
/// the server counts at its end only.
fn hurries(window: &Window) -> bool {
    let waited = window.before.iter().rev().nth(2).is_some_and(|second| waits_for_checkpoint(second));
    let written = window.during.iter().filter_map(|second| second.checkpoint.as_ref()?.buffers_written);
    let written: Vec<u64> = written.collect();
    let grew = written.windows(2).filter(|two| two[1] > two[0]).count();
    let writes = window.phase(&[CheckpointPhase::Write, CheckpointPhase::Unknown]) >= 0.5;
    !waited && writes && 2 * grew < window.during.len() && window.is_full(data) >= 0.5
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
