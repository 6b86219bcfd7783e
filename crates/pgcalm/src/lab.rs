use anyhow::bail;
use pgcalm_lab::archive;
use pgcalm_lab::archive::archiver::ARCHIVERS;
use pgcalm_lab::clean;
use pgcalm_lab::contest;
use pgcalm_lab::contestant::CONTESTANTS;
use pgcalm_lab::interference;
use pgcalm_lab::interference::LAYOUTS;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::predict;
use pgcalm_lab::predict::grid::POINTS;
use pgcalm_lab::replica;
use pgcalm_lab::replica::CASES;
use pgcalm_lab::scenarios;
use pgcalm_lab::scenarios::SCENARIOS;
use pgcalm_lab::scenarios::checkpoint;
use pgcalm_lab::scenarios::journal;
use pgcalm_lab::tenants;
use pgcalm_lab::torture;
use pgcalm_volume::profiles::PROFILES;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::ArchiveArgs;
use crate::args::CheckpointArgs;
use crate::args::CleanArgs;
use crate::args::CrashArg;
use crate::args::JournalArgs;
use crate::args::ScenarioArgs;
use crate::args::TenantsArgs;
use crate::args::TortureArgs;
use crate::args::TortureFsArg;
use crate::args::UpArgs;
use crate::args::predict::PredictGridArgs;
use crate::args::replica::ReplicaArgs;
use crate::args::report_files::ReportFiles;
use crate::output;
use crate::suite;

/// Scenarios, contestants, profiles.
pub fn list() -> anyhow::Result<()> {
    let mut text = String::from("Scenarios:\n");
    for scenario in &SCENARIOS {
        text.push_str(&format!("  {:<15} {}\n", scenario.name, scenario.summary));
    }
    text.push_str("\nContestants:\n");
    for contestant in &CONTESTANTS {
        text.push_str(&format!(
            "  {:<15} {}\n",
            contestant.name, contestant.description
        ));
        for (name, value) in contestant.settings {
            text.push_str(&format!("  {:<15}   {name} = {value}\n", ""));
        }
    }
    text.push_str("\nLayouts of journal:\n");
    for layout in &LAYOUTS {
        text.push_str(&format!("  {:<15} {}\n", layout.name, layout.description));
    }
    text.push_str("\nArchivers of archive:\n");
    for archiver in &ARCHIVERS {
        text.push_str(&format!(
            "  {:<22} {}\n",
            archiver.name,
            archiver.description()
        ));
    }
    text.push_str("\nCases of replica:\n");
    for case in &CASES {
        text.push_str(&format!("  {:<15} {}\n", case.name, case.description));
    }
    text.push_str("\nPoints of predict:\n");
    for point in &POINTS {
        let held_back = if point.held_back { "; held back" } else { "" };
        text.push_str(&format!(
            "  {:<22} {} rows, {} keys, {} operations/s, {}/s, shared_buffers {}, sysctl {}{held_back}\n",
            point.name,
            point.rows,
            point.distribution.name(),
            point.data_iops,
            point.data_bps,
            point.shared_buffers,
            point.sysctl.name()
        ));
    }
    text.push_str("\nProfiles of volume:\n");
    for profile in &PROFILES {
        text.push_str(&format!("  {:<22} {}\n", profile.name, profile.description));
    }
    output::print(&text)
}

/// Runs a scenario, shows the table and writes the files asked for.
pub fn run(scenario: ScenarioArgs) -> anyhow::Result<()> {
    match scenario {
        ScenarioArgs::Checkpoint(args) => run_checkpoint(*args),
        ScenarioArgs::Journal(args) => run_journal(*args),
        ScenarioArgs::Tenants(args) => run_tenants(*args),
        ScenarioArgs::Torture(args) => run_torture(*args),
        ScenarioArgs::Archive(args) => run_archive(*args),
        ScenarioArgs::Replica(args) => run_replica(*args),
        ScenarioArgs::Predict(args) => run_predict(*args),
        ScenarioArgs::Suite(args) => suite::run(&args),
    }
}

fn run_checkpoint(args: CheckpointArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    let files = args.report.clone().checked()?;
    let report = contest::run(checkpoint::SCENARIO.name, &args.options, &interrupt)?;
    files.write(
        &report,
        pgcalm_report::text::render(&report),
        pgcalm_report::html::render,
    )
}

/// A server to connect to.
pub fn up(args: &UpArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    pgcalm_lab::up::run(&args.options, args.port, &interrupt, output::print)
}

fn run_journal(args: JournalArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    let files = args.report.clone().checked()?;
    let report = interference::run(&journal_options(args), &interrupt)?;
    files.write(
        &report,
        pgcalm_report::journal::text::render(&report),
        pgcalm_report::journal::html::render,
    )
}

fn run_tenants(args: TenantsArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    let files = args.report.clone().checked()?;
    let report = tenants::run(&tenants_options(args), &interrupt)?;
    files.write(
        &report,
        pgcalm_report::tenants::text::render(&report),
        pgcalm_report::tenants::html::render,
    )
}

fn run_archive(args: ArchiveArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    let files = args.report.clone().checked()?;
    let report = archive::run(&archive_options(args), &interrupt)?;
    files.write(
        &report,
        pgcalm_report::archive::text::render(&report),
        pgcalm_report::archive::html::render,
    )
}

fn run_replica(args: ReplicaArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    let files = args.report.clone().checked()?;
    let report = replica::run(&args.options(), &interrupt)?;
    files.write(
        &report,
        pgcalm_report::replica::text::render(&report),
        pgcalm_report::replica::html::render,
    )
}

fn run_predict(args: PredictGridArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    let files = args.report.clone().checked()?;
    let report = predict::run(&predict_options(args), &interrupt)?;
    files.write(
        &report,
        pgcalm_report::predict::text::render(&report),
        pgcalm_report::predict::html::render,
    )
}

impl ReportFiles {
    /// Fails at once, not after a long run, if a file can't be written.
    fn checked(self) -> anyhow::Result<Self> {
        output::check_writable("--json", self.json.file())?;
        output::check_writable("--html", self.html.as_deref())?;
        Ok(self)
    }

    /// Shows the text and writes what was asked for.
    pub fn write<R: Serialize + DeserializeOwned + PartialEq>(
        self,
        report: &R,
        text: String,
        html: impl FnOnce(&R) -> String,
    ) -> anyhow::Result<()> {
        output::present(&self.json, report, &text)?;
        if let Some(file) = self.html {
            output::write(&file, &html(report))?;
            output::say(&format!("HTML: {}", file.display()));
        }
        Ok(())
    }
}

fn run_torture(args: TortureArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::install()?;
    output::check_writable("--json", args.json.file())?;
    let json = args.json.clone();
    let report = torture::run(&torture_options(args), &interrupt)?;
    output::present(
        &json,
        &report,
        &pgcalm_report::torture::text::render(&report),
    )?;
    match report.failure() {
        Some(failure) => bail!("torture: {failure}"),
        None => Ok(()),
    }
}

/// Removes what a killed run has left.
pub fn clean(args: &CleanArgs) -> anyhow::Result<()> {
    let cleaned = match &args.dir {
        Some(dir) => clean::clean(dir, args.templates)?,
        None => clean::clean_all(args.templates)?,
    };
    let mut text = match cleaned.changes {
        0 => "nothing was left".to_string(),
        1 => "1 leftover removed".to_string(),
        n => format!("{n} leftovers removed"),
    };
    if cleaned.templates_left {
        text.push_str("; loaded tables stay for later runs, --templates removes them");
    }
    text.push('\n');
    output::print(&text)
}

fn archive_options(args: ArchiveArgs) -> archive::Options {
    let preset = scenarios::archive::full();
    archive::Options {
        dir: args.dir,
        pg_bindir: args.servers.pg_bindir,
        module_dir: args.module_dir,
        noop_module: args.noop_module,
        archivers: args.archivers.map_or(preset.archivers, |list| list.0),
        files: args.files.unwrap_or(preset.files),
        empty: args.empty,
        segment_size: args.segment_size.unwrap_or(preset.segment_size),
        wal_iops: args.wal_iops.unwrap_or(preset.wal_iops),
        wal_bps: args.wal_bps.unwrap_or(preset.wal_bps),
        archive_iops: args.archive_iops.unwrap_or(preset.archive_iops),
        archive_bps: args.archive_bps.unwrap_or(preset.archive_bps),
        fs: args.fs.map_or(preset.fs, Into::into),
        clients: args.clients.unwrap_or(preset.clients),
        seconds: args.seconds.unwrap_or(preset.seconds),
        repeat: args.repeat.unwrap_or(preset.repeat),
        set: args.servers.set,
        volume: args.servers.volume,
        keep: args.keep,
    }
}

fn journal_options(args: JournalArgs) -> interference::Options {
    let preset = if args.quick {
        journal::quick()
    } else {
        journal::full()
    };
    interference::Options {
        dir: args.dir,
        pg_bindir: args.servers.pg_bindir,
        layouts: args.layouts.map_or(preset.layouts, |list| list.0),
        seconds: args.seconds.unwrap_or(preset.seconds),
        lead: args.lead.unwrap_or(preset.lead),
        write_iops: args.write_iops.unwrap_or(preset.write_iops),
        sessions: args.sessions.unwrap_or(preset.sessions),
        clients: args.clients.unwrap_or(preset.clients),
        scale: args.scale.unwrap_or(preset.scale),
        size: args.size.unwrap_or(preset.size),
        set: args.servers.set,
        volume: args.servers.volume,
    }
}

fn tenants_options(args: TenantsArgs) -> tenants::Options {
    let preset = scenarios::tenants::full();
    tenants::Options {
        dir: args.dir,
        pg_bindir: args.servers.pg_bindir,
        instances: args.instances.unwrap_or(preset.instances),
        rows: args.rows.unwrap_or(preset.rows),
        shared_buffers: args.shared_buffers.unwrap_or(preset.shared_buffers),
        clients: args.clients.unwrap_or(preset.clients),
        rate: args.rate.unwrap_or(preset.rate),
        data_iops: args.data_iops.unwrap_or(preset.data_iops),
        data_bps: args.data_bps.unwrap_or(preset.data_bps),
        wal_iops: args.wal_iops.unwrap_or(preset.wal_iops),
        device_iops: args.device_iops.unwrap_or(preset.device_iops),
        device_bps: args.device_bps.unwrap_or(preset.device_bps),
        seconds: args.seconds.unwrap_or(preset.seconds),
        checkpoint_timeout: args.checkpoint_timeout.unwrap_or(preset.checkpoint_timeout),
        sysctl: args.sysctl.unwrap_or(preset.sysctl),
        contestants: args.contestants.map_or(preset.contestants, |list| list.0),
        set: args.servers.set,
        volume: args.servers.volume,
        mount_options: args.mount_options,
        set_contestant: args.set_contestant,
        keep: args.keep,
    }
}

fn predict_options(args: PredictGridArgs) -> predict::Options {
    let preset = if args.quick {
        scenarios::predict::quick()
    } else {
        scenarios::predict::full()
    };
    predict::Options {
        dir: args.dir,
        pg_bindir: args.servers.pg_bindir,
        points: args.points.map_or(preset.points, |list| list.0),
        rows: args.rows,
        lead: args.lead.unwrap_or(preset.lead),
        observe: args.observe.unwrap_or(preset.observe),
        settle: args.settle.unwrap_or(preset.settle),
        seconds: args.seconds.unwrap_or(preset.seconds),
        checkpoint_timeout: args.checkpoint_timeout.unwrap_or(preset.checkpoint_timeout),
        clients: args.clients.unwrap_or(preset.clients),
        wal_iops: args.wal_iops.unwrap_or(preset.wal_iops),
        fs: args.fs.map_or(preset.fs, Into::into),
        set: args.servers.set,
        volume: args.servers.volume,
    }
}

fn torture_options(args: TortureArgs) -> torture::Options {
    let preset = scenarios::torture::full();
    torture::Options {
        dir: args.dir,
        pg_bindir: args.servers.pg_bindir,
        module_dir: args.module_dir,
        cycles: args.cycles.unwrap_or(preset.cycles),
        fs: args.fs.map_or(preset.fs, TortureFsArg::list),
        crash: args.crash.map_or(preset.crash, CrashArg::list),
        rows: args.rows.unwrap_or(preset.rows),
        clients: args.clients.unwrap_or(preset.clients),
        seconds: args.seconds.unwrap_or(preset.seconds),
        iops: args.iops.unwrap_or(preset.iops),
        size: args.size.unwrap_or(preset.size),
        set: args.servers.set,
        volume: args.servers.volume,
        seed: args.seed.unwrap_or(preset.seed),
        control: args.control,
        keep: args.keep,
    }
}
