//! What a template holds: how its tables are made, and the name by which a later run finds it.

use std::hash::Hasher;

use fnv::FnvHasher;

use crate::load::command_line::CommandLine;

/// How a template's tables are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preparation {
    /// The standard table `test`.
    Standard {
        /// Its rows.
        rows: u64,
    },
    /// `pgbench -i`.
    Pgbench {
        /// Of 100000 accounts each.
        scale: u64,
    },
    /// A script for psql.
    Script {
        /// Where it is from; part of the template's name.
        name: String,
        /// Its text.
        text: String,
        /// The variable `rows`.
        rows: u64,
    },
    /// A program.
    Command {
        /// The program.
        line: CommandLine,
        /// PGCALM_ROWS.
        rows: u64,
        /// PGCALM_CLIENTS.
        clients: u32,
        /// PGCALM_SECONDS.
        seconds: u32,
        /// All of them in place.
        described: String,
    },
}

impl Preparation {
    /// Part of the template's name: the same for the same tables.
    pub fn key(&self) -> String {
        match self {
            Self::Standard { rows } => format!("rows{rows}"),
            Self::Pgbench { scale } => format!("tpcb{scale}"),
            Self::Script { name, text, rows } => {
                let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
                format!("{name}-rows{rows}-{:016x}", hash(text))
            }
            Self::Command { rows, described, .. } => {
                format!("command-rows{rows}-{:016x}", hash(described))
            }
        }
    }

    /// For progress.
    pub fn announcement(&self) -> String {
        match self {
            Self::Standard { rows } => format!("loading {rows} rows"),
            Self::Pgbench { scale } => format!("loading {} accounts", scale * 100_000),
            Self::Script { name, rows, .. } => format!("preparing {name} of {rows} rows"),
            Self::Command { line, .. } => format!("preparing with {}", line.program()),
        }
    }
}

/// The same in all versions of this program, as the standard library's is not.
fn hash(text: &str) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_templates_name_tells_the_tables_apart_and_stays_what_it_was_for_the_standard_table() {
        assert_eq!(Preparation::Standard { rows: 20_000_000 }.key(), "rows20000000");
        let script = |text: &str, rows| Preparation::Script { name: "my mix.v2".into(), text: text.into(), rows }.key();
        let key = script("create table a ();", 1000);
        assert!(key.starts_with("mymixv2-rows1000-"), "{key}");
        assert_ne!(key, script("create table b ();", 1000));
        assert_ne!(key, script("create table a ();", 2000));
    }
}
