//! Sessions by state and wait event, and what the checkpointer waits for.

use std::collections::BTreeMap;
use std::time::Duration;

use postgres::Error;

use crate::model::{Activity, Blocked, Connections, Maintenance, Wait, WaitCause};
use crate::server::facts::Facts;
use crate::server::session::{Columns, Session};
use crate::waits;

/// Sessions of pgcalm are left out. Of sessions that this user may not look into only the database is shown.
const QUERY: &str = "SELECT coalesce(backend_type, 'hidden') AS backend_type, coalesce(state, '') AS state, \
    coalesce(wait_event_type, '') AS wait_event_type, coalesce(wait_event, '') AS wait_event, count(*) AS sessions, \
    max(extract(epoch FROM clock_timestamp() - xact_start))::float8 AS oldest, \
    count(*) FILTER (WHERE slow > 1) AS slow_sessions, max(slow) FILTER (WHERE slow > 1) AS slow \
    FROM (SELECT *, CASE WHEN state = 'active' AND application_name <> 'pg_dump' \
    AND coalesce(wait_event_type, '') NOT IN ('Client', 'Timeout') \
    AND query !~* '^\\s*(vacuum|analyze|create|alter|cluster|reindex|refresh|copy|checkpoint|select pg_(backup|switch|create|drop))' \
    THEN extract(epoch FROM clock_timestamp() - query_start)::float8 END AS slow FROM pg_stat_activity) activity WHERE application_name NOT LIKE 'pgcalm %' AND pid <> pg_backend_pid() \
    AND (backend_type IN ('client backend', 'checkpointer') OR backend_type IS NULL AND datid IS NOT NULL) \
    GROUP BY 1, 2, 3, 4";

/// What runs besides users. Names of relations would have to be looked up in the catalog, which may lie on a disk that hangs; an
/// autovacuum worker tells its table itself.
const MAINTENANCE: &str = "SELECT 'autovacuum' AS kind, substr(query, 13) AS object, NULL AS phase \
    FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND query LIKE 'autovacuum: %' \
    UNION ALL SELECT 'vacuum', datname || ' ' || relid, v.phase FROM pg_stat_progress_vacuum v \
    JOIN pg_stat_activity a USING (pid, datname) WHERE a.backend_type = 'client backend' \
    UNION ALL SELECT 'index', datname || ' ' || relid, phase FROM pg_stat_progress_create_index \
    UNION ALL SELECT 'cluster', datname || ' ' || relid, phase FROM pg_stat_progress_cluster \
    UNION ALL SELECT 'base_backup', NULL, phase FROM pg_stat_progress_basebackup \
    UNION ALL SELECT 'dump', datname, NULL FROM pg_stat_activity \
    WHERE application_name = 'pg_dump' AND state = 'active' LIMIT 20";

/// `pg_blocking_pids()` takes all partitions of the lock table, so it is called for a few, the longest, only. A prepared transaction
/// has no process: it is number 0. A wait that has just begun has no `waitstart` yet.
const BLOCKED: &str = "SELECT w.pid, b.pid AS holder, w.wait_event AS lock, w.seconds, \
    CASE WHEN b.pid = 0 THEN 'prepared transaction' ELSE coalesce(h.state, '') END AS holder_state \
    FROM (SELECT a.pid, a.wait_event, \
    coalesce(extract(epoch FROM clock_timestamp() - min(l.waitstart)), 0)::float8 AS seconds \
    FROM pg_stat_activity a LEFT JOIN pg_locks l ON l.pid = a.pid AND NOT l.granted \
    WHERE a.wait_event_type = 'Lock' AND a.backend_type = 'client backend' \
    GROUP BY a.pid, a.wait_event ORDER BY seconds DESC LIMIT 10) w \
    CROSS JOIN LATERAL (SELECT (pg_blocking_pids(w.pid))[1] AS pid) b \
    LEFT JOIN pg_stat_activity h ON h.pid = b.pid WHERE b.pid IS NOT NULL ORDER BY w.seconds DESC";

/// What runs besides users.
pub(super) fn ask_maintenance(session: &mut Session) -> Result<Vec<Maintenance>, Error> {
    let rows = session.rows(MAINTENANCE)?;
    let of = |row: &postgres::Row| {
        Ok(Maintenance {
            kind: row.text("kind")?.unwrap_or_default(),
            object: row.text("object")?.map(|object| table_of(&object).to_string()),
            phase: row.text("phase")?,
        })
    };
    rows.iter().map(of).collect()
}

/// The table in what an autovacuum worker says of itself, as `VACUUM ANALYZE public.t (to prevent wraparound)`.
fn table_of(activity: &str) -> &str {
    let mut rest = activity.trim();
    while let Some(next) = ["VACUUM ", "ANALYZE "].iter().find_map(|word| rest.strip_prefix(word)) {
        rest = next;
    }
    rest.split(" (to prevent").next().unwrap_or(rest)
}

/// Who waits for whom.
pub(super) fn ask_blocked(session: &mut Session) -> Result<Vec<Blocked>, Error> {
    let rows = session.rows(BLOCKED)?;
    let of = |row: &postgres::Row| {
        Ok(Blocked {
            pid: row.try_get("pid")?,
            by: row.try_get("holder")?,
            by_state: row.text("holder_state")?.unwrap_or_default(),
            lock: row.text("lock")?.unwrap_or_default(),
            seconds: row.number("seconds")?.unwrap_or_default(),
        })
    };
    rows.iter().map(of).collect()
}

/// One look.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Look {
    /// Clients.
    pub activity: Activity,
    /// The checkpointer's wait event, type and name, empty while it doesn't wait; `None` if it is hidden.
    pub checkpointer: Option<(String, String)>,
}

/// Looks.
pub(super) fn ask(session: &mut Session, facts: &Facts) -> Result<Look, Error> {
    let mut connections = Connections::default();
    let mut waits = Vec::new();
    let mut oldest: Option<f64> = None;
    let (mut slow_sessions, mut slow): (u64, Option<f64>) = (0, None);
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
        slow_sessions += row.count("slow_sessions")?.unwrap_or_default();
        if let Some(age) = row.number("slow")? {
            slow = Some(slow.map_or(age, |known| known.max(age)));
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
            slow_sessions,
            slow_seconds: slow,
            blocked: Vec::new(),
        },
        checkpointer,
    })
}

/// Before PostgreSQL 17 a session that the guard holds waits for an extension's event without a name, but the module
/// tells how many it holds.
pub(super) fn name_holds(activity: &mut Activity, holds: u64) {
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
pub(super) struct WaitTime(BTreeMap<WaitCause, f64>);

impl WaitTime {
    /// Adds a look, and writes the sums into it.
    pub(super) fn add(&mut self, activity: &mut Activity, elapsed: Duration) {
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
    fn an_autovacuum_worker_tells_its_table() {
        assert_eq!(table_of("VACUUM ANALYZE public.t (to prevent wraparound)"), "public.t");
        assert_eq!(table_of("ANALYZE public.t"), "public.t");
        assert_eq!(table_of("postgres 16384"), "postgres 16384");
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
