//! What the reports of all scenarios have alike. Each scenario has its model and its renderings in its own `report`.
//!
//! Units are in the field names: `_s` seconds, `_ms` milliseconds, `_mib` MiB (2^20 bytes), `_kib` KiB.

pub(crate) mod settings;
pub(crate) mod style;

use std::collections::BTreeMap;

use pgcalm_render::document::Document;
use serde::{Deserialize, Serialize};

/// The machine that a report was measured on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    /// `uname -r`.
    pub kernel: String,
    /// Online CPUs.
    pub cpus: u32,
    /// MemTotal of /proc/meminfo.
    pub memory_mib: u64,
    /// `postgres --version`, e.g. `PostgreSQL 15.20 (Debian ...)`.
    pub postgres: String,
    /// Version of pgcalm that made the report.
    pub pgcalm: String,
    /// SHA-256 of the server module in hexadecimal digits; absent where no contestant loads it, and in reports of versions that
    /// did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Start of the run, RFC 3339, UTC.
    pub started_at: String,
    /// The vm.* sysctls in force during the run, by name.
    pub sysctls: BTreeMap<String, String>,
    /// How devices were capped: `cgroup-v1-root`, `cgroup-v1` (a group below the root), `cgroup-v2`, `volume` (limits of the
    /// volumes themselves), or `none`.
    pub cap_mechanism: String,
}

#[cfg(test)]
impl Host {
    /// A machine that reports in tests were measured on, with devices capped like that.
    pub fn of_a_test(cap_mechanism: &str) -> Host {
        Host {
            kernel: "6.18.0".into(),
            cpus: 2,
            memory_mib: 24 << 10,
            postgres: "PostgreSQL 15.20".into(),
            pgcalm: "0.1.0".into(),
            module: None,
            started_at: "2026-11-21T07:00:00Z".into(),
            sysctls: BTreeMap::new(),
            cap_mechanism: cap_mechanism.into(),
        }
    }
}

/// Latency of transactions in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Slowest transaction.
    pub max: f64,
}

/// A report that can be shown.
pub trait Shown {
    /// What it says.
    fn document(&self) -> Document;

    /// For a terminal; every line ends in a newline.
    fn text(&self) -> String {
        self.document().text()
    }

    /// One self-contained page.
    fn html(&self) -> String {
        self.document().html()
    }

    /// With what documents of earlier versions don't have.
    fn completed(self) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Why the run counts as failed; `None` if all is as it must be.
    fn failure(&self) -> Option<String> {
        None
    }
}

/// An empty document of a scenario, with its conditions and the machine.
pub(crate) fn document(scenario: &str, host: &Host, conditions: Vec<String>) -> Document {
    let mut document = Document::new("pgcalm lab", scenario, &host.started_at);
    document.conditions = vec![conditions, settings::host(host)];
    document
}
