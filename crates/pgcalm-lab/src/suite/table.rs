//! What the tables of rows and of matrices have alike.

use toml::{Table, Value};

use super::{Given, Level};

/// What a suite runs unless it says so.
const SCENARIO: &str = "checkpoint";

/// What rows have unless they say so.
#[derive(Debug)]
pub(super) struct Defaults {
    /// What is run.
    pub(super) scenario: String,
    options: Level,
}

impl Defaults {
    /// From the table of the file.
    pub(super) fn of(mut table: Table) -> Result<Self, String> {
        let scenario = text(&mut table, "scenario")?.unwrap_or_else(|| SCENARIO.to_string());
        Ok(Self { scenario, options: level(table)? })
    }

    /// Options of rows that run `scenario`: none of another than the defaults are of, since each has its own.
    pub(super) fn level(&self, scenario: &str) -> Level {
        if scenario == self.scenario { self.options.clone() } else { Level::new() }
    }
}

/// Takes the text `key` out of the table.
pub(super) fn text(table: &mut Table, key: &str) -> Result<Option<String>, String> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{key}: give a text")),
    }
}

/// All that is in the table, as options.
pub(super) fn level(table: Table) -> Result<Level, String> {
    table
        .into_iter()
        .map(|(name, value)| {
            let given = Given::from_toml(&name, &value)?;
            Ok((name, given))
        })
        .collect()
}

/// It becomes the name of a file.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(fits) {
        return Err(format!(
            "name {name:?}: use letters, digits, '.', '_' and '-', and begin with a letter, digit or '_'"
        ));
    }
    Ok(())
}
