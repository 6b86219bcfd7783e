//! Judging facts: what a rule is, and asking all of them.

mod archive;
mod checkpoint;
mod dirty;
mod disk;
mod features;
mod found;
mod hazard;
mod memory;
mod module;
pub(crate) mod read;
mod replication;
pub(crate) mod stop;
mod wal;

pub mod table;

use std::collections::BTreeSet;

use crate::facts::{Facts, Server};
use crate::report::{Change, Finding, Report, Severity, Target, Unanswered};
use crate::rules::found::Answer;
use crate::rules::table::RULES;

/// One rule. Texts are for DBAs: they go into docs/reference/doctor-rules.md as they are.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Name, for good: scripts look for it.
    pub id: &'static str,
    /// How bad it is when it applies.
    pub severity: Severity,
    /// What goes wrong, in a sentence.
    pub problem: &'static str,
    /// Files, settings and views that it looks at.
    pub looks_at: &'static str,
    /// When it applies, with its threshold.
    pub applies: &'static str,
    /// Why the threshold is what it is, with the source.
    pub reason: &'static str,
    /// What to do about it.
    pub cure: &'static str,
    /// What that is expected to bring, and to cost.
    pub effect: &'static str,
    /// Whether `--apply` makes the change: it can be taken back exactly, needs no restart, and is no trade that somebody
    /// has to weigh.
    pub reversible: bool,
    /// Judges.
    pub condition: fn(&Facts) -> Answer,
}

/// Asks every rule.
pub fn judge(facts: Facts) -> Report {
    let mut report = Report {
        action: "check".to_string(),
        findings: Vec::new(),
        clear: Vec::new(),
        unanswered: Vec::new(),
        changes: Vec::new(),
        applied: false,
        permanent: Vec::new(),
        notes: crate::estimate::sentence(&facts).into_iter().collect(),
        facts,
    };
    for rule in RULES.iter() {
        match (rule.condition)(&report.facts) {
            Ok(Some(found)) => {
                let changeable = rule.reversible
                    && !found.changes.is_empty()
                    && found.changes.iter().all(|change| can_be_made(report.facts.server.as_ref(), change));
                let mut commands: Vec<String> = found.changes.iter().map(command).collect();
                if found.changes.iter().any(|c| c.target == Target::Setting) {
                    commands.push(after_settings(report.facts.server.as_ref(), &found.changes));
                }
                commands.extend(found.commands);
                let (cure, effect) = found.advice.unwrap_or((rule.cure, rule.effect));
                report.findings.push(Finding {
                    rule: rule.id.to_string(),
                    severity: rule.severity,
                    problem: rule.problem.to_string(),
                    evidence: found.evidence,
                    cure: cure.to_string(),
                    effect: effect.to_string(),
                    commands,
                    reversible: changeable,
                    changes: if changeable { found.changes } else { Vec::new() },
                });
            }
            Ok(None) => report.clear.push(rule.id.to_string()),
            Err(unknown) => report.unanswered.push(Unanswered { rule: rule.id.to_string(), why: unknown.unknown }),
        }
    }
    // A stable sort: within a severity the table's order stays.
    report.findings.sort_by_key(|finding| finding.severity);
    report
}

/// Rules whose changes are made only if `--only` names them: whether they do good depends on what else the host writes, and on
/// how long its disk's reads take.
pub const TO_BE_WEIGHED: [&str; 2] = ["dirty-sysctls-for-pg-calm", "writeback-throttling"];

/// What `--apply` would change: of several findings that change the same thing, the worst decides.
pub fn changes(report: &Report, only: &[String]) -> Vec<Change> {
    let mut seen = BTreeSet::new();
    report
        .findings
        .iter()
        .filter(|finding| match only {
            [] => !TO_BE_WEIGHED.contains(&finding.rule.as_str()),
            only => only.contains(&finding.rule),
        })
        .flat_map(|finding| &finding.changes)
        .filter(|change| seen.insert(thing(change)))
        .cloned()
        .collect()
}

/// The table of rules in Markdown, which docs/reference/doctor-rules.md holds: a section per severity, worst first; ends in a newline.
pub fn markdown(rules: &[Rule]) -> String {
    let mut out = String::new();
    for severity in Severity::ALL {
        out.push_str(&format!(
            "### {}\n\n| rule | problem | looks at | applies when | because | cure | effect | `--apply` |\n|---|---|---|---|---|---|---|---|\n",
            severity.name()
        ));
        for rule in rules.iter().filter(|rule| rule.severity == severity) {
            let cells = [rule.problem, rule.looks_at, rule.applies, rule.reason, rule.cure, rule.effect]
                .map(|cell| cell.replace('|', "\\|"));
            out.push_str(&format!(
                "| `{}` | {} | {} |\n",
                rule.id,
                cells.join(" | "),
                match rule.reversible {
                    true if TO_BE_WEIGHED.contains(&rule.id) => "with `--only`",
                    true => "yes",
                    false => "no",
                }
            ));
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// A ratio and its bytes are one thing: the kernel zeroes the one when the other is written.
fn thing(change: &Change) -> String {
    match change.target {
        Target::Kernel => change.name.replace("_ratio", "_bytes"),
        Target::Setting => change.name.clone(),
    }
}

/// Whether a reload is enough, and ALTER SYSTEM wins: it does not over the command line.
fn can_be_made(server: Option<&Server>, change: &Change) -> bool {
    if change.target == Target::Kernel {
        return true;
    }
    let setting = server.and_then(|server| server.settings.get(&change.name));
    setting.is_some_and(|setting| {
        !matches!(setting.context.as_str(), "postmaster" | "internal")
            && !matches!(setting.source.as_str(), "command line" | "environment variable")
    })
}

fn command(change: &Change) -> String {
    let to = change.to.as_deref().unwrap_or_default();
    match change.target {
        Target::Setting => format!("ALTER SYSTEM SET {} = '{to}';", change.name),
        Target::Kernel => match change.name.strip_prefix("/proc/sys/") {
            Some(name) => format!("sudo sysctl -w {}={to}", name.replace('/', ".")),
            // The shell of who calls it makes a redirection, not sudo.
            None => format!("echo {to} | sudo tee {}", change.name),
        },
    }
}

fn after_settings(server: Option<&Server>, changes: &[Change]) -> String {
    let of = |change: &Change| server.and_then(|server| server.settings.get(&change.name));
    let settings: Vec<_> = changes.iter().filter_map(of).collect();
    if settings.iter().any(|s| s.source == "command line") {
        "-- and take it off the server's command line, which wins".to_string()
    } else if settings.iter().any(|s| s.context == "postmaster") {
        "-- then restart the server".to_string()
    } else {
        "SELECT pg_reload_conf();".to_string()
    }
}
