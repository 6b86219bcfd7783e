//! The text that Prometheus reads.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::metrics::{Kind, Metric, table};
use crate::model::Host;

/// A sample in OpenMetrics 1.0.
pub fn openmetrics(host: &Arc<Host>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Sample(Arc::clone(host))));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut text, &registry);
    text
}

/// A sample in the older text format, which node_exporter's textfile collector reads: there a counter's `_total` is part of
/// its name, and units are not known.
pub fn classic(host: &Arc<Host>) -> String {
    let mut lines = String::new();
    for line in openmetrics(host).lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(word), Some(name), Some(rest)) if is_counter(name) => {
                lines.push_str(&format!("# {word} {name}_total {rest}\n"));
            }
            _ => {
                lines.push_str(line);
                lines.push('\n');
            }
        }
    }
    lines
}

fn is_counter(name: &str) -> bool {
    table().any(|metric| metric.name == name && metric.kind == Kind::Counter)
}

#[derive(Debug)]
struct Sample(Arc<Host>);

impl Collector for Sample {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for metric in table() {
            encode(metric, &self.0, &mut encoder)?;
        }
        Ok(())
    }
}

fn encode(metric: &Metric, host: &Host, encoder: &mut DescriptorEncoder) -> fmt::Result {
    let points = metric.points(host);
    if points.is_empty() {
        return Ok(());
    }
    // The encoder appends the unit to the name.
    let unit = metric.unit();
    let name = match unit {
        Some(unit) => metric.name.trim_end_matches(unit).trim_end_matches('_'),
        None => metric.name,
    };
    let unit = unit.map(|unit| Unit::Other(unit.to_string()));
    let kind = match metric.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
    };
    let mut family = encoder.encode_descriptor(name, metric.help, unit.as_ref(), kind)?;
    for point in points {
        let encoder = family.encode_family(&point.labels)?;
        match metric.kind {
            Kind::Counter => ConstCounter::new(point.value).encode(encoder)?,
            Kind::Gauge => ConstGauge::new(point.value).encode(encoder)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Archive, ArchiveState, Cap, Caps, Counters, Device, DeviceRates, Identity, Instance, Module};
    use crate::model::{Reachability, Replication, Volume, WalReceiver};
    use pgcalm_host::instance::Role;

    fn host() -> Arc<Host> {
        Arc::new(Host {
            instances: vec![Instance {
                identity: Identity {
                    name: "5432".to_string(),
                    cluster_name: Some("a\"b\\c\nd".to_string()),
                    ..Identity::default()
                },
                reachability: Reachability::Reachable,
                counters: Some(Counters { commits: 42, wal_position_bytes: 1 << 33, ..Counters::default() }),
                ..Instance::default()
            }],
            ..Host::default()
        })
    }

    #[test]
    fn openmetrics_has_units_and_totals_and_escapes_values() {
        let text = openmetrics(&host());
        for line in [
            "# TYPE pgcalm_transactions counter",
            "pgcalm_transactions_total{server=\"5432\",outcome=\"commit\"} 42.0",
            "# UNIT pgcalm_wal_position_bytes bytes",
            "# TYPE pgcalm_up gauge",
            "pgcalm_up{server=\"5432\"} 1.0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(text.contains(r#"cluster="a\"b\\c\nd""#), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn the_older_format_has_totals_in_names() {
        let text = classic(&host());
        assert!(text.contains("# TYPE pgcalm_transactions_total counter\n"));
        assert!(text.contains("# HELP pgcalm_transactions_total "));
        assert!(!text.contains("# UNIT"));
        assert!(!text.contains("# EOF"));
    }

    #[test]
    fn what_is_not_known_has_no_line() {
        let text = openmetrics(&host());
        assert!(!text.contains("pgcalm_connections"));
        for (status, value) in [("streaming", Some(1.0)), ("stopping", Some(0.0)), ("hidden", None)] {
            let receiver = Some(WalReceiver { status: Some(status.to_string()), ..WalReceiver::default() });
            let replication = Some(Replication { receiver, ..Replication::default() });
            let instance = Instance { replication, ..Instance::default() };
            assert_eq!(value_of("pgcalm_receiver_up", instance), value, "{status}");
        }
    }

    /// Nobody but the exporter misses anything, and it may be so for ever.
    #[test]
    fn a_server_that_only_does_not_let_the_exporter_in_is_not_down() {
        for (denied, value) in [(true, None), (false, Some(0.0))] {
            let reachability = Reachability::Unreachable { why: "no".to_string(), closed: false, denied };
            let instance = Instance { reachability, ..Instance::default() };
            assert_eq!(value_of("pgcalm_up", instance), value, "denied: {denied}");
        }
    }

    fn value_of(name: &str, instance: Instance) -> Option<f64> {
        let text = openmetrics(&Arc::new(Host { instances: vec![instance], ..Host::default() }));
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}{{server=\"\"}} ")))?;
        line.parse().ok()
    }

    #[test]
    fn a_cap_that_reads_share_is_of_the_data_s_disk() {
        let volume = |role, disk: &str| Volume { roles: vec![role], disk: Some(disk.to_string()), ..Volume::default() };
        let instance = Instance {
            module: Some(Module { operations_cap: Some(3000), ..Module::default() }),
            volumes: vec![volume(Role::Wal, "sdc"), volume(Role::Data, "sdb")],
            ..Instance::default()
        };
        let text = openmetrics(&Arc::new(Host { instances: vec![instance], ..Host::default() }));
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("pgcalm_volume_operations_cap{")).collect();
        assert_eq!(lines, [r#"pgcalm_volume_operations_cap{server="",device="sdb",role="data"} 3000.0"#]);
    }

    #[test]
    fn against_a_group_s_cap_counts_what_the_group_does_and_against_a_disk_s_what_all_do() {
        let device = |name: &str| Device {
            name: name.to_string(),
            rates: Some(DeviceRates {
                read_operations_per_second: 750.0,
                write_operations_per_second: 2250.0,
                ..DeviceRates::default()
            }),
            ..Device::default()
        };
        let instance = |name: &str, disk: &str, write_operations: Option<Cap>, operations_cap| Instance {
            identity: Identity { name: name.to_string(), ..Identity::default() },
            module: Some(Module { operations_cap, ..Module::default() }),
            volumes: vec![Volume {
                roles: vec![Role::Data, Role::Wal],
                disk: Some(disk.to_string()),
                caps: Caps { write_operations, ..Caps::default() },
                ..Volume::default()
            }],
            ..Instance::default()
        };
        let tenant = |used_per_second| Cap { per_second: 60, device: "8:16".into(), used_per_second, ..Cap::default() };
        let of_disk = Some(Cap { per_second: 3000, ..Cap::default() });
        let host = Host {
            devices: vec![device("sdb"), device("sdc")],
            instances: vec![
                instance("tenant", "sdb", Some(tenant(Some(45.0))), None),
                instance("unseen", "sdb", Some(tenant(None)), None),
                instance("beside", "sdb", of_disk.clone(), Some(3000)),
                instance("one", "sdc", of_disk.clone(), Some(3000)),
                instance("other", "sdc", of_disk, Some(3000)),
            ],
            ..Host::default()
        };
        let text = openmetrics(&Arc::new(host));
        let used: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("pgcalm_volume_cap_used_ratio")).collect();
        assert_eq!(
            used,
            [
                r#"{server="tenant",device="sdb",kind="write-iops"} 0.75"#,
                r#"{server="one",device="sdc",kind="write-iops"} 0.75"#,
                r#"{server="one",device="sdc",kind="iops"} 1.0"#,
                r#"{server="other",device="sdc",kind="write-iops"} 0.75"#,
                r#"{server="other",device="sdc",kind="iops"} 1.0"#,
            ]
        );
    }

    /// The server keeps what it counted: of a former primary, and of one whose archiving was switched off.
    #[test]
    fn an_archive_that_is_off_does_not_fail() {
        for (state, value) in [(ArchiveState::Off, 0.0), (ArchiveState::Other, 1.0)] {
            let archive = Some(Archive { state, failing: true, ..Archive::default() });
            let instance = Instance { archive, ..Instance::default() };
            assert_eq!(value_of("pgcalm_archive_failing", instance), Some(value));
        }
    }
}
