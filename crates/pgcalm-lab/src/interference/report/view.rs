//! Layouts for readers: their figures, what these say, where processes hung.

use maud::{Markup, html};
use pgcalm_render::document::{Block, Column, Document, Table};
use pgcalm_render::number::short;

use super::{Layout, Phase, Report, reading};
use crate::report;
use crate::report::{Shown, settings};

/// Size of a drawing of transactions per second, in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 80.0;

/// A heading, and the figure of a phase below it.
type Figure = (&'static str, fn(&Phase) -> f64);

/// Columns whose fall is shown.
const TPS: &str = "TPS";
const FILES: &str = "files\nper s";

/// The columns of the table.
const FIGURES: [Figure; 9] = [
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

impl Shown for Report {
    fn document(&self) -> Document {
        let mut document = report::document(&self.scenario, &self.host, settings::options(&self.settings, &[]));
        document.title = Some("What a capped neighbour does to an instance beside it".to_string());
        document.readings = reading::lines(self);
        document.section("Layouts").table(table(self));
        document.section("Devices").table(devices(self));
        let section = document.section("Transactions per second, and where processes hung");
        for layout in &self.layouts {
            section.heading(&layout.name).text(&layout.description);
            if !layout.mount_options.is_empty() {
                section.note(format!("Mounted with {}", layout.mount_options));
            }
            section.add(Block::Page(drawings(layout)));
            if !layout.hangs.is_empty() {
                section.text("Seen in uninterruptible sleep:").table(hangs(layout));
            }
        }
        document
    }
}

fn table(report: &Report) -> Table {
    let figures = FIGURES.iter().map(|(heading, _)| Column::figures(*heading));
    let mut table = Table::new([Column::text("layout"), Column::text("neighbour")].into_iter().chain(figures));
    for layout in &report.layouts {
        for (name, neighbour, phase) in [(layout.name.as_str(), "idle", &layout.alone), ("", "noisy", &layout.noisy)] {
            let names = [name.to_string(), neighbour.to_string()];
            table.row(names.into_iter().chain(FIGURES.iter().map(|(_, figure)| short(figure(phase)))));
        }
        let factors = FIGURES.iter().map(|(heading, _)| match *heading {
            TPS => reading::factor(layout.tps_factor()),
            FILES => reading::factor(layout.files_factor()),
            _ => String::new(),
        });
        table.row([String::new(), "factor".to_string()].into_iter().chain(factors));
    }
    table
}

fn devices(report: &Report) -> Table {
    let words = ["layout", "neighbour", "device"].map(Column::text);
    let figures = ["writes\nper s", "MB/s\nwritten", "reads\nper s", "MB/s\nread"].map(Column::figures);
    let mut table = Table::new(words.into_iter().chain(figures));
    for layout in &report.layouts {
        for (neighbour, phase) in [("idle", &layout.alone), ("noisy", &layout.noisy)] {
            for rates in &phase.devices {
                let (written, read) = (rates.write_bytes_per_s / 1e6, rates.read_bytes_per_s / 1e6);
                let figures = [rates.writes_per_s, written, rates.reads_per_s, read].map(short);
                table.row([layout.name.clone(), neighbour.into(), rates.device.clone()].into_iter().chain(figures));
            }
        }
    }
    table
}

fn hangs(layout: &Layout) -> Table {
    let words = ["who", "process", "call", "file"].map(Column::text);
    let stack = Column::stack("kernel stack, innermost first");
    let mut table = Table::new(std::iter::once(Column::figures("samples")).chain(words).chain([stack]));
    for hang in &layout.hangs {
        let (call, file) = (hang.call.clone().unwrap_or_default(), hang.file.clone().unwrap_or_default());
        table.row([
            hang.samples.to_string(),
            hang.who.clone(),
            hang.process.clone(),
            call,
            file,
            hang.stack.join("\n"),
        ]);
    }
    table
}

fn drawings(layout: &Layout) -> Markup {
    let top = layout.alone.tps.iter().chain(&layout.noisy.tps).fold(1.0_f64, |top, tps| top.max(*tps));
    html! {
        div.pair {
            @for (name, phase) in [("neighbour idle", &layout.alone), ("neighbour noisy", &layout.noisy)] {
                div.chart {
                    (drawing(phase, top))
                    p.note { (name) ": up to " (short(top)) " transactions per second" }
                }
            }
        }
    }
}

/// A bar for each second.
fn drawing(phase: &Phase, top: f64) -> Markup {
    let width = WIDTH / phase.tps.len().max(1) as f64;
    html! {
        svg.k0 viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" style="width:100%;height:80px"
            role="img" aria-label="transactions per second" {
            path.grid d={ "M0 " (HEIGHT) "H" (WIDTH) } {}
            @for (second, tps) in phase.tps.iter().enumerate() {
                @let height = HEIGHT * tps / top;
                rect x=(format!("{:.2}", second as f64 * width)) y=(format!("{:.2}", HEIGHT - height))
                    width=(format!("{:.2}", width * 0.9)) height=(format!("{height:.2}")) fill="currentColor" {}
            }
        }
    }
}
