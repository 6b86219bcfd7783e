//! Where the checkpointer is: of the module, else from its wait event.

use std::time::{Duration, Instant};

use postgres::{Error, Row};

use crate::model::{Checkpoint, CheckpointPhase, CheckpointSource, CompletedCheckpoint, Subject};
use crate::server::counters::Core;
use crate::server::facts::Facts;
use crate::server::session::{Columns, Session};

/// The one under way, if any, and the last complete one.
pub(super) fn ask_module(
    session: &mut Session,
    schema: &str,
    facts: &Facts,
    core: &Core,
    checkpointer: Option<&(String, String)>,
    follower: &mut Follower,
) -> Result<Checkpoint, Error> {
    let sql = format!(
        "SELECT *, extract(epoch FROM clock_timestamp() - started)::float8 AS age, \
         extract(epoch FROM ended - started)::float8 AS total, \
         (extract(epoch FROM ended) * 1000)::int8 AS ended_ms FROM {schema}.pg_calm_checkpoints ORDER BY id DESC LIMIT 5"
    );
    let rows = session.rows(&sql)?;
    let with_status =
        |status: &str| rows.iter().find(|row| row.text("status").is_ok_and(|is| is.as_deref() == Some(status)));
    let last = with_status("complete");
    let mut checkpoint = Checkpoint {
        phase: CheckpointPhase::Idle,
        source: CheckpointSource::Module,
        kind: None,
        reason: None,
        running_seconds: None,
        buffers_written: None,
        files_synced: None,
        wal_since_redo_bytes: core.wal_since_redo_bytes,
        max_wal_size_bytes: facts.max_wal_size_bytes,
        timeout_seconds: facts.checkpoint_timeout_seconds,
        since_last_seconds: match last {
            Some(row) => row.number("age")?,
            None => core.checkpoint_seconds,
        },
        last: last.map(completed).transpose()?,
    };
    // Only the newest can be under way.
    let Some(row) =
        rows.first().filter(|row| row.text("status").is_ok_and(|status| status.as_deref() == Some("running")))
    else {
        follower.follow(None, core);
        return Ok(checkpoint);
    };
    let id = row.count("id")?.unwrap_or_default();
    follower.follow(Some(id), core);
    let seen = |name| row.number(name).map(|time| time.is_some());
    let writes = row.count("buffers_written")?.is_some();
    checkpoint.phase = module_phase(writes, seen("write_time")?, seen("sync_time")?, checkpointer);
    checkpoint.kind = row.text("kind")?;
    checkpoint.reason = row.text("reason")?;
    checkpoint.running_seconds = row.number("age")?;
    checkpoint.buffers_written = row.count("buffers_written")?.or(follower.written());
    checkpoint.files_synced = row.count("files_synced")?;
    Ok(checkpoint)
}

/// The phase: whether it has begun to write buffers, and is done with that and with the sync phase. Draining shows in
/// the wait event only: pg_calm's own, which has no name before PostgreSQL 17.
fn module_phase(writes: bool, written: bool, synced: bool, checkpointer: Option<&(String, String)>) -> CheckpointPhase {
    let drains = checkpointer.is_some_and(|(event_type, event)| {
        event_type == "Extension" && (event == "PgCalmDrain" || event == "Extension")
    });
    match (writes, written, synced) {
        (_, _, true) => CheckpointPhase::End,
        (_, true, false) if drains => CheckpointPhase::Drain,
        (_, true, false) => CheckpointPhase::Sync,
        (true, false, false) => CheckpointPhase::Write,
        (false, false, false) => CheckpointPhase::Prepare,
    }
}

fn completed(row: &Row) -> Result<CompletedCheckpoint, Error> {
    let seconds = |name| row.number(name).map(|time| time.map(|milliseconds| milliseconds / 1000.0));
    Ok(CompletedCheckpoint {
        id: row.count("id")?.unwrap_or_default(),
        reason: row.text("reason")?.unwrap_or_default(),
        ended_ms: row.count("ended_ms")?,
        total_seconds: row.number("total")?,
        write_seconds: seconds("write_time")?,
        sync_seconds: seconds("sync_time")?,
        drain_seconds: seconds("drain_time")?,
        fsync_seconds: seconds("fsync_time")?,
        slowest_file_seconds: seconds("slowest_file_time")?,
        slowest_file: row.text("slowest_file")?,
        buffers_written: row.count("buffers_written")?,
        unflushed_pages_at_sync: row.count("unflushed_pages_at_sync")?,
    })
}

/// pg_control is read again after this time.
const CONTROL_INTERVAL: Duration = Duration::from_secs(10);

const CONTROL: &str = "SELECT pg_wal_lsn_diff(redo_lsn, '0/0')::int8 AS redo, \
    extract(epoch FROM clock_timestamp() - checkpoint_time)::float8 AS age FROM pg_control_checkpoint()";

/// What pg_control says of the last complete checkpoint. The server reads it under `ControlFileLock`, which who writes it holds until
/// it is synced, and no signal ends the wait for that: neither the counters nor each second may have to wait there.
#[derive(Debug, Default)]
pub(super) struct Control {
    asked: Option<Instant>,
    known: Option<Known>,
}

#[derive(Debug)]
struct Known {
    when: Instant,
    redo_bytes: u64,
    /// Since it began.
    age: Option<f64>,
}

impl Control {
    /// Asks, if it is time to, and adds what is known.
    pub(super) fn add_to(
        &mut self,
        core: &mut Core,
        session: &mut Session,
        checkpointer: Option<&(String, String)>,
    ) -> Result<(), Error> {
        if self.is_due(checkpointer) {
            // Noted before: should it hang, the next session does not ask for the same at once.
            self.asked = Some(Instant::now());
            let row =
                session.part("pg_control_checkpoint", Subject::Checkpoint, |session| session.row(CONTROL))?.flatten();
            match row {
                Some(row) => {
                    let redo_bytes = row.count("redo")?.unwrap_or_default();
                    self.known = Some(Known { when: Instant::now(), redo_bytes, age: row.number("age")? });
                }
                // The session knows when to ask again, and says in each sample what is missing.
                None => *self = Self::default(),
            }
        }
        self.fill(core);
        Ok(())
    }

    fn is_due(&self, checkpointer: Option<&(String, String)>) -> bool {
        !holds_control_file(checkpointer) && self.asked.is_none_or(|when| when.elapsed() >= CONTROL_INTERVAL)
    }

    fn fill(&self, core: &mut Core) {
        let Some(known) = &self.known else { return };
        // A standby that has replayed nothing yet has no position.
        let position = Some(core.counters.wal_position_bytes).filter(|position| *position > 0);
        core.wal_since_redo_bytes = position.map(|position| position.saturating_sub(known.redo_bytes));
        core.checkpoint_seconds = known.age.map(|age| age + known.when.elapsed().as_secs_f64());
    }
}

/// Whether the checkpointer holds the lock of pg_control, as far as its wait event tells.
pub(super) fn holds_control_file(checkpointer: Option<&(String, String)>) -> bool {
    checkpointer.is_some_and(|(_, event)| event.to_ascii_lowercase().starts_with("controlfile"))
}

/// Follows a checkpoint from look to look.
#[derive(Debug, Default)]
pub(super) struct Follower {
    current: Option<Followed>,
    /// The server's count of buffers written by checkpoints in the last look.
    count: Option<u64>,
}

#[derive(Debug)]
struct Followed {
    id: u64,
    /// When it was first seen.
    since: Instant,
    /// The count before it began; `None` if it was under way in the first look.
    before: Option<u64>,
    /// Where it was in the last look at its wait event.
    phase: CheckpointPhase,
}

impl Follower {
    /// Takes note of the checkpoint that is under way, if one is.
    fn follow(&mut self, id: Option<u64>, core: &Core) {
        let before = self.count.replace(core.counters.buffers_written_by_checkpoints);
        match id {
            None => self.current = None,
            Some(id) if self.current.as_ref().is_some_and(|current| current.id == id) => {}
            Some(id) => {
                let phase = CheckpointPhase::Unknown;
                self.current = Some(Followed { id, since: Instant::now(), before, phase });
            }
        }
    }

    /// Buffers that the one under way has written, if its beginning was seen.
    fn written(&self) -> Option<u64> {
        Some(self.count?.saturating_sub(self.current.as_ref()?.before?))
    }

    /// The state by the checkpointer's wait event; `None` if that is hidden.
    pub(super) fn look(
        &mut self,
        facts: &Facts,
        core: &Core,
        checkpointer: Option<&(String, String)>,
    ) -> Option<Checkpoint> {
        let (event_type, event) = checkpointer?;
        let before = self.current.as_ref().map_or(CheckpointPhase::Idle, |current| current.phase);
        let phase = next_phase(before, event_type, event);
        // Two in a row without a pause pass for one.
        self.follow((phase != CheckpointPhase::Idle).then_some(0), core);
        if let Some(current) = &mut self.current {
            current.phase = phase;
        }
        Some(Checkpoint {
            phase,
            source: CheckpointSource::WaitEvent,
            kind: None,
            reason: None,
            running_seconds: self.current.as_ref().map(|current| current.since.elapsed().as_secs_f64()),
            buffers_written: self.written(),
            files_synced: None,
            wal_since_redo_bytes: core.wal_since_redo_bytes,
            max_wal_size_bytes: facts.max_wal_size_bytes,
            timeout_seconds: facts.checkpoint_timeout_seconds,
            since_last_seconds: core.checkpoint_seconds,
            last: None,
        })
    }
}

/// The phase after that of the look before. A wait that has no phase of its own leaves it where it was: one that lasts shows by waits
/// of its own. WAL is flushed for buffers that are written as well as for the record at the end, which comes after the sync phase.
fn next_phase(before: CheckpointPhase, event_type: &str, event: &str) -> CheckpointPhase {
    let flushes_wal = matches!(event_type, "IO" | "LWLock") && event.to_ascii_lowercase().starts_with("wal");
    match (wait_phase(event_type, event), before) {
        (_, CheckpointPhase::Prepare | CheckpointPhase::Write) if flushes_wal => CheckpointPhase::Write,
        (_, CheckpointPhase::Sync | CheckpointPhase::End) if flushes_wal => CheckpointPhase::End,
        _ if flushes_wal => CheckpointPhase::Unknown,
        (CheckpointPhase::Unknown, CheckpointPhase::Idle) => CheckpointPhase::Unknown,
        (CheckpointPhase::Unknown, before) => before,
        (phase, _) => phase,
    }
}

/// The phase in which the checkpointer has such a wait: `CheckpointerMain()`, `BufferSync()`, `ProcessSyncRequests()` and
/// what they call. Without a wait it may be anywhere, between two checkpoints, too.
fn wait_phase(event_type: &str, event: &str) -> CheckpointPhase {
    let event = event.to_ascii_lowercase();
    match (event_type, event.as_str()) {
        ("Activity", _) => CheckpointPhase::Idle,
        ("Timeout", "checkpointwritedelay") => CheckpointPhase::Write,
        ("IO", "datafilewrite" | "datafileflush") => CheckpointPhase::Write,
        ("IO", "datafilesync" | "slruflushsync") => CheckpointPhase::Sync,
        ("IO", event) if event.starts_with("slru") || event.starts_with("replicationslot") => CheckpointPhase::Prepare,
        ("IO", event) if event.starts_with("wal") || event.starts_with("controlfile") => CheckpointPhase::End,
        _ => CheckpointPhase::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Counters, ServerRole};

    fn event(event_type: &str, event: &str) -> (String, String) {
        (event_type.to_string(), event.to_string())
    }

    #[test]
    fn the_module_s_boundaries_give_the_phase() {
        let nothing = event("", "");
        let phase = |writes, written, synced, at: &(String, String)| module_phase(writes, written, synced, Some(at));
        assert_eq!(phase(false, false, false, &nothing), CheckpointPhase::Prepare);
        assert_eq!(phase(true, false, false, &nothing), CheckpointPhase::Write);
        assert_eq!(phase(true, true, false, &nothing), CheckpointPhase::Sync);
        let drain = event("Extension", "Extension");
        assert_eq!(phase(true, true, false, &drain), CheckpointPhase::Drain);
        let drain = event("Extension", "PgCalmDrain");
        assert_eq!(phase(true, true, false, &drain), CheckpointPhase::Drain);
        assert_eq!(phase(true, true, true, &nothing), CheckpointPhase::End);
        assert_eq!(module_phase(true, true, false, None), CheckpointPhase::Sync);
    }

    fn core(written: u64) -> Core {
        Core {
            role: ServerRole::Primary,
            counters: Counters { buffers_written_by_checkpoints: written, ..Counters::default() },
            wal_since_redo_bytes: None,
            checkpoint_seconds: None,
        }
    }

    #[test]
    fn written_buffers_are_counted_from_the_look_before_a_checkpoint() {
        let mut follower = Follower::default();
        follower.follow(Some(7), &core(100));
        assert_eq!(follower.written(), None, "its beginning was not seen");
        follower.follow(Some(7), &core(150));
        assert_eq!(follower.written(), None);
        follower.follow(None, &core(160));
        assert_eq!(follower.written(), None);
        follower.follow(Some(8), &core(170));
        assert_eq!(follower.written(), Some(10));
        follower.follow(Some(8), &core(200));
        assert_eq!(follower.written(), Some(40));
        follower.follow(Some(9), &core(230));
        assert_eq!(follower.written(), Some(30));
    }

    /// It is held over an fsync, and who waits for it can't be cancelled.
    #[test]
    fn pg_control_is_not_read_while_the_checkpointer_syncs_it_and_not_each_second() {
        let mut control = Control::default();
        assert!(control.is_due(None) && control.is_due(Some(&event("Timeout", "CheckpointWriteDelay"))));
        assert!(!control.is_due(Some(&event("IO", "ControlFileSyncUpdate"))));
        control.asked = Some(Instant::now());
        assert!(!control.is_due(None));
    }

    #[test]
    fn wal_since_redo_grows_with_the_position_between_two_looks_at_pg_control() {
        let mut core = core(0);
        let mut control = Control::default();
        control.fill(&mut core);
        assert_eq!((core.wal_since_redo_bytes, core.checkpoint_seconds), (None, None));
        control.known = Some(Known { when: Instant::now(), redo_bytes: 400, age: Some(7.0) });
        let since = [0, 300, 1000, 1500].map(|position| {
            core.counters.wal_position_bytes = position;
            control.fill(&mut core);
            core.wal_since_redo_bytes
        });
        assert_eq!(since, [None, Some(0), Some(600), Some(1100)]);
        assert!(core.checkpoint_seconds.is_some_and(|age| age >= 7.0));
    }

    /// As on a stock server whose WAL is slow: the checkpointer mostly waits for that, or shows no wait at all.
    #[test]
    fn a_phase_goes_on_until_another_shows_and_wal_is_flushed_for_buffers_too() {
        use CheckpointPhase::{End, Idle, Prepare, Sync, Unknown, Write};
        let phases = |looks: &[(&str, &str)]| {
            let mut phase = CheckpointPhase::Idle;
            let next = |(event_type, event): &(&str, &str)| {
                phase = next_phase(phase, event_type, event);
                phase
            };
            looks.iter().map(next).collect::<Vec<_>>()
        };
        let (main, none) = (("Activity", "CheckpointerMain"), ("", ""));
        let (lock, flush) = (("LWLock", "WALWrite"), ("IO", "WALSync"));
        let (write, sync, slru) = (("IO", "DataFileWrite"), ("IO", "DataFileSync"), ("IO", "SLRUWrite"));
        let whole = phases(&[main, slru, none, write, lock, flush, none, sync, none, flush, none, main, none]);
        assert_eq!(whole, [Idle, Prepare, Prepare, Write, Write, Write, Write, Sync, Sync, End, End, Idle, Unknown]);
        assert_eq!(phases(&[main, slru, flush, sync, lock]), [Idle, Prepare, Write, Sync, End]);
        // Where it is, is not told before a wait does.
        assert_eq!(phases(&[main, lock, flush, write]), [Idle, Unknown, Unknown, Write]);
        // One that follows at once.
        assert_eq!(phases(&[sync, flush, write, lock]), [Sync, End, Write, Write]);
    }

    #[test]
    fn wait_events_of_old_and_new_servers_give_the_phase() {
        for (event_type, event, expected) in [
            ("Activity", "CheckpointerMain", CheckpointPhase::Idle),
            ("Activity", "CheckpointerShutdown", CheckpointPhase::Idle),
            ("Timeout", "CheckpointWriteDelay", CheckpointPhase::Write),
            ("IO", "DataFileWrite", CheckpointPhase::Write),
            ("IO", "DataFileSync", CheckpointPhase::Sync),
            ("IO", "SLRUSync", CheckpointPhase::Prepare),
            ("IO", "SlruSync", CheckpointPhase::Prepare),
            ("IO", "SLRUFlushSync", CheckpointPhase::Sync),
            ("IO", "WALSync", CheckpointPhase::End),
            ("IO", "ControlFileSyncUpdate", CheckpointPhase::End),
            ("", "", CheckpointPhase::Unknown),
        ] {
            assert_eq!(wait_phase(event_type, event), expected, "{event}");
        }
    }
}
