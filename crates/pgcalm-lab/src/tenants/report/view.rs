//! Instances on one device for readers: all together, and each of them.

use pgcalm_render::document::{Block, Column, Document, Table};
use pgcalm_render::number::short;

use super::{Contestant, Report, Stall};
use crate::contest::report::view::{charts, scripts};
use crate::contest::report::{reading, tables};
use crate::report;
use crate::report::{Shown, settings, style};

/// A row of the comparison: what is told, and the figure.
type Figure = (&'static str, fn(&Contestant) -> String);

/// The rows.
const FIGURES: [Figure; 15] = [
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
    ("checkpoints begun, of all instances", |c| checkpoints(c).sum::<usize>().to_string()),
    ("checkpoints begun, fewest of an instance", |c| checkpoints(c).min().unwrap_or(0).to_string()),
];

fn checkpoints(contestant: &Contestant) -> impl Iterator<Item = usize> {
    contestant.instances.iter().map(|instance| instance.checkpoint_starts_s.len())
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

impl Shown for Report {
    fn document(&self) -> Document {
        let contest = self.as_contest();
        let conditions = settings::options(&self.settings, &["contestants"]);
        let mut document = report::document(&self.scenario, &self.host, conditions);
        let zero = |c: &Contestant| {
            format!("{}: {} of {} instances with zero seconds", c.name, c.instances_zero(), c.instances.len())
        };
        document.title = Some(self.contestants.iter().map(zero).collect::<Vec<_>>().join(", "));
        document.readings = self.contestants.iter().map(worst).collect();
        document.readings.extend(contest.contestants.iter().filter_map(reading::caps_lifted));
        document.section("Comparison").table(comparison(self));
        for contestant in &self.contestants {
            if let Some(stall) = &contestant.stall {
                let (seconds, tps) = (stall.seconds, short(stall.tps_mean));
                document
                    .section(&format!("{}: its processes in its worst {seconds} s ({tps} TPS of all)", contestant.name))
                    .table(processes(stall, self.is_shared()));
            }
        }
        document.sections.push(charts(&contest));
        document
            .section("Instances")
            .on_page()
            .note("Worst second in transactions, seconds at zero, and 99th percentile of the latency.")
            .table(instances(self));
        document.section("Contestants").on_page().blocks = tables::contestants(&contest);
        document.section("Blocked processes").on_page().blocks = tables::blocked(&contest);
        document.section("Host").on_page().add(Block::Table(tables::host(&contest)));
        document.scripts = Some(scripts(&contest));
        document
    }

    fn completed(mut self) -> Self {
        for contestant in &mut self.contestants {
            contestant.total.complete();
        }
        self
    }
}

/// A table with a column for each contestant.
fn by_contestant(report: &Report, first: &str) -> Table {
    let styles = style::assign(report.contestants.iter().map(|c| c.name.as_str()));
    let named = report.contestants.iter().zip(styles);
    let columns = named.map(|(c, style)| Column { class: Some(style.class()), ..Column::figures(&c.name) });
    Table::new(std::iter::once(Column::text(first)).chain(columns))
}

fn comparison(report: &Report) -> Table {
    let mut table = by_contestant(report, "");
    for (name, figure) in FIGURES {
        table.row(std::iter::once(name.to_string()).chain(report.contestants.iter().map(figure)));
    }
    table
}

fn instances(report: &Report) -> Table {
    let mut table = by_contestant(report, "instance");
    for index in 0..report.contestants.iter().map(|c| c.instances.len()).max().unwrap_or(0) {
        let of = |contestant: &Contestant| match contestant.instances.get(index) {
            Some(i) => format!("{}, {} s, {} ms", short(i.tps_min), i.seconds_zero, short(i.latency_ms.p99)),
            None => String::new(),
        };
        table.row(std::iter::once((index + 1).to_string()).chain(report.contestants.iter().map(of)));
    }
    table
}

/// What a host with a hundred instances on two shared file systems showed while it stood still, in 2016, before PostgreSQL 15 did
/// without a statistics collector.
const STUDY: [(&str, &str); 6] = [
    ("checkpointer", "D, ext4_file_write"),
    ("background writer", "D, start_this_handle"),
    ("logger", "D, start_this_handle"),
    ("autovacuum launcher", "not told; statistics collector: D, start_this_handle"),
    ("client backend", "D"),
    ("walwriter", "S"),
];

fn processes(stall: &Stall, beside_study: bool) -> Table {
    let headings = [Column::text("process"), Column::figures("samples")];
    let states = ["D %", "S %", "R %"].map(Column::figures);
    let study = beside_study.then(|| Column::text("in the study"));
    let mut table =
        Table::new(headings.into_iter().chain(states).chain([Column::text("waits most often in")]).chain(study));
    for role in &stall.roles {
        let percent = |part: u32| short(f64::from(part) * 100.0 / f64::from(role.samples));
        let waits = role.waits.iter().map(|wait| {
            let state = if wait.blocked { "D" } else { "S" };
            format!("{state} {} %: {}", percent(wait.samples), wait.stack.join(" < "))
        });
        let of_study = || STUDY.iter().find(|(name, _)| *name == role.name).map_or("", |(_, told)| *told);
        table.row(
            [role.name.clone(), role.samples.to_string()]
                .into_iter()
                .chain([role.blocked, role.sleeping, role.running].map(percent))
                .chain([waits.collect::<Vec<_>>().join("\n")])
                .chain(beside_study.then(|| of_study().to_string())),
        );
    }
    table
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
