//! Instances on one device, for a terminal.

use comfy_table::Cell;
use pgcalm_render::number::printable;
use pgcalm_render::number::short;
use pgcalm_render::text::new_table;
use pgcalm_render::text::paragraph;
use pgcalm_render::text::push_table;
use pgcalm_render::text::right;

use super::Contestant;
use super::Report;
use crate::report::heading::heading;
use crate::report::settings;

/// A row of the comparison: what is told, and the figure.
type Figure = (&'static str, fn(&Contestant) -> String);

/// The rows.
pub(super) const FIGURES: [Figure; 13] = [
    ("TPS of all, mean", |c| short(c.total.tps_mean)),
    ("TPS of all, worst second", |c| short(c.total.tps_min)),
    ("instances with zero seconds", |c| c.instances_zero().to_string()),
    ("zero seconds of all instances", |c| c.seconds_zero().to_string()),
    ("worst second of an instance", |c| short(c.worst_second())),
    ("latency p99, ms", |c| short(c.total.latency_ms.map_or(f64::NAN, |l| l.p99))),
    ("latency p99.9, ms", |c| short(c.total.latency_ms.map_or(f64::NAN, |l| l.p999))),
    ("latency max, ms", |c| short(c.total.latency_ms.map_or(f64::NAN, |l| l.max))),
    ("device writes per second", |c| short(c.total.data_device.write_ops_per_s)),
    ("device MiB/s written", |c| short(c.total.data_device.write_mib_per_s)),
    ("Dirty of the host, most, MiB", |c| short(most(&c.total.series.dirty_mib))),
    ("Writeback of the host, most, MiB", |c| short(most(&c.total.series.writeback_mib))),
    ("checkpoint starts in 5 s, most", |c| c.checkpoints_at_once().to_string()),
];

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The comparison under a heading with the conditions; every line ends in a newline.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    heading(&mut out, &report.scenario, &report.host, &conditions(report));
    out.push('\n');
    let contestants = || report.contestants.iter();
    let mut table = new_table(std::iter::once(Cell::new("")).chain(contestants().map(|c| right(printable(&c.name)))));
    for (name, figure) in FIGURES {
        table.add_row(std::iter::once(Cell::new(name)).chain(contestants().map(|c| right(figure(c)))));
    }
    push_table(&mut out, table, 2);
    out.push('\n');
    for contestant in &report.contestants {
        paragraph(&mut out, &worst(contestant));
    }
    out
}

/// The instances that fared worst.
fn worst(contestant: &Contestant) -> String {
    let mut instances: Vec<_> = contestant.instances.iter().collect();
    instances.sort_by(|a, b| {
        (b.seconds_zero, a.tps_min as u64, a.number).cmp(&(a.seconds_zero, b.tps_min as u64, b.number))
    });
    let named: Vec<String> = instances
        .iter()
        .take(3)
        .map(|instance| {
            format!(
                "#{} ({} s at zero, worst second {}, p99 {} ms)",
                instance.number,
                instance.seconds_zero,
                short(instance.tps_min),
                short(instance.latency_ms.p99)
            )
        })
        .collect();
    format!("{}: worst instances {}", contestant.name, named.join(", "))
}

pub(super) fn conditions(report: &Report) -> Vec<String> {
    settings::options(&report.settings, &["contestants"])
}
