//! The rules of `pgcalm doctor` as a table in Markdown, which docs/reference/doctor-rules.md holds.

use super::Severity;

/// A rule as the table shows it.
#[derive(Debug, Clone)]
pub struct Row {
    /// E.g. `slot-inactive`.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What goes wrong.
    pub problem: &'static str,
    /// What it looks at.
    pub looks_at: &'static str,
    /// When it applies, with the threshold.
    pub applies: &'static str,
    /// Why that is the threshold, with the source.
    pub reason: &'static str,
    /// What to do about it.
    pub cure: &'static str,
    /// What that brings, and costs.
    pub effect: &'static str,
    /// Whether `--apply` does it.
    pub reversible: bool,
}

/// A section per severity, worst first; ends in a newline.
pub fn markdown(rows: &[Row]) -> String {
    let mut out = String::new();
    for severity in Severity::ALL {
        out.push_str(&format!(
            "### {}\n\n| rule | problem | looks at | applies when | because | cure | effect | `--apply` |\n|---|---|---|---|---|---|---|---|\n",
            severity.name()
        ));
        for row in rows.iter().filter(|row| row.severity == severity) {
            let cells = [
                row.problem,
                row.looks_at,
                row.applies,
                row.reason,
                row.cure,
                row.effect,
            ]
            .map(|cell| cell.replace('|', "\\|"));
            out.push_str(&format!(
                "| `{}` | {} | {} |\n",
                row.id,
                cells.join(" | "),
                if row.reversible { "yes" } else { "no" }
            ));
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
