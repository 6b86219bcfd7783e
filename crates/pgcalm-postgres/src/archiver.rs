//! What the archiver has done.

use crate::Client;
use postgres::{Error, Row};

/// Subquery for [`Archiver`].
pub const ARCHIVER: &str = "(SELECT archived_count, failed_count, last_failed_wal, \
     extract(epoch FROM clock_timestamp() - last_archived_time)::float8 AS archived_age, \
     extract(epoch FROM clock_timestamp() - last_failed_time)::float8 AS failed_age FROM pg_stat_archiver)";

/// What the archiver has done since its statistics were reset.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Archiver {
    /// Files archived.
    pub archived: i64,
    /// Attempts that failed.
    pub failed: i64,
    /// How long ago the last file was archived; none if none was.
    pub last_archived_seconds: Option<f64>,
    /// How long ago an attempt failed last; none if none did.
    pub last_failed_seconds: Option<f64>,
    /// The file of that attempt.
    pub last_failed_file: Option<String>,
}

impl Archiver {
    /// Asks the server for this alone.
    pub fn read(client: &mut Client) -> Result<Self, Error> {
        Self::of(&client.query_one(&format!("SELECT * FROM {ARCHIVER} a"), &[])?)
    }

    /// Out of a row that has the columns of [`ARCHIVER`] among others.
    pub fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            archived: row.try_get("archived_count")?,
            failed: row.try_get("failed_count")?,
            last_archived_seconds: row.try_get("archived_age")?,
            last_failed_seconds: row.try_get("failed_age")?,
            last_failed_file: row.try_get("last_failed_wal")?,
        })
    }

    /// Whether the last attempt failed.
    pub fn is_failing(&self) -> bool {
        match (self.last_archived_seconds, self.last_failed_seconds) {
            (Some(archived), Some(failed)) => failed < archived,
            (None, failed) => failed.is_some(),
            (Some(_), None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_of_failure_and_success_tells() {
        for (archived, failed, is_failing) in [
            (None, None, false),
            (Some(1.0), None, false),
            (None, Some(1.0), true),
            (Some(2.0), Some(1.0), true),
            (Some(1.0), Some(2.0), false),
        ] {
            let archiver =
                Archiver { last_archived_seconds: archived, last_failed_seconds: failed, ..Archiver::default() };
            assert_eq!(archiver.is_failing(), is_failing, "{archiver:?}");
        }
    }
}
