//! Reading: by anybody, beside the recorder.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use pgcalm_monitor::model::{Host, IncidentCount};
use rusqlite::{Connection, OptionalExtension, params};

use super::{damaged, failed, file_of, open_to_read, refused, sample};
use crate::incident::{Cause, Incident};
use crate::report::time::date_and_time;
use crate::verdict::RULES;

/// What is recorded goes on if it is not older: a sample is taken each second and written after some.
const MINUTE_MS: u64 = 60_000;

/// The store, to be read.
pub struct Reader {
    connection: Connection,
    path: PathBuf,
}

impl Reader {
    /// Opens the store in a directory, or a file that was exported.
    ///
    /// # Errors
    ///
    /// If there is none, or none of this version.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let path = file_of(path);
        Ok(Self { connection: open_to_read(&path)?, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Incidents that ended at this moment or later, oldest first.
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    pub fn incidents(&self, since_ms: u64) -> anyhow::Result<Vec<Incident>> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let sql = "SELECT document FROM incident WHERE ended_ms >= ?1 ORDER BY started_ms, id";
            self.connection.prepare(sql)?.query_map([since_ms as i64], |row| row.get(0))?.collect()
        };
        let documents = read().map_err(|error| self.failed(&error))?;
        documents.iter().map(|document| self.parse(document)).collect()
    }

    /// Incidents within a minute of a moment, those first that it lies in.
    ///
    /// # Errors
    ///
    /// As [`Reader::incidents`].
    pub fn around(&self, at_ms: u64) -> anyhow::Result<Vec<Incident>> {
        let mut incidents = self.incidents(at_ms.saturating_sub(MINUTE_MS))?;
        incidents.retain(|incident| incident.started_ms <= at_ms.saturating_add(MINUTE_MS));
        incidents.sort_by_key(|incident| {
            let before = incident.started_ms.saturating_sub(at_ms);
            (before.max(at_ms.saturating_sub(incident.ended_ms)), incident.started_ms.abs_diff(at_ms))
        });
        Ok(incidents)
    }

    /// One incident; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// As [`Reader::incidents`].
    pub fn incident(&self, id: u64) -> anyhow::Result<Option<Incident>> {
        let sql = "SELECT document FROM incident WHERE id = ?1";
        let id = i64::try_from(id).unwrap_or(-1);
        let found = self.connection.query_row(sql, [id], |row| row.get::<_, String>(0)).optional();
        found.map_err(|error| self.failed(&error))?.map(|document| self.parse(&document)).transpose()
    }

    /// How many incidents there have been, of each cause and instance: a counter that begins with 1 has not grown.
    ///
    /// # Errors
    ///
    /// As [`Reader::incidents`].
    pub fn counts(&self) -> anyhow::Result<Vec<IncidentCount>> {
        let read = || -> rusqlite::Result<Vec<IncidentCount>> {
            let of = |row: &rusqlite::Row| {
                Ok(IncidentCount {
                    server: row.get(0)?,
                    verdict: row.get(1)?,
                    total: row.get::<_, i64>(2)?.max(0) as u64,
                    last_id: row.get::<_, i64>(3)?.max(0) as u64,
                })
            };
            self.connection
                .prepare_cached("SELECT server, cause, total, last_id FROM incident_count ORDER BY server, cause")?
                .query_map([], of)?
                .collect()
        };
        let servers = || -> rusqlite::Result<Vec<String>> {
            self.connection.prepare_cached("SELECT name FROM server")?.query_map([], |row| row.get(0))?.collect()
        };
        let mut counts = read().map_err(|error| self.failed(&error))?;
        for server in servers().map_err(|error| self.failed(&error))? {
            for cause in RULES.iter().map(|rule| rule.cause).chain([Cause::Unknown]) {
                let verdict = cause.name();
                if !counts.iter().any(|count| count.server == server && count.verdict == verdict) {
                    counts.push(IncidentCount { server: server.clone(), verdict, total: 0, last_id: 0 });
                }
            }
        }
        Ok(counts)
    }

    /// The first and the last sample's time.
    ///
    /// # Errors
    ///
    /// As [`Reader::incidents`].
    pub fn range(&self) -> anyhow::Result<Option<(u64, u64)>> {
        let sql = "SELECT min(time_ms), max(time_ms) FROM sample";
        let of = |row: &rusqlite::Row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?));
        let (first, last) = self.connection.query_row(sql, [], of).map_err(|error| self.failed(&error))?;
        Ok(first.zip(last).map(|(first, last)| (first.max(0) as u64, last.max(0) as u64)))
    }

    /// The time of the last sample up to a moment: a clock that was wrong may have left some of years to come.
    ///
    /// # Errors
    ///
    /// As [`Reader::incidents`].
    pub fn last(&self, until_ms: u64) -> anyhow::Result<Option<u64>> {
        let sql = "SELECT max(time_ms) FROM sample WHERE time_ms <= ?1";
        let until = i64::try_from(until_ms).unwrap_or(i64::MAX);
        let last = self.connection.query_row(sql, [until], |row| row.get::<_, Option<i64>>(0));
        Ok(last.map_err(|error| self.failed(&error))?.map(|last| last.max(0) as u64))
    }

    /// Whether something was recorded within a minute of a moment.
    ///
    /// # Errors
    ///
    /// As [`Reader::incidents`].
    pub fn covers(&self, at_ms: u64) -> anyhow::Result<bool> {
        Ok(self.last(at_ms.saturating_add(MINUTE_MS))?.is_some_and(|last| last + MINUTE_MS >= at_ms))
    }

    /// What is to be said of a record that does not go on at that moment.
    ///
    /// # Errors
    ///
    /// As [`Reader::incidents`].
    pub fn silence(&self, now_ms: u64) -> anyhow::Result<Option<String>> {
        let since = self.last(now_ms)?.map_or(String::new(), |last| format!(" since {}", date_and_time(last)));
        Ok((!self.covers(now_ms)?).then(|| format!("nothing is recorded{since}")))
    }

    /// Whole samples from one time to another, oldest first; `take` is called with each.
    ///
    /// # Errors
    ///
    /// As [`Reader::incidents`].
    pub fn samples(&self, from_ms: u64, to_ms: u64, mut take: impl FnMut(Host)) -> anyhow::Result<()> {
        let clip = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        let mut dictionaries: HashMap<i64, Vec<u8>> = HashMap::new();
        let mut read = || -> anyhow::Result<()> {
            let mut statement = self.connection.prepare(
                "SELECT dictionary, length, host FROM sample WHERE time_ms BETWEEN ?1 AND ?2 ORDER BY time_ms",
            )?;
            let mut rows = statement.query(params![clip(from_ms), clip(to_ms)])?;
            while let Some(row) = rows.next()? {
                let (id, length, packed): (i64, i64, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let dictionary = match dictionaries.entry(id) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        let sql = "SELECT json FROM dictionary WHERE id = ?1";
                        let json: Vec<u8> = self.connection.query_row(sql, [id], |row| row.get(0))?;
                        new.insert(sample::unpack_dictionary(&json)?)
                    }
                };
                take(sample::unpack(&packed, usize::try_from(length)?, dictionary)?);
            }
            Ok(())
        };
        read().map_err(|error| match error.downcast_ref::<rusqlite::Error>() {
            Some(error) => self.failed(error),
            None => damaged(&self.path, &format!("{error:#}")),
        })
    }

    /// Copies all of it into a file that is not there yet.
    ///
    /// # Errors
    ///
    /// As [`Reader::incidents`], or that the file can't be written.
    pub fn export(&self, file: &Path) -> anyhow::Result<()> {
        if file.exists() {
            return Err(refused(file, "is there already; name a file that is not"));
        }
        let name = file.display().to_string();
        let copied = self.connection.execute("VACUUM INTO ?1", [&name]);
        copied.map(drop).map_err(|error| {
            // A part of it would look like a record.
            let _ = std::fs::remove_file(file);
            anyhow!("{name}: {error}")
        })
    }

    fn failed(&self, error: &rusqlite::Error) -> anyhow::Error {
        failed(&self.path, error)
    }

    fn parse(&self, document: &str) -> anyhow::Result<Incident> {
        serde_json::from_str(document).map_err(|error| damaged(&self.path, &format!("an incident: {error}")))
    }
}
