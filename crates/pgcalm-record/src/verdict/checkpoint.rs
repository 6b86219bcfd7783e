//! Checkpoints: their writes and their syncs.

use pgcalm_monitor::model::{CheckpointPhase, WaitCause};

use super::Found;
use super::evidence::{data, disk_evidence, name, shares};
use super::window::Window;

pub(super) fn checkpoint_sync(window: &Window) -> Option<Found> {
    let sync = window.phase(&[CheckpointPhase::Sync]);
    // Sessions sync files themselves where the checkpointer does not come to it, but also new tables with wal_level = minimal.
    let idle = window.phase(&[CheckpointPhase::Idle]);
    let syncs = window.syncs() || window.waiting(&[WaitCause::DataSync]) >= 0.4 && idle < 0.5;
    (syncs && window.cut(data).is_none()).then(|| {
        let mut rows = vec![shares("bad seconds in the checkpoint's sync phase", sync, 0.0)];
        let asleep = window.fsyncs();
        if asleep > 0.0 {
            rows.push(shares("bad seconds that the checkpointer slept in fsync of data files", asleep.min(1.0), 0.0));
        }
        rows.extend(disk_evidence(window, data));
        let disk = name(window.disk(data));
        let checkpoint = window.checkpoint();
        (
            format!(
                "{checkpoint} synced its files: {disk} had to write at once what had gathered, and all others waited."
            ),
            rows,
        )
    })
}

pub(super) fn checkpoint_write(window: &Window) -> Option<Found> {
    // Its fsync shows by a wait of its own: where a stock server tells nothing it writes, or waits for WAL to be able to.
    let phases = [CheckpointPhase::Write, CheckpointPhase::Prepare, CheckpointPhase::Drain, CheckpointPhase::Unknown];
    let writes = window.phase(&phases);
    let is_full = window.is_full(data) >= 0.5 && window.cut(data).is_none();
    (writes >= 0.5 && is_full && window.waiting_for_io() >= 0.2).then(|| {
        let mut rows = vec![shares("bad seconds of a checkpoint before its sync phase", writes, 0.0)];
        rows.extend(disk_evidence(window, data));
        let checkpoint = window.checkpoint();
        (format!("{checkpoint} wrote more than {} takes beside the users' work.", name(window.disk(data))), rows)
    })
}
