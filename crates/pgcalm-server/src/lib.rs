//! PostgreSQL's statistics views and settings in one shape, whatever the version.
//!
//! [`Version::writes`], [`Version::wal`] and [`ARCHIVER`] are subqueries of one row with the same columns for all versions, so that a
//! caller can join them with what else it asks for; [`Writes`], [`Wal`] and [`Archiver`] are what such a row says. [`Settings`] are
//! rows of `pg_settings`, and know their units.

mod archiver;
mod module;
mod settings;
mod text;
mod wal;
mod writes;

use pgcalm_connect::Client;
use postgres::Error;

pub use crate::archiver::{ARCHIVER, Archiver};
pub use crate::module::{MODULE_SCHEMA, extension_schema, module_schema};
pub use crate::settings::{Setting, Settings, unit_bytes, unit_seconds};
pub use crate::text::Text;
pub use crate::wal::Wal;
pub use crate::writes::Writes;

/// A version as `server_version_num` has it, e.g. 150020. One newer than is known is read as the newest known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i32);

/// Oldest major version whose views are known.
pub const OLDEST: i32 = 15;

impl Version {
    /// That of the server.
    pub fn read(client: &mut Client) -> Result<Self, Error> {
        let row = client.query_one("SELECT current_setting('server_version_num')::int", &[])?;
        row.try_get(0).map(Self)
    }

    /// Of a major version, e.g. 15.
    pub fn of_major(major: i32) -> Self {
        Self(major * 10_000)
    }

    /// E.g. 15.
    pub fn major(self) -> i32 {
        self.0 / 10_000
    }
}
