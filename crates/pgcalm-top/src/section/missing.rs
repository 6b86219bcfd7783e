//! What is missing, and why.

use pgcalm_monitor::model::{Host, Instance, Missing};
use ratatui::text::{Line, Span};

use crate::palette::Palette;
use crate::row::Row;

/// Everything that is missing: of the host first, then of the chosen instance.
pub fn all<'a>(host: &'a Host, instance: Option<&'a Instance>) -> Vec<&'a Missing> {
    host.missing.iter().chain(instance.into_iter().flat_map(|instance| &instance.missing)).collect()
}

/// One row for the overview; none if nothing is missing.
pub fn row(host: &Host, instance: Option<&Instance>, palette: Palette) -> Option<Row> {
    let missing = all(host, instance);
    if missing.is_empty() {
        return None;
    }
    let parts: Vec<String> =
        missing.iter().map(|missing| format!("{} ({})", missing.subject.name(), missing.reason)).collect();
    Some(Row::text("Missing", 0, parts.join("; "), palette.notice()))
}

/// All of it in full, each with what to do about it.
pub fn lines(host: &Host, instance: Option<&Instance>, palette: Palette) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for missing in all(host, instance) {
        lines.push(Line::from(vec![
            Span::styled(format!("missing: {}: ", missing.subject.name()), palette.heading()),
            Span::raw(missing.reason.clone()),
        ]));
        if let Some(remedy) = &missing.remedy {
            lines.push(Line::from(format!("  {remedy}")));
        }
    }
    lines
}
