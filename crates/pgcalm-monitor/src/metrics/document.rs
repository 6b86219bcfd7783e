//! Keeps docs/reference/metrics.md, the dashboard and the alert rules in step with the table.
//!
//! `UPDATE_METRICS=1 cargo test -p pgcalm-monitor metrics` rewrites docs/reference/metrics.md after a change of the table.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::metrics::{Kind, Metric, Read, SERVER, table};

const HEAD: &str = "# Metrics of `pgcalm export`

What [`pgcalm export`](../operate/monitoring.md) gives, in OpenMetrics 1.0. A metric that can't be read has no line: `pgcalm_missing` says
what is missing. `server` names the instance: its port, with a directory appended where several have that port (and a
container's host name before it), or `HOST:PORT` of a connection string. (`instance` is Prometheus's own label for what it scrapes.) All labels are bounded: no
metric has a query, a user, a database, or a name of a standby or slot.

| metric | type | labels | meaning |
|---|---|---|---|
";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// As Prometheus names its samples.
fn sample_name(metric: &Metric) -> String {
    match metric.kind {
        Kind::Counter => format!("{}_total", metric.name),
        Kind::Gauge => metric.name.to_string(),
    }
}

fn row(metric: &Metric) -> String {
    let server = match metric.read {
        Read::Instance(_) => Some(&SERVER),
        Read::Host(_) => None,
    };
    let labels: Vec<String> = server.into_iter().chain(metric.labels).map(|label| format!("`{label}`")).collect();
    format!(
        "| `{}` | {} | {} | {} |\n",
        sample_name(metric),
        match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        },
        labels.join(", "),
        metric.help
    )
}

#[test]
fn docs_metrics_lists_the_table() {
    let text: String = std::iter::once(HEAD.to_string()).chain(table().map(row)).collect();
    let file = docs().join("reference/metrics.md");
    if std::env::var_os("UPDATE_METRICS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap() == text,
        "docs/reference/metrics.md is not the table's: UPDATE_METRICS=1 cargo test -p pgcalm-monitor metrics"
    );
}

#[test]
fn names_follow_the_conventions_and_are_unique() {
    let mut seen = BTreeSet::new();
    for metric in table() {
        assert!(metric.name.starts_with("pgcalm_"), "{}", metric.name);
        assert!(!metric.name.ends_with("_total"), "{}", metric.name);
        assert!(metric.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", metric.name);
        assert!(seen.insert(metric.name), "{} is there twice", metric.name);
        assert!(!metric.help.ends_with('.'), "{}", metric.help);
        for label in metric.labels {
            assert!(!["query", "user", "database", "instance", "job"].contains(label), "{}: {label}", metric.name);
        }
    }
}

/// Words that begin like a metric.
fn named_in(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("pgcalm_")).collect()
}

#[test]
fn dashboard_and_rules_name_metrics_that_there_are() {
    let known: BTreeSet<String> = table().map(sample_name).collect();
    for (name, least) in [("pgcalm.json", 25), ("alerts.yml", 10), ("alerts_test.yml", 10)] {
        let text = std::fs::read_to_string(docs().join("dashboards").join(name)).unwrap();
        let used = named_in(&text);
        let unknown: Vec<&&str> = used.iter().filter(|word| !known.contains(**word)).collect();
        assert!(unknown.is_empty(), "docs/dashboards/{name} names {unknown:?}");
        assert!(used.len() >= least, "docs/dashboards/{name} names {used:?} only");
    }
}

#[test]
fn rules_name_states_that_there_are() {
    let metric = table().find(|metric| metric.name == "pgcalm_module_degraded_state").unwrap();
    let rules = std::fs::read_to_string(docs().join("dashboards/alerts.yml")).unwrap();
    for selector in rules.split("pgcalm_module_degraded_state{state").skip(1) {
        let states = selector.split('"').nth(1).unwrap().split('|');
        states.for_each(|state| assert!(metric.help.contains(state), "{state}"));
    }
}

#[test]
fn each_alert_rule_has_a_unit_test() {
    let read = |name: &str| std::fs::read_to_string(docs().join("dashboards").join(name)).unwrap();
    let tests = read("alerts_test.yml");
    for line in read("alerts.yml").lines() {
        if let Some((_, alert)) = line.split_once("- alert: ") {
            assert!(
                tests.contains(&format!("alertname: {alert}\n")),
                "docs/dashboards/alerts_test.yml has no test of {alert}"
            );
        }
    }
}
