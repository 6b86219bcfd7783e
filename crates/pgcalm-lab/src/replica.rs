//! A primary that floods its standby with WAL: how far the standby falls behind, where WAL is held up, and whether it
//! comes back.
//!
//! Each server has devices and a network namespace of its own; the only way between them is a link with a rate. In each
//! case both begin as copies of the same cluster on new file systems.

mod case;
mod flood;
mod options;
mod outcome;
mod pair;
mod receiver_log;
mod side;
mod watch;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Context;
use pgcalm_host::HostRoot;
use pgcalm_report::replica as model;

use crate::cap::Capper;
use crate::device::Device;
use crate::device::Kind;
use crate::host_facts;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::journal::Change;
use crate::journal::Journal;
use crate::journal::Undo;
use crate::lab_dir::LabDir;
use crate::module::Module;
use crate::need_root::need_root;
use crate::network::End;
use crate::progress::Progress;
use crate::replica::pair::Pair;
use crate::replica::side::Base;
use crate::replica::side::Devices;
use crate::run_dir::RunDir;
use crate::shell;

pub use case::CASES;
pub use case::Case;
pub use case::parse_list;
pub use options::Options;

/// The standby's application_name, and its slot's name.
const STANDBY: &str = "standby";

/// How long the load runs at most to see what WAL it makes, to choose the link's rate by it.
const GENERATION_SECONDS: u32 = 8;

/// By which WAL generation is measured.
const GENERATION: Case = Case {
    name: "generation",
    description: "Neither link nor WAL devices are limited.",
    wal_capped: false,
    link_limited: false,
    slot: true,
    archive: false,
    governed: false,
};

/// What all cases of a run share.
struct Surroundings<'a> {
    options: &'a Options,
    lab: &'a LabDir,
    journal: &'a Journal,
    installation: &'a Installation,
    module: Option<&'a Module>,
    /// Where the program lies that restores from the archive.
    wal_restore: PathBuf,
    base: &'a Base,
    capper: &'a Capper,
    primary: &'a Devices,
    standby: &'a Devices,
    archive: Option<&'a Device>,
    progress: &'a Progress,
    interrupt: &'a Interrupt,
}

/// Runs the cases and returns the report. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<model::Report> {
    options.check()?;
    let root = HostRoot::default();
    need_root("loop devices, mounts, cgroup limits and network namespaces")?;
    let installation = Installation::find(&root, options.pg_bindir.as_deref(), interrupt)?;
    let mut module = options
        .cases
        .iter()
        .any(|case| case.needs_module())
        .then(|| Module::find(options.module_dir.as_deref(), &installation, interrupt))
        .transpose()?;
    let lab = LabDir::open(&root, &options.dir)?;
    let progress = Progress::new();
    let journal = lab.clean_journal(&root, &progress)?;
    need_space(options, &lab)?;
    let started_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let programs = Programs::create(&lab, &journal, options, module.as_mut())?;
    let capper = Capper::of(&journal, options.volume.as_ref())?;
    progress.note("making devices");
    let side = |end| {
        Devices::create(
            &journal,
            &lab,
            end,
            options::DATA_SIZE,
            options.wal_size,
            options.volume.as_ref(),
            interrupt,
        )
    };
    let primary = side(End::Primary)?;
    let standby = side(End::Standby)?;
    let archive = options
        .needs_archive()
        .then(|| {
            let image = lab.image("archive");
            Device::create(&journal, &image, options.wal_size, Kind::LOOP, interrupt)
        })
        .transpose()?;
    let base = Base::create(&journal, &lab, &installation, interrupt)?;
    let surroundings = Surroundings {
        options,
        lab: &lab,
        journal: &journal,
        installation: &installation,
        module: module.as_ref(),
        wal_restore: programs.wal_restore.clone(),
        base: &base,
        capper: &capper,
        primary: &primary,
        standby: &standby,
        archive: archive.as_ref(),
        progress: &progress,
        interrupt,
    };
    let link = surroundings.link()?;
    let mut report = model::Report {
        scenario: model::SCENARIO.to_string(),
        host: host_facts::collect(&root, &installation, started_at, capper.mechanism())?,
        settings: options.named(),
        link,
        cases: Vec::new(),
    };
    for case in &options.cases {
        let limit = case.link_limited.then_some(report.link.bytes_per_s as u64);
        let outcome = surroundings
            .run(case, options.seconds.0, limit)
            .with_context(|| case.name.to_string())?;
        progress.note(&outcome.summary());
        report.cases.push(outcome);
    }
    Ok(report)
}

impl Surroundings<'_> {
    /// The rate that was asked for, else that of the default unless the load makes so little that it would be no limit.
    fn link(&self) -> anyhow::Result<model::Link> {
        let limited = self.options.cases.iter().any(|case| case.link_limited);
        if let Some(rate) = self.options.link_bps {
            return Ok(model::Link {
                bytes_per_s: rate.bytes() as f64,
                generation_bytes_per_s: None,
            });
        }
        if !limited {
            return Ok(model::Link {
                bytes_per_s: options::LINK as f64,
                generation_bytes_per_s: None,
            });
        }
        let seconds = GENERATION_SECONDS.min(self.options.seconds.0);
        let outcome = self
            .run(&GENERATION, seconds, None)
            .context(GENERATION.name)?;
        let generation = outcome.wal_bytes_per_s();
        let rate = (options::LINK as f64).min(generation / 2.0).round();
        self.progress.note(&format!(
            "the load makes {:.0} MB of WAL per second: the link gets {:.0} Mbit/s",
            generation / 1e6,
            rate * 8.0 / 1e6
        ));
        Ok(model::Link {
            bytes_per_s: rate,
            generation_bytes_per_s: Some(generation),
        })
    }

    fn run(
        &self,
        case: &'static Case,
        seconds: u32,
        link: Option<u64>,
    ) -> anyhow::Result<model::Case> {
        self.progress
            .note(&format!("{}: making two clusters", case.name));
        let run_dir = RunDir::create(self.lab, self.journal, self.installation)?;
        let mut pair = Pair::start(self, case)?;
        let outcome = pair.measure(seconds, link);
        if self.options.keep {
            self.keep_logs(case, &pair)?;
        }
        let outcome = outcome?;
        pair.discard()?;
        drop(run_dir);
        Ok(outcome)
    }

    fn keep_logs(&self, case: &Case, pair: &Pair<'_>) -> anyhow::Result<()> {
        let kept = self.lab.kept();
        fs::create_dir_all(&kept)?;
        for (side, log) in pair.logs() {
            fs::write(kept.join(format!("{}-{side}.log", case.name)), log)?;
        }
        Ok(())
    }

    fn primary_settings(&self, case: &Case) -> BTreeMap<String, String> {
        let mut settings: BTreeMap<String, String> = [
            ("listen_addresses", End::Primary.address().to_string()),
            // So that cases differ in nothing else, and the oldest segment is gone as soon as it can be.
            ("wal_keep_size", "0".to_string()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect();
        if let Some(module) = self.module.filter(|_| case.needs_module()) {
            settings.insert("shared_preload_libraries".into(), "pg_calm".into());
            settings.extend(module.settings());
        }
        if case.archive {
            settings.insert("archive_mode".into(), "on".into());
            settings.insert("archive_library".into(), "pg_calm".into());
            settings.insert(
                "pg_calm.archive_directory".into(),
                self.archive_directory().display().to_string(),
            );
        }
        if case.governed {
            settings.insert(
                "pg_calm.governor_max_lag".into(),
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
        if case.slot {
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
        self.lab.mountpoint("archive").join("wal")
    }
}

/// Module and restoring program, where servers can reach them, and where they stay the same until the end.
struct Programs {
    wal_restore: PathBuf,
    _directory: Undo,
}

impl Programs {
    fn create(
        lab: &LabDir,
        journal: &Journal,
        options: &Options,
        module: Option<&mut Module>,
    ) -> anyhow::Result<Self> {
        let path = lab.libraries();
        let directory = journal.note(Change::Directory { path: path.clone() })?;
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir(&path).with_context(|| format!("create {}", path.display()))?;
        if let Some(module) = module {
            module.settle(&path)?;
        }
        let wal_restore = path.join("pgcalm");
        if options.needs_archive() {
            // This very program, which lies where the servers' user may have no access.
            let own = std::env::current_exe().context("find this program")?;
            fs::copy(&own, &wal_restore)
                .with_context(|| format!("copy {} to {}", own.display(), wal_restore.display()))?;
        }
        Ok(Self {
            wal_restore,
            _directory: directory,
        })
    }
}

fn need_space(options: &Options, lab: &LabDir) -> anyhow::Result<()> {
    let wal_devices = if options.needs_archive() { 3 } else { 2 };
    let needed = 2 * options::DATA_SIZE.bytes() + wal_devices * options.wal_size.bytes();
    lab.need_space(needed, "a smaller --wal-size")
}
