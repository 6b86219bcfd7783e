use postgres::Error;

use crate::Client;

/// A version as `server_version_num` has it, e.g. 150020. One newer than is known is read as the newest known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i32);

/// Oldest major version whose views are known. No session with an older server comes about.
pub const OLDEST: i32 = 15;

/// The newest.
const NEWEST: i32 = 19;

/// Why a server that calls itself so (`server_version`) is not spoken to; `None` if it is.
pub fn refusal(server_version: &str) -> Option<String> {
    let name = server_version.split(' ').next()?;
    let major: i32 = name.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    (major < OLDEST).then(|| format!("PostgreSQL {name} is too old: {OLDEST} to {NEWEST} are supported"))
}

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
