//! pg_calm itself, where it is loaded.

use pgcalm_report::doctor::facts::Facts;
use pgcalm_report::doctor::facts::PgCalm;

use crate::rules::found::Answer;
use crate::rules::found::Found;
use crate::rules::found::Unknown;
use crate::rules::found::when;
use crate::rules::read;
use crate::words;

pub fn degraded(facts: &Facts) -> Answer {
    let Some(calm) = with_views(facts)? else {
        return Ok(None);
    };
    Ok(calm.degraded.as_ref().map(|why| {
        Found::new(format!(
            "pg_calm_status: mode {}, degraded: {why}",
            calm.mode
        ))
        .run("SELECT mode, degraded, caps_source FROM pg_calm_status;")
    }))
}

pub fn map_full(facts: &Facts) -> Answer {
    let Some(calm) = with_views(facts)? else {
        return Ok(None);
    };
    let server = read::server(facts)?;
    let memory = read::bytes(server, "pg_calm.page_map_memory")?.unwrap_or(0);
    when(calm.map_full > 0, || {
        Found::new(format!(
            "regions and files without room in the map since the server started: {}; pg_calm.page_map_memory is {}",
            calm.map_full,
            words::size(memory)
        ))
        .set(
            server,
            "pg_calm.page_map_memory",
            words::setting_size(memory * 2),
        )
    })
}

fn with_views(facts: &Facts) -> Result<Option<&PgCalm>, Unknown> {
    match &read::server(facts)?.pg_calm {
        Some(calm) if !calm.has_views => Err(
            "pg_calm's views are not in the database of the connection: CREATE EXTENSION pg_calm"
                .into(),
        ),
        calm => Ok(calm.as_ref()),
    }
}
