//! What waits to be archived.

use std::time::{Duration, Instant};

use pgcalm_postgres::{ARCHIVER, Archiver};
use postgres::Error;

use crate::model::{Archive, ArchiveState, Missing, ServerRole, Subject};
use crate::server::facts::Facts;
use crate::server::session::{Columns, Session};

/// Without the module the queue is counted at this interval: the server looks at every file of archive_status for it.
const QUEUE_INTERVAL: Duration = Duration::from_secs(10);

const QUEUE: &str = "SELECT count(*) AS files, min(name COLLATE \"C\") AS oldest, \
    extract(epoch FROM clock_timestamp() - min(modification))::float8 AS age \
    FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'";

/// The queue as it was counted last.
#[derive(Debug, Default)]
pub(super) struct Queue {
    asked: Option<Instant>,
    counted: Option<(Instant, Counted)>,
}

#[derive(Debug, Clone)]
struct Counted {
    files: Option<u64>,
    oldest: Option<String>,
    age: Option<f64>,
    missing: Vec<Missing>,
}

impl Queue {
    /// The state of archiving without the module.
    pub(super) fn ask(&mut self, session: &mut Session, facts: &Facts, role: ServerRole) -> Result<Archive, Error> {
        let mut archive = ask_archiver(session)?;
        if !archives(&facts.archive_mode, role) {
            return Ok(archive);
        }
        archive.state = ArchiveState::Other;
        if self.asked.is_none_or(|when| when.elapsed() >= QUEUE_INTERVAL) {
            // Noted before: should the directory's disk hang, the next session does not ask for the same at once.
            self.asked = Some(Instant::now());
            self.counted = Some((Instant::now(), count(session)?));
        }
        if let Some((when, counted)) = &self.counted {
            archive.queue_files = counted.files;
            archive.queue_bytes = counted.files.map(|files| files * facts.wal_segment_bytes);
            archive.oldest_file = counted.oldest.clone();
            archive.oldest_seconds = counted.age.map(|age| age + when.elapsed().as_secs_f64());
            for missing in &counted.missing {
                session.lacks(missing.subject, missing.reason.clone(), missing.remedy.as_deref());
            }
        }
        Ok(archive)
    }
}

/// What waits on a server that does not archive is for nobody: a standby keeps what it got as a primary.
fn archives(archive_mode: &str, role: ServerRole) -> bool {
    match role {
        ServerRole::Primary => archive_mode != "off",
        ServerRole::Standby => archive_mode == "always",
    }
}

fn count(session: &mut Session) -> Result<Counted, Error> {
    let counted = session.part("archive queue", Subject::ArchiveQueue, |session| {
        let rows = session.rows(QUEUE)?;
        let row = &rows[0];
        Ok(Counted {
            files: row.count("files")?,
            oldest: row.text("oldest")?.map(|name| name.trim_end_matches(".ready").to_string()),
            age: row.number("age")?,
            missing: Vec::new(),
        })
    })?;
    Ok(counted.unwrap_or_else(|| Counted {
        files: None,
        oldest: None,
        age: None,
        missing: session.take_missing_of(Subject::ArchiveQueue),
    }))
}

/// The state of archiving from the module.
pub(super) fn ask_module(
    session: &mut Session,
    schema: &str,
    facts: &Facts,
    role: ServerRole,
) -> Result<Archive, Error> {
    let mut archive = ask_archiver(session)?;
    let sql = format!(
        "SELECT *, extract(epoch FROM clock_timestamp() - oldest_since)::float8 AS oldest_age FROM {schema}.pg_calm_archive"
    );
    let Some(row) = session.row(&sql)? else { return Ok(archive) };
    archive.free_bytes = row.count("free_bytes")?;
    if !archives(&facts.archive_mode, role) {
        return Ok(archive);
    }
    archive.state = match row.text("state")?.as_deref() {
        Some("pg_calm") => ArchiveState::PgCalm,
        Some("other") => ArchiveState::Other,
        _ => ArchiveState::Off,
    };
    archive.queue_files = row.count("queue_files")?;
    archive.queue_bytes = row.count("queue_bytes")?;
    archive.oldest_file = row.text("oldest_file")?;
    archive.oldest_seconds = row.number("oldest_age")?;
    archive.archived_bytes_per_second = row.number("archive_rate")?;
    Ok(archive)
}

fn ask_archiver(session: &mut Session) -> Result<Archive, Error> {
    let rows = session.rows(ARCHIVER)?;
    let archiver = Archiver::of(&rows[0])?;
    Ok(Archive {
        archived_files: archiver.archived.max(0) as u64,
        failures: archiver.failed.max(0) as u64,
        last_archived_seconds: archiver.last_archived_seconds,
        last_failed_seconds: archiver.last_failed_seconds,
        failing: archiver.is_failing(),
        ..Archive::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_archives_nothing_unless_it_is_to_archive_always() {
        for (mode, primary, standby) in [("off", false, false), ("on", true, false), ("always", true, true)] {
            let found = [ServerRole::Primary, ServerRole::Standby].map(|role| archives(mode, role));
            assert_eq!(found, [primary, standby], "{mode}");
        }
    }
}
