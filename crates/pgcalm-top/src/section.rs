//! The sections of an instance's picture: each makes its rows of the sample that is shown and of those before it.
//!
//! A section without anything to show makes no row; why it has nothing is told once, under `Missing`.

pub mod archive;
pub mod checkpoint;
pub mod disks;
pub mod guard;
pub mod memory;
pub mod missing;
pub mod module;
pub mod replication;
pub mod sessions;
pub mod stop;
pub mod throughput;

use pgcalm_monitor::model::{Host, Instance, Reachability};
use ratatui::text::Span;

use crate::palette::Palette;
use crate::row::{LABEL_WIDTH, Row, field};
use crate::scene::Scene;
use crate::series::{Series, Worst};
use crate::{bar, format};

/// Columns before the curve of a row.
const FIGURE_WIDTH: usize = 27;

/// What sections are made of.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// What is shown, and how.
    pub scene: &'a Scene<'a>,
    /// The sample that is shown.
    pub host: &'a Host,
    /// The chosen instance in it.
    pub instance: &'a Instance,
    /// Columns of a row, the section's name included.
    pub width: usize,
    /// Whether there are curves; of one or two samples they would say nothing.
    pub curves: bool,
}

impl<'a> Context<'a> {
    /// The styles.
    pub fn palette(&self) -> Palette {
        self.scene.palette
    }

    /// Columns of a row after the section's name.
    pub fn content_width(&self) -> usize {
        self.width.saturating_sub(LABEL_WIDTH)
    }

    /// A figure and its curve up to the end of the row; without a cap, or below it, the curve's top is its highest value.
    pub fn figure_row(&self, section: &str, rank: u8, figure: &str, series: &Series, worst: Worst) -> Row {
        let top = series.highest(self.scene.start(), self.scene.end()).unwrap_or(0.0);
        let columns = self.content_width().saturating_sub(FIGURE_WIDTH);
        Row::new(
            section,
            rank,
            vec![
                Span::raw(field(figure, FIGURE_WIDTH)),
                Span::styled(self.curve(series, columns, top, worst), self.palette().bar()),
            ],
        )
    }

    /// The curve of a figure in so many columns, up to the moment that is shown; empty if there are none.
    pub fn curve(&self, series: &Series, columns: usize, top: f64, worst: Worst) -> String {
        if !self.curves {
            return String::new();
        }
        let bins = series.bins(self.scene.end(), self.scene.state.span_seconds(), columns, self.scene.gap(), worst);
        bar::curve(&bins, top)
    }
}

/// All rows of an instance's picture.
pub fn all(context: &Context) -> Vec<Row> {
    let mut rows = connection(context);
    rows.extend(checkpoint::rows(context));
    rows.extend(stop::rows(context));
    rows.extend(throughput::rows(context));
    rows.extend(module::rows(context));
    rows.extend(disks::rows(context));
    rows.extend(memory::rows(context));
    rows.extend(sessions::rows(context));
    rows.extend(archive::rows(context));
    rows.extend(replication::rows(context));
    rows.extend(guard::rows(context));
    rows
}

/// Why there is nothing of the server itself, if so.
fn connection(context: &Context) -> Vec<Row> {
    let palette = context.palette();
    let (text, style) = match &context.instance.reachability {
        Reachability::Reachable => return Vec::new(),
        Reachability::Connecting => ("no answer yet".to_string(), palette.secondary()),
        Reachability::Unreachable { why, .. } => (format!("unreachable: {why}"), palette.alarm()),
        Reachability::Hung { seconds } => {
            (format!("has not answered for {}", format::whole_seconds(*seconds)), palette.alarm())
        }
    };
    vec![Row::text("Server", 0, text, style)]
}

/// Parts that there are, separated by commas.
pub fn listed(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
