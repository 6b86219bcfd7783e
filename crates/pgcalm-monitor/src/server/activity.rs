//! Sessions by state and wait event, and what the checkpointer waits for.

use std::collections::BTreeMap;
use std::time::Duration;

use postgres::Error;

use crate::model::{Activity, Connections, Wait, WaitCause};
use crate::server::facts::Facts;
use crate::server::session::{Columns, Session};
use crate::waits;

/// Sessions of pgcalm are left out. Of sessions that this user may not look into only the database is shown.
const QUERY: &str = "SELECT coalesce(backend_type, 'hidden') AS backend_type, coalesce(state, '') AS state, \
    coalesce(wait_event_type, '') AS wait_event_type, coalesce(wait_event, '') AS wait_event, count(*) AS sessions, \
    max(extract(epoch FROM clock_timestamp() - xact_start))::float8 AS oldest \
    FROM pg_stat_activity WHERE application_name NOT LIKE 'pgcalm %' AND pid <> pg_backend_pid() \
    AND (backend_type IN ('client backend', 'checkpointer') OR backend_type IS NULL AND datid IS NOT NULL) \
    GROUP BY 1, 2, 3, 4";

/// One look.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Clients.
    pub activity: Activity,
    /// The checkpointer's wait event, type and name, empty while it doesn't wait; `None` if it is hidden.
    pub checkpointer: Option<(String, String)>,
}

/// Looks.
pub fn ask(session: &mut Session, facts: &Facts) -> Result<Look, Error> {
    let mut connections = Connections::default();
    let mut waits = Vec::new();
    let mut oldest: Option<f64> = None;
    let mut checkpointer = None;
    for row in session.rows(QUERY)? {
        let text = |name| row.text(name).map(Option::unwrap_or_default);
        let sessions = row.count("sessions")?.unwrap_or_default();
        let (event_type, event) = (text("wait_event_type")?, text("wait_event")?);
        if text("backend_type")? == "checkpointer" {
            // Hidden ones have no backend_type, so it is one whose event is shown.
            checkpointer = Some((event_type, event));
            continue;
        }
        match text("state")?.as_str() {
            "active" => {
                connections.active += sessions;
                waits.push(Wait { cause: waits::cause(&event_type, &event), event_type, event, sessions });
            }
            "idle" => connections.idle += sessions,
            "idle in transaction" | "idle in transaction (aborted)" => {
                connections.idle_in_transaction += sessions;
            }
            _ => connections.other += sessions,
        }
        if let Some(age) = row.number("oldest")? {
            oldest = Some(oldest.map_or(age, |known| known.max(age)));
        }
    }
    waits.sort_by(|a, b| (b.sessions, &a.event_type, &a.event).cmp(&(a.sessions, &b.event_type, &b.event)));
    Ok(Look {
        activity: Activity {
            connections,
            max_connections: facts.max_connections,
            waits,
            wait_session_seconds: BTreeMap::new(),
            oldest_transaction_seconds: oldest,
        },
        checkpointer,
    })
}

/// Before PostgreSQL 17 a session that the guard holds waits for an extension's event without a name, but the module
/// tells how many it holds.
pub fn name_holds(activity: &mut Activity, holds: u64) {
    let named: u64 =
        activity.waits.iter().filter(|wait| wait.cause == WaitCause::Guard).map(|wait| wait.sessions).sum();
    let Some(unnamed) =
        activity.waits.iter_mut().find(|wait| wait.event_type == "Extension" && wait.event == "Extension")
    else {
        return;
    };
    let moved = holds.saturating_sub(named).min(unnamed.sessions);
    if moved == 0 {
        return;
    }
    unnamed.sessions -= moved;
    activity.waits.push(Wait {
        cause: WaitCause::Guard,
        event_type: "Extension".to_string(),
        event: "PgCalmGuardHold".to_string(),
        sessions: moved,
    });
    activity.waits.retain(|wait| wait.sessions > 0);
}

/// The time that sessions have waited so far, with this look standing for the time since the one before.
#[derive(Debug, Clone, Default)]
pub struct WaitTime(BTreeMap<WaitCause, f64>);

impl WaitTime {
    /// Adds a look, and writes the sums into it.
    pub fn add(&mut self, activity: &mut Activity, elapsed: Duration) {
        for (cause, sessions) in activity.sessions_by_cause() {
            *self.0.entry(cause).or_default() += sessions as f64 * elapsed.as_secs_f64();
        }
        activity.wait_session_seconds = self.0.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(event_type: &str, event: &str, sessions: u64) -> Wait {
        Wait {
            cause: waits::cause(event_type, event),
            event_type: event_type.to_string(),
            event: event.to_string(),
            sessions,
        }
    }

    #[test]
    fn holds_are_told_from_other_extensions_waits() {
        let mut activity =
            Activity { waits: vec![waiting("Extension", "Extension", 5), waiting("", "", 1)], ..Activity::default() };
        name_holds(&mut activity, 3);
        let causes = activity.sessions_by_cause();
        assert_eq!(causes[&WaitCause::Guard], 3);
        assert_eq!(causes[&WaitCause::Other], 2);
        // Those of PostgreSQL 17 have their names already.
        name_holds(&mut activity, 3);
        assert_eq!(activity.sessions_by_cause()[&WaitCause::Guard], 3);
    }

    #[test]
    fn wait_time_adds_up_over_looks() {
        let mut time = WaitTime::default();
        let mut activity = Activity {
            waits: vec![waiting("Lock", "tuple", 3), waiting("Lock", "relation", 1)],
            ..Activity::default()
        };
        time.add(&mut activity, Duration::from_secs(2));
        time.add(&mut activity, Duration::from_millis(500));
        assert_eq!(activity.wait_session_seconds[&WaitCause::Lock], 10.0);
    }
}
