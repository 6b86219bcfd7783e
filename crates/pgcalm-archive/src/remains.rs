//! What an archive has of a file beside the forms that are read.
//!
//! "Not in the archive" ends recovery: the database opens with the WAL before it, and all that came later is lost. So it may
//! be said only where nothing of the file is there. What begins with its name and can't be used stops recovery, with its
//! name: `NAME.xz`, pgBackRest's `NAME-SHA1`, what lies in a subdirectory. A backup history file, `NAME.OFFSET.backup`, is
//! none of these: it is a file of its own.
//!
//! **Unfinished files.** `NAME.partial` is the last segment of a timeline that was left at a promotion, or what
//! pg_receivewal is writing; `NAME.tmp` and its like are what somebody copies into the archive now, or never finished. The
//! server never asks for one by its name (`XLogFileReadAnyTLI`, xlogrecovery.c): it asks for `NAME` on
//! the newest timeline first, then on older ones. Hence:
//!
//! - Whoever recovers along the new timeline, and has its first segment in the archive, never asks for the old `NAME`.
//! - A standby may: after a promotion elsewhere the new timeline's first segment is archived only when it is full, and
//!   until then the old `NAME` is asked for, too. An end here would end a standby that is in order, at each promotion. And it
//!   loses nothing by waiting: it asks again, or streams. So for a standby an unfinished file is not there yet.
//! - A recovery that ends where WAL ends would lose what the unfinished file holds. It stops. Whoever knows that no more of
//!   the file will come moves it to pg_wal as `NAME` to have it replayed, or away. In the archive `NAME` has to be whole.
//!
//! **Subdirectories** are looked through for segments only: histories lie where the segments lie, so the first segment stops
//! what an absent history has sent astray, and another cluster's history can't be told from one's own. A segment in a
//! subdirectory that says of itself that it is another cluster's is passed over. So is a directory that may not be read or has
//! gone: others keep theirs beside an archive.
//!
//! **For a standby nothing is looked through**: it loses nothing by an absence, and asks for what isn't there every few seconds,
//! of an archive that may have a hundred thousand entries. Only the usual names are looked for, each by itself.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use pgcalm_host::Failure;

use crate::restore::{Cluster, unreadable};
use crate::{FileName, Form, Stored, segment_check};

/// How deep subdirectories are looked through: from a repository of pgBackRest to its segments.
const DEPTH: usize = 4;

/// How those end that are written, or were never finished.
const UNFINISHED: [&str; 5] = [".partial", ".tmp", ".temp", ".part", ".filepart"];

/// Suffixes of compressed files in forms that are not read.
const UNREAD: [&str; 3] = [".xz", ".bz2", ".zstd"];

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Remains {
    /// One of the forms that are read, since they were looked for.
    Arrived,
    /// A file that is not finished.
    Unfinished(PathBuf),
    /// Something else, and why it is not used and what to do.
    Unusable(PathBuf, String),
}

/// Looks through the archive; `None` if nothing of `file` is there. What subdirectories could not be looked through is added to
/// `unread`.
pub(crate) fn find(
    archive: &Path,
    file: &str,
    name: FileName,
    cluster: Cluster,
    unread: &mut String,
) -> Result<Option<Remains>, Failure> {
    if cluster.is_standby {
        return Ok(by_name(archive, file));
    }
    let mut found = None;
    let mut directories = Vec::new();
    for entry in entries(archive).map_err(|error| unreadable("look through", archive, error))? {
        let (path, is_directory) = entry.map_err(|error| unreadable("look through", archive, error))?;
        match rest_of(&path, file).map(|rest| classify(rest, &path, file)) {
            None => {}
            Some(Remains::Unfinished(path)) => found = Some(Remains::Unfinished(path)),
            Some(remains) => return Ok(Some(remains)),
        }
        if is_directory && may_hold_wal(&path) {
            directories.push((path, 1));
        }
    }
    if found.is_none() && matches!(name, FileName::Segment(_) | FileName::Partial(_)) {
        found = in_subdirectories(directories, file, cluster.system, unread)?;
    }
    Ok(found)
}

fn by_name(archive: &Path, file: &str) -> Option<Remains> {
    let unfinished = Form::ALL.into_iter().flat_map(|form| UNFINISHED.map(|rest| format!("{}{rest}", form.suffix())));
    let mut names = UNREAD.map(String::from).into_iter().chain(unfinished);
    names.find_map(|rest| {
        let path = archive.join(format!("{file}{rest}"));
        fs::symlink_metadata(&path).is_ok().then(|| classify(rest.as_bytes(), &path, file))
    })
}

fn in_subdirectories(
    mut directories: Vec<(PathBuf, usize)>,
    file: &str,
    expected_system: Option<u64>,
    unread: &mut String,
) -> Result<Option<Remains>, Failure> {
    while let Some((directory, depth)) = directories.pop() {
        let entries = match entries(&directory).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                unread.push_str(&format!("; not looked through: {}: {error}", directory.display()));
                continue;
            }
            Err(error) => return Err(unreadable("look through", &directory, error)),
        };
        for (path, is_directory) in entries {
            if rest_of(&path, file).is_some() && !is_of_another(&path, expected_system) {
                let remedy = "lies in a subdirectory; name the directory of the segments with --archive, or restore with \
                              the program that archived it";
                return Ok(Some(Remains::Unusable(path, remedy.to_string())));
            }
            if is_directory && depth < DEPTH && may_hold_wal(&path) {
                directories.push((path, depth + 1));
            }
        }
    }
    Ok(None)
}

/// Paths in a directory, and whether they are directories; links are not followed.
fn entries(directory: &Path) -> io::Result<impl Iterator<Item = io::Result<(PathBuf, bool)>>> {
    Ok(fs::read_dir(directory)?.map(|entry| {
        let entry = entry?;
        let is_directory = match entry.file_type() {
            Ok(kind) => kind.is_dir(),
            // Renamed or removed since the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        Ok((entry.path(), is_directory))
    }))
}

/// Not what file systems keep for themselves, such as snapshots of the archive as it was.
fn may_hold_wal(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default();
    name != OsStr::new("lost+found") && !name.as_bytes().starts_with(b".")
}

/// What follows the file's name in that of `path`; `None` if it is another file's.
fn rest_of<'a>(path: &'a Path, file: &str) -> Option<&'a [u8]> {
    let rest = path.file_name()?.as_bytes().strip_prefix(file.as_bytes())?;
    (!is_backup_history(rest)).then_some(rest)
}

/// `.00000028.backup`, in whatever form.
fn is_backup_history(rest: &[u8]) -> bool {
    rest.len() >= 16
        && rest[0] == b'.'
        && rest[1..9].iter().all(u8::is_ascii_hexdigit)
        && rest[9..].starts_with(b".backup")
}

fn classify(rest: &[u8], path: &Path, file: &str) -> Remains {
    let path = path.to_path_buf();
    if Form::ALL.iter().any(|form| form.suffix().as_bytes() == rest) {
        return Remains::Arrived;
    }
    // The last segment of a timeline is archived as NAME.partial, compressed as all others.
    let mut compressions = Form::ALL.iter().filter(|form| !form.suffix().is_empty());
    let bare = compressions.find_map(|form| rest.strip_suffix(form.suffix().as_bytes())).unwrap_or(rest);
    if UNFINISHED.iter().any(|suffix| rest.ends_with(suffix.as_bytes()) || bare.ends_with(suffix.as_bytes())) {
        return Remains::Unfinished(path);
    }
    let is_pgbackrest = rest.len() > 40 && rest[0] == b'-' && rest[1..41].iter().all(u8::is_ascii_hexdigit);
    let reason = match is_pgbackrest {
        true => "is pgBackRest's; let restore_command be pgbackrest archive-get".to_string(),
        false => format!(
            "is in no form that is read; make it {file}, or that with .zst, .lz4 or .gz, or move it away if it is none of \
             the archive's"
        ),
    };
    Remains::Unusable(path, reason)
}

/// Whether it is readable, and a segment of another cluster than that which is expected.
fn is_of_another(path: &Path, expected_system: Option<u64>) -> bool {
    let mut header = [0; segment_check::LONG_HEADER];
    let read = Stored::open(path).and_then(|mut stored| stored.read_exact(&mut header));
    let system = read.ok().and_then(|()| segment_check::system_identifier(&header));
    system.is_some() && expected_system.is_some() && system != expected_system
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment_check::tests::{NAME, SYSTEM, segment};

    fn found(name: &str) -> Option<Remains> {
        let archive = tempfile::tempdir().unwrap();
        let path = archive.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, segment()).unwrap();
        let file = FileName::parse(NAME).unwrap();
        find(archive.path(), NAME, file, asked_by(Some(SYSTEM)), &mut String::new()).unwrap()
    }

    fn asked_by(system: Option<u64>) -> Cluster {
        Cluster { system, is_standby: false }
    }

    #[test]
    fn whatever_begins_with_the_name_is_told_apart() {
        let sum = "0123456789abcdef0123456789abcdef01234567";
        for rest in [".partial", ".partial.zst", ".partial.lz4", ".gz.partial", ".tmp", ".zst.tmp"] {
            let found = found(&format!("{NAME}{rest}"));
            assert!(matches!(found, Some(Remains::Unfinished(_))), "{rest}");
        }
        let sums = [format!("-{sum}"), format!("-{sum}.gz")];
        for rest in [".xz", ".bz2", ".zstd", ".old", ".1", "0", &sums[0], &sums[1]] {
            let found = found(&format!("{NAME}{rest}"));
            assert!(matches!(found, Some(Remains::Unusable(..))), "{rest}");
        }
        for rest in ["", ".zst", ".lz4", ".gz"] {
            let found = found(&format!("{NAME}{rest}"));
            assert_eq!(found, Some(Remains::Arrived), "{rest}");
        }
        for other in [
            format!("{NAME}.00000028.backup"),
            format!("{NAME}.00000028.backup.gz"),
            "000000020000000A00000004.xz".to_string(),
            format!(".{NAME}.x"),
        ] {
            assert_eq!(found(&other), None, "{other}");
        }
    }

    #[test]
    fn subdirectories_are_looked_through_for_segments_of_this_cluster() {
        for place in ["000000020000000A", "demo/15-1/000000020000000A"] {
            let found = found(&format!("{place}/{NAME}-0.gz"));
            assert!(matches!(found, Some(Remains::Unusable(..))), "{place}");
        }
        for place in ["lost+found", ".snapshot/hourly.0", "1/2/3/4/5"] {
            assert_eq!(found(&format!("{place}/{NAME}")), None, "{place}");
        }
        let archive = tempfile::tempdir().unwrap();
        fs::create_dir(archive.path().join("other")).unwrap();
        fs::write(archive.path().join("other").join(NAME), segment()).unwrap();
        fs::write(archive.path().join("other/00000002.history"), "").unwrap();
        let find = |file: &str, system: Option<u64>| {
            let name = FileName::parse(file).unwrap();
            find(archive.path(), file, name, asked_by(system), &mut String::new()).unwrap()
        };
        assert_eq!(find(NAME, Some(SYSTEM + 1)), None);
        assert!(find(NAME, Some(SYSTEM)).is_some());
        assert!(find(NAME, None).is_some());
        assert_eq!(find("00000002.history", Some(SYSTEM)), None);
    }

    #[test]
    fn a_standby_looks_nothing_through() {
        let archive = tempfile::tempdir().unwrap();
        fs::create_dir(archive.path().join("other")).unwrap();
        fs::write(archive.path().join("other").join(NAME), segment()).unwrap();
        // Found by who looks at each entry.
        fs::write(archive.path().join(format!("{NAME}.old")), "").unwrap();
        let cluster = Cluster { system: Some(SYSTEM), is_standby: true };
        let find = || find(archive.path(), NAME, FileName::parse(NAME).unwrap(), cluster, &mut String::new()).unwrap();
        assert_eq!(find(), None);
        fs::write(archive.path().join(format!("{NAME}.zst.tmp")), "").unwrap();
        assert!(matches!(find(), Some(Remains::Unfinished(_))));
        fs::write(archive.path().join(format!("{NAME}.bz2")), "").unwrap();
        assert!(matches!(find(), Some(Remains::Unusable(..))));
    }

    #[test]
    fn a_subdirectory_that_has_gone_is_passed_over_and_told_of_and_one_that_cant_be_read_is_not() {
        let archive = tempfile::tempdir().unwrap();
        let mut unread = String::new();
        let mut look = |name: &str| in_subdirectories(vec![(archive.path().join(name), 1)], NAME, None, &mut unread);
        assert_eq!(look("gone").unwrap(), None);
        fs::write(archive.path().join("file"), "").unwrap();
        assert!(matches!(look("file"), Err(Failure::Unreachable(_))));
        assert_eq!(unread.matches("not looked through").count(), 1, "{unread}");
        assert!(unread.contains("/gone: No such file"), "{unread}");
    }
}
