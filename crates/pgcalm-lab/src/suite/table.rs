//! What the tables of rows and of matrices have alike.

use toml::{Table, Value};

use super::{Given, Level};

/// What a row runs unless it says so.
pub(super) const SCENARIO: &str = "checkpoint";

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
