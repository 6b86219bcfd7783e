use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::DEFAULT_TORTURE_DIR;
use crate::options::{Common, FileSystems, FsType, declared, range};
use pgcalm_host::Failure;

/// What is taken away from archiving in a control, so that something is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sabotage {
    /// The archiver's fsync of the archive directory.
    Directory,
    /// Everything that the module does: `archive_command` is `cp` and nothing else.
    Cp,
}

pgcalm_host::names! { pub fn name(Sabotage): Directory "directory", Cp "cp" }

/// Everything that can be chosen about power cuts at the steps of archiving.
#[derive(Debug, Clone, Args, Serialize)]
#[command(mut_args(declared))]
#[command(mut_arg("dir", |arg| arg.default_value(DEFAULT_TORTURE_DIR)))]
#[command(mut_arg("keep", |arg| arg.help(KEEP)))]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    /// Power cuts; each ninth comes at the same point.
    #[arg(long, default_value = "10")]
    pub cycles: u32,
    /// File system of data, archive and archive_status.
    #[arg(long, default_value = "ext4")]
    pub fs: FileSystems,
    #[arg(long)]
    pub(crate) seed: u64,
    /// Cut the power of servers as well that do not archive as they should; it fails unless their losses are found.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub control: Vec<Sabotage>,
    /// What every scenario has.
    #[command(flatten)]
    #[serde(flatten)]
    pub common: Common,
}

const KEEP: &str = "Keep server logs, and cluster, archive and archive_status of a cycle that failed, in pgcalm-torture-kept of \
                    --dir; `lab clean` removes them";

impl Options {
    /// Fails on values that can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        range("cycles", self.cycles, 0, 1000)?;
        if self.cycles == 0 && self.control.is_empty() {
            return Err(Failure::Usage("--cycles 0: nothing to do without --control".to_string()));
        }
        Ok(())
    }

    /// File systems, taken in turn.
    pub(super) fn file_systems(&self) -> &'static [FsType] {
        self.fs.in_turn()
    }

    /// Settings of the server where they differ from PostgreSQL's, but for those that name a place.
    pub(super) fn server_settings(&self) -> BTreeMap<String, String> {
        self.common.over([
            ("shared_preload_libraries", "pg_calm, pg_calm_archive"),
            ("archive_mode", "on"),
            ("archive_library", "pg_calm_archive"),
            ("pg_calm_archive.workers", "2"),
            // Each checkpoint recycles and removes segments.
            ("min_wal_size", "2MB"),
            ("max_wal_size", "32MB"),
            ("wal_keep_size", "0"),
            // No checkpoint but those asked for.
            ("checkpoint_timeout", "1h"),
            ("autovacuum", "off"),
            ("restart_after_crash", "off"),
            // An answer that never comes must not hang the run.
            ("statement_timeout", "60s"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{named, parsed};

    #[test]
    fn controls_are_named_and_something_is_to_be_done() {
        let options: Options = parsed(&["--cycles", "0", "--control", "directory,cp", "--seed", "7"]).unwrap();
        options.check().unwrap();
        assert_eq!(options.control, [Sabotage::Directory, Sabotage::Cp]);
        let named = named(&options);
        assert_eq!(named["control"][1], "cp");
        assert_eq!(named["seed"], 7);
        assert_eq!(options.common.dir.to_str(), Some(DEFAULT_TORTURE_DIR));
        let nothing: Options = parsed(&["--cycles", "0"]).unwrap();
        let refusal = nothing.check().unwrap_err().to_string();
        assert!(refusal.contains("--control"), "{refusal}");
        assert!(parsed::<Options>(&["--control", "none"]).is_err());
    }
}
