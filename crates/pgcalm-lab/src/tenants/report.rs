//! The result of many instances on one device, as data: the document that `pgcalm lab run tenants --json` writes.
//!
//! Units are in the field names, as in [`report`](crate::report).

mod view;

use std::collections::BTreeMap;

use pgcalm_render::number::short;
use serde::{Deserialize, Serialize};

use crate::contest;
use crate::contest::report::Run;
use crate::report::{Host, Latency};

/// Instances on one device under load: the document written by `pgcalm lab run tenants --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always `tenants`.
    pub scenario: String,
    /// Where the run happened.
    pub host: Host,
    /// Every option of the run with the value in force, by its command-line name without the dashes.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// In the order in which they were run.
    pub contestants: Vec<Contestant>,
}

/// One way of running all instances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Contestant {
    /// `stock`, `pg_calm` or `pg_calm-share`.
    pub name: String,
    /// What sets it apart, in one sentence.
    pub description: String,
    /// The postgresql.conf settings in which it differs from `stock`.
    pub server_settings: BTreeMap<String, String>,
    /// All instances together, while all were under load. Data device is the one below all volumes, WAL device the sum of
    /// the WAL volumes; checkpoints are with the instances.
    pub total: Run,
    /// Each of them.
    pub instances: Vec<Instance>,
    /// What the servers' processes did while all instances together were slowest; absent in reports of versions that did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
}

/// The tenth of the seconds in which the fewest transactions of all instances together ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stall {
    /// How many seconds these are.
    pub seconds: u32,
    /// Transactions per second in these.
    pub tps_mean: f64,
    /// The servers' processes in these, a look each second, by what they are; those that were blocked most first.
    pub roles: Vec<Role>,
}

/// What processes of one kind did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Role {
    /// As the server titles them, e.g. `checkpointer` or `client backend`.
    pub name: String,
    /// Looks at one of them.
    pub samples: u32,
    /// Of these in uninterruptible sleep (D).
    pub blocked: u32,
    /// In interruptible sleep (S), or another state.
    pub sleeping: u32,
    /// Running or runnable (R).
    pub running: u32,
    /// Where they waited most often: two places of uninterruptible sleep, one of other.
    pub waits: Vec<Wait>,
}

/// Where processes waited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Wait {
    /// Whether in uninterruptible sleep.
    pub blocked: bool,
    /// Innermost kernel functions, top first.
    pub stack: Vec<String>,
    /// Looks at one that was there.
    pub samples: u32,
}

/// One instance, in the window of [`Contestant::total`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Instance {
    /// Counts from 1.
    pub number: u32,
    /// Transactions per second, mean over the window.
    pub tps_mean: f64,
    /// Worst second.
    pub tps_min: f64,
    /// Seconds in which no transaction ended.
    pub seconds_zero: u32,
    /// From the moment that a transaction was due, over all of the run.
    pub latency_ms: Latency,
    /// Seconds of the window in which checkpoints started.
    pub checkpoint_starts_s: Vec<f64>,
    /// `pg_calm_status` at the end of the run; empty without the module.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub module_status: BTreeMap<String, serde_json::Value>,
}

impl Contestant {
    /// Instances that had seconds without a transaction.
    pub fn instances_zero(&self) -> usize {
        self.instances.iter().filter(|i| i.seconds_zero > 0).count()
    }

    /// Seconds without a transaction of all instances.
    pub fn seconds_zero(&self) -> u32 {
        self.instances.iter().map(|i| i.seconds_zero).sum()
    }

    /// Worst second of the worst instance.
    pub fn worst_second(&self) -> f64 {
        self.instances.iter().map(|i| i.tps_min).fold(f64::INFINITY, f64::min)
    }

    /// The most checkpoints that started within five seconds: all of the instances if they are in lockstep.
    pub fn checkpoints_at_once(&self) -> usize {
        let mut starts: Vec<f64> = self.instances.iter().flat_map(|i| i.checkpoint_starts_s.iter().copied()).collect();
        starts.sort_by(f64::total_cmp);
        (0..starts.len())
            .map(|first| starts[first..].iter().take_while(|start| **start < starts[first] + 5.0).count())
            .max()
            .unwrap_or(0)
    }

    /// One line.
    pub fn summary(&self) -> String {
        format!(
            "{}: {} TPS in all, {} of {} instances with zero seconds ({} s), worst second of an instance {}, p99 {} ms, \
             {} device writes/s",
            self.name,
            short(self.total.tps_mean),
            self.instances_zero(),
            self.instances.len(),
            self.seconds_zero(),
            short(self.worst_second()),
            short(self.total.latency_ms.map_or(f64::NAN, |l| l.p99)),
            short(self.total.data_device.write_ops_per_s),
        )
    }
}

impl Report {
    /// Whether the instances shared file systems, each held by a control group of its own.
    pub(crate) fn is_shared(&self) -> bool {
        self.settings.get("file-systems").is_some_and(|whose| whose == "shared")
    }

    /// The totals as a contest's report, for the charts.
    pub(crate) fn as_contest(&self) -> contest::report::Report {
        let mut settings = self.settings.clone();
        for (cap, of_device) in [("data-iops", "device-iops"), ("data-bps", "device-bps")] {
            settings.remove(cap);
            if let Some(value) = self.settings.get(of_device).filter(|_| !self.is_shared()) {
                settings.insert(cap.to_string(), value.clone());
            }
        }
        contest::report::Report {
            scenario: self.scenario.clone(),
            host: self.host.clone(),
            settings,
            cap: contest::report::Cap::of_mechanism(&self.host.cap_mechanism),
            contestants: self
                .contestants
                .iter()
                .map(|contestant| contest::report::Contestant {
                    name: contestant.name.clone(),
                    description: contestant.description.clone(),
                    server_settings: contestant.server_settings.clone(),
                    held_up_runs: 0,
                    runs: vec![contestant.total.clone()],
                })
                .collect(),
        }
    }
}
