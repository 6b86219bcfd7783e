use std::fmt::Display;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};

use pgcalm_host::replacement::Replacement;
use pgcalm_host::{Failure, replacement};

use crate::remains::Remains;
use crate::{FileName, Form, SegmentCheck, Stored, cluster, history, remains};

/// Size of the parts in which a file is checked and written.
const PART: usize = 256 << 10;

/// The largest timeline history that is read: 100,000 timelines, and far from memory's end.
const LARGEST_HISTORY: u64 = 16 << 20;

/// What names of files begin with while they are written; the process ID follows.
const TEMPORARY: &str = "xlogtemp.pgcalm.";

/// How often the archive is looked through for a file that arrives meanwhile.
const LOOKS: usize = 3;

/// What to restore.
#[derive(Debug, Clone)]
pub struct Request {
    /// Directory of the archive.
    pub archive: PathBuf,
    /// Name of the file, without a suffix: `%f`.
    pub file: String,
    /// Where it is to appear.
    pub target: Target,
}

/// Where a file is to appear.
#[derive(Debug, Clone)]
pub enum Target {
    /// Under this name: `%p`. It tells the cluster, too: that in whose pg_wal it lies.
    File(PathBuf),
    /// Nowhere: it is only checked. With a path as `%p` it must be of that cluster.
    Nowhere(Option<PathBuf>),
}

/// How it ended where nothing failed.
#[derive(Debug)]
pub enum Outcome {
    /// It was restored, or checked.
    Restored(Restored),
    /// The archive does not hold it; or a standby asks, which will ask again, and it is not finished, damaged, or can't be read or
    /// written.
    /// The text says which. This alone may be taken for the end of the archived WAL.
    Absent(String),
}

/// A file that was restored, or checked.
#[derive(Debug)]
pub struct Restored {
    /// The file of the archive that it came from.
    pub source: PathBuf,
    /// Whether that is compressed without a checksum of its content, so that only what the WAL pages tell was checked.
    pub unchecked: bool,
    /// Of other forms of the file that were found first: why they can't be used.
    pub damaged: Vec<String>,
}

/// What became of one form of the file.
enum Tried {
    Absent,
    /// It may be good.
    Unreadable(Failure),
    /// It is damaged, or no file; why, and what to do.
    Unusable(String),
    /// A standby asks, and it is a link to what is not mounted, or not written to its end, or damaged.
    Unfinished(String),
    /// It is restored; whether without a checksum.
    Restored(bool),
}

/// The cluster that asks, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cluster {
    pub(crate) system: Option<u64>,
    pub(crate) is_standby: bool,
}

/// Restores a file, or leaves no trace of it at the target.
///
/// Forms are tried in the order of [`Form::ALL`]; one that can't be used is passed over if there is a good one. The file is
/// written beside the target, synced, and renamed. The rename needs no sync: a recovery that finds it undone asks for the
/// file again.
///
/// **An archive that can't be read** is [`Failure::Unreachable`]: whoever recovers to the end of WAL would lose all that is in
/// it. For a standby it is [`Outcome::Absent`]: it asks again or streams, and whoever promotes it does so because of an outage,
/// which may have taken the archive, too; a FATAL would end the last server that is left. Histories are no exception: a standby
/// looks for new ones again and again, so this would end it at each outage as well. The price is that a promotion which can't
/// see the archive may take a timeline's number that another server took unseen. Archivers that replace nothing, as
/// pg_calm_archive, then stop at the two histories of one name.
///
/// **A damaged file** is the same: it may yet be written under its own name, as `cp` does, over NFS in any order, and a standby can
/// stream what it holds; where the server itself finds the damage, it does so, too (`WaitForWALToBecomeAvailable`,
/// xlogrecovery.c). Whoever only checks is told that it is damaged.
///
/// **A cluster that can't be written to**, as one whose pg_wal is full, is the same: a standby that replays makes room.
pub fn restore(request: &Request) -> Result<Outcome, Failure> {
    let file = &request.file;
    let name = FileName::parse(file).ok_or_else(|| {
        Failure::Usage(format!(
            "{file:?} is not the name of a WAL segment, a timeline history file or a backup history file; give %f of \
             restore_command"
        ))
    })?;
    let (target, place) = match &request.target {
        Target::File(path) => (Some(path.as_path()), Some(path)),
        Target::Nowhere(path) => (None, path.as_ref()),
    };
    if let Some(path) = target {
        replacement::check(path).map_err(|error| {
            Failure::Usage(format!("{}: {error}; name a file, or check without one with --check", path.display()))
        })?;
    }
    let cluster = Cluster {
        system: place.and_then(|path| cluster::system_identifier(path)),
        is_standby: place.is_some_and(|path| cluster::is_standby(path)),
    };
    let opens = matches!(name, FileName::History { .. }) && place.is_some_and(|path| cluster::opens(path));
    match look(request, name, target, cluster) {
        Err(Failure::Unreachable(text)) if cluster.is_standby || opens => {
            Ok(Outcome::Absent(format!("{text}; for a standby {file} counts as not archived yet")))
        }
        result => result,
    }
}

/// Restores what the archive has of the file.
fn look(request: &Request, name: FileName, target: Option<&Path>, cluster: Cluster) -> Result<Outcome, Failure> {
    let (archive, file) = (&request.archive, &request.file);
    // A directory that isn't there holds nothing, which must not pass for the end of WAL.
    fs::read_dir(archive).map_err(|error| {
        Failure::Unreachable(format!(
            "archive {}: {error}; name the directory that pg_calm_archive.directory names, and see that it is mounted",
            archive.display()
        ))
    })?;
    for _ in 0..LOOKS {
        if let Some(outcome) = from_forms(request, name, target, cluster)? {
            return Ok(outcome);
        }
        let mut unread = String::new();
        return match remains::find(archive, file, name, cluster, &mut unread)? {
            Some(Remains::Arrived) => continue,
            None => Ok(Outcome::Absent(format!("{file} is not in the archive {}{unread}", archive.display()))),
            Some(Remains::Unfinished(found)) if cluster.is_standby => {
                Ok(Outcome::Absent(format!("{file} is not in the archive yet: {} is not finished", found.display())))
            }
            Some(Remains::Unfinished(path)) => Err(Failure::Host(format!(
                "{}: is not finished; if no more of it will come, move it to pg_wal as {file}, uncompressed, to have it \
                 replayed, or away to end recovery before it",
                path.display()
            ))),
            Some(Remains::Unusable(path, reason)) => Err(Failure::Host(format!("{}: {reason}", path.display()))),
        };
    }
    let path = archive.join(file);
    Err(Failure::Host(format!("{}: comes and goes; let whatever changes the archive finish", path.display())))
}

/// Restores from the first form that is there and whole; `None` if none is there.
fn from_forms(
    request: &Request,
    name: FileName,
    target: Option<&Path>,
    cluster: Cluster,
) -> Result<Option<Outcome>, Failure> {
    let (mut damaged, mut unfinished, mut unreadable) = (Vec::new(), None, None);
    for form in Form::ALL {
        let source = form.place(&request.archive, &request.file);
        match from_form(&source, name, target, cluster)? {
            Tried::Absent => {}
            Tried::Unreadable(failure) => unreadable = unreadable.or(Some(failure)),
            Tried::Restored(unchecked) => {
                damaged.extend(unreadable.as_ref().map(Failure::to_string));
                return Ok(Some(Outcome::Restored(Restored { source, unchecked, damaged })));
            }
            Tried::Unfinished(reason) => {
                unfinished =
                    Some(format!("{} counts as not archived yet: {} {reason}", request.file, source.display()));
            }
            Tried::Unusable(reason) => damaged.push(format!("{}: {reason}", source.display())),
        }
    }
    match (unreadable, damaged.into_iter().next()) {
        (Some(failure), _) => Err(failure),
        (None, Some(reason)) => Err(Failure::Host(reason)),
        (None, None) => Ok(unfinished.map(Outcome::Absent)),
    }
}

/// Opens a file of the archive and copies it. A link that leads nowhere is there.
fn from_form(source: &Path, name: FileName, target: Option<&Path>, cluster: Cluster) -> Result<Tried, Failure> {
    match Stored::open(source) {
        Ok(stored) => Ok(match copy(stored, source, name, target, cluster)? {
            Tried::Unusable(reason) if cluster.is_standby && target.is_some() => Tried::Unfinished(format!(
                "{reason}; a standby streams it, or asks again: put another copy in its place if no more of it will come"
            )),
            Tried::Unusable(reason) => Tried::Unusable(format!(
                "{reason}; restore this file from another copy of the archive, or end recovery before it with \
                 recovery_target_lsn"
            )),
            Tried::Unfinished(reason) if !cluster.is_standby => Tried::Unusable(format!(
                "{reason}, and nothing after it; restore this file from another copy of the archive, or, if its timeline \
                 was left here, move it to pg_wal, uncompressed and without a suffix, to have it replayed"
            )),
            tried => tried,
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(match fs::read_link(source) {
            Ok(target) => {
                let reason = format!("is a link to {}, which is not there; mount what holds it", target.display());
                if cluster.is_standby { Tried::Unfinished(reason) } else { Tried::Unusable(reason) }
            }
            Err(_) => Tried::Absent,
        }),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Ok(Tried::Unusable(format!("{error}; move it away")))
        }
        Err(error) => Ok(Tried::Unreadable(unreadable("read", source, error))),
    }
}

/// Checks one file, and writes it if it is to appear somewhere. Returns whether it has no checksum, or what is damaged or, whoever
/// asks, not written.
fn copy(
    mut stored: Stored,
    source: &Path,
    name: FileName,
    target: Option<&Path>,
    cluster: Cluster,
) -> Result<Tried, Failure> {
    let mut output = target.map(Output::create).transpose()?;
    let mut check = SegmentCheck::new(name, cluster.system);
    let mut history = Vec::new();
    let mut part = vec![0; PART];
    loop {
        let length = match stored.read(&mut part) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.raw_os_error().is_some() => {
                return Ok(Tried::Unreadable(unreadable("read", source, error)));
            }
            // Anything else that a decoder says is about the file's content.
            Err(error) => return Ok(Tried::Unusable(format!("does not decompress: {error}"))),
        };
        let bytes = &part[..length];
        if let Some(Err(reason)) = check.as_mut().map(|check| check.take(bytes)) {
            return Ok(Tried::Unusable(reason));
        }
        if let FileName::History { .. } = name {
            if history.len() as u64 + length as u64 > LARGEST_HISTORY {
                return Ok(Tried::Unusable("is too large for a timeline history".to_string()));
            }
            history.extend_from_slice(bytes);
        }
        if let Some(output) = &mut output {
            output.write(bytes)?;
        }
    }
    match check.map(SegmentCheck::finish) {
        None | Some(Ok(None)) => {}
        Some(Ok(Some(reason))) => return Ok(Tried::Unfinished(reason)),
        Some(Err(reason)) => return Ok(Tried::Unusable(reason)),
    }
    if let FileName::History { timeline } = name
        && let Some(reason) = history::complaint(timeline, &history)
    {
        return Ok(Tried::Unusable(reason));
    }
    if let Some(output) = output {
        output.finish()?;
    }
    Ok(Tried::Restored(stored.lacks_checksum()))
}

/// A part of the archive that could not be read.
pub(crate) fn unreadable(action: &str, path: &Path, error: impl Display) -> Failure {
    Failure::Unreachable(format!("{action} {}: {error}", path.display()))
}

/// A file of the cluster that could not be written.
fn failed(action: &str, path: &Path, error: impl Display) -> Failure {
    Failure::Unreachable(format!("{action} {}: {error}", path.display()))
}

/// The file while it is written.
///
/// It is called `xlogtemp.*`: what a crash leaves of it in pg_wal is removed by the server when it starts
/// (`RemoveTempXlogFiles`, xlog.c), but after a fast stop, which ends us by SIGTERM, by the next restore alone.
struct Output<'a> {
    file: Replacement,
    target: &'a Path,
}

impl<'a> Output<'a> {
    fn create(target: &'a Path) -> Result<Self, Failure> {
        let path = target.with_file_name(format!("{TEMPORARY}{}", std::process::id()));
        replacement::remove_abandoned(path.parent().unwrap_or(Path::new(".")), TEMPORARY);
        let mode = cluster::file_mode(target);
        let file = Replacement::create(path.clone(), mode).map_err(|error| failed("create", &path, error))?;
        // Without locks, as on some network file systems, it may be taken for abandoned, and the restore fails.
        let _ = file.lock();
        Ok(Self { file, target })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| failed("write", self.file.path(), error))
    }

    fn finish(self) -> Result<(), Failure> {
        self.file.sync().map_err(|error| failed("sync", self.file.path(), error))?;
        self.file.rename_to(self.target).map_err(|error| failed("rename to", self.target, error))
    }
}

#[cfg(test)]
mod tests;
