//! What keeps WAL from being recycled: the archive and replication slots.

use crate::facts::{Facts, Server, Slot};
use crate::rules::found::{Answer, Found, Unknown, when};
use crate::rules::{checkpoint, read};
use crate::words;

/// Seconds without a file that was archived or refused while one waits, beyond which the command or library has not come
/// back: twice the time after which the archiver looks for work whoever wakes it (PGARCH_AUTOWAKE_INTERVAL).
const HANGS_AFTER: f64 = 120.0;

/// WAL is kept for an archive that there is none of.
pub(super) fn goes_nowhere(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let mode = read::text(server, "archive_mode")?;
    // archive_library came with 15, where it goes before the command.
    let library = read::text(server, "archive_library").unwrap_or_default();
    let command = read::text(server, "archive_command")?;
    let (seen, cure) = match (library.is_empty(), command.is_empty()) {
        (true, true) => ("neither archive_library nor archive_command is set", "…"),
        (false, false) if server.version_num >= 160_000 => ("archive_library and archive_command are both set", ""),
        _ => return Ok(None),
    };
    when(mode != "off", || {
        Found::new(format!("archive_mode = {mode}, {seen}"))
            .and(waiting(server))
            .run(format!("ALTER SYSTEM SET archive_command = '{cure}'; SELECT pg_reload_conf();"))
    })
}

/// Whether this server archives: a standby does with `always` only.
fn archives(server: &Server) -> Result<bool, Unknown> {
    Ok(match read::text(server, "archive_mode")? {
        "off" => false,
        "always" => true,
        _ => !server.in_recovery,
    })
}

/// The last attempt to archive failed.
pub(super) fn failing(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let archiver = &server.archiver;
    when(archives(server)? && archiver.last_failed, || {
        Found::new(format!(
            "{} attempts failed, the last one with {}, and none succeeded since; {} files were archived",
            archiver.failed,
            archiver.last_failed_file.as_deref().unwrap_or("an unknown file"),
            archiver.archived
        ))
        .and(waiting(server))
        .run("SELECT * FROM pg_stat_archiver;")
    })
}

/// The attempt that is under way does not end.
pub(super) fn hangs(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let Some(seconds) = hung_for(server)? else { return Ok(None) };
    let ago = |seconds: Option<f64>| match seconds {
        Some(seconds) => format!("{seconds:.0} s ago"),
        None => "never".to_string(),
    };
    let archiver = &server.archiver;
    let process = match archiver.process_seconds {
        Some(age) if age >= seconds => "the archiver has run for all of that time".to_string(),
        age => format!(
            "the archiver {}: a command that ends with over 125 (not found, ssh) or by a signal ends it, too, and counts as \
             no failure; the server's log has it",
            age.map_or("is not there at this moment".to_string(), |age| format!("itself is {age:.0} s old"))
        ),
    };
    Ok(Some(
        Found::new(format!(
            "a file has waited for {seconds:.0} s in which none was archived and no attempt failed; last archived: {}, last \
             failure: {}",
            ago(archiver.last_archived_seconds),
            ago(archiver.last_failed_seconds)
        ))
        .and(process)
        .and(waiting(server))
        .run("SELECT * FROM pg_stat_archiver;"),
    ))
}

/// For how long the archiver has neither archived a file nor failed at one, although one waits, if that is too long. What
/// waited before the server was started does not count.
fn hung_for(server: &Server) -> Result<Option<f64>, Unknown> {
    let archiver = &server.archiver;
    if !archives(server)? {
        return Ok(None);
    }
    if archiver.ready_files.is_none() {
        return Err(no_queue());
    }
    let Some(waits) = archiver.oldest_ready_seconds else { return Ok(None) };
    let ended = [archiver.last_archived_seconds, archiver.last_failed_seconds, server.up_seconds];
    let seconds = ended.into_iter().flatten().fold(waits, f64::min);
    Ok((seconds > HANGS_AFTER).then_some(seconds))
}

fn no_queue() -> Unknown {
    "the archive's queue may not be read: GRANT pg_monitor".into()
}

/// The archive's backlog is larger than what WAL was planned to take.
pub(super) fn backlog(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let archiver = &server.archiver;
    // Then the queue is no sign of slowness.
    if !archives(server)? || archiver.last_failed || hung_for(server)?.is_some() {
        return Ok(None);
    }
    let Some(files) = archiver.ready_files else { return Err(no_queue()) };
    let segment = read::bytes(server, "wal_segment_size")?.unwrap_or(0);
    let max = read::bytes(server, "max_wal_size")?.unwrap_or(0);
    when(files * segment > max, || {
        Found::new(format!("{}; max_wal_size is {}", waiting(server), words::size(max)))
            .run("SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready';")
    })
}

fn waiting(server: &Server) -> String {
    match (server.archiver.ready_files, read::bytes(server, "wal_segment_size")) {
        (Some(files), Ok(Some(segment))) => {
            format!("{files} files wait, {}", words::size(files * segment))
        }
        _ => "how many files wait is not known".to_string(),
    }
}

/// A slot that nobody reads holds more than what WAL was planned to take.
pub(super) fn slot_inactive(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let max = read::bytes(server, "max_wal_size")?.unwrap_or(0);
    let left = server.slots.iter().filter(|slot| !slot.active && slot.retained_bytes.is_some_and(|bytes| bytes > max));
    of_slots(left, |found, slot| {
        found.run(format!(
            "SELECT pg_drop_replication_slot('{}'); -- if whoever read it is gone for good",
            slot.name.replace('\'', "''")
        ))
    })
}

/// Slots may hold any amount of WAL.
pub(super) fn slot_unbounded(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    if read::bytes(server, "max_slot_wal_keep_size")?.is_some() || is_guarded(server) {
        return Ok(None);
    }
    let holding: Vec<&Slot> = server.slots.iter().filter(|slot| slot.retained_bytes.is_some()).collect();
    let Some(most) = holding.iter().filter_map(|s| s.retained_bytes).max() else { return Ok(None) };
    let found = of_slots(holding.into_iter(), |found, _| found)?;
    Ok(found.map(|found| {
        let found = found.and("max_slot_wal_keep_size = -1");
        match checkpoint::room(facts) {
            Some(room) if room / 2 > most.saturating_mul(2) => {
                found.set(server, "max_slot_wal_keep_size", words::setting_size(room / 2))
            }
            Some(room) => found.and(format!(
                "pg_wal can grow to {}: the slots hold so much already that a limit would end them",
                words::size(room)
            )),
            None => found.run("ALTER SYSTEM SET max_slot_wal_keep_size = '…'; -- half of the room that pg_wal has"),
        }
    }))
}

/// Whether pg_calm_guard leaves space free on the disk of pg_wal, whoever holds WAL; 0 switches that off. A standby has no
/// writers that could be slowed down.
fn is_guarded(server: &Server) -> bool {
    let leaves_space = read::text(server, "pg_calm_guard.wal_space").is_ok_and(|space| space != "0");
    leaves_space && read::guard_is_on(server) && !server.in_recovery
}

/// WAL that a slot needs goes, or is gone.
pub(super) fn slot_lost(facts: &Facts) -> Answer {
    let server = read::server(facts)?;
    let bad = server.slots.iter().filter(|slot| matches!(slot.wal_status.as_deref(), Some("unreserved" | "lost")));
    of_slots(bad, |found, _| found)
}

fn of_slots<'a>(
    slots: impl Iterator<Item = &'a Slot>,
    add: impl Fn(Found, &Slot) -> Found,
) -> Result<Option<Found>, Unknown> {
    let mut found: Option<Found> = None;
    for slot in slots {
        let evidence = format!(
            "slot {}: {}, {}, holds {}",
            slot.name,
            if slot.active { "active" } else { "inactive" },
            slot.wal_status.as_deref().unwrap_or("no WAL reserved"),
            slot.retained_bytes.map_or("none".to_string(), words::size)
        );
        let so_far = match found {
            Some(found) => found.and(evidence),
            None => Found::new(evidence),
        };
        found = Some(add(so_far, slot));
    }
    Ok(found)
}
