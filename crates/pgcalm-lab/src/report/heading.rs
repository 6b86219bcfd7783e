//! The heading of a scenario's report in a terminal.

use pgcalm_render::text::paragraph;

use crate::report::Host;
use crate::report::settings;

/// Appends the heading of a scenario: its name, its conditions, its host.
pub(crate) fn heading(out: &mut String, scenario: &str, host: &Host, conditions: &[String]) {
    paragraph(out, &format!("{scenario}, {}", host.started_at));
    paragraph(out, &conditions.join("; "));
    paragraph(out, &settings::host(host).join("; "));
}
