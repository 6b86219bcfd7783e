//! What `pgcalm doctor` has to say, for a terminal.

use pgcalm_render::number::{plural, printable};
use pgcalm_render::text::width;

use super::{Change, Finding, Report, Severity, Target};
use crate::rules::TO_BE_WEIGHED;

/// Said where a text names a document.
const WHERE_DOCS_ARE: &str = "docs/... is in /usr/share/doc/pgcalm with the Debian package, and in the source tree.";

/// The whole report; every line ends in a newline.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    for (number, finding) in report.findings.iter().enumerate() {
        finding_lines(&mut out, number + 1, finding);
        out.push('\n');
    }
    unanswered_lines(&mut out, report);
    if report.action != "check" {
        out.push_str(&diff(report, &report.changes));
    }
    if !report.permanent.is_empty() {
        out.push_str("\nSysctls hold until the next boot. To keep them, in /etc/sysctl.d/90-pgcalm.conf:\n");
        for text in &report.permanent {
            line(&mut out, text);
        }
    }
    if out.contains("docs/") {
        paragraph(&mut out, WHERE_DOCS_ARE);
    }
    for note in &report.notes {
        paragraph(&mut out, note);
    }
    paragraph(&mut out, &summary(report));
    out
}

/// Where the settings among the changes are written to; `None` if there are none.
pub fn written(report: &Report, changes: &[Change]) -> Option<String> {
    changes.iter().find(|change| change.target == Target::Setting)?;
    let server = report.facts.server.as_ref()?;
    let directory = server.data_directory.as_deref().unwrap_or("?");
    let host = report.facts.host.as_ref();
    let instance = host.and_then(|host| host.instance.as_ref());
    let process = instance.map_or(String::new(), |instance| format!(", pid {}", instance.pid));
    Some(printable(&format!(
        "Settings are written to {directory}/postgresql.auto.conf (port {}{process})",
        server.port
    )))
}

/// The changes, one line for what goes and one for what comes, as `diff -u` shows them.
pub fn diff(report: &Report, changes: &[Change]) -> String {
    let mut out = String::new();
    if let Some(text) = written(report, changes) {
        line(&mut out, &format!("{text}:"));
    }
    for change in changes {
        let place = match change.target {
            Target::Kernel => change.name.clone(),
            Target::Setting => format!("{} (ALTER SYSTEM)", change.name),
        };
        line(&mut out, &place);
        if let Some(from) = &change.from {
            line(&mut out, &format!("-{from}"));
        }
        match &change.to {
            Some(to) => line(&mut out, &format!("+{to}")),
            None => line(&mut out, "+(taken out of postgresql.auto.conf)"),
        }
    }
    out
}

fn finding_lines(out: &mut String, number: usize, finding: &Finding) {
    paragraph(out, &format!("{number}. {}: {} [{}]", finding.severity.name(), finding.problem, finding.rule));
    for evidence in &finding.evidence {
        paragraph(out, &format!("   seen:   {evidence}"));
    }
    paragraph(out, &format!("   cure:   {}", finding.cure));
    paragraph(out, &format!("   effect: {}", finding.effect));
    for command in &finding.commands {
        line(out, &format!("   {command}"));
    }
    if finding.reversible {
        let only = TO_BE_WEIGHED.contains(&finding.rule.as_str()).then(|| format!(" --only {}", finding.rule));
        line(out, &format!("   --apply{} does this, --undo --apply takes it back", only.unwrap_or_default()));
    }
}

/// By what is missing, since that is what a reader can do something about.
fn unanswered_lines(out: &mut String, report: &Report) {
    let mut reasons: Vec<&str> = Vec::new();
    for unanswered in &report.unanswered {
        if !reasons.contains(&unanswered.why.as_str()) {
            reasons.push(&unanswered.why);
        }
    }
    if reasons.is_empty() && report.facts.missing.is_empty() {
        return;
    }
    out.push_str("Not looked at:\n");
    for missing in &report.facts.missing {
        paragraph(out, &format!("- {missing}"));
    }
    for reason in reasons {
        let rules: Vec<&str> = report
            .unanswered
            .iter()
            .filter(|unanswered| unanswered.why == reason)
            .map(|unanswered| unanswered.rule.as_str())
            .collect();
        paragraph(out, &format!("- {}: {reason}", rules.join(", ")));
    }
    out.push('\n');
}

fn summary(report: &Report) -> String {
    match report.action.as_str() {
        "check" => {
            let mut counts = Vec::new();
            for severity in Severity::ALL {
                let of_it = report.findings.iter().filter(|f| f.severity == severity);
                match of_it.count() {
                    0 => {}
                    count => counts.push(format!("{} {count}", severity.name())),
                }
            }
            let found =
                if counts.is_empty() { "Nothing found".to_string() } else { format!("Found: {}", counts.join(", ")) };
            format!(
                "{found}; {} clear, {} not judged.",
                plural(report.clear.len() as f64, "rule"),
                report.unanswered.len()
            )
        }
        _ if report.changes.is_empty() => "Nothing to do.".to_string(),
        _ if report.applied => format!("Done, {}.", plural(report.changes.len() as f64, "change")),
        _ => "Nothing was changed: --apply makes these changes.".to_string(),
    }
}

/// A paragraph whose further lines stand below its text, behind `1. `, `- ` or `   seen:   `.
fn paragraph(out: &mut String, text: &str) {
    let indent = if text.starts_with("   ") {
        "           "
    } else if text.starts_with(|c: char| c.is_ascii_digit()) {
        "   "
    } else if text.starts_with("- ") {
        "  "
    } else {
        ""
    };
    let options = textwrap::Options::new(usize::from(width()))
        .subsequent_indent(indent)
        // Names of rules are copied.
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    for line in textwrap::wrap(&printable(text), options) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// A line that is not wrapped: commands are copied from it. Names come from other users.
fn line(out: &mut String, text: &str) {
    out.push_str(&printable(text));
    out.push('\n');
}
