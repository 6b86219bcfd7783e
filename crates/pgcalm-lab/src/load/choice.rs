use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::load::command_line::CommandLine;

/// What loads the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadChoice {
    /// Upserts of single rows of the standard table.
    Upsert,
    /// 70 % reads of single rows of the standard table, 30 % upserts.
    Read70,
    /// pgbench's built-in transactions in the manner of TPC-B.
    Tpcb,
    /// The lab's own transactions in the manner of TPC-C.
    Tpcc,
    /// A pgbench script.
    Script(PathBuf),
    /// Any other program.
    Command(CommandLine),
}

impl LoadChoice {
    /// Whether it is pgbench, which logs each transaction.
    pub fn is_pgbench(&self) -> bool {
        !matches!(self, Self::Command(_))
    }
}

impl fmt::Display for LoadChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upsert => f.write_str("upsert"),
            Self::Read70 => f.write_str("read70"),
            Self::Tpcb => f.write_str("tpcb"),
            Self::Tpcc => f.write_str("tpcc"),
            Self::Script(path) => path.display().fmt(f),
            Self::Command(command) => command.fmt(f),
        }
    }
}

impl Serialize for LoadChoice {
    /// As on the command line.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for LoadChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        Ok(match text {
            "upsert" => Self::Upsert,
            "read70" => Self::Read70,
            "tpcb" => Self::Tpcb,
            "tpcc" => Self::Tpcc,
            // One word, or a file whose name has spaces: programs are not called so.
            _ if path.extension().is_some_and(|e| e == "sql")
                && (path.exists() || !text.contains(char::is_whitespace)) =>
            {
                Self::Script(path.to_path_buf())
            }
            _ => Self::Command(text.parse()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_scripts_and_commands_are_told_apart() {
        assert_eq!("tpcb".parse(), Ok(LoadChoice::Tpcb));
        assert_eq!("/tmp/mix.sql".parse(), Ok(LoadChoice::Script("/tmp/mix.sql".into())));
        for command in ["sysbench oltp_write_only run", "psql -f /tmp/mix.sql"] {
            let choice: LoadChoice = command.parse().unwrap();
            assert!(!choice.is_pgbench(), "{choice:?}");
            assert_eq!(choice.to_string(), command);
        }
        assert!("".parse::<LoadChoice>().is_err());
    }
}
