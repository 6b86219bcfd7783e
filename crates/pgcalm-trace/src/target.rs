//! Which server is traced.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context;
use object::{Object, ObjectSection, ReadCache};
use pgcalm_host::choice::Known;
use pgcalm_host::postmaster::{Candidate, Postmaster};
use pgcalm_host::server_process::Title;
use pgcalm_host::{HostRoot, choice, instance, postmaster, process, server_process};

use crate::connect_option;
use pgcalm_host::Failure;

/// How a server is named.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Process id of the postmaster, of a caller that knows it.
    pub pid: Option<i32>,
    /// `--instance`: a server of this host, see [`choice`].
    pub instance: Option<String>,
    /// `--connect`: of several servers, and without a name, the one with the port of this connection string is meant.
    pub connect: Option<String>,
}

/// Oldest and newest major versions that the probes and their arguments are known of.
const VERSIONS: std::ops::RangeInclusive<u32> = pgcalm_postgres::OLDEST as u32..=18;

/// A running server and its program.
#[derive(Debug, Clone)]
pub struct Target {
    /// The host it runs on.
    pub root: HostRoot,
    /// Process, data directory, port.
    pub postmaster: Postmaster,
    /// E.g. `PostgreSQL 15.20 (Debian 15.20-0+deb12u1)`.
    pub version: String,
    /// E.g. 15.
    pub major: u32,
    /// The setting cluster_name, which stands first in process titles.
    pub cluster_name: String,
}

impl Target {
    /// Finds the server; the only one if nothing is selected.
    ///
    /// Errors are a [`Failure`] if there is none or it is not clear which, [`Failure::Host`] if
    /// it may not be looked at.
    pub fn find(root: &HostRoot, selection: &Selection) -> anyhow::Result<Self> {
        let postmaster = match selection {
            Selection { pid: Some(pid), .. } => by_pid(root, *pid)?,
            selection => by_name(root, selection)?,
        };
        let pid = postmaster.process.pid;
        let usage = |text: String| anyhow::Error::from(Failure::Usage(text));
        let major: u32 = postmaster
            .major_version
            .split('.')
            .next()
            .and_then(|text| text.parse().ok())
            .filter(|major| *major >= *VERSIONS.start())
            .ok_or_else(|| {
                usage(format!(
                    "the server with pid {pid} is of version {:?}, of which the probes are not known; {} to {} are",
                    postmaster.major_version,
                    VERSIONS.start(),
                    VERSIONS.end()
                ))
            })?;
        let mut target = Self {
            root: root.clone(),
            version: format!("PostgreSQL {}", postmaster.major_version),
            major,
            cluster_name: String::new(),
            postmaster,
        };
        // Not there in stripped-down builds; the major version is enough to work with.
        if let Ok(Some(version)) = version_in(&target.program()) {
            target.version = version;
        }
        target.cluster_name = target.find_cluster_name();
        Ok(target)
    }

    /// Process id of the postmaster.
    pub fn pid(&self) -> i32 {
        self.postmaster.process.pid
    }

    /// The program file, in whatever mount namespace, and even if an upgrade has replaced it.
    pub fn program(&self) -> PathBuf {
        self.root.path(format!("proc/{}/exe", self.pid()))
    }

    /// Whether the server is newer than any whose probes are known.
    pub fn is_newer_than_known(&self) -> bool {
        self.major > *VERSIONS.end()
    }

    /// Process ids of the postmaster's children.
    pub fn children(&self) -> anyhow::Result<Vec<i32>> {
        Ok(process::table(&self.root)?
            .into_iter()
            .filter(|process| process.parent == self.pid())
            .map(|process| process.pid)
            .collect())
    }

    /// What a child of the postmaster does; `None` if it has ended or has no title yet.
    pub fn title(&self, pid: i32) -> Option<Title> {
        let command_line = process::command_line(&self.root, pid).ok()?;
        server_process::parse_title(&command_line, &self.cluster_name)
    }

    /// The titles of all processes that every server has begin with the cluster name.
    fn find_cluster_name(&self) -> String {
        let children = self.children().unwrap_or_default();
        children
            .into_iter()
            .find_map(|pid| {
                let command_line = process::command_line(&self.root, pid).ok()?;
                let title = command_line.strip_prefix("postgres: ")?.trim_end();
                ["checkpointer", "background writer", "walwriter"]
                    .iter()
                    .find_map(|name| title.strip_suffix(name)?.strip_suffix(": "))
                    .map(str::to_string)
            })
            .unwrap_or_default()
    }
}

fn by_pid(root: &HostRoot, pid: i32) -> anyhow::Result<Postmaster> {
    match postmaster::examine(root, pid) {
        Ok(Candidate::Postmaster(postmaster)) => Ok(postmaster),
        Ok(_) => Err(Failure::Usage(format!("pid {pid} is no server that is up")).into()),
        Err(error) => Err(look_error(error)),
    }
}

fn by_name(root: &HostRoot, selection: &Selection) -> anyhow::Result<Postmaster> {
    let mut running = postmaster::running(root)?;
    if let (None, Some(connect), 2..) = (&selection.instance, &selection.connect, running.len()) {
        let port = connect_option::port(connect)?;
        running.retain(|server| server.port == Some(port));
    }
    let known: Vec<Known> = running.iter().map(Known::from).collect();
    let hidden = instance::hidden(root, &process::table(root)?);
    let index = choice::choose(root, selection.instance.as_deref(), &known, &hidden)?;
    Ok(running.swap_remove(index))
}

fn look_error(error: pgcalm_host::Error) -> anyhow::Error {
    match &error {
        pgcalm_host::Error::Read { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Failure::Host(format!("{error}; needs root with CAP_SYS_PTRACE")).into()
        }
        _ => error.into(),
    }
}

/// The version text that is compiled into the server (PG_VERSION_STR), up to the platform.
fn version_in(program: &Path) -> anyhow::Result<Option<String>> {
    const START: &[u8] = b"PostgreSQL ";
    let file = File::open(program).with_context(|| format!("open {}", program.display()))?;
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache)?;
    let Some(section) = elf.section_by_name(".rodata") else { return Ok(None) };
    let data = section.data()?;
    for (at, window) in data.windows(START.len()).enumerate() {
        if window != START || !data.get(at + START.len()).is_some_and(u8::is_ascii_digit) {
            continue;
        }
        let text: Vec<u8> = data[at..].iter().copied().take_while(|b| *b != 0).collect();
        let text = String::from_utf8_lossy(&text);
        if let Some((version, _)) = text.split_once(" on ") {
            return Ok(Some(version.to_string()));
        }
    }
    Ok(None)
}
