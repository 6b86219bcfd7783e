//! The options of a contest as a reader wants them: caps as numbers, conditions as a few words.
//!
//! `Report::settings` holds JSON values because each scenario has its own options. A cap may be a number, a
//! string with a unit (`125MB`, which is 125 MiB as on the command line), or absent, null, `none` or 0 where there is none.

use pgcalm_host::quantity::SIZE;
use pgcalm_render::number::{short, trimmed};
use serde_json::Value;

use crate::contest::report::{CapKind, Report};
use crate::report::settings::{build, server, shown};

/// Bytes.
pub(crate) const MIB: f64 = 1048576.0;

/// Cap on operations per second.
pub(crate) fn iops(report: &Report, option: &str) -> Option<f64> {
    quantity(report.settings.get(option)?)
}

/// Cap on bandwidth in bytes per second, or a size in bytes.
pub(crate) fn bytes(report: &Report, option: &str) -> Option<f64> {
    quantity(report.settings.get(option)?)
}

/// The caps and the other conditions of the run, one phrase each; options that the run does not have are left out.
pub(crate) fn conditions(report: &Report) -> Vec<String> {
    let mut phrases = Vec::new();
    phrases.extend(Some(report.cap.description.clone()).filter(|text| !text.is_empty()));
    phrases.extend(report.cap.memory.clone());
    // What is said of a volume like a cloud's is all that there is to it.
    if report.cap.kind != CapKind::CloudVolume {
        phrases.push(volume(report, "data volume", "data-iops", "data-bps", Some("data-max-io")));
        phrases.push(volume(report, "WAL volume", "wal-iops", "wal-bps", None));
    }
    let text = |option: &str| {
        let value = report.settings.get(option).filter(|value| !value.is_null())?;
        Some(shown(value)).filter(|text| !text.is_empty())
    };
    // A bare number of seconds needs its unit; `60s` and `5min` have one.
    let seconds = |option: &str| {
        let text = text(option)?;
        let bare = text.chars().all(|c| c.is_ascii_digit());
        Some(if bare { format!("{text} s") } else { text })
    };
    // Those that lie on a disk are the rule.
    phrases.extend(text("devices").filter(|store| store == "memory").map(|store| format!("both in {store}")));
    phrases.extend(text("fs"));
    phrases.extend(text("stack").filter(|stack| stack != "none").map(|stack| format!("on {stack}")));
    phrases.extend(text("read-ahead").map(|size| format!("read-ahead {size}")));
    phrases.extend(text("sysctl").map(|profile| format!("{profile} sysctls")));
    phrases.extend(text("shared-buffers").map(|size| format!("shared_buffers {size}")));
    // Upserts are the rule.
    phrases.extend(text("load").filter(|load| load != "upsert").map(|load| format!("load {load}")));
    phrases.extend(text("table-size").filter(|size| size != "none").map(|size| format!("{size} of tables")));
    phrases.extend(text("rows").map(|rows| format!("{} rows", rows.parse().map_or(rows, short))));
    phrases.extend(text("distribution").map(|name| format!("{name} keys")));
    phrases.extend(text("clients").map(|clients| format!("{clients} clients")));
    // As fast as they go is the rule.
    phrases.extend(iops(report, "rate").map(|rate| format!("{} transactions/s begun", whole(rate))));
    phrases.extend(seconds("checkpoint-timeout").map(|time| format!("checkpoint_timeout {time}")));
    phrases.extend(seconds("seconds").map(|time| format!("{time} measured")));
    phrases.extend(text("trouble").map(|names| format!("trouble {names}")));
    // What was set beside all that, for all contestants or for one of them.
    phrases.extend(text("set"));
    phrases.extend(text("set-contestant"));
    phrases
}

/// The same for a picture, which has little room: where it was measured stands before what can be cut off.
pub(crate) fn caption(report: &Report) -> String {
    let mut phrases = conditions(report);
    if report.cap.kind == CapKind::CloudVolume
        && let Some(first) = phrases.first_mut()
        && let Some((volume, _limits)) = first.split_once(':')
    {
        *first = volume.to_string();
    }
    let file_system = report.settings.get("fs").map(shown).unwrap_or_default();
    let place = phrases.iter().position(|phrase| *phrase == file_system);
    let day = report.host.started_at.chars().take(10).collect();
    let host = [
        Some(server(&report.host.postgres)),
        Some(format!("Linux {}", report.host.kernel)),
        Some(day),
        report.host.module.as_deref().map(|module| format!("pg_calm {}", build(module))),
        Some(format!("pgcalm {}", report.host.pgcalm)),
    ];
    let place = place.unwrap_or(phrases.len());
    phrases.splice(place..place, host.into_iter().flatten());
    phrases.join(", ")
}

fn volume(report: &Report, name: &str, iops_option: &str, bps_option: &str, max_io_option: Option<&str>) -> String {
    let mut caps = Vec::new();
    caps.extend(iops(report, iops_option).map(|iops| format!("{} write IOPS", whole(iops))));
    caps.extend(bytes(report, bps_option).map(bandwidth));
    if caps.is_empty() {
        return format!("{name} uncapped");
    }
    let max_io = max_io_option.and_then(|option| bytes(report, option));
    let per_operation =
        max_io.map_or_else(String::new, |size| format!(" ({} KiB per operation)", trimmed(size / 1024.0)));
    format!("{name} {}{per_operation}", caps.join(" + "))
}

/// A bandwidth in the unit of the charts.
pub(crate) fn bandwidth(bytes: f64) -> String {
    format!("{} MiB/s", trimmed(bytes / MIB))
}

/// Caps are exact: 12500 is not "12.5k".
pub(crate) fn whole(value: f64) -> String {
    if value.abs() < 1e12 { format!("{value:.0}") } else { short(value) }
}

/// A cap or a size as the run wrote it: a number, or what [`SIZE`] reads.
fn quantity(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => SIZE.read(text).ok()? as f64,
        _ => return None,
    };
    (number.is_finite() && number > 0.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use pgcalm_host::quantity::{Limit, Size};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_run_writes_of_a_cap_is_read_as_what_capped_it() {
        for bytes in [131_072_000, 125_000_000, 256 << 10, 1 << 30, 800] {
            let written = serde_json::to_value(Limit(Some(Size(bytes)))).unwrap();
            assert_eq!(quantity(&written), Some(bytes as f64), "{written}");
        }
        assert_eq!(quantity(&json!(800)), Some(800.0));
        for none in [json!(null), json!(0), json!("none"), json!(""), json!(-1), json!("1e999"), json!(true), json!([])]
        {
            assert_eq!(quantity(&none), None, "{none}");
        }
    }
}
