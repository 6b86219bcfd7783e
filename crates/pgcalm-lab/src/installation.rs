//! The PostgreSQL installation and the OS user that the lab runs servers with.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use nix::unistd::User;
use pgcalm_host::{HostRoot, postgres};

use crate::interrupt::Interrupt;
use crate::journal::Change;
use crate::tool;
use pgcalm_host::Failure;

/// PostgreSQL refuses to run as root; its packages create this user.
const OS_USER: &str = "postgres";

/// Programs of one PostgreSQL version, to be run as the user `postgres`.
#[derive(Debug, Clone)]
pub struct Installation {
    bindir: PathBuf,
    /// E.g. `PostgreSQL 15.20 (Debian ...)`.
    pub version: String,
    /// E.g. 15.
    pub major: u32,
    /// User id of the servers.
    pub uid: u32,
    /// Group id of the servers.
    pub gid: u32,
    host_root: Option<PathBuf>,
}

impl Installation {
    /// One whose files this user may own.
    #[cfg(test)]
    pub(crate) fn for_test(uid: u32, gid: u32) -> Self {
        Self { bindir: PathBuf::new(), version: String::new(), major: 15, uid, gid, host_root: None }
    }

    /// Takes the one in `bindir`, or the newest that is installed.
    pub fn find(root: &HostRoot, bindir: Option<&Path>, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let bindir = match bindir {
            Some(bindir) => {
                let missing = postgres::missing(root, bindir);
                if !missing.is_empty() {
                    anyhow::bail!(Failure::Usage(format!(
                        "--pg-bindir {}: {} not found there; name the directory that holds postgres, e.g. \
                         /usr/lib/postgresql/15/bin",
                        bindir.display(),
                        missing.join(", ")
                    )));
                }
                bindir.to_path_buf()
            }
            None => postgres::bindirs(root).into_iter().next().ok_or_else(|| {
                Failure::Host(
                    "no PostgreSQL server found: install it (e.g. apt-get install postgresql) or name it with \
                     --pg-bindir"
                        .to_string(),
                )
            })?,
        };
        // As /proc/PID/exe shows it.
        let bindir = bindir.canonicalize().with_context(|| format!("resolve {}", bindir.display()))?;
        let output = tool::run(tool::command(bindir.join("postgres")).arg("--version"), interrupt)?;
        let version =
            postgres::version_name(&output).with_context(|| format!("postgres --version says {:?}", output.trim()))?;
        let major = postgres::major_version(&version).with_context(|| format!("unknown version {version}"))?;
        if let Some(why) = pgcalm_postgres::refusal(version.trim_start_matches("PostgreSQL ")) {
            anyhow::bail!(Failure::Usage(format!("{}: {why}; name another with --pg-bindir", bindir.display())));
        }
        let user = User::from_name(OS_USER).with_context(|| format!("look up user {OS_USER}"))?.ok_or_else(|| {
            Failure::Host(format!(
                "no OS user {OS_USER}: PostgreSQL does not run as root; create it with useradd -r {OS_USER}"
            ))
        })?;
        Ok(Self { bindir, version, major, uid: user.uid.as_raw(), gid: user.gid.as_raw(), host_root: None })
    }

    /// Has pg_calm in its servers read `/proc` and `/sys` below `root`, and take settings that are there for tests only.
    pub fn under_test(&mut self, root: &Path) {
        self.host_root = Some(root.to_path_buf());
    }

    /// The server on the data directory `data`.
    pub fn postgres(&self, data: &Path) -> Command {
        let mut command = self.command("postgres", data);
        command.arg("-D").arg(data);
        if let Some(root) = &self.host_root {
            command.env("PG_CALM_HOST_ROOT", root);
        }
        command
    }

    /// The change that is undone by ending all that runs of it in `directory`.
    pub fn processes_in(&self, directory: &Path) -> Change {
        Change::Processes { bindir: self.bindir.clone(), directory: directory.to_path_buf() }
    }

    /// A command for one of the programs, as the user of the servers, working in `directory`.
    pub fn command(&self, name: &str, directory: &Path) -> Command {
        let mut command = tool::command(self.bindir.join(name));
        self.run_as(&mut command, directory);
        command
    }

    /// `initdb` of a cluster in `data`, an empty directory of that user: superuser postgres, who needs no password, and
    /// the C locale. Nothing is synced; a run that needs that does it itself.
    pub fn initdb(&self, data: &Path) -> Command {
        let mut command = self.command("initdb", data);
        command
            .args(["--locale=C", "--encoding=UTF8", "--auth=trust", "--username=postgres", "--no-sync", "-D"])
            .arg(data);
        command
    }

    /// Lets another program run as the user of the servers, working in `directory`.
    pub fn run_as(&self, command: &mut Command, directory: &Path) {
        command.uid(self.uid).gid(self.gid).current_dir(directory).env("HOME", directory);
    }

    /// Where server modules lie.
    pub fn module_dir(&self, interrupt: &Interrupt) -> anyhow::Result<PathBuf> {
        let output = tool::run(tool::command(self.bindir.join("pg_config")).arg("--pkglibdir"), interrupt)?;
        Ok(PathBuf::from(output.trim()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_refused_before_anything_is_made() {
        let dir = tempfile::tempdir().unwrap();
        for program in postgres::PROGRAMS {
            let path = dir.path().join(program);
            fs::write(&path, "#!/bin/sh\necho 'postgres (PostgreSQL) 13.14 (Debian 13.14-1)'\n").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let error = Installation::find(&HostRoot::default(), Some(dir.path()), &Interrupt::default()).unwrap_err();
        let why = "PostgreSQL 13.14 is too old: 15 to 19 are supported; name another with --pg-bindir";
        assert!(error.to_string().ends_with(why), "{error}");
    }
}
