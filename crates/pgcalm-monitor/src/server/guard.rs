//! pg_calm_guard and the sessions that it holds.

use postgres::Error;

use crate::model::{Guard, GuardHold, GuardInput};
use crate::server::session::{Columns, Session};

/// pg_calm_guard and pg_calm_guard_holds.
pub(super) fn ask(session: &mut Session, schema: &str) -> Result<Guard, Error> {
    let mut guard = Guard::default();
    for row in session.rows(&format!(
        "SELECT *, extract(epoch FROM full_at - clock_timestamp())::float8 AS full_in FROM {schema}.pg_calm_guard"
    ))? {
        guard.wal_bytes_per_second = row.number("wal_rate")?;
        guard.allowed_bytes_per_second = row.number("total_allowed_rate")?;
        guard.seconds_to_full = guard.seconds_to_full.or(row.number("full_in")?);
        guard.inputs.push(GuardInput {
            input: row.text("input")?.unwrap_or_default(),
            state: row.text("state")?.unwrap_or_default(),
            object: row.text("object")?,
            unit: row.text("unit")?,
            value: row.number("value")?,
            value_limit: row.number("value_limit")?,
            drain_bytes_per_second: row.number("drain_rate")?,
            allowed_bytes_per_second: row.number("allowed_rate")?,
            binding: row.flag("binding")?,
            holds: row.count("holds")?.unwrap_or_default(),
            held_seconds: row.number("held_time")?.unwrap_or_default() / 1000.0,
            releases: row.count("releases")?.unwrap_or_default(),
        });
    }
    for row in session.rows(&format!("SELECT * FROM {schema}.pg_calm_guard_holds ORDER BY since"))? {
        guard.holds.push(GuardHold {
            pid: row.try_get::<_, Option<i32>>("pid")?.unwrap_or_default(),
            input: row.text("input")?.unwrap_or_default(),
            moment: row.text("moment")?.unwrap_or_default(),
            held_seconds: row.number("held_time")?.unwrap_or_default() / 1000.0,
        });
    }
    Ok(guard)
}
