//! Settings, in the units that the server shows them in.

use std::collections::BTreeMap;

use crate::Client;
use postgres::{Error, Row};

use crate::Text;

/// Rows of `pg_settings` by name. That shows no placeholders, so a module's setting is there only if the module has defined it, and
/// none that this role may not see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, Setting>);

/// A row of `pg_settings`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setting {
    /// In `unit`; of a command, which may hold passwords, `set` or nothing.
    pub value: String,
    /// E.g. `8kB`, `ms`; none if it has none.
    pub unit: Option<String>,
    /// When it can be changed: `sighup` by reload, `postmaster` by restart only.
    pub context: String,
    /// Where it comes from, e.g. `configuration file`, `command line`.
    pub source: String,
    /// Values that it can have, if it is one of a list.
    pub values: Vec<String>,
}

/// The setting whose values are not to leave the server.
const SECRET: &str = "archive_command";

impl Settings {
    /// Asks the server for those of `names` that it has.
    pub fn read(client: &mut Client, names: &[&str]) -> Result<Self, Error> {
        Self::of(&client.query(&Self::query(names), &[])?)
    }

    /// What [`Self::read`] asks.
    pub fn query(names: &[&str]) -> String {
        format!(
            "SELECT name, CASE WHEN name <> '{SECRET}' THEN setting WHEN setting IN ('', '(disabled)') THEN '' ELSE 'set' END \
             AS value, unit, context, source, enumvals FROM pg_settings WHERE name IN ('{}')",
            names.join("', '")
        )
    }

    /// Out of its rows.
    pub fn of(rows: &[Row]) -> Result<Self, Error> {
        rows.iter()
            .map(|row| {
                let setting = Setting {
                    value: row.try_get::<_, Option<Text>>("value")?.map_or_else(String::new, |value| value.0),
                    unit: row.try_get("unit")?,
                    context: row.try_get("context")?,
                    source: row.try_get("source")?,
                    values: row.try_get::<_, Option<_>>("enumvals")?.unwrap_or_default(),
                };
                Ok((row.try_get("name")?, setting))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The value, if the server has the setting and shows it.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|setting| setting.value.as_str())
    }

    /// Whether it is on.
    pub fn is_on(&self, name: &str) -> Option<bool> {
        self.text(name).map(|value| value == "on")
    }

    /// A number: an amount in bytes, a time in seconds, anything else as it stands. -1 with a unit, where it stands for
    /// something else than an amount, comes out below 0.
    pub fn number(&self, name: &str) -> Option<f64> {
        let Setting { value, unit, .. } = self.0.get(name)?;
        let factor = match unit.as_deref() {
            Some(unit) => unit_bytes(unit).or_else(|| unit_seconds(unit))?,
            None => 1.0,
        };
        Some(value.parse::<f64>().ok()? * factor)
    }
}

impl IntoIterator for Settings {
    type Item = (String, Setting);
    type IntoIter = <BTreeMap<String, Setting> as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Names, values and units, as a server would tell them.
impl<'a> FromIterator<(&'a str, &'a str, Option<&'a str>)> for Settings {
    fn from_iter<T>(settings: T) -> Self
    where
        T: IntoIterator<Item = (&'a str, &'a str, Option<&'a str>)>,
    {
        let setting = |(name, value, unit): (&str, &str, Option<&str>)| {
            let setting = Setting { value: value.to_string(), unit: unit.map(str::to_string), ..Setting::default() };
            (name.to_string(), setting)
        };
        Self(settings.into_iter().map(setting).collect())
    }
}

/// What a unit of memory stands for, e.g. `8kB`, in bytes.
pub fn unit_bytes(unit: &str) -> Option<f64> {
    let at = unit.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = unit.split_at(at);
    let count: f64 = if count.is_empty() { 1.0 } else { count.parse().ok()? };
    let size = match unit {
        "B" => 1_u64,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    Some(count * size as f64)
}

/// What a unit of time stands for, in seconds.
pub fn unit_seconds(unit: &str) -> Option<f64> {
    match unit {
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        "min" => Some(60.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_bytes_and_seconds() {
        let settings = Settings::from_iter([
            ("shared_buffers", "16384", Some("8kB")),
            ("max_wal_size", "1024", Some("MB")),
            ("wal_segment_size", "16777216", Some("B")),
            ("max_slot_wal_keep_size", "-1", Some("MB")),
            ("wal_writer_delay", "200", Some("ms")),
            ("log_rotation_age", "2", Some("min")),
            ("checkpoint_completion_target", "0.9", None),
            ("wal_compression", "lz4", None),
            ("fsync", "on", None),
        ]);
        assert_eq!(settings.number("shared_buffers"), Some(134_217_728.0));
        assert_eq!(settings.number("max_wal_size"), Some(1_073_741_824.0));
        assert_eq!(settings.number("wal_segment_size"), Some(16_777_216.0));
        assert!(settings.number("max_slot_wal_keep_size").unwrap() < 0.0);
        assert_eq!(settings.number("wal_writer_delay"), Some(0.2));
        assert_eq!(settings.number("log_rotation_age"), Some(120.0));
        assert_eq!(settings.number("checkpoint_completion_target"), Some(0.9));
        assert_eq!(settings.number("wal_compression"), None);
        assert_eq!(settings.number("absent"), None);
        assert_eq!(settings.is_on("fsync"), Some(true));
        assert_eq!(settings.is_on("absent"), None);
    }
}
