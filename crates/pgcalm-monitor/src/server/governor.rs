//! pg_calm's governor and the sessions that it holds.

use postgres::Error;

use crate::model::Governor;
use crate::model::GovernorHold;
use crate::model::GovernorInput;
use crate::server::session::Columns;
use crate::server::session::Session;

/// pg_calm_governor and pg_calm_governor_holds.
pub fn ask(session: &mut Session, schema: &str) -> Result<Governor, Error> {
    let mut governor = Governor::default();
    for row in session.rows(&format!("SELECT * FROM {schema}.pg_calm_governor"))? {
        governor.wal_bytes_per_second = row.number("wal_rate")?;
        governor.allowed_bytes_per_second = row.number("total_allowed_rate")?;
        governor.inputs.push(GovernorInput {
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
    for row in session.rows(&format!("SELECT * FROM {schema}.pg_calm_governor_holds ORDER BY since"))? {
        governor.holds.push(GovernorHold {
            pid: row.try_get::<_, Option<i32>>("pid")?.unwrap_or_default(),
            input: row.text("input")?.unwrap_or_default(),
            moment: row.text("moment")?.unwrap_or_default(),
            held_seconds: row.number("held_time")?.unwrap_or_default() / 1000.0,
        });
    }
    Ok(governor)
}
