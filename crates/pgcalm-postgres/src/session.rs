//! What each session is set to, so that a look at a server can't disturb it.

use std::time::Duration;

use postgres::Error;

use crate::client::Client;

/// Of sessions that read: they can't write, and wait for nothing for long.
///
/// Names are looked for in `pg_catalog` only: a superuser's program must not call a function that somebody has put into
/// `public` under the name of a system's one (CVE-2018-1058). What an extension has is named with its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Longest time of a statement.
    pub statement_timeout: Duration,
    /// Longest time that it waits for a lock.
    pub lock_timeout: Duration,
}

impl Session {
    /// Of a program that asks once.
    pub const LOOK: Self = Self { statement_timeout: Duration::from_secs(30), lock_timeout: Duration::from_secs(5) };

    /// Of one that asks again and again, and better leaves something out than holds up the next sample.
    pub const WATCH: Self = Self { statement_timeout: Duration::from_secs(5), lock_timeout: Duration::from_secs(1) };

    /// Longest time of a call on this side: the server's own limits count only as long as it runs.
    pub fn patience(self) -> Duration {
        self.statement_timeout + GRACE
    }

    pub(crate) fn apply(self, client: &mut Client) -> Result<(), Error> {
        client.batch_execute(&self.statements())
    }

    fn statements(self) -> String {
        format!(
            "SET search_path = pg_catalog, pg_temp; \
             SET default_transaction_read_only = on; \
             SET statement_timeout = {}; \
             SET lock_timeout = {}; \
             SET idle_in_transaction_session_timeout = '60s'; \
             SET jit = off; \
             SET client_min_messages = error; \
             SET idle_session_timeout = 0",
            self.statement_timeout.as_millis(),
            self.lock_timeout.as_millis(),
        )
    }
}

/// For the server to tell that a statement took too long, and for the way.
const GRACE: Duration = Duration::from_secs(5);
