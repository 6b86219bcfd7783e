//! What a restore was to read, kept beside the list until it has read all.
//!
//! Saves go on meanwhile, and after a restore that ended early, and what is still cold is not cached: they add it to what is,
//! so that the list is never one that knows less. A day later what nobody has read is not missed any more.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::saved::{CachedFile, Saved};

/// For so long it counts.
const KEPT: Duration = Duration::from_secs(86_400);

/// Of the list in `file`.
fn path(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".rest");
    name.into()
}

/// Before a restore of the list in `file`, which saves replace. Whoever can't write here can't replace that, either.
pub fn keep(file: &Path) {
    if let Ok(saved) = Saved::read(file) {
        let _ = saved.write(&path(file));
    }
}

/// After one that has left nothing.
pub fn drop(file: &Path) {
    let _ = fs::remove_file(path(file));
}

/// What a restore has left, or has not read yet, by name.
pub fn of(file: &Path, system_identifier: u64) -> HashMap<String, CachedFile> {
    let path = path(file);
    let written = fs::metadata(&path).and_then(|found| found.modified());
    // A clock that was set back tells nothing.
    if written.is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= KEPT)) {
        drop(file);
    }
    files_of(&path, system_identifier)
}

/// What the list in `file` has, by name.
pub fn files_of(file: &Path, system_identifier: u64) -> HashMap<String, CachedFile> {
    let saved = Saved::read(file).ok().filter(|saved| saved.system_identifier == system_identifier);
    saved.map(|saved| saved.files).unwrap_or_default().into_iter().map(|file| (file.path.clone(), file)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use crate::runs::Run;

    use super::*;

    #[test]
    fn it_stays_until_all_is_read_or_for_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("7");
        keep(&list);
        assert_eq!(of(&list, 7), HashMap::new());
        let runs = vec![Run { start: 0, length: 1, heat: 3 }];
        let file = CachedFile { path: "base/5/1".to_string(), size: 8192, runs };
        let saved = Saved { system_identifier: 7, files: vec![file.clone()], ..Saved::default() };
        saved.write(&list).unwrap();
        keep(&list);
        Saved { system_identifier: 7, ..Saved::default() }.write(&list).unwrap();
        let rest = || of(&list, 7).remove("base/5/1");
        assert_eq!(rest(), Some(file));
        assert_eq!(of(&list, 8), HashMap::new());
        fs::File::open(path(&list)).unwrap().set_modified(SystemTime::now() - KEPT).unwrap();
        assert_eq!((rest(), path(&list).exists()), (None, false));
        saved.write(&list).unwrap();
        keep(&list);
        drop(&list);
        assert_eq!(rest(), None);
    }
}
