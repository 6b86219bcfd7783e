//! What `pgcalm doctor` has seen, found and done, as data: the document that it writes with `--json`.

pub mod text;

use serde::{Deserialize, Serialize};

use crate::facts::Facts;

/// The document of `pgcalm doctor`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// `check`, `apply` or `undo`.
    pub action: String,
    /// What was seen; with `undo` only which server it is about.
    pub facts: Facts,
    /// Rules that apply, worst first: by severity, then in the order of the table.
    pub findings: Vec<Finding>,
    /// Ids of rules that were looked at and don't apply.
    pub clear: Vec<String>,
    /// Rules that could not be judged.
    pub unanswered: Vec<Unanswered>,
    /// With `apply`, made or only planned, and `undo`: every change, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Whether those changes were made.
    pub applied: bool,
    /// Lines for a file in /etc/sysctl.d that keep changed sysctls over the next boot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permanent: Vec<String>,
    /// What a reader should know besides, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How bad it is, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Data can be lost, or the server, a standby or the archive stops.
    Outage,
    /// Transactions stand still for seconds.
    Stall,
    /// Steady loss of throughput, or a limit or setting that doesn't do what it seems to.
    Slow,
    /// Something can't be seen or used here that would help.
    Blind,
}

pgcalm_host::names! { pub fn name(Severity), ALL: Outage "outage", Stall "stall", Slow "slow", Blind "blind" }

/// A rule that applies here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// Id of the rule, e.g. `slot-inactive`; docs/reference/doctor-rules.md lists them.
    pub rule: String,
    /// How bad it is.
    pub severity: Severity,
    /// What goes wrong, in a sentence.
    pub problem: String,
    /// What was seen, and where.
    pub evidence: Vec<String>,
    /// What to do about it.
    pub cure: String,
    /// What that is expected to bring, and to cost.
    pub effect: String,
    /// The exact commands: shell, or SQL that ends in a semicolon.
    pub commands: Vec<String>,
    /// Whether `--apply` makes the changes: those that `--undo` can take back and that need no restart.
    pub reversible: bool,
    /// What `--apply` would change; empty unless reversible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// What a change is made to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// A file of the kernel, below /proc/sys or /sys.
    Kernel,
    /// A setting of the server, by ALTER SYSTEM and a reload.
    Setting,
}

/// One value that is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// What it is made to.
    pub target: Target,
    /// Name of the setting, or path of the file.
    pub name: String,
    /// Value before, as the server's settings or the file show it; null if that could not be read, and with `undo`.
    pub from: Option<String>,
    /// Value after; null: taken out of postgresql.auto.conf, where it was not before.
    pub to: Option<String>,
}

/// A rule that could not be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unanswered {
    /// Id of the rule.
    pub rule: String,
    /// What is missing for it, and the way out.
    pub why: String,
}
