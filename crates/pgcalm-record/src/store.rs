//! Where the record is kept: one SQLite file, `record.sqlite`.
//!
//! SQLite and not Parquet: what was committed survives kill -9 and a full disk, rows go out one by one at the old end while
//! others come in, and each DBA's tools read it. A Parquet file can be read once its footer is written, at its end, and
//! nothing can be taken out of it. Tables: docs/guides/record.md.

mod read;
mod sample;
mod write;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use pgcalm_host::Failure;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{Access, access};

pub use read::Reader;
pub use sample::Packer;
pub use write::{COARSE_S, Item, Limits, Writer};

/// Where the service keeps its record.
pub const DIRECTORY: &str = "/var/lib/pgcalm/record";

/// The file in that directory.
pub const FILE: &str = "record.sqlite";

/// "pgCR", by which `file` and others tell what this is.
const APPLICATION: i64 = 0x7067_4352;

/// Of the tables. Another one is not read.
const VERSION: i64 = 1;

/// Of a file that is something else.
const FOREIGN: &str = "is no record of pgcalm; name another file or directory";

/// What has to be named otherwise: the text says what is wrong and the way out.
fn refused(path: &Path, text: &str) -> anyhow::Error {
    Failure::Usage(format!("{}: {text}", path.display())).into()
}

/// What can't be read to its end.
fn damaged(path: &Path, why: &str) -> anyhow::Error {
    anyhow!("{}: is damaged ({why}); move it away, and a new one is begun", path.display())
}

/// What SQLite says, as of a full disk, in one line that names the file and the way out.
fn failed(path: &Path, error: &rusqlite::Error) -> anyhow::Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => refused(path, FOREIGN),
        Some(ErrorCode::DatabaseCorrupt) => damaged(path, &error.to_string()),
        _ => anyhow!("{}: {error}", path.display()),
    }
}

/// The file of a store: of a directory, or the file itself.
pub fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE) } else { path.to_path_buf() }
}

/// Opens what is there to be read, and checks that it is a record.
fn open_to_read(path: &Path) -> anyhow::Result<Connection> {
    // Not by opening it: to close that would take the recorder its lock on the file, which is the process's.
    match access(path, Access::READ_OK).map_err(rustix::io::Errno::kind) {
        Err(ErrorKind::NotFound) => {
            return Err(refused(path, "no record is there; pgcalm record makes one, and --dir names where"));
        }
        Err(ErrorKind::PermissionDenied) => {
            return Err(
                Failure::Host(format!("{}: may not be read by this user; run it as root", path.display())).into()
            );
        }
        _ => {}
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
    let connection = opened.map_err(|error| failed(path, &error))?;
    verify(path, &connection)?;
    Ok(connection)
}

/// A read of the first page: an error of it shows here.
fn check(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
}

/// Whether this is a record of this version.
fn verify(path: &Path, connection: &Connection) -> anyhow::Result<()> {
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (application, version) = number("application_id")
        .and_then(|application| Ok((application, number("user_version")?)))
        .map_err(|error| failed(path, &error))?;
    match (application, version) {
        (APPLICATION, VERSION) => Ok(()),
        (APPLICATION, version) => Err(anyhow!(
            "{}: has version {version} of the tables, and this pgcalm reads {VERSION}; move it away, or use the pgcalm that wrote it",
            path.display()
        )),
        _ => Err(refused(path, FOREIGN)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
