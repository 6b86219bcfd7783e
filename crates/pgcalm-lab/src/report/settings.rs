//! The options of a run and its machine, as a reader wants them.

use std::collections::BTreeMap;

use pgcalm_render::number::short;
use serde_json::Value;

use crate::report::Host;

/// The value as it is shown: strings without quotes, lists joined.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The options of a run, one phrase each, but those that are told elsewhere.
pub(crate) fn options(settings: &BTreeMap<String, Value>, but: &[&str]) -> Vec<String> {
    settings
        .iter()
        .filter(|(name, _)| !but.contains(&name.as_str()))
        .map(|(name, value)| (name, shown(value)))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name} {value}"))
        .collect()
}

/// The machine, one phrase each.
pub(crate) fn host(host: &Host) -> Vec<String> {
    let mut phrases = machine(host);
    phrases.push(format!("caps by {}", host.cap_mechanism));
    phrases
}

/// Server, kernel and machine, without the caps.
pub(crate) fn machine(host: &Host) -> Vec<String> {
    let mut phrases = vec![
        host.postgres.clone(),
        format!("Linux {}", host.kernel),
        format!("{} CPUs", host.cpus),
        format!("{} GiB", short(host.memory_mib as f64 / 1024.0)),
    ];
    if !host.pgcalm.is_empty() {
        phrases.push(format!("pgcalm {}", host.pgcalm));
    }
    phrases.extend(host.module.as_deref().map(|module| format!("pg_calm {}", build(module))));
    phrases
}

/// A build by as much of its sum as tells it from others.
pub(crate) fn build(sum: &str) -> String {
    sum.chars().take(12).collect()
}

/// `PostgreSQL 15.20` of `PostgreSQL 15.20 (Debian 15.20-0+deb12u1)`.
pub(crate) fn server(version: &str) -> String {
    let (version, _) = version.split_once(" (").unwrap_or((version, ""));
    version.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_shown_plainly() {
        assert_eq!(shown(&json!("ext4")), "ext4");
        assert_eq!(shown(&json!(["stock", "pg_calm"])), "stock, pg_calm");
        assert_eq!(shown(&json!(null)), "none");
        assert_eq!(shown(&json!(4)), "4");
    }
}
