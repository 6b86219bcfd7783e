use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::{env, fmt, fs};

use serde::{Serialize, Serializer};

use crate::installation::Installation;
use crate::restore::RUN_VARIABLE;
use crate::tool;
use pgcalm_host::Failure;

/// A program with arguments, as given: split as a shell splits words, but no shell runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    text: String,
    words: Vec<String>,
}

/// What a command is told, in its environment and in place of `{rows}` and the like.
#[derive(Debug, Clone)]
pub struct Told<'a> {
    /// Rows of the table.
    pub rows: u64,
    /// Connections.
    pub clients: u32,
    /// Duration.
    pub seconds: u32,
    /// Directory of the server's socket; the command works there.
    pub directory: &'a Path,
}

/// Of all servers of the lab.
const PORT: &str = "5432";
const USER: &str = "postgres";
const DATABASE: &str = "postgres";

impl CommandLine {
    /// Its first word, without directories.
    pub fn program(&self) -> &str {
        let program = &self.words[0];
        Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
    }

    /// Fails if the program is not there. Asked before anything is changed: loading a table may take long.
    pub fn need(&self, option: &str) -> Result<(), Failure> {
        match self.find() {
            Some(_) => Ok(()),
            None => Err(Failure::Host(format!(
                "--{option}: program {} not found{}",
                self.words[0],
                if option == "load" {
                    "; built in are upsert, read70, tpcb and tpcc, and the name of a pgbench script ends in .sql"
                } else {
                    ""
                }
            ))),
        }
    }

    /// The line with what it is told, but for the place of the server: what it does to a database.
    pub fn described(&self, told: &Told) -> String {
        self.words.iter().map(|word| replaced(word, &numbers(told))).collect::<Vec<_>>().join(" ")
    }

    /// The command, as the user of the servers; not started.
    pub fn command(&self, installation: &Installation, told: &Told) -> Command {
        let host = told.directory.to_string_lossy();
        let mut values = numbers(told).to_vec();
        values.extend([
            ("{host}", host.to_string()),
            ("{port}", PORT.to_string()),
            ("{user}", USER.to_string()),
            ("{database}", DATABASE.to_string()),
        ]);
        let mut command = tool::command(self.find().unwrap_or_else(|| PathBuf::from(&self.words[0])));
        installation.run_as(&mut command, told.directory);
        command
            .args(self.words[1..].iter().map(|word| replaced(word, &values)))
            .env("PGHOST", told.directory)
            .env("PGPORT", PORT)
            .env("PGUSER", USER)
            .env("PGDATABASE", DATABASE)
            .env("PGCALM_ROWS", told.rows.to_string())
            .env("PGCALM_CLIENTS", told.clients.to_string())
            .env("PGCALM_SECONDS", told.seconds.to_string())
            // By which it is found, with whatever it starts.
            .env(RUN_VARIABLE, told.directory);
        command
    }

    /// A name with a slash is of this process's working directory; the command has another one.
    fn find(&self) -> Option<PathBuf> {
        let program = Path::new(&self.words[0]);
        if self.words[0].contains('/') {
            let program = std::path::absolute(program).ok()?;
            return program.exists().then_some(program);
        }
        env::split_paths(&env::var_os("PATH")?)
            .map(|directory| directory.join(program))
            .find(|file| fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0))
    }
}

fn numbers(told: &Told) -> [(&'static str, String); 3] {
    [
        ("{rows}", told.rows.to_string()),
        ("{clients}", told.clients.to_string()),
        ("{seconds}", told.seconds.to_string()),
    ]
}

fn replaced(word: &str, values: &[(&str, String)]) -> String {
    values.iter().fold(word.to_string(), |word, (name, value)| word.replace(name, value))
}

impl Serialize for CommandLine {
    /// As it was given.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for CommandLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).ok_or_else(|| format!("a quote is not closed in {text:?}"))?;
        if words.first().is_none_or(String::is_empty) {
            return Err("give a program".to_string());
        }
        Ok(Self { text: text.to_string(), words })
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does_and_placeholders_replaced_within_them() {
        let line: CommandLine = "/opt/bench 'a b' --n={rows}x{clients} {other} $HOME".parse().unwrap();
        let told = Told { rows: 1000, clients: 4, seconds: 8, directory: Path::new("/run") };
        assert_eq!(line.program(), "bench");
        assert_eq!(line.described(&told), "/opt/bench a b --n=1000x4 {other} $HOME");
        for nothing in ["", "   ", "''", "bench 'open"] {
            assert!(nothing.parse::<CommandLine>().is_err(), "{nothing:?}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_a_lack_of_the_host() {
        let line: CommandLine = "upsrt --fast".parse().unwrap();
        let text = line.need("load").unwrap_err().to_string();
        assert!(text.contains("upsrt not found") && text.contains("tpcb"), "{text}");
        "sh -c true".parse::<CommandLine>().unwrap().need("load").unwrap();
    }
}
