//! Finished segments, known by their digest, and where they have to be.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use anyhow::bail;
use sha2::{Digest, Sha256};

use crate::shared_file;

type Sum = [u8; 32];

/// What is at a place.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    File(Sum),
    Unreadable(String),
}

impl Found {
    fn at(path: &Path) -> Self {
        match shared_file::read(path) {
            Ok(bytes) => Self::File(Sha256::digest(&bytes).into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Nothing,
            Err(error) => Self::Unreadable(error.to_string()),
        }
    }
}

/// Directories in which segments and what is said of them are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    /// The server's.
    pub pg_wal: &'a Path,
    /// The archive.
    pub archive: &'a Path,
    /// The status files.
    pub status: &'a Path,
}

/// Whether archiving has had the time to take everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// It was interrupted.
    AfterPowerCut,
    /// It was.
    CaughtUp,
}

impl When {
    /// Once a server has recovered. Where archiving is stuck, what waits is told as well, but for a control: that has to show a
    /// loss, and of anything that stops the archiver segments would be left.
    pub(super) fn recovered(caught_up: bool, is_control: bool) -> Self {
        if caught_up || !is_control { Self::CaughtUp } else { Self::AfterPowerCut }
    }
}

/// All finished segments of a cluster.
#[derive(Debug, Default)]
pub(super) struct Segments(BTreeMap<String, Sum>);

impl Segments {
    /// Takes note of a segment that is finished; of one that a checkpoint has recycled meanwhile, nothing is known.
    pub(super) fn note(&mut self, pg_wal: &Path, name: String) -> anyhow::Result<()> {
        let path = pg_wal.join(&name);
        match Found::at(&path) {
            Found::File(sum) => {
                self.0.insert(name, sum);
            }
            Found::Nothing => {}
            Found::Unreadable(error) => bail!("read {}: {error}", path.display()),
        }
        Ok(())
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// What is wrong with them. A segment of which something is wrong is forgotten, so that one loss isn't told twice.
    pub(super) fn verify(&mut self, places: Places<'_>, when: When) -> Vec<String> {
        let mut wrong = Vec::new();
        self.0.retain(|name, sum| {
            let found = verify(places, when, name, *sum);
            let is_sound = found.is_empty();
            wrong.extend(found);
            is_sound
        });
        wrong
    }
}

fn verify(places: Places<'_>, when: When, name: &str, sum: Sum) -> Vec<String> {
    let archived = Found::at(&places.archive.join(name));
    let segment = Found::at(&places.pg_wal.join(name));
    let is_in_pg_wal = segment == Found::File(sum);
    let mut wrong = Vec::new();
    match archived {
        Found::File(archived) if archived == sum => {}
        Found::File(_) => wrong.push(format!("{name} is in the archive with another content")),
        Found::Unreadable(error) => wrong.push(format!("{name} in the archive: {error}")),
        Found::Nothing if !is_in_pg_wal => wrong.push(format!("{name} is neither in pg_wal nor in the archive")),
        Found::Nothing if when == When::CaughtUp => {
            wrong.push(format!("{name} is not in the archive"));
        }
        Found::Nothing => {}
    }
    // The server does not make the end of an announcement durable before the segment goes: after a power cut one can be there
    // of a segment that is gone. The archiver removes it (pgarch_ArchiverCopyLoop); one that stays would block the archive.
    let stays = when == When::CaughtUp && places.status.join(format!("{name}.ready")).exists();
    if stays && !is_in_pg_wal {
        wrong.push(format!("{name} was recycled or removed, and is announced as ready"));
    }
    wrong
}

/// Whether no segment waits to be archived.
pub(super) fn all_are_archived(status: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(status)? {
        if entry?.file_name().as_encoded_bytes().ends_with(b".ready") {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "000000010000000000000001";

    /// A segment that is finished, and in `pg_wal`.
    fn finished(dir: &Path) -> Segments {
        for part in ["pg_wal", "archive", "status"] {
            fs::create_dir(dir.join(part)).unwrap();
        }
        fs::write(dir.join("pg_wal").join(NAME), "wal").unwrap();
        let mut segments = Segments::default();
        segments.note(&dir.join("pg_wal"), NAME.into()).unwrap();
        segments
    }

    fn wrong(dir: &Path, segments: &mut Segments, when: When) -> String {
        let places = Places { pg_wal: &dir.join("pg_wal"), archive: &dir.join("archive"), status: &dir.join("status") };
        segments.verify(places, when).join("; ")
    }

    fn check(change: impl Fn(&Path), when: When) -> String {
        let dir = tempfile::tempdir().unwrap();
        let mut segments = finished(dir.path());
        change(dir.path());
        let found = wrong(dir.path(), &mut segments, when);
        assert_eq!(segments.len(), u64::from(found.is_empty()));
        found
    }

    fn archive(dir: &Path, content: &str) {
        fs::write(dir.join("archive").join(NAME), content).unwrap();
    }

    fn recycle(dir: &Path) {
        fs::remove_file(dir.join("pg_wal").join(NAME)).unwrap();
    }

    fn announce(dir: &Path) {
        fs::write(dir.join("status").join(format!("{NAME}.ready")), "").unwrap();
    }

    #[test]
    fn a_segment_may_be_in_pg_wal_or_whole_in_the_archive() {
        for when in [When::AfterPowerCut, When::CaughtUp] {
            assert_eq!(check(|dir| archive(dir, "wal"), when), "");
            let recycled = |dir: &Path| {
                archive(dir, "wal");
                recycle(dir);
            };
            assert_eq!(check(recycled, when), "");
        }
        assert_eq!(check(announce, When::AfterPowerCut), "");
    }

    #[test]
    fn each_kind_of_loss_is_found() {
        let both = [When::AfterPowerCut, When::CaughtUp];
        for when in both {
            assert!(check(recycle, when).contains("neither in pg_wal nor"));
            assert!(check(|dir| archive(dir, "wa"), when).contains("another content"));
            let unreadable = |dir: &Path| fs::create_dir(dir.join("archive").join(NAME)).unwrap();
            assert!(check(unreadable, when).contains("in the archive: "));
        }
        let orphan = |dir: &Path| {
            archive(dir, "wal");
            recycle(dir);
            announce(dir);
        };
        assert_eq!(check(orphan, When::AfterPowerCut), "");
        assert!(check(orphan, When::CaughtUp).contains("announced as ready"));
        let left = check(|_| {}, When::CaughtUp);
        assert!(left.contains("is not in the archive"), "{left}");
    }

    #[test]
    fn of_a_control_whose_archiving_is_stuck_only_losses_are_found() {
        let stuck = When::recovered(false, true);
        assert_eq!(check(announce, stuck), "");
        assert!(check(recycle, stuck).contains("neither in pg_wal nor"));
        for when in [When::recovered(true, true), When::recovered(false, false), When::recovered(true, false)] {
            assert!(check(announce, when).contains("is not in the archive"));
        }
    }

    #[test]
    fn recycled_under_another_content_counts_as_gone() {
        let overwritten = |dir: &Path| fs::write(dir.join("pg_wal").join(NAME), "new").unwrap();
        assert!(check(overwritten, When::AfterPowerCut).contains("neither in pg_wal nor"));
    }

    #[test]
    fn what_waits_is_seen_by_its_status_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.done"), "").unwrap();
        assert!(all_are_archived(dir.path()).unwrap());
        fs::write(dir.path().join("b.ready"), "").unwrap();
        assert!(!all_are_archived(dir.path()).unwrap());
    }
}
