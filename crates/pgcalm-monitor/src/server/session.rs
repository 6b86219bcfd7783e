//! A read-only session with a server.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pgcalm_host::HostRoot;
use pgcalm_lag::{History, Host, QueryFailed, Sample};
use pgcalm_postgres::{Address, Client, ConnectError, Text};
use postgres::error::Severity;
use postgres::{Error, Row, Statement};

use crate::model::{Missing, Subject};

/// What has failed is asked for again after this time only: each failure is an ERROR in the server's log.
const RETRY: Duration = Duration::from_secs(60);

/// By what a stall is seen, that is asked for again after this time if it has only taken too long.
const VITAL: [&str; 2] = ["counters", "sessions"];
const VITAL_RETRY: Duration = Duration::from_secs(2);

/// A connection on which each sample is one transaction, so that watching adds one commit to the server's count.
pub(super) struct Session {
    client: Client,
    host: Host,
    statements: HashMap<String, Statement>,
    /// What has failed, when, and for how long it is not asked for.
    failed: HashMap<&'static str, (Instant, Duration, Missing)>,
    /// What is missing in the sample that is being taken.
    missing: Vec<Missing>,
}

impl Session {
    /// Connects to a server that may be on the host of `root`.
    pub(super) fn open(address: &Address, root: &HostRoot) -> Result<Self, ConnectError> {
        Ok(Self {
            client: address.connect()?,
            host: Host::new(root.clone()),
            statements: HashMap::new(),
            failed: HashMap::new(),
            missing: Vec::new(),
        })
    }

    /// A call is given up after this time.
    pub(super) fn wait_at_most(&mut self, longest: Duration) {
        self.client.wait_at_most(longest);
    }

    /// Begins a sample.
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        self.missing.clear();
        self.client.batch_execute("BEGIN TRANSACTION READ ONLY")
    }

    /// Ends a sample; gives what was missing.
    pub(super) fn end(&mut self) -> Result<Vec<Missing>, Error> {
        self.client.batch_execute("COMMIT")?;
        Ok(std::mem::take(&mut self.missing))
    }

    /// Notes that something is missing in this sample.
    pub(super) fn lacks(&mut self, subject: Subject, reason: String, remedy: Option<&str>) {
        self.missing.push(Missing { subject, reason, remedy: remedy.map(String::from) });
    }

    /// Takes back what was noted to be missing of a subject, for who repeats it in later samples.
    pub(super) fn take_missing_of(&mut self, subject: Subject) -> Vec<Missing> {
        let (taken, left) =
            std::mem::take(&mut self.missing).into_iter().partition(|missing| missing.subject == subject);
        self.missing = left;
        taken
    }

    /// Asks for a part of the sample. If the server reports an error, that part is missing, for a while, and the others
    /// go on; errors of the connection are returned.
    pub(super) fn part<T>(
        &mut self,
        name: &'static str,
        subject: Subject,
        ask: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if let Some((when, pause, missing)) = self.failed.get(name) {
            if when.elapsed() < *pause {
                self.missing.push(missing.clone());
                return Ok(None);
            }
            self.failed.remove(name);
        }
        let error = match ask(self) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        let Some(reported) = error.as_db_error() else { return Err(error) };
        if matches!(reported.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) {
            return Err(error);
        }
        let code = reported.code().code();
        let pause = pause_after(name, code);
        let missing = Missing {
            subject,
            reason: format!("{name}: {}", reported.message()),
            remedy: remedy(code).map(String::from),
        };
        self.client.batch_execute("ROLLBACK; BEGIN TRANSACTION READ ONLY")?;
        // An extension that was made anew has other functions below the same names.
        self.statements.clear();
        self.failed.insert(name, (Instant::now(), pause, missing.clone()));
        self.missing.push(missing);
        Ok(None)
    }

    /// The rows of a query, which is prepared once.
    pub(super) fn rows(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        if let Some(statement) = self.statements.get(sql) {
            return self.client.query(statement, &[]);
        }
        let statement = self.client.prepare(sql)?;
        let rows = self.client.query(&statement, &[]);
        self.statements.insert(sql.to_string(), statement);
        rows
    }

    /// A sample of what standbys lag, in the same transaction.
    pub(super) fn lag(&mut self, history: &mut History) -> Result<Sample, Error> {
        let sample = pgcalm_lag::sample(&mut self.client, history, Some(&self.host));
        sample.or_else(|error| match error.downcast::<QueryFailed>() {
            Ok(failed) => Err(failed.source),
            // Role, rights and version were looked at before; this is a server that has just become a standby.
            Err(error) => {
                self.lacks(Subject::Replication, error.to_string(), None);
                Ok(Sample::default())
            }
        })
    }

    /// The only row of a query.
    pub(super) fn row(&mut self, sql: &str) -> Result<Option<Row>, Error> {
        Ok(self.rows(sql)?.into_iter().next())
    }
}

/// How long what failed with this code is not asked for: 57014 is statement_timeout's, 55P03 lock_timeout's.
fn pause_after(name: &str, code: &str) -> Duration {
    if VITAL.contains(&name) && matches!(code, "57014" | "55P03") { VITAL_RETRY } else { RETRY }
}

/// What helps against errors of these codes (errcodes.txt of the server).
fn remedy(code: &str) -> Option<&'static str> {
    match code {
        "42501" => Some("connect as a member of pg_monitor"),
        "57014" => Some("the server took longer than statement_timeout (5 s): it is busy or stalls"),
        _ => None,
    }
}

/// Reads columns, of which any may be null.
pub(super) trait Columns {
    /// A number that is not negative.
    fn count(&self, name: &str) -> Result<Option<u64>, Error>;
    /// A number.
    fn number(&self, name: &str) -> Result<Option<f64>, Error>;
    /// Text.
    fn text(&self, name: &str) -> Result<Option<String>, Error>;
    /// Null counts as false.
    fn flag(&self, name: &str) -> Result<bool, Error>;
}

impl Columns for Row {
    fn count(&self, name: &str) -> Result<Option<u64>, Error> {
        let value: Option<i64> = self.try_get(name)?;
        Ok(value.map(|value| value.max(0) as u64))
    }

    fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        self.try_get(name)
    }

    fn text(&self, name: &str) -> Result<Option<String>, Error> {
        let value: Option<Text> = self.try_get(name)?;
        Ok(value.map(|text| text.0))
    }

    fn flag(&self, name: &str) -> Result<bool, Error> {
        Ok(self.try_get::<_, Option<bool>>(name)?.unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_seen_while_it_goes_on_and_what_always_takes_too_long_holds_up_no_more_than_before() {
        assert_eq!(
            ["57014", "55P03", "42501"].map(|code| pause_after("counters", code)),
            [VITAL_RETRY, VITAL_RETRY, RETRY]
        );
        assert_eq!(pause_after("archiver", "57014"), RETRY);
    }
}
