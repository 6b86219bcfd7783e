//! The ways of archiving that are set against each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::options::{Named, one_of};
use crate::shell;

/// How pg_calm compresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// `.lz4`.
    Lz4,
    /// `.zst`.
    Zstd,
}

/// What archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A module that says yes.
    Noop,
    /// `cp` by archive_command.
    Cp {
        /// Whether copy and directory are synced.
        sync: bool,
    },
    /// PostgreSQL's own example of a module.
    BasicArchive,
    /// pgBackRest by archive_command.
    PgBackRest {
        /// With that many processes in the background; `None`: it copies in the foreground, one by one.
        asynchronous: Option<u32>,
        /// Whether it compresses with lz4.
        lz4: bool,
    },
    /// Streaming from a replication slot.
    PgReceivewal,
    /// The module that this project is about.
    PgCalm {
        /// pg_calm_archive.workers.
        workers: u32,
        /// pg_calm_archive.compression.
        compression: Compression,
    },
}

/// One archiver that can be named.
#[derive(Debug, PartialEq, Eq)]
pub struct Archiver {
    /// As on the command line.
    pub name: &'static str,
    /// What it is.
    pub way: Way,
}

const fn archiver(name: &'static str, way: Way) -> Archiver {
    Archiver { name, way }
}

const fn pgbackrest(name: &'static str, asynchronous: Option<u32>, lz4: bool) -> Archiver {
    archiver(name, Way::PgBackRest { asynchronous, lz4 })
}

const fn pg_calm(name: &'static str, workers: u32, compression: Compression) -> Archiver {
    archiver(name, Way::PgCalm { workers, compression })
}

/// All that there are.
pub const ARCHIVERS: [Archiver; 22] = [
    archiver("noop", Way::Noop),
    archiver("cp", Way::Cp { sync: false }),
    archiver("cp-sync", Way::Cp { sync: true }),
    archiver("basic_archive", Way::BasicArchive),
    pgbackrest("pgbackrest", None, false),
    pgbackrest("pgbackrest-lz4", None, true),
    pgbackrest("pgbackrest-async-1", Some(1), false),
    pgbackrest("pgbackrest-async-2", Some(2), false),
    pgbackrest("pgbackrest-async-4", Some(4), false),
    pgbackrest("pgbackrest-async-1-lz4", Some(1), true),
    pgbackrest("pgbackrest-async-2-lz4", Some(2), true),
    pgbackrest("pgbackrest-async-4-lz4", Some(4), true),
    archiver("pg_receivewal", Way::PgReceivewal),
    pg_calm("pg_calm-1", 1, Compression::None),
    pg_calm("pg_calm-2", 2, Compression::None),
    pg_calm("pg_calm-4", 4, Compression::None),
    pg_calm("pg_calm-1-lz4", 1, Compression::Lz4),
    pg_calm("pg_calm-2-lz4", 2, Compression::Lz4),
    pg_calm("pg_calm-4-lz4", 4, Compression::Lz4),
    pg_calm("pg_calm-1-zstd", 1, Compression::Zstd),
    pg_calm("pg_calm-2-zstd", 2, Compression::Zstd),
    pg_calm("pg_calm-4-zstd", 4, Compression::Zstd),
];

impl Named for Archiver {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Reads one name.
pub fn parse(name: &str) -> Result<&'static Archiver, String> {
    one_of(&ARCHIVERS, "archiver", name)
}

/// Where an archiver finds what it needs.
#[derive(Debug)]
pub struct Places<'a> {
    /// The archive, writable to the server's user.
    pub archive: &'a Path,
    /// pgBackRest's configuration.
    pub pgbackrest_configuration: &'a Path,
    /// The module that says yes.
    pub noop_module: Option<&'a PathBuf>,
}

impl Archiver {
    /// What it is, in one sentence.
    pub fn description(&self) -> String {
        match self.way {
            Way::Noop => "An archive module that copies nothing: what acknowledging costs.".to_string(),
            Way::Cp { sync: false } => "archive_command as the manual shows it: test, then cp.".to_string(),
            Way::Cp { sync: true } => "The same, and sync of the copy and its directory.".to_string(),
            Way::BasicArchive => "PostgreSQL's basic_archive.".to_string(),
            Way::PgBackRest { asynchronous, lz4 } => format!(
                "pgBackRest, {}, {}.",
                match asynchronous {
                    None => "one by one".to_string(),
                    Some(processes) => format!("asynchronous with process-max={processes}"),
                },
                if lz4 { "lz4" } else { "no compression" }
            ),
            Way::PgReceivewal => "pg_receivewal, streaming from a replication slot.".to_string(),
            Way::PgCalm { workers, compression } => {
                format!("pg_calm_archive with workers={workers}, {}.", compression.described())
            }
        }
    }

    /// Whether it copies anything.
    pub fn copies(&self) -> bool {
        !matches!(self.way, Way::Noop)
    }

    /// Whether its server loads pg_calm_archive.
    pub fn needs_module(&self) -> bool {
        matches!(self.way, Way::PgCalm { .. })
    }

    /// The settings in which its server differs from others.
    pub fn settings(&self, places: &Places<'_>) -> BTreeMap<String, String> {
        let archive = shell::word(places.archive);
        let mut settings = BTreeMap::new();
        let mut set = |name: &str, value: String| {
            settings.insert(name.to_string(), value);
        };
        if self.needs_module() {
            set("shared_preload_libraries", "pg_calm_archive".to_string());
        }
        if self.way != Way::PgReceivewal {
            set("archive_mode", "on".to_string());
        }
        match self.way {
            Way::Noop => set(
                "archive_library",
                places.noop_module.map(|module| module.display().to_string()).unwrap_or_default(),
            ),
            Way::Cp { sync } => {
                let sync = if sync { format!(" && sync {archive}/%f {archive}") } else { String::new() };
                set("archive_command", format!("test ! -f {archive}/%f && cp %p {archive}/%f{sync}"));
            }
            Way::BasicArchive => {
                set("archive_library", "basic_archive".to_string());
                set("basic_archive.archive_directory", places.archive.display().to_string());
            }
            Way::PgBackRest { .. } => set(
                "archive_command",
                format!(
                    "pgbackrest --config={} --stanza={STANZA} archive-push %p",
                    shell::word(places.pgbackrest_configuration)
                ),
            ),
            Way::PgReceivewal => {}
            Way::PgCalm { workers, compression } => {
                set("archive_library", "pg_calm_archive".to_string());
                set("pg_calm_archive.directory", places.archive.display().to_string());
                set("pg_calm_archive.workers", workers.to_string());
                set("pg_calm_archive.compression", compression.name().to_string());
            }
        }
        settings
    }
}

/// How pgBackRest calls the cluster.
pub const STANZA: &str = "lab";

pgcalm_host::names! { fn name(Compression): None "none", Lz4 "lz4", Zstd "zstd" }

pgcalm_host::names! { fn described(Compression): None "no compression", Lz4 "lz4", Zstd "zstd" }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for archiver in &ARCHIVERS {
            assert_eq!(parse(archiver.name), Ok(archiver));
        }
    }

    #[test]
    fn a_path_stays_one_word_of_a_command() {
        let places = Places {
            archive: Path::new("/a b/it's 100%"),
            pgbackrest_configuration: Path::new("/c"),
            noop_module: None,
        };
        let settings = parse("cp").unwrap().settings(&places);
        assert_eq!(settings["archive_command"], "test ! -f '/a b/it'\\''s 100%%'/%f && cp %p '/a b/it'\\''s 100%%'/%f");
    }
}
