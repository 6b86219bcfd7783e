//! Where the record is kept: one SQLite file, `record.sqlite`.
//!
//! SQLite and not Parquet: what was committed survives kill -9 and a full disk, rows go out one by one at the old end while
//! others come in, and each DBA's tools read it. A Parquet file can be read once its footer is written, at its end, and
//! nothing can be taken out of it. Tables: docs/guides/record.md.

mod read;
mod sample;
mod write;

use std::path::{Path, PathBuf};

use pgcalm_host::Failure;
use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use read::Reader;
pub use sample::Packer;
pub use write::{Item, Limits, Writer};

/// Where the service keeps its record.
pub const DIRECTORY: &str = "/var/lib/pgcalm/record";

/// The file in that directory.
pub const FILE: &str = "record.sqlite";

/// "pgCR", by which `file` and others tell what this is.
const APPLICATION: i64 = 0x7067_4352;

/// Of the tables. Another one is not read.
const VERSION: i64 = 1;

/// Why a store can't be used; each text is one line that names the file and the way out.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No file is there.
    #[error("{0}: no record is there; pgcalm record makes one, and --dir names where")]
    NotThere(String),
    /// It is something else.
    #[error("{0}: is no record of pgcalm; name another file or directory")]
    Foreign(String),
    /// Of another version of pgcalm.
    #[error(
        "{0}: has version {1} of the tables, and this pgcalm reads {VERSION}; move it away, or use the pgcalm that wrote it"
    )]
    Version(String, i64),
    /// It can't be read to its end.
    #[error("{0}: is damaged ({1}); move it away, and a new one is begun")]
    Damaged(String, String),
    /// Another recorder writes into it.
    #[error("{0}: another pgcalm record writes into it; stop that one, or give another --dir")]
    Taken(String),
    /// Anything else, as a full disk.
    #[error("{0}: {1}")]
    Other(String, String),
}

impl StoreError {
    fn of(path: &Path, error: &rusqlite::Error) -> Self {
        let name = path.display().to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::Foreign(name),
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged(name, error.to_string()),
            _ => Self::Other(name, error.to_string()),
        }
    }

    /// What the command ends with.
    pub fn failure(self) -> anyhow::Error {
        match self {
            Self::NotThere(_) | Self::Foreign(_) | Self::Taken(_) => Failure::Usage(self.to_string()).into(),
            _ => self.into(),
        }
    }
}

/// The file of a store: of a directory, or the file itself.
pub fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE) } else { path.to_path_buf() }
}

/// Opens what is there to be read, and checks that it is a record.
fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    if !path.exists() {
        return Err(StoreError::NotThere(path.display().to_string()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let plain = Connection::open_with_flags(path, flags).and_then(|connection| {
        check(&connection)?;
        Ok(connection)
    });
    let opened = match plain {
        // Without a recorder beside, who may not write there can't make the shared memory that readers want. Then nobody else
        // writes, either.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
            let text = path.display().to_string().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            Connection::open_with_flags(format!("file:{text}?immutable=1"), flags | OpenFlags::SQLITE_OPEN_URI)
        }
        opened => opened,
    };
    let connection = opened.map_err(|error| StoreError::of(path, &error))?;
    verify(path, &connection)?;
    Ok(connection)
}

/// A read of the first page: an error of it shows here.
fn check(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
}

/// Whether this is a record of this version.
fn verify(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, version) = number("application_id")
        .and_then(|application| Ok((application, number("user_version")?)))
        .map_err(|error| StoreError::of(path, &error))?;
    match (application, version) {
        (APPLICATION, VERSION) => Ok(()),
        (APPLICATION, version) => Err(StoreError::Version(path.display().to_string(), version)),
        _ => Err(StoreError::Foreign(path.display().to_string())),
    }
}

#[cfg(test)]
mod tests;
