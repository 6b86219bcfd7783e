//! Writing: by the recorder alone.

use std::fs::File;
use std::io::ErrorKind::{AlreadyExists, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use pgcalm_host::Failure;
use pgcalm_monitor::model::CheckpointPhase;
use rusqlite::{Connection, ErrorCode, Transaction, params};
use rustix::fs::{FlockOperation, flock, statvfs};

use super::{APPLICATION, FILE, VERSION, check, failed, refused, verify};
use crate::incident::Incident;
use crate::second::{Disk, Second};

/// Whole samples are kept each second for so long, then each [`COARSE_S`] seconds, but around incidents.
const FINE_MS: u64 = 3_600_000;
/// Seconds from one whole sample to the next in the older part of a record.
pub const COARSE_S: u64 = 10;
const AROUND_MS: u64 = 60_000;

/// Beside the file of tables there is SQLite's log of what is not in there yet, which is this long at most while nobody reads for
/// minutes.
const LOG_BYTES: u64 = 4 << 20;

const PAGE: u64 = 4096;

/// With less left on its file system, the file keeps free pages of its own, which others can't take: what is removed is logged first,
/// so on a full file system it is too late.
const RESERVE: u64 = 4 * LOG_BYTES;

/// For that, nothing is removed from a record that is as small.
const KEPT_BYTES: u64 = Limits::LEAST_BYTES / 2;

const TABLES: &str = "
CREATE TABLE server (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE second (
    time_ms INTEGER NOT NULL, server INTEGER NOT NULL REFERENCES server, bad INTEGER NOT NULL,
    commits REAL, wal_bytes REAL, active INTEGER, held INTEGER, slow INTEGER, slow_s REAL, connections INTEGER,
    waits TEXT, checkpoint TEXT, data_ops REAL, data_bytes REAL, data_busy REAL, data_cap_used REAL,
    wal_ops REAL, dirty_bytes INTEGER, writeback_bytes INTEGER, cpu_busy REAL, cpu_steal REAL,
    io_pressure REAL, memory_pressure REAL, archive_queue INTEGER,
    PRIMARY KEY (time_ms, server)) WITHOUT ROWID;
CREATE TABLE dictionary (id INTEGER PRIMARY KEY, json BLOB NOT NULL);
CREATE TABLE sample (
    time_ms INTEGER PRIMARY KEY, dictionary INTEGER NOT NULL, length INTEGER NOT NULL, host BLOB NOT NULL);
CREATE TABLE incident (
    id INTEGER PRIMARY KEY AUTOINCREMENT, server TEXT NOT NULL, started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL,
    cause TEXT NOT NULL, lost_commits REAL NOT NULL, document TEXT NOT NULL, UNIQUE (server, started_ms));
CREATE TABLE incident_count (
    server TEXT NOT NULL, cause TEXT NOT NULL, total INTEGER NOT NULL, last_id INTEGER NOT NULL,
    PRIMARY KEY (server, cause)) WITHOUT ROWID;
";

/// What is written.
#[derive(Debug)]
pub enum Item {
    /// What samples are compressed with.
    Dictionary {
        /// By which samples name it.
        id: u64,
        /// Compressed alone.
        json: Vec<u8>,
    },
    /// A sample of the host.
    Sample {
        /// When.
        time_ms: u64,
        /// Its dictionary.
        dictionary: u64,
        /// Of its JSON.
        length: usize,
        /// That, compressed.
        packed: Vec<u8>,
    },
    /// An instance's second, and whether it was bad.
    Second(String, Box<Second>, bool),
    /// An incident, or more of one that was written.
    Incident(Box<Incident>),
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// What is older goes.
    pub keep: Duration,
    /// When it is more, the oldest goes.
    pub bytes: u64,
}

impl Limits {
    /// The smallest size: below, hardly an hour is kept.
    pub const LEAST_BYTES: u64 = 16 << 20;
}

/// The store, to be written.
pub struct Writer {
    connection: Connection,
    path: PathBuf,
    limits: Limits,
    thinned_ms: u64,
    reserve: u64,
    // Held as long as this is.
    _lock: File,
}

impl Writer {
    /// Opens the store in a directory, or makes it.
    ///
    /// # Errors
    ///
    /// If what is there is none of this version, or another recorder has it.
    pub fn open(directory: &Path, limits: Limits) -> anyhow::Result<Self> {
        // A disk that is full or fails may get better: the service tries again.
        let other = |error: std::io::Error| match error.kind() {
            NotFound | PermissionDenied | AlreadyExists | NotADirectory | ReadOnlyFilesystem => {
                let sudo = if error.kind() == PermissionDenied { ", or run it with sudo" } else { "" };
                let way_out = format!("name a directory that this user may write to{sudo}");
                Failure::Usage(format!("--dir {}: {error}; {way_out}", directory.display())).into()
            }
            _ => anyhow!("{}: {error}", directory.display()),
        };
        std::fs::create_dir_all(directory).map_err(other)?;
        let lock = File::create(directory.join("record.lock")).map_err(other)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            refused(directory, "another pgcalm record writes into it; stop that one, or give another --dir")
        })?;
        let path = directory.join(FILE);
        let was_there = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() > 0);
        let failed = |error: rusqlite::Error| failed(&path, &error);
        let connection = Connection::open(&path).map_err(failed)?;
        let is_new = !was_there || is_empty(&connection).map_err(failed)?;
        if !is_new {
            verify(&path, &connection)?;
        }
        prepare(&connection, is_new, limits).map_err(failed)?;
        Ok(Self { connection, path, limits, thinned_ms: 0, reserve: RESERVE, _lock: lock })
    }

    /// Writes in one transaction: all of it or, with an error, nothing.
    ///
    /// # Errors
    ///
    /// As of a full disk.
    pub fn write(&mut self, items: &[Item]) -> anyhow::Result<()> {
        match self.try_to_write(items) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                // Of the file's own limit, or a disk on which pages that are free now need no more room.
                self.remove_oldest().and_then(|()| self.try_to_write(items))
            }
            written => written,
        }
        .map_err(|error| failed(&self.path, &error))
    }

    fn try_to_write(&mut self, items: &[Item]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for item in items {
            write_item(&transaction, item)?;
        }
        transaction.commit()
    }

    /// Removes what is too old or too much.
    ///
    /// # Errors
    ///
    /// As [`Writer::write`].
    pub fn tidy(&mut self, now_ms: u64) -> anyhow::Result<()> {
        self.try_to_tidy(now_ms).map_err(|error| failed(&self.path, &error))
    }

    fn try_to_tidy(&mut self, now_ms: u64) -> rusqlite::Result<()> {
        self.remove_before(now_ms.saturating_sub(self.limits.keep.as_millis() as u64))?;
        // Once for each run of the recorder, as it takes a look at all seconds.
        if self.thinned_ms == 0 {
            self.connection.execute_batch(
                "DELETE FROM server WHERE id NOT IN (SELECT server FROM second) AND name NOT IN (SELECT server FROM incident); \
                 DELETE FROM incident_count WHERE server NOT IN (SELECT name FROM server UNION SELECT server FROM incident);",
            )?;
        }
        let until = now_ms.saturating_sub(FINE_MS);
        self.connection.execute(
            "DELETE FROM sample WHERE time_ms BETWEEN ?1 AND ?2 AND time_ms / 1000 % ?3 <> 0 AND NOT EXISTS \
             (SELECT 1 FROM incident WHERE sample.time_ms BETWEEN started_ms - ?4 AND ended_ms + ?4)",
            params![self.thinned_ms as i64, until as i64, COARSE_S as i64, AROUND_MS as i64],
        )?;
        self.thinned_ms = until;
        // Leaves room for what comes until this is called again.
        let mut turns = 0;
        while self.used()? > self.limits.bytes / 20 * 18 && turns < 20 {
            self.remove_oldest()?;
            turns += 1;
        }
        // Of the file system.
        let left = statvfs(&self.path).map_or(u64::MAX, |space| space.f_bavail * space.f_frsize);
        let is_crowded = left < self.reserve;
        if is_crowded && self.bytes("freelist_count")? < LOG_BYTES && self.used()? > KEPT_BYTES {
            self.remove_oldest()?;
        }
        self.connection.execute(
            "DELETE FROM dictionary WHERE id NOT IN (SELECT DISTINCT dictionary FROM sample) \
             AND id < (SELECT max(id) FROM dictionary)",
            [],
        )?;
        if is_crowded {
            return Ok(());
        }
        // A step frees a page.
        let mut vacuum = self.connection.prepare("PRAGMA incremental_vacuum(2000)")?;
        let mut pages = vacuum.query([])?;
        while pages.next()?.is_some() {}
        Ok(())
    }

    /// Bytes of the file that hold anything.
    fn used(&self) -> rusqlite::Result<u64> {
        Ok(self.bytes("page_count")?.saturating_sub(self.bytes("freelist_count")?))
    }

    /// Of as many pages as this pragma tells.
    fn bytes(&self, pragma: &str) -> rusqlite::Result<u64> {
        let pages = self.connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))?;
        Ok(pages.max(0) as u64 * PAGE)
    }

    /// The oldest tenth; of what is kept, even if a clock that was wrong has left something of years to come.
    fn remove_oldest(&mut self) -> rusqlite::Result<()> {
        let range = "SELECT min(least), max(most) FROM (SELECT min(time_ms) AS least, max(time_ms) AS most FROM second \
             UNION ALL SELECT min(time_ms), max(time_ms) FROM sample UNION ALL SELECT min(started_ms), max(started_ms) FROM incident)";
        let (least, most): (Option<i64>, Option<i64>) =
            self.connection.query_row(range, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        match (least, most) {
            (Some(least), Some(most)) => {
                let span = (most - least).min(i64::try_from(self.limits.keep.as_millis()).unwrap_or(i64::MAX));
                self.remove_before((least + span / 10 + 1).max(0) as u64)
            }
            _ => Ok(()),
        }
    }

    /// In pieces of some hundred kilobytes: the log, in which each page is that changes, need not grow for it.
    fn remove_before(&mut self, time_ms: u64) -> rusqlite::Result<()> {
        for (table, time, rows) in
            [("second", "time_ms", 2000), ("sample", "time_ms", 100), ("incident", "ended_ms", 5)]
        {
            let piece = format!("SELECT {time} FROM {table} WHERE {time} < ?1 ORDER BY {time} LIMIT {rows}");
            let remove = format!("DELETE FROM {table} WHERE {time} <= (SELECT max({time}) FROM ({piece}))");
            while self.connection.execute(&remove, [time_ms as i64])? > 0 {}
        }
        Ok(())
    }
}

/// Whether there is no more than a header, as a recorder leaves that is killed before it has made the tables.
fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    Ok(number("application_id")? == 0 && number("user_version")? == 0 && check(connection)? == 0)
}

fn prepare(connection: &Connection, is_new: bool, limits: Limits) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_secs(5))?;
    if is_new {
        // Before anything else is in the file.
        connection.pragma_update(None, "page_size", PAGE as i64)?;
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // What is committed is in the log, which is safe from kill -9, and synced, as what was before a crash of the host is what
    // will be asked for.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -1024)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES as i64)?;
    connection.pragma_update(None, "wal_autocheckpoint", (LOG_BYTES / PAGE / 4) as i64)?;
    let pages = limits.bytes.saturating_sub(LOG_BYTES) / PAGE;
    connection.pragma_update(None, "max_page_count", pages.max(1) as i64)?;
    if is_new {
        connection.execute_batch(&format!(
            "BEGIN; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;"
        ))?;
    }
    Ok(())
}

fn write_item(transaction: &Transaction, item: &Item) -> rusqlite::Result<()> {
    match item {
        Item::Dictionary { id, json } => {
            transaction.execute("INSERT OR REPLACE INTO dictionary VALUES (?1, ?2)", params![*id as i64, json])?;
        }
        Item::Sample { time_ms, dictionary, length, packed } => {
            let mut insert = transaction.prepare_cached("INSERT OR REPLACE INTO sample VALUES (?1, ?2, ?3, ?4)")?;
            insert.execute(params![*time_ms as i64, *dictionary as i64, *length as i64, packed])?;
        }
        Item::Second(server, second, bad) => write_second(transaction, server, second, *bad)?,
        Item::Incident(incident) => write_incident(transaction, incident)?,
    }
    Ok(())
}

/// Three digits say enough, and whole numbers take less room.
fn rounded(value: f64) -> f64 {
    if value.abs() >= 10.0 { value.round() } else { (value * 100.0).round() / 100.0 }
}

fn write_second(transaction: &Transaction, server: &str, second: &Second, bad: bool) -> rusqlite::Result<()> {
    transaction.prepare_cached("INSERT OR IGNORE INTO server (name) VALUES (?1)")?.execute([server])?;
    let waits: Vec<String> =
        second.events.iter().take(5).map(|(event, sessions)| format!("{event}={sessions}")).collect();
    let phase = second.checkpoint.as_ref().map(|checkpoint| checkpoint.phase);
    let wal = second.wal.as_ref().filter(|disk| !disk.is_shared);
    let operations = |disk: &Disk| rounded(disk.reads + disk.writes);
    let data = second.data.as_ref();
    let mut insert = transaction.prepare_cached(
        "INSERT OR REPLACE INTO second VALUES (?1, (SELECT id FROM server WHERE name = ?2), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, \
         ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)",
    )?;
    insert.execute(params![
        second.time_ms as i64,
        server,
        bad,
        second.commits.map(rounded),
        rounded(second.wal_bytes),
        second.active as i64,
        second.held() as i64,
        second.slow as i64,
        rounded(second.slow_seconds),
        second.connections as i64,
        (!waits.is_empty()).then(|| waits.join(" ")),
        phase.filter(|phase| *phase != CheckpointPhase::Idle).map(CheckpointPhase::name),
        data.map(operations),
        data.map(|disk| rounded(disk.read_bytes + disk.write_bytes)),
        data.map(|disk| rounded(disk.busy)),
        data.filter(|disk| disk.cap.is_some()).map(|disk| rounded(disk.cap_share())),
        wal.map(operations),
        second.memory.dirty_bytes as i64,
        second.memory.writeback_bytes as i64,
        second.cpu.map(|cpu| rounded(cpu.busy)),
        second.cpu.map(|cpu| rounded(cpu.steal)),
        second.pressure.map(|pressure| rounded(pressure.io_some)),
        second.pressure.map(|pressure| rounded(pressure.memory_some)),
        second.archives.then_some(second.archive_queue as i64),
    ])?;
    Ok(())
}

fn write_incident(transaction: &Transaction, incident: &Incident) -> rusqlite::Result<()> {
    let cause = incident.cause.name();
    let document = |id: Option<u64>| {
        serde_json::to_string(&Incident { id, ..incident.clone() })
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
    };
    let known = transaction.query_row(
        "SELECT id FROM incident WHERE server = ?1 AND started_ms = ?2",
        params![incident.server, incident.started_ms as i64],
        |row| row.get::<_, i64>(0),
    );
    let id = match known {
        Ok(id) => id,
        Err(rusqlite::Error::QueryReturnedNoRows) => {
            transaction.execute(
                "INSERT INTO incident (server, started_ms, ended_ms, cause, lost_commits, document) VALUES (?1, ?2, 0, '', 0, '')",
                params![incident.server, incident.started_ms as i64],
            )?;
            let id = transaction.last_insert_rowid();
            // Counted here and not by rows, of which the oldest go: a counter must not fall.
            transaction.execute(
                "INSERT INTO incident_count VALUES (?1, ?2, 1, ?3) \
                 ON CONFLICT (server, cause) DO UPDATE SET total = total + 1, last_id = ?3",
                params![incident.server, cause, id],
            )?;
            id
        }
        Err(error) => return Err(error),
    };
    transaction.execute(
        "UPDATE incident SET ended_ms = ?2, cause = ?3, lost_commits = ?4, document = ?5 WHERE id = ?1",
        params![id, incident.ended_ms as i64, cause, incident.lost_commits, document(Some(id as u64))?],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::NOW;

    fn opened(directory: &Path) -> Writer {
        Writer::open(directory, Limits { keep: Duration::from_secs(86_400), bytes: 64 << 20 }).unwrap()
    }

    #[test]
    fn what_is_removed_does_not_have_to_fit_into_the_log_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = opened(directory.path());
        let second = |number: u64| {
            let second = Second { time_ms: NOW + number * 1000, commits: Some(100.0), ..Second::default() };
            Item::Second("5432".to_string(), Box::new(second), false)
        };
        for piece in 0..30 {
            let items: Vec<Item> = (piece * 2000..(piece + 1) * 2000).map(second).collect();
            writer.write(&items).unwrap();
        }
        writer.remove_before(NOW + 59_990_000).unwrap();
        let count = "SELECT count(*) FROM second";
        assert_eq!(writer.connection.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 10);
        let log = std::fs::metadata(directory.path().join(format!("{FILE}-wal"))).unwrap().len();
        assert!(log < 2 << 20, "{log}");
    }

    #[test]
    fn on_a_full_file_system_the_file_keeps_room_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = opened(directory.path());
        let sample = |second: u64| Item::Sample {
            time_ms: NOW + second * 1000,
            dictionary: 0,
            length: 1,
            packed: vec![7; 20_000],
        };
        writer.write(&(0..1000).map(sample).collect::<Vec<_>>()).unwrap();
        let length = writer.bytes("page_count").unwrap();
        writer.reserve = u64::MAX;
        (0..20).for_each(|_| writer.tidy(NOW + 1_000_000).unwrap());
        let (free, used) = (writer.bytes("freelist_count").unwrap(), writer.used().unwrap());
        assert!((LOG_BYTES..2 * LOG_BYTES).contains(&free) && free + used == length, "{free} {used} {length}");
    }
}
