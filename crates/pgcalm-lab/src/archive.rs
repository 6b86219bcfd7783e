//! Archivers draining the same backlog of WAL in turn: how fast, at what cost, and whether what they acknowledge
//! survives a power cut.

pub mod archiver;
mod arena;
mod backlog;
mod cost;
mod feed;
mod options;
mod pgbackrest;
pub mod report;
mod survivors;
mod tracer;

use anyhow::Context;

use crate::Size;
use crate::archive::archiver::Places;
use crate::archive::arena::Surroundings;
use crate::archive::backlog::Backlog;
use crate::archive::report::{Archiver, Report};
use crate::cap::Capper;
use crate::interrupt::Interrupt;
use crate::scenarios::Help;
use crate::stage::{Needs, Stage};
use pgcalm_host::Failure;

pub use options::Options;

/// What the command line says of it.
pub const HELP: Help = Help {
    name: "archive",
    example: "Example: sudo pgcalm lab run archive --archivers cp-sync,pg_calm-2",
    text: "\
        A backlog of WAL is drained beside pgbench: how fast, at what cost, and does it survive a power cut?\n\n\
        Each archiver gets new file systems on the same three loop devices (cluster, pg_wal, archive; direct I/O) and a \
        copy of the same cluster with WAL that was never archived. It drains one part alone, one beside pgbench, both \
        under the same caps, and a last one under strace; right after the last acknowledgement of that the archive's \
        file system is shut down without flushing its log, mounted again, and compared. Only archivers that lost nothing \
        are ranked.",
};

/// Runs the archivers and returns their report. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    options.check()?;
    let needs =
        Needs { own_mounts: true, module: options.archivers.iter().any(|a| a.needs_module()), ..Needs::default() };
    let stage = &Stage::open(&options.common, needs, interrupt)?;
    // The template holds the backlog once more.
    let devices = [options.data_size(), options.wal_size(), options.archive_size()];
    let needed = devices.map(Size::bytes).iter().sum::<u64>() + options.backlog_size();
    stage.dir.need_space(needed, "fewer --files")?;
    let backlog = {
        let _run_dir = stage.run_dir(None)?;
        Backlog::obtain(options, stage)?
    };
    let noop_module = options
        .noop_module
        .as_ref()
        .map(|source| {
            stage.library(source, "noop_archive.so").map_err(|error| {
                Failure::Usage(format!(
                    "--noop-module {}: {error}; make -C bench/noop_archive builds it",
                    source.display()
                ))
            })
        })
        .transpose()?;
    let [data, wal, archive] = devices;
    stage.progress.note(&format!("making devices of {data} (data), {wal} (pg_wal) and {archive} (archive)"));
    let context = Surroundings {
        options,
        stage,
        noop_module: noop_module.as_ref(),
        backlog: &backlog,
        data: stage.device("data", data)?,
        wal: stage.device("wal", wal)?,
        archive: stage.device("archive", archive)?,
        capper: Capper::of(&stage.journal, options.common.volume.as_ref())?,
    };
    let mut report = Report {
        scenario: HELP.name.to_string(),
        host: stage.host(context.capper.mechanism())?,
        settings: options.named(),
        dd_mib_per_s: Vec::new(),
        archivers: options
            .archivers
            .iter()
            .map(|archiver| Archiver {
                name: archiver.name.to_string(),
                description: archiver.description(),
                copies: archiver.copies(),
                server_settings: archiver.settings(&Places {
                    archive: &stage.dir.mountpoint("archive").join("wal"),
                    pgbackrest_configuration: &stage.dir.run().join("pgbackrest.conf"),
                    noop_module: noop_module.as_ref(),
                }),
                runs: Vec::new(),
            })
            .collect(),
    };
    for repetition in 1..=options.repeat {
        if options.archivers.iter().any(|archiver| archiver.copies()) {
            let speed = context.dd_mib_per_s().context("dd")?;
            stage.progress.note(&format!("dd conv=fsync: {speed:.0} MiB/s"));
            report.dd_mib_per_s.push(speed);
        }
        for (archiver, entry) in options.archivers.iter().zip(&mut report.archivers) {
            let label = if options.repeat > 1 {
                format!("{} (run {repetition} of {})", archiver.name, options.repeat)
            } else {
                archiver.name.to_string()
            };
            let run = context.run(archiver, &label, repetition).with_context(|| label.clone())?;
            entry.runs.push(run);
        }
    }
    Ok(report)
}
