use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use crate::load::choice::LoadChoice;
use crate::load::command::CommandLoad;
use crate::load::command_line::Told;
use crate::load::{Demand, LOG_PREFIX, Load, Work, workload};
use crate::server::Server;
use crate::shared_file;
use crate::stage::Stage;
use crate::transaction_log::Transactions;

/// A running load of whatever choice.
#[derive(Debug)]
pub(crate) enum RunningLoad {
    /// pgbench.
    Pgbench(Box<Load>),
    /// Any other program.
    Command(Box<CommandLoad>),
}

impl RunningLoad {
    /// Starts `choice`; what it logs goes to `directory`, where the server's socket is.
    pub(crate) fn start(
        stage: &Stage<'_>,
        server: &Server,
        directory: &Path,
        choice: &LoadChoice,
        work: Work,
    ) -> anyhow::Result<Self> {
        let script = match choice {
            LoadChoice::Upsert => {
                return Load::start(stage, server, directory, work).map(|load| Self::Pgbench(Box::new(load)));
            }
            LoadChoice::Command(line) => {
                let told = Told { rows: work.rows, clients: work.clients, seconds: work.seconds, directory };
                return CommandLoad::start(stage, line, &told).map(|load| Self::Command(Box::new(load)));
            }
            LoadChoice::Tpcb => None,
            LoadChoice::Read70 => Some(include_str!("../../workloads/read70.sql").to_string()),
            LoadChoice::Tpcc => Some(include_str!("../../workloads/tpcc.sql").to_string()),
            LoadChoice::Script(path) => Some(workload::read("--load", path)?),
        };
        let mut arguments: Vec<OsString> = Vec::new();
        match script {
            None => arguments.extend(["-b", "tpcb-like"].map(OsString::from)),
            Some(text) => {
                // The servers' user may not be allowed to read it where it is.
                let file = directory.join("load.sql");
                shared_file::write(&file, text).with_context(|| format!("write {}", file.display()))?;
                arguments.extend(["-D".into(), format!("rows={}", work.rows).into()]);
                arguments.extend(["-f".into(), file.into()]);
            }
        }
        arguments.extend(work.rate.map(|rate| format!("--rate={rate}").into()));
        Load::start_with(stage, server, directory, &arguments, work.clients, work.seconds)
            .map(|load| Self::Pgbench(Box::new(load)))
    }

    /// Does as trouble demands; `left` is what clients who come back work for. A command is never told to.
    pub(crate) fn heed(&mut self, demand: Demand, left: Duration) -> anyhow::Result<()> {
        match self {
            Self::Pgbench(load) => load.heed(demand, left),
            Self::Command(_) => Ok(()),
        }
    }

    /// Transactions per second at the moment.
    pub(crate) fn tps(&self) -> Option<f64> {
        match self {
            Self::Pgbench(load) => load.tps(),
            Self::Command(load) => load.tps(),
        }
    }

    /// Whether it has ended; an error if it failed.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        match self {
            Self::Pgbench(load) => load.has_ended(),
            Self::Command(load) => load.has_ended(),
        }
    }

    /// Lets it end before its time.
    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Pgbench(load) => load.end(),
            Self::Command(load) => {
                load.end();
                Ok(())
            }
        }
    }

    /// Whether its clients may wait beyond its end for a server that is held up. A command is stopped in time.
    pub(crate) fn can_be_late(&self) -> bool {
        matches!(self, Self::Pgbench(_))
    }

    /// What it has done, once it has ended.
    pub(crate) fn transactions(&mut self, directory: &Path) -> anyhow::Result<Transactions> {
        match self {
            Self::Pgbench(_) => Transactions::read(directory, LOG_PREFIX),
            Self::Command(load) => load.transactions(),
        }
    }
}
