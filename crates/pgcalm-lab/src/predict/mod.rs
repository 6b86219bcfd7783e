//! Predictions against measurements: for each point of a grid a server is observed in shadow mode, what pg_calm would do is
//! predicted, and then measured with pg_calm on.

pub mod grid;

mod arena;
mod measured;
mod options;

use std::time::SystemTime;

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_report::predict as model;

use crate::LabError;
use crate::Size;
use crate::cap::Capper;
use crate::contest::need;
use crate::contestant::CONTESTANTS;
use crate::contestant::Contestant;
use crate::device::Device;
use crate::device::Kind;
use crate::host_facts;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::lab_dir::LabDir;
use crate::need_root::need_root;
use crate::progress::Progress;
use crate::run_dir::RunDir;

use arena::Arena;

pub use options::Options;

/// How the server is started at each point.
fn shadow() -> &'static Contestant {
    // CONTESTANTS has it, which a test sees to.
    CONTESTANTS
        .iter()
        .find(|contestant| contestant.name == "pg_calm-shadow")
        .unwrap_or(&CONTESTANTS[0])
}

/// Runs all points and returns the report. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<model::Report> {
    options.check()?;
    let root = HostRoot::default();
    need_root("loop devices, mounts, cgroup limits and vm sysctls")?;
    let installation = Installation::find(&root, options.pg_bindir.as_deref(), interrupt)?;
    // The point with the largest table needs most of everything.
    let largest = options
        .points
        .iter()
        .max_by_key(|point| point.rows)
        .map(|point| options.of(point))
        .ok_or_else(|| LabError::Usage("--points: name a point at least".to_string()))?;
    need::module(&largest, &installation, interrupt)?;

    let lab = LabDir::open(&root, &options.dir)?;
    let progress = Progress::new();
    let journal = lab.clean_journal(&root, &progress)?;
    need::space(&root, &largest, &lab, &installation, &progress)?;
    let started_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let _run_dir = RunDir::create(&lab, &journal, &installation)?;
    let capper = Capper::of(&journal, options.volume.as_ref())?;
    let device = |role: &str, size: Size| {
        progress.note(&format!("making a device of {size} for {role}"));
        let directory = lab.volume(role);
        let kind = Kind::of(options.volume.as_ref(), &directory);
        Device::create(&journal, &lab.image(role), size, kind, interrupt)
    };
    let data = device("data", largest.data_size())?;
    let wal = device("wal", largest.wal_size())?;
    let mut report = model::Report {
        scenario: model::SCENARIO.to_string(),
        host: host_facts::collect(&root, &installation, started_at, capper.mechanism())?,
        settings: options.named(),
        points: Vec::new(),
    };
    let arena = Arena {
        options,
        lab: &lab,
        journal: &journal,
        installation: &installation,
        capper: &capper,
        data: &data,
        wal: &wal,
        progress: &progress,
        interrupt,
    };
    for point in &options.points {
        let done = arena
            .run(point)
            .with_context(|| format!("point {}", point.name))?;
        let predicted = &done.prediction.pg_calm;
        progress.note(&format!(
            "{}: predicted {:.0} operations/s, {:.1} MiB/s, {:.0} TPS; measured {:.0}, {:.1}, {:.0}",
            point.name,
            predicted.device_operations_per_s,
            predicted.device_mib_per_s,
            predicted.sustainable_tps,
            done.measured.device_operations_per_s,
            done.measured.device_mib_per_s,
            done.measured.tps
        ));
        report.points.push(done);
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    #[test]
    fn servers_start_in_shadow_mode() {
        assert_eq!(super::shadow().name, "pg_calm-shadow");
        assert!(super::shadow().module && super::shadow().data_capped);
    }
}
