use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};

use pgcalm_host::replacement;
use pgcalm_host::replacement::Replacement;

use crate::remains::Remains;
use crate::{FileName, Form, RestoreError, SegmentCheck, Stored, cluster, history, remains};

/// Size of the parts in which a file is checked and written.
const PART: usize = 256 << 10;

/// The largest timeline history that is read: 100,000 timelines, and far from memory's end.
const LARGEST_HISTORY: u64 = 16 << 20;

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

/// A file that was restored, or checked.
#[derive(Debug)]
pub struct Restored {
    /// The file of the archive that it came from.
    pub source: PathBuf,
    /// Whether that is compressed without a checksum of its content, so that only what the WAL pages tell was checked.
    pub unchecked: bool,
    /// Other forms of the file that were found first and can't be used.
    pub damaged: Vec<RestoreError>,
}

/// The cluster that asks, as far as it is known.
#[derive(Debug, Clone, Copy)]
struct Cluster {
    system: Option<u64>,
    is_standby: bool,
}

/// Restores a file, or leaves no trace of it at the target.
///
/// Forms are tried in the order of [`Form::ALL`]; one that can't be used is passed over if there is a good one. The file is
/// written beside the target, synced, and renamed. The rename needs no sync: a recovery that finds it undone asks for the
/// file again.
pub fn restore(request: &Request) -> Result<Restored, RestoreError> {
    let name = FileName::parse(&request.file).ok_or_else(|| RestoreError::BadName(request.file.clone()))?;
    let (target, place) = match &request.target {
        Target::File(path) => (Some(path.as_path()), Some(path)),
        Target::Nowhere(path) => (None, path.as_ref()),
    };
    if let Some(path) = target {
        replacement::check(path).map_err(|source| RestoreError::Target { path: path.to_path_buf(), source })?;
    }
    let cluster = Cluster {
        system: place.and_then(|path| cluster::system_identifier(path)),
        is_standby: place.is_some_and(|path| cluster::is_standby(path)),
    };
    // A directory that isn't there holds nothing, which must not pass for the end of WAL.
    fs::read_dir(&request.archive)
        .map_err(|source| RestoreError::NoArchive { archive: request.archive.clone(), source })?;
    for _ in 0..LOOKS {
        if let Some(restored) = from_forms(request, name, target, cluster)? {
            return Ok(restored);
        }
        let (archive, file) = (&request.archive, &request.file);
        let remains = remains::find(archive, file, name, cluster.system)?;
        return Err(match remains {
            Some(Remains::Arrived) => continue,
            None => RestoreError::NotFound { file: file.clone(), archive: archive.clone() },
            Some(Remains::Unfinished(found)) if cluster.is_standby => {
                RestoreError::NotYet { file: file.clone(), found }
            }
            Some(Remains::Unfinished(path)) => RestoreError::Unusable {
                path,
                reason: format!(
                    "is not finished; if no more of it will come, rename it to {file} to have it replayed, or move it away to \
                     end recovery before it"
                ),
            },
            Some(Remains::Unusable(path, reason)) => RestoreError::Unusable { path, reason },
        });
    }
    Err(RestoreError::Unusable {
        path: request.archive.join(&request.file),
        reason: "comes and goes; let whatever changes the archive finish".to_string(),
    })
}

/// Restores from the first form that is there and whole; `None` if none is there.
fn from_forms(
    request: &Request,
    name: FileName,
    target: Option<&Path>,
    cluster: Cluster,
) -> Result<Option<Restored>, RestoreError> {
    let mut damaged = Vec::new();
    for form in Form::ALL {
        let source = form.place(&request.archive, &request.file);
        let copied = open(&source).and_then(|stored| match stored {
            Some(stored) => copy(stored, &source, name, target, cluster).map(Some),
            None => Ok(None),
        });
        match copied {
            Ok(None) => {}
            Ok(Some(unchecked)) => {
                return Ok(Some(Restored { source, unchecked, damaged }));
            }
            Err(error @ (RestoreError::Damaged { .. } | RestoreError::Unusable { .. })) => {
                damaged.push(error);
            }
            Err(error) => return Err(error),
        }
    }
    match damaged.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(None),
    }
}

/// Opens a file of the archive; `None` if it isn't there. A link that leads nowhere is there.
fn open(source: &Path) -> Result<Option<Stored>, RestoreError> {
    let unusable = |reason: String| RestoreError::Unusable { path: source.to_path_buf(), reason };
    match Stored::open(source) {
        Ok(stored) => Ok(Some(stored)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(source) {
            Ok(target) => {
                Err(unusable(format!("is a link to {}, which is not there; mount what holds it", target.display())))
            }
            Err(_) => Ok(None),
        },
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(unusable(format!("{error}; move it away"))),
        Err(error) => Err(RestoreError::io("read", source, error)),
    }
}

/// Checks one file, and writes it if it is to appear somewhere. Returns whether it has no checksum.
fn copy(
    mut stored: Stored,
    source: &Path,
    name: FileName,
    target: Option<&Path>,
    cluster: Cluster,
) -> Result<bool, RestoreError> {
    let mut output = target.map(Output::create).transpose()?;
    let mut check = SegmentCheck::new(name, cluster.system);
    let mut history = Vec::new();
    let mut part = vec![0; PART];
    loop {
        let length = match stored.read(&mut part) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(source, error)),
        };
        let bytes = &part[..length];
        if let Some(check) = &mut check {
            check.take(bytes).map_err(|reason| damage(source, reason))?;
        }
        if let FileName::History { .. } = name {
            if history.len() as u64 + length as u64 > LARGEST_HISTORY {
                return Err(damage(source, "is too large for a timeline history".to_string()));
            }
            history.extend_from_slice(bytes);
        }
        if let Some(output) = &mut output {
            output.write(bytes)?;
        }
    }
    if let Some(check) = check {
        check.finish().map_err(|reason| damage(source, reason))?;
    }
    if let FileName::History { timeline } = name
        && let Some(reason) = history::complaint(timeline, &history)
    {
        return Err(damage(source, reason));
    }
    if let Some(output) = output {
        output.finish()?;
    }
    Ok(stored.lacks_checksum())
}

fn damage(source: &Path, reason: String) -> RestoreError {
    RestoreError::Damaged { path: source.to_path_buf(), reason }
}

/// An error of the system is one; anything else that a decoder says is about the file's content.
fn unreadable(source: &Path, error: io::Error) -> RestoreError {
    if error.raw_os_error().is_some() {
        RestoreError::io("read", source, error)
    } else {
        damage(source, format!("does not decompress: {error}"))
    }
}

/// The file while it is written.
///
/// It is called `xlogtemp.*`: what a crash leaves of it in pg_wal is removed by the server when it starts
/// (`RemoveTempXlogFiles`, xlog.c).
struct Output<'a> {
    file: Replacement,
    target: &'a Path,
}

impl<'a> Output<'a> {
    fn create(target: &'a Path) -> Result<Self, RestoreError> {
        let path = target.with_file_name(format!("xlogtemp.pgcalm.{}", std::process::id()));
        let file =
            Replacement::create(path.clone(), 0o600).map_err(|error| RestoreError::io("create", &path, error))?;
        Ok(Self { file, target })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.file.write_all(bytes).map_err(|error| RestoreError::io("write", self.file.path(), error))
    }

    fn finish(self) -> Result<(), RestoreError> {
        self.file.sync().map_err(|error| RestoreError::io("sync", self.file.path(), error))?;
        self.file.rename_to(self.target).map_err(|error| RestoreError::io("rename to", self.target, error))
    }
}

#[cfg(test)]
mod tests;
