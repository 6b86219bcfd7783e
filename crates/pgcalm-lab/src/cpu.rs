//! A control group with so much of the processors as an instance is given.

use std::path::Path;

use pgcalm_host::cgroup::Version;

use crate::control_group::{ControlGroup, Controller};
use crate::journal::Journal;

/// Microseconds in which a quota is used up; the kernel's own (default_cfs_period, kernel/sched/fair.c).
const PERIOD_US: u32 = 100_000;

/// Least quota that the kernel takes: a millisecond (min_cfs_quota_period, kernel/sched/core.c).
pub(crate) const LEAST: f64 = 0.01;

/// Makes a group whose processes get the time of so many processors; the rest as for [`ControlGroup::create`].
pub(crate) fn group(
    journal: &Journal,
    cpus: f64,
    option: &str,
    part: &str,
    existing: Option<&Path>,
) -> anyhow::Result<ControlGroup> {
    let group = ControlGroup::create(journal, Controller::Cpu, option, part, existing)?;
    limit(&group, Some(cpus))?;
    Ok(group)
}

/// Gives the processes of such a group the time of so many processors, or all that there is.
pub(crate) fn limit(group: &ControlGroup, cpus: Option<f64>) -> anyhow::Result<()> {
    let quota = cpus.map(|cpus| (cpus * f64::from(PERIOD_US)).round());
    match group.version() {
        Version::V1 => {
            group.set("cpu.cfs_period_us", &PERIOD_US.to_string())?;
            // -1 is none.
            group.set("cpu.cfs_quota_us", &quota.unwrap_or(-1.0).to_string())
        }
        Version::V2 => {
            let quota = quota.map_or("max".to_string(), |quota| quota.to_string());
            group.set("cpu.max", &format!("{quota} {PERIOD_US}"))
        }
    }
}
