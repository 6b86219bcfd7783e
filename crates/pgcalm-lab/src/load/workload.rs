use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::Size;
use crate::load::choice::LoadChoice;
use crate::load::command_line::{CommandLine, Told};
use crate::load::preparation::Preparation;
use pgcalm_host::Failure;

/// Bytes of table and index per row of `test`, measured at 20M rows.
const ROW_BYTES: u64 = 125;

/// Bytes of table and index per account, measured with `pgbench -i` at scales 5 and 20.
const ACCOUNT_BYTES: u64 = 157;

/// Bytes of all tables and indexes per row of stock, measured at 1M rows.
const STOCK_BYTES: u64 = 510;

/// Accounts of a branch: `naccounts` in pgbench.
const BRANCH: u64 = 100_000;

/// A load and the tables that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Workload {
    /// What loads the server: upsert, read70 (70 % reads by key, 30 % upserts), tpcb (pgbench's own), tpcc (in the manner
    /// of TPC-C), a pgbench script (FILE.sql; FILE.prepare.sql beside it makes its tables), or any program with arguments,
    /// which is given PGHOST, PGPORT, PGUSER, PGDATABASE, PGCALM_ROWS, PGCALM_CLIENTS and PGCALM_SECONDS; {rows}, {clients},
    /// {seconds}, {host}, {port}, {user} and {database} in it are replaced; no shell is run. What a program does is
    /// counted in the server.
    #[arg(long = "load", value_name = "upsert|read70|tpcb|tpcc|FILE.sql|COMMAND", default_value = "upsert")]
    #[serde(rename = "load")]
    pub choice: LoadChoice,
    /// What makes the tables of a COMMAND, run once and told the same as it [default: the table of upsert].
    #[arg(long, value_name = "COMMAND")]
    pub prepare: Option<CommandLine>,
    /// Size of the tables with their indexes, instead of --rows.
    #[arg(long, value_name = "SIZE", conflicts_with = "rows")]
    pub table_size: Option<Size>,
    /// The size of the loaded tables, where it is not known per row but seen once they are there.
    #[arg(skip)]
    #[serde(skip)]
    pub loaded: Option<Size>,
}

impl Workload {
    /// Fails on what can't work, naming the option.
    pub fn check(&self) -> Result<(), Failure> {
        if let Some(prepare) = &self.prepare {
            if self.choice.is_pgbench() {
                return Err(Failure::Usage(format!(
                    "--prepare: load {} has its own preparation: use it with a program only",
                    self.choice
                )));
            }
            prepare.need("prepare")?;
        }
        match &self.choice {
            LoadChoice::Script(path) => read("--load", path).map(drop),
            LoadChoice::Command(line) => line.need("load"),
            _ => Ok(()),
        }
    }

    /// The number of rows that take `size` with their indexes.
    pub fn rows_of(&self, size: Size) -> Result<u64, Failure> {
        match self.row_bytes() {
            Some(bytes) => Ok(self.whole(size.bytes() / bytes)),
            None => Err(Failure::Usage(format!(
                "--table-size {size}: nobody knows how much a row of {} takes: use --rows",
                self.choice
            ))),
        }
    }

    /// The number of rows that there will be if `rows` are asked for: pgbench makes whole branches.
    pub fn whole(&self, rows: u64) -> u64 {
        match self.choice {
            LoadChoice::Tpcb => rows.div_ceil(BRANCH) * BRANCH,
            _ => rows,
        }
    }

    /// Bytes of the tables and indexes; a guess where nothing is known yet.
    pub fn table_bytes(&self, rows: u64) -> u64 {
        self.loaded.map_or(rows * self.row_bytes().unwrap_or(ROW_BYTES), Size::bytes)
    }

    /// Takes note of the size of the tables as they are, where it was a guess.
    pub fn settle(&mut self, bytes: u64) {
        if self.row_bytes().is_none() {
            self.loaded = Some(Size(bytes));
        }
    }

    /// How its tables are made.
    pub fn preparation(&self, rows: u64, clients: u32, seconds: u32) -> Result<Preparation, Failure> {
        Ok(match &self.choice {
            LoadChoice::Upsert | LoadChoice::Read70 => Preparation::Standard { rows },
            LoadChoice::Tpcb => Preparation::Pgbench { scale: rows.div_ceil(BRANCH) },
            LoadChoice::Tpcc => Preparation::Script {
                name: "tpcc".to_string(),
                text: include_str!("../../workloads/tpcc.prepare.sql").to_string(),
                rows,
            },
            LoadChoice::Script(path) => match beside(path) {
                Some(file) => Preparation::Script {
                    name: path.file_stem().unwrap_or_default().to_string_lossy().into(),
                    text: read("--load", &file)?,
                    rows,
                },
                None => Preparation::Standard { rows },
            },
            LoadChoice::Command(_) => match &self.prepare {
                Some(line) => Preparation::Command {
                    line: line.clone(),
                    rows,
                    clients,
                    seconds,
                    described: line.described(&Told { rows, clients, seconds, directory: Path::new("") }),
                },
                None => Preparation::Standard { rows },
            },
        })
    }

    /// `None` where tables are of the user's making.
    fn row_bytes(&self) -> Option<u64> {
        match &self.choice {
            LoadChoice::Upsert | LoadChoice::Read70 => Some(ROW_BYTES),
            LoadChoice::Tpcb => Some(ACCOUNT_BYTES),
            LoadChoice::Tpcc => Some(STOCK_BYTES),
            LoadChoice::Script(path) => beside(path).is_none().then_some(ROW_BYTES),
            LoadChoice::Command(_) => self.prepare.is_none().then_some(ROW_BYTES),
        }
    }
}

/// The preparation beside a script: `mix.prepare.sql` for `mix.sql`.
pub(crate) fn beside(script: &Path) -> Option<PathBuf> {
    let file = script.with_extension("prepare.sql");
    file.exists().then_some(file)
}

/// The text of a script.
pub(crate) fn read(option: &str, path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!("{option} {}: {error}; name a file of SQL that can be read", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(load: &str) -> Workload {
        Workload { choice: load.parse().unwrap(), prepare: None, table_size: None, loaded: None }
    }

    #[test]
    fn a_size_is_rows_where_a_rows_size_is_known() {
        let gigabyte = Size(1 << 30);
        assert_eq!(workload("upsert").rows_of(gigabyte).unwrap(), (1 << 30) / 125);
        // Whole branches.
        assert_eq!(workload("tpcb").rows_of(gigabyte).unwrap(), 6_900_000);
        let mut prepared = workload("sysbench run");
        assert!(prepared.rows_of(gigabyte).is_ok());
        prepared.prepare = Some("sysbench prepare".parse().unwrap());
        assert!(prepared.rows_of(gigabyte).is_err());
    }

    #[test]
    fn a_script_with_a_preparation_has_tables_of_its_own_and_their_size_once_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("mix.sql");
        fs::write(&script, "select 1;").unwrap();
        let mut workload = workload(script.to_str().unwrap());
        workload.settle(5000);
        assert_eq!(workload.table_bytes(1000), 125_000);
        assert_eq!(workload.preparation(1000, 1, 1).unwrap(), Preparation::Standard { rows: 1000 });
        fs::write(dir.path().join("mix.prepare.sql"), "create table a ();").unwrap();
        workload.settle(5000);
        assert_eq!(workload.table_bytes(1000), 5000);
        let key = workload.preparation(1000, 1, 1).unwrap().key();
        assert!(key.starts_with("mix-rows1000-"), "{key}");
    }

    #[test]
    fn what_can_not_work_names_its_option() {
        let absent = workload("/nonexistent/mix.sql").check().unwrap_err();
        assert!(absent.to_string().starts_with("--load /nonexistent"));
        assert!(absent.to_string().ends_with("name a file of SQL that can be read"));
        let mut tpcb = workload("tpcb");
        tpcb.prepare = Some("true".parse().unwrap());
        assert!(tpcb.check().unwrap_err().to_string().contains("--prepare"));
    }
}
