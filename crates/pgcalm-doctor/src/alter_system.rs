//! Settings in postgresql.auto.conf.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pgcalm_postgres::Client;

use crate::words;

/// Why a session may not use ALTER SYSTEM.
pub(crate) const NOT_ALLOWED: &str =
    "the role of the connection is no superuser (give one with --connect), or allow_alter_system is off";

/// How long a reload may take until this session sees it: the postmaster passes the signal on at its next turn.
const RELOAD: Duration = Duration::from_secs(30);

/// Whether the role of the session may use ALTER SYSTEM, which an operator may have switched off, and read what it has set.
pub(crate) fn is_allowed(client: &mut Client) -> anyhow::Result<bool> {
    let row = client.query_one(
        "SELECT current_setting('is_superuser') = 'on' \
         AND coalesce(current_setting('allow_alter_system', true), 'on') = 'on'",
        &[],
    )?;
    Ok(row.get(0))
}

/// What postgresql.auto.conf has for a setting; `None` if it has no such line. Needs a superuser, as ALTER SYSTEM does.
pub(crate) fn former(client: &mut Client, name: &str) -> anyhow::Result<Option<String>> {
    // The last line of a name holds.
    let row = client.query_opt(
        "SELECT setting FROM pg_file_settings \
         WHERE name = $1 AND sourcefile = current_setting('data_directory') || '/postgresql.auto.conf' \
         ORDER BY sourceline DESC LIMIT 1",
        &[&name],
    )?;
    Ok(row.map(|row| row.get(0)))
}

/// Sets it, or takes it out.
pub(crate) fn set(client: &mut Client, name: &str, value: Option<&str>) -> anyhow::Result<()> {
    // The server quotes: %I and %L hold for whatever stands in a name or a value. A name with a dot is two identifiers.
    let quoted: String = client
        .query_one(
            "SELECT string_agg(quote_ident(part), '.' ORDER BY at) \
             FROM unnest(string_to_array($1, '.')) WITH ORDINALITY AS parts (part, at)",
            &[&name],
        )?
        .get(0);
    let command: String = match value {
        Some(value) => client
            .query_one("SELECT format('ALTER SYSTEM SET %s = %L', $1::text, $2::text)", &[&quoted, &value])?
            .get(0),
        None => format!("ALTER SYSTEM RESET {quoted}"),
    };
    client.batch_execute(&command).with_context(|| command.clone())
}

/// Lets the server read its files again and waits until `expected` holds: settings that were set, with their values.
pub(crate) fn reload(client: &mut Client, expected: &[(String, String)]) -> anyhow::Result<()> {
    client.batch_execute("SELECT pg_reload_conf()")?;
    let end = Instant::now() + RELOAD;
    for (name, value) in expected {
        loop {
            let row = client.query_one("SELECT setting, unit, source FROM pg_settings WHERE name = $1", &[name])?;
            let (setting, unit): (String, Option<String>) = (row.get(0), row.get(1));
            if setting == words::in_unit(value, unit.as_deref()) || is_same_number(&setting, value) {
                break;
            }
            if Instant::now() > end {
                let source: String = row.get(2);
                bail!(
                    "{name} is {setting} ({source}) after the reload, not {value}: something else sets it; see \
                     pg_settings and pg_file_settings"
                );
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// `0.90` and `0.9` are.
fn is_same_number(setting: &str, value: &str) -> bool {
    match (setting.parse::<f64>(), value.parse::<f64>()) {
        (Ok(setting), Ok(value)) => setting == value,
        _ => false,
    }
}
