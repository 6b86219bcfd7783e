//! Instances on one device, for a terminal.

use comfy_table::Cell;
use comfy_table::CellAlignment;
use comfy_table::Table;
use comfy_table::TableComponent;
use comfy_table::presets::NOTHING;

use super::Contestant;
use super::Report;
use crate::number::printable;
use crate::number::short;
use crate::settings;
use crate::text::paragraph;

/// A row of the comparison: what is told, and the figure.
type Figure = (&'static str, fn(&Contestant) -> String);

/// The rows.
pub(super) const FIGURES: [Figure; 13] = [
    ("TPS of all, mean", |c| short(c.total.tps_mean)),
    ("TPS of all, worst second", |c| short(c.total.tps_min)),
    ("instances with zero seconds", |c| {
        c.instances_zero().to_string()
    }),
    ("zero seconds of all instances", |c| {
        c.seconds_zero().to_string()
    }),
    ("worst second of an instance", |c| short(c.worst_second())),
    ("latency p99, ms", |c| short(c.total.latency_ms.p99)),
    ("latency p99.9, ms", |c| short(c.total.latency_ms.p999)),
    ("latency max, ms", |c| short(c.total.latency_ms.max)),
    ("device writes per second", |c| {
        short(c.total.data_device.write_ops_per_s)
    }),
    ("device MiB/s written", |c| {
        short(c.total.data_device.write_mib_per_s)
    }),
    ("Dirty of the host, most, MiB", |c| {
        short(most(&c.total.series.dirty_mib))
    }),
    ("Writeback of the host, most, MiB", |c| {
        short(most(&c.total.series.writeback_mib))
    }),
    ("checkpoint starts in 5 s, most", |c| {
        c.checkpoints_at_once().to_string()
    }),
];

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The comparison under a heading with the conditions; every line ends in a newline.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    paragraph(
        &mut out,
        &format!("{}, {}", report.scenario, report.host.started_at),
    );
    paragraph(&mut out, &conditions(report).join("; "));
    paragraph(&mut out, &settings::host(&report.host).join("; "));
    out.push('\n');
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_style(TableComponent::HeaderLines, '─')
        .set_header(
            std::iter::once(Cell::new("")).chain(report.contestants.iter().map(|contestant| {
                Cell::new(printable(&contestant.name)).set_alignment(CellAlignment::Right)
            })),
        );
    for (name, figure) in FIGURES {
        table.add_row(std::iter::once(Cell::new(name)).chain(
            report.contestants.iter().map(|contestant| {
                Cell::new(figure(contestant)).set_alignment(CellAlignment::Right)
            }),
        ));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { 2 }, 0));
    }
    for line in table.to_string().lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
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
        (b.seconds_zero, a.tps_min as u64, a.number).cmp(&(
            a.seconds_zero,
            b.tps_min as u64,
            b.number,
        ))
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
    report
        .settings
        .iter()
        .filter(|(name, _)| *name != "contestants")
        .map(|(name, value)| (name, settings::shown(value)))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name} {value}"))
        .collect()
}
