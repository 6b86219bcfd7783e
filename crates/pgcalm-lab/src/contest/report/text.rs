//! The comparison for a terminal.

use comfy_table::Cell;
use comfy_table::ColumnConstraint;
use comfy_table::ContentArrangement;
use comfy_table::Width;
use pgcalm_render::number::MISSING;
use pgcalm_render::number::printable;
use pgcalm_render::number::short;
use pgcalm_render::text::WIDTH;
use pgcalm_render::text::new_table;
use pgcalm_render::text::paragraph;
use pgcalm_render::text::push_lines;
use pgcalm_render::text::right;

use crate::contest::report::Contestant;
use crate::contest::report::Report;
use crate::contest::report::conditions;
use crate::contest::report::metric;
use crate::contest::report::metric::Group;
use crate::contest::report::metric::Metric;
use crate::contest::report::metric::TPS_MEAN;
use crate::contest::report::reading;
use crate::report::settings;

/// Longer names are wrapped, so that the figures stay on one line.
const NAME_WIDTH: u16 = 16;

/// The comparison table under a heading with the conditions, and what it says in words; every line ends in a newline.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    let heading = format!("{}, {}", report.scenario, report.host.started_at);
    paragraph(&mut out, &heading);
    paragraph(&mut out, &conditions::conditions(report).join("; "));
    paragraph(&mut out, &settings::machine(&report.host).join("; "));
    out.push('\n');
    if !report.contestants.is_empty() {
        // All figures don't fit beside one another: what clients see, then what the server did to its volumes, then how
        // checkpoints begin.
        let (start, others): (Vec<_>, Vec<_>) =
            metric::shown(&report.contestants).into_iter().partition(|metric| metric.group == Group::CheckpointStart);
        let (seen, done): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|metric| matches!(metric.group, Group::Throughput | Group::Stalls | Group::Latency));
        push_lines(&mut out, &table(report, &seen));
        out.push('\n');
        push_lines(&mut out, &table(report, &done));
        if !start.is_empty() {
            out.push_str(&format!("\n{}\n", Group::CheckpointStart.title()));
            push_lines(&mut out, &table(report, &start));
        }
        let runs = report.contestants.iter().map(|contestant| contestant.runs.len()).max();
        if runs > Some(1) {
            paragraph(&mut out, "Each figure is the median of the runs; [lowest..highest run].");
        }
        out.push('\n');
    }
    for line in reading::lines(report) {
        paragraph(&mut out, &line);
    }
    out
}

fn table(report: &Report, metrics: &[&Metric]) -> String {
    let headings = metrics.iter().map(|metric| right(metric.heading.join("\n")));
    let mut table = new_table(std::iter::once(Cell::new("\ncontestant")).chain(headings));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    for contestant in &report.contestants {
        table.add_row(
            std::iter::once(Cell::new(printable(&contestant.name)))
                .chain(metrics.iter().map(|metric| right(figure(metric, contestant)))),
        );
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if index == 0 {
            column.set_padding((0, 0));
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(NAME_WIDTH)));
        } else {
            let same_group = index > 1 && metrics[index - 1].group == metrics[index - 2].group;
            column.set_padding((if same_group { 1 } else { 3 }, 0));
        }
    }
    table.to_string()
}

fn figure(metric: &Metric, contestant: &Contestant) -> String {
    let Some(figure) = metric.of(contestant) else {
        return MISSING.to_string();
    };
    match figure.range {
        Some((low, high)) if std::ptr::eq(metric, &TPS_MEAN) => {
            format!("{}\n[{}..{}]", short(figure.median), short(low), short(high))
        }
        _ => short(figure.median),
    }
}
