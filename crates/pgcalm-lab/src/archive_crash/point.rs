//! Where a process is stopped before the power goes, and what is spoiled in a control.

use crate::archive_crash::options::Sabotage;
use crate::archive_crash::part::Part;

/// A process of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// It decides what is archived next, acknowledges, and copies if no worker has done so before.
    Archiver,
    /// The module's, which copies ahead of the archiver.
    Worker,
    /// It recycles and removes segments.
    Checkpointer,
}

pgcalm_host::names! {
    pub fn title(Process):
        Archiver "archiver", Worker "pg_calm archive worker", Checkpointer "checkpointer"
}

/// What a call is made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Any file.
    Any,
    /// The directory of the archive itself.
    Archive,
    /// `pg_wal` itself.
    PgWal,
}

/// A process is stopped right after it has made this call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// Whose call.
    pub process: Process,
    /// The system call.
    pub call: &'static str,
    /// On what.
    pub target: Target,
}

const fn point(process: Process, call: &'static str, target: Target) -> Point {
    Point { process, call, target }
}

/// All of them, taken in turn.
pub(super) const POINTS: [Point; 9] = [
    point(Process::Archiver, "fsync", Target::Archive),
    point(Process::Archiver, "fsync", Target::Any),
    point(Process::Archiver, "renameat2", Target::Any),
    point(Process::Archiver, "rename", Target::Any),
    point(Process::Worker, "fsync", Target::Any),
    point(Process::Worker, "renameat2", Target::Any),
    point(Process::Checkpointer, "fsync", Target::PgWal),
    point(Process::Checkpointer, "rename", Target::Any),
    point(Process::Checkpointer, "unlink", Target::Any),
];

impl Point {
    /// As reports name it, e.g. `archiver: fsync of the archive directory`.
    pub(super) fn name(&self) -> String {
        let of = match self.target {
            Target::Any => "",
            Target::Archive => " of the archive directory",
            Target::PgWal => " of pg_wal",
        };
        format!("{}: {}{of}", self.process.title(), self.call)
    }
}

/// What is done to the server in a cycle.
#[derive(Debug, Clone, Copy)]
pub(super) enum Interference {
    /// A process is stopped; archiving is as it should be.
    Stop(&'static Point),
    /// Archiving is not as it should be.
    Sabotage(Sabotage),
}

pgcalm_host::names! {
    pub fn description(Sabotage):
        Directory "the archiver's fsync of the archive directory does nothing",
        Cp "archive_command = 'cp', without a sync"
}

impl Sabotage {
    /// Whose fsync of what does nothing; `None` if all of them are made.
    pub fn swallowed_fsync(self) -> Option<(Process, Target)> {
        match self {
            Self::Directory => Some((Process::Archiver, Target::Archive)),
            Self::Cp => None,
        }
    }

    /// What is synced right before the power goes: the worst for what is missing.
    pub fn synced(self) -> Vec<Part> {
        match self {
            Self::Directory | Self::Cp => vec![Part::Data, Part::Status],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_differ_and_say_where_they_are() {
        let mut names: Vec<String> = POINTS.iter().map(Point::name).collect();
        assert_eq!(names[0], "archiver: fsync of the archive directory");
        assert_eq!(names[5], "pg_calm archive worker: renameat2");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), POINTS.len());
    }

    #[test]
    fn a_control_never_syncs_what_it_spoils() {
        assert!(!Sabotage::Directory.synced().contains(&Part::Archive));
        assert!(!Sabotage::Cp.synced().contains(&Part::Archive));
    }
}
