//! Exit codes: what they mean, and which one an error has. `--help`, man pages and docs/reference/exit-codes.md list them
//! from here.

use pgcalm_host::Failure;
use pgcalm_postgres::ConnectError;

use crate::args::fail_on::Found;
use crate::lag::Interrupted;
use crate::ready_to_stop::NotReady;
use crate::suite::WorseThanStock;

/// How a command ends; the same in every verb but `wal-restore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Host = 3,
    Unreachable = 4,
    Found = 5,
    Worse = 6,
    NotReady = 7,
    Interrupted = 130,
}

pgcalm_host::names! {
    fn meaning(Exit), ALL:
        Done "all went well",
        Failed "a run, a query or a file operation failed",
        Usage "bad option or value, or it is not clear which server is meant",
        Host "the host or the role lacks a privilege, a program or a feature",
        Unreachable "no server: none is there, it does not answer, refuses, or ended meanwhile",
        Found "--fail-on: something that bad was found",
        Worse "lab run suite --fail-on worse: pg_calm is worse than stock in a row",
        NotReady "ready-to-stop: when the time was over, a stop would still have taken longer",
        Interrupted "interrupted; what is not to last has been taken down",
}

/// How `wal-restore` ends, which the server reads: see `wal_restore.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RestoreExit {
    Restored = 0,
    /// The file is not in the archive, or a standby asks and it is damaged, or can't be read or written.
    NotFound = 1,
    /// Recovery must stop.
    Stop = 200,
}

impl RestoreExit {
    const ALL: [Self; 3] = [Self::Restored, Self::NotFound, Self::Stop];

    fn meaning(self) -> &'static str {
        match self {
            Self::Restored => "restored; with --check: whole",
            Self::NotFound => {
                "not in the archive: recovery takes this for the end of the archived WAL; for a standby, which streams or asks again, also unfinished, damaged, another cluster's, or no archive that can be read, or pg_wal full"
            }
            Self::Stop => {
                "anything else (damaged, unfinished, in a form that is not read, another cluster's, unreadable, no archive, PATH no file, bad option): the server stops recovery"
            }
        }
    }
}

/// The part of a help about them.
pub(crate) fn help() -> String {
    list(Exit::ALL.map(|exit| (exit as u8, exit.meaning())))
}

/// That of `wal-restore`.
pub(crate) fn restore_help() -> String {
    list(RestoreExit::ALL.map(|exit| (exit as u8, exit.meaning())))
}

fn list<const N: usize>(codes: [(u8, &str); N]) -> String {
    let mut text = String::from("Exit codes:");
    for (code, meaning) in codes {
        text.push_str(&format!("\n  {code:<4} {meaning}"));
    }
    text
}

/// The code of an error: that of the first cause that has one.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    if pgcalm_postgres::is_interrupted(error.as_ref()) {
        return Exit::Interrupted;
    }
    error.chain().find_map(|cause| of_server(cause).or_else(|| of_verb(cause))).unwrap_or(Exit::Failed)
}

type Cause<'a> = &'a (dyn std::error::Error + 'static);

/// Which server, and whether it is there.
fn of_server(cause: Cause) -> Option<Exit> {
    if let Some(error) = cause.downcast_ref() {
        return Some(match error {
            ConnectError::Parameters(_) => Exit::Usage,
            ConnectError::Refused { .. } => Exit::Unreachable,
            ConnectError::Interrupted => Exit::Interrupted,
        });
    }
    // What can't be seen from here, as control groups inside a container.
    if let Some(pgcalm_host::Error::Unknown(_)) = cause.downcast_ref() {
        return Some(Exit::Host);
    }
    cause.downcast_ref().is_some_and(pgcalm_postgres::is_lost).then_some(Exit::Unreachable)
}

fn of_verb(cause: Cause) -> Option<Exit> {
    if let Some(error) = cause.downcast_ref() {
        return Some(match error {
            Failure::Usage(_) => Exit::Usage,
            Failure::Host(_) => Exit::Host,
            Failure::Unreachable(_) => Exit::Unreachable,
            Failure::Interrupted(_) => Exit::Interrupted,
        });
    }
    if cause.is::<Found>() {
        return Some(Exit::Found);
    }
    if cause.is::<WorseThanStock>() {
        return Some(Exit::Worse);
    }
    if cause.is::<NotReady>() {
        return Some(Exit::NotReady);
    }
    cause.is::<Interrupted>().then_some(Exit::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_ending_has_the_same_code_whatever_the_verb() {
        let (text, reason) = (String::new(), String::new());
        let refused = ConnectError::Refused { text, reason, timed_out: false, closed: false, denied: false };
        let connecting = anyhow::Error::from(refused).context("--connect");
        assert_eq!(of(&connecting), Exit::Unreachable);
        for (error, exit) in [
            (anyhow::Error::from(Failure::Unreachable(String::new())), Exit::Unreachable),
            (Failure::Usage(String::new()).into(), Exit::Usage),
            (ConnectError::Parameters(String::new()).into(), Exit::Usage),
            (Failure::Host(String::new()).into(), Exit::Host),
            (anyhow::Error::from(Failure::Interrupted("")).context("run"), Exit::Interrupted),
        ] {
            assert_eq!(of(&error), exit, "{error:?}");
        }
        assert_eq!(of(&anyhow::anyhow!("x")), Exit::Failed);
    }
}
