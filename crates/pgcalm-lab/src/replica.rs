//! A primary that floods its standby with WAL: how far the standby falls behind, where WAL is held up, whether it comes
//! back, and whether a failover manager would have lost patience.
//!
//! Each server has devices and a network namespace of its own; the only way between them is a link with a rate. In each
//! case both begin as copies of the same cluster on new file systems.

mod case;
mod flood;
mod heartbeat;
mod options;
mod outcome;
mod pair;
mod replication_log;
pub mod report;
mod side;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;

use crate::cap::Capper;
use crate::device::{Device, Kind};
use crate::interrupt::Interrupt;
use crate::network::End;
use crate::replica::case::Kept;
use crate::replica::pair::Pair;
use crate::replica::report as model;
use crate::replica::side::{Base, Devices};
use crate::scenarios::Help;
use crate::server::settings;
use crate::stage::{Needs, Stage};
use crate::{shell, tool};

pub use case::{CASES, Case};
pub use options::Options;

/// What the command line says of it.
pub const HELP: Help = Help {
    name: "replica",
    example: "Example: sudo pgcalm lab run replica",
    text: "\
        A primary floods its standby with WAL over a slow link: how far does it fall behind, and does it come back?\n\n\
        Each server has its own loop devices (direct I/O) and network namespace; between them is a link with a rate. In \
        each case both begin as copies of a new cluster, a table of 201 columns is made, filled and dropped in a loop, \
        and the standby is watched until it has replayed all WAL. `pgcalm lab list` tells the cases.",
};

/// The standby's application_name, and its slot's name.
const STANDBY: &str = "standby";

/// How long the load runs at most to see what WAL it makes, to choose the link's rate by it.
const GENERATION_SECONDS: u32 = 8;

/// By which WAL generation is measured.
const GENERATION: Case = Case { name: "generation", ..case::PLAIN };

/// What all cases of a run share.
struct Surroundings<'a> {
    options: &'a Options,
    stage: &'a Stage<'a>,
    /// Where the program lies that restores from the archive.
    wal_restore: PathBuf,
    base: Base,
    capper: Capper,
    primary: Devices,
    standby: Devices,
    archive: Option<Device>,
}

/// Runs the cases and returns the report. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<model::Report> {
    options.check()?;
    let needs = Needs { module: options.cases.iter().any(|case| case.needs_module()), ..Needs::default() };
    let stage = &Stage::open(&options.common, needs, interrupt)?;
    let wal_devices = if options.needs_archive() { 3 } else { 2 };
    let needed = 2 * options::DATA_SIZE.bytes() + wal_devices * options.wal_size.bytes();
    stage.dir.need_space(needed, "a smaller --wal-size")?;
    // This very program, which lies where the servers' user may have no access.
    let own = tool::this_program()?;
    let wal_restore = stage.library(own, "pgcalm").with_context(|| format!("copy {}", own.display()))?;
    let capper = Capper::of(&stage.journal, options.common.volume.as_ref())?;
    stage.progress.note("making devices");
    let surroundings = Surroundings {
        options,
        stage,
        wal_restore,
        primary: Devices::create(stage, End::Primary, options)?,
        standby: Devices::create(stage, End::Standby, options)?,
        archive: options
            .needs_archive()
            .then(|| stage.device_of(Kind::LOOP, "archive", options.wal_size))
            .transpose()?,
        base: Base::create(stage)?,
        capper,
    };
    let link = surroundings.link()?;
    let mut report = model::Report {
        scenario: HELP.name.to_string(),
        host: stage.host(surroundings.capper.mechanism())?,
        settings: options.named(),
        link,
        cases: Vec::new(),
    };
    for case in &options.cases {
        let limit = case.link_limited.then_some(report.link.bytes_per_s as u64);
        let outcome = surroundings.run(case, options.seconds.0, limit).with_context(|| case.name.to_string())?;
        stage.progress.note(&outcome.summary());
        report.cases.push(outcome);
    }
    Ok(report)
}

impl Surroundings<'_> {
    /// The rate that was asked for, else that of the default unless the load makes so little that it would be no limit.
    fn link(&self) -> anyhow::Result<model::Link> {
        let limited = self.options.cases.iter().any(|case| case.link_limited);
        if let Some(rate) = self.options.link_bps {
            return Ok(model::Link { bytes_per_s: rate.bytes() as f64, generation_bytes_per_s: None });
        }
        if !limited {
            return Ok(model::Link { bytes_per_s: options::LINK as f64, generation_bytes_per_s: None });
        }
        let seconds = GENERATION_SECONDS.min(self.options.seconds.0);
        let outcome = self.run(&GENERATION, seconds, None).context(GENERATION.name)?;
        let generation = outcome.wal_bytes_per_s();
        let rate = (options::LINK as f64).min(generation / 2.0).round();
        self.stage.progress.note(&format!(
            "the load makes {:.0} MB of WAL per second: the link gets {:.0} Mbit/s",
            generation / 1e6,
            rate * 8.0 / 1e6
        ));
        Ok(model::Link { bytes_per_s: rate, generation_bytes_per_s: Some(generation) })
    }

    fn run(&self, case: &'static Case, seconds: u32, link: Option<u64>) -> anyhow::Result<model::Case> {
        self.stage.progress.note(&format!("{}: making two clusters", case.name));
        let _run_dir = self.stage.run_dir(Some(&format!("replica-{}", case.name)))?;
        let mut pair = Pair::start(self, case)?;
        let outcome = pair.measure(seconds, link)?;
        pair.discard()?;
        Ok(outcome)
    }

    fn primary_settings(&self, case: &Case) -> BTreeMap<String, String> {
        let mut settings = settings([
            ("listen_addresses", End::Primary.address()),
            // So that cases differ in nothing else, and the oldest segment is gone as soon as it can be.
            ("wal_keep_size", "0"),
        ]);
        if case.kept == Kept::BySize {
            let size = self.options.keep_size.bytes();
            settings.insert("wal_keep_size".into(), format!("{}MB", size >> 20));
        }
        if case.needs_module() {
            settings.insert("shared_preload_libraries".into(), "pg_calm, pg_calm_archive, pg_calm_guard".into());
        }
        if case.archive {
            settings.insert("archive_mode".into(), "on".into());
            settings.insert("archive_library".into(), "pg_calm_archive".into());
            settings.insert("pg_calm_archive.directory".into(), self.archive_directory().display().to_string());
        }
        if case.governed {
            settings.insert("pg_calm_guard.mode".into(), "on".into());
            settings.insert("pg_calm_guard.wal_space".into(), "0".into());
            settings.insert(
                "pg_calm_guard.max_lag".into(),
                format!("{STANDBY} = {}kB", self.options.max_lag.bytes() >> 10),
            );
        }
        settings.extend(self.options.server_settings());
        settings
    }

    fn standby_settings(&self, case: &Case) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::from([(
            "primary_conninfo".to_string(),
            format!(
                "host={} port=5432 user=postgres application_name={STANDBY} sslmode=disable gssencmode=disable",
                End::Primary.address()
            ),
        )]);
        if case.kept == Kept::BySlot {
            settings.insert("primary_slot_name".into(), STANDBY.into());
        }
        if case.archive {
            settings.insert(
                "restore_command".into(),
                format!(
                    "{} wal-restore --archive {} %f %p",
                    shell::word(&self.wal_restore),
                    shell::word(&self.archive_directory())
                ),
            );
        }
        settings.extend(self.options.server_settings());
        settings
    }

    /// Below the mount point: an archive that is not mounted must not look empty.
    fn archive_directory(&self) -> PathBuf {
        self.stage.dir.mountpoint("archive").join("wal")
    }
}
