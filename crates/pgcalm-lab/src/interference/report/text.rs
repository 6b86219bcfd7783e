//! Layouts for a terminal.

use comfy_table::Cell;
use comfy_table::Table;
use pgcalm_render::number::printable;
use pgcalm_render::number::short;
use pgcalm_render::text::new_table;
use pgcalm_render::text::paragraph;
use pgcalm_render::text::push_table;
use pgcalm_render::text::right;

use super::Hang;
use super::Layout;
use super::Phase;
use super::Report;
use super::reading;
use crate::report::heading::heading;
use crate::report::settings;

/// Places shown for each layout.
const HANGS: usize = 4;

/// A heading, and the figure of a phase below it.
type Figure = (&'static str, fn(&Phase) -> f64);

/// Columns whose fall is shown.
const TPS: &str = "TPS";
const FILES: &str = "files\nper s";

/// The columns of the table.
pub(super) const FIGURES: [Figure; 9] = [
    (TPS, |phase| phase.tps_mean),
    ("worst\nsecond", |phase| phase.tps_min),
    ("zero\ns", |phase| f64::from(phase.seconds_zero)),
    ("p99\nms", |phase| phase.latency_ms.p99),
    ("max\nms", |phase| phase.latency_ms.max),
    ("longest\nconnect ms", |phase| phase.connect_max_ms),
    ("longest, cold\nrelcache ms", |phase| phase.cold_connect_max_ms),
    (FILES, |phase| phase.files_per_s),
    ("longest\nfile ms", |phase| phase.file_max_ms),
];

/// The table under a heading with the conditions, then what it says in words and where the victim hung.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    heading(&mut out, &report.scenario, &report.host, &conditions(report));
    out.push('\n');
    if !report.layouts.is_empty() {
        push_table(&mut out, table(report), 2);
        out.push('\n');
    }
    for line in reading::lines(report) {
        paragraph(&mut out, &line);
    }
    for layout in &report.layouts {
        hangs(&mut out, layout);
    }
    out
}

pub(super) fn conditions(report: &Report) -> Vec<String> {
    settings::options(&report.settings, &[])
}

fn table(report: &Report) -> Table {
    let mut table = new_table(
        [Cell::new("layout"), Cell::new("neighbour")]
            .into_iter()
            .chain(FIGURES.iter().map(|(heading, _)| right(heading))),
    );
    for layout in &report.layouts {
        for (name, neighbour, phase) in [(layout.name.as_str(), "idle", &layout.alone), ("", "noisy", &layout.noisy)] {
            table.add_row(
                [Cell::new(printable(name)), Cell::new(neighbour)]
                    .into_iter()
                    .chain(FIGURES.iter().map(|(_, figure)| right(short(figure(phase))))),
            );
        }
        table.add_row([Cell::new(""), Cell::new("factor")].into_iter().chain(FIGURES.iter().map(|(heading, _)| {
            match *heading {
                TPS => right(reading::factor(layout.tps_factor())),
                FILES => right(reading::factor(layout.files_factor())),
                _ => right(""),
            }
        })));
    }
    table
}

fn hangs(out: &mut String, layout: &Layout) {
    if layout.hangs.is_empty() {
        return;
    }
    out.push('\n');
    paragraph(out, &format!("{}: seen in uninterruptible sleep", layout.name));
    for who in ["victim", "login", "neighbour", "kernel"] {
        for hang in layout.hangs.iter().filter(|hang| hang.who == who).take(HANGS) {
            paragraph(out, &format!("  {}", line(hang)));
        }
    }
}

fn line(hang: &Hang) -> String {
    let mut text = format!("{:>4}  {} {}", hang.samples, hang.who, hang.process);
    if let Some(call) = &hang.call {
        text.push_str(&format!(", {call}"));
    }
    if let Some(file) = &hang.file {
        text.push_str(&format!(" of a {file}"));
    }
    text.push_str(&format!(": {}", hang.stack.join(" < ")));
    text
}
