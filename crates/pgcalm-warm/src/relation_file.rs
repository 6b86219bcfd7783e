//! The files of relations in a data directory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;

/// Where tablespaces are linked to.
const TABLESPACES: &str = "pg_tblspc";

/// Whether it is the path of a relation's file below a data directory: `global/REL`, `base/DB/REL` or
/// `pg_tblspc/OID/PG_…/DB/REL`. Temporary relations end with the server.
pub fn is_path(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["global", file] => is_name(file),
        ["base", database, file] => is_number(database) && is_name(file),
        [TABLESPACES, space, version, database, file] => {
            is_number(space) && is_version(version) && is_number(database) && is_name(file)
        }
        _ => false,
    }
}

/// `16384`, `16384_fsm`, `16384.1`, `16384_vm.1`.
fn is_name(name: &str) -> bool {
    let (stem, segment) = name.split_once('.').map_or((name, None), |(stem, segment)| (stem, Some(segment)));
    let (number, fork) = stem.split_once('_').map_or((stem, None), |(number, fork)| (number, Some(fork)));
    is_number(number)
        && segment.is_none_or(is_number)
        && fork.is_none_or(|fork| FORKS.iter().any(|suffix| suffix.strip_prefix('_') == Some(fork)))
}

fn is_version(name: &str) -> bool {
    name.strip_prefix("PG_").is_some_and(|rest| rest.split('_').all(is_number))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// By `relforknumber`.
pub const FORKS: [&str; 4] = ["", "_fsm", "_vm", "_init"];

/// Calls `take` with the path of each below `data`, in the order of their names. What is dropped meanwhile is left out; a directory
/// that can't be read is an error, since a list without it looks whole.
pub fn for_each(data: &Path, take: &mut dyn FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut directories = vec!["global".to_string()];
    directories.extend(below(data, "base", is_number)?);
    for space in below(data, TABLESPACES, is_number)? {
        for version in below(data, &space, is_version)? {
            directories.extend(below(data, &version, is_number)?);
        }
    }
    for directory in directories {
        below(data, &directory, is_name)?.iter().try_for_each(|path| take(path))?;
    }
    Ok(())
}

/// What `directory` has of such names.
fn below(data: &Path, directory: &str, is_such: fn(&str) -> bool) -> anyhow::Result<Vec<String>> {
    let whole = data.join(directory);
    let list = || -> io::Result<Vec<String>> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(&whole)? {
            let name = entry?.file_name();
            paths.extend(name.to_str().filter(|name| is_such(name)).map(|name| format!("{directory}/{name}")));
        }
        Ok(paths)
    };
    // Every data directory has those that are searched first. Of a tablespace that is not mounted, the link is still there.
    let is_dropped = || directory.contains('/') && whole.symlink_metadata().is_err();
    let mut paths = match list() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_dropped() => Vec::new(),
        listed => listed.with_context(|| format!("read {}", whole.display()))?,
    };
    paths.sort();
    Ok(paths)
}

/// Opens one to be looked at or read; its time of access stays what it is.
pub fn open(path: &Path) -> io::Result<File> {
    let open = |more: i32| {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | more;
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    };
    let file = match open(libc::O_NOATIME) {
        // For the owner and root only.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => open(0),
        opened => opened,
    }?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, "is no file")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_of_relations_are_told_from_others() {
        for path in ["global/1262", "base/5/16384_fsm", "base/5/16384_vm.2", "pg_tblspc/16500/PG_15_202209061/5/1.1"] {
            assert!(is_path(path), "{path}");
        }
        for path in [
            "global/pg_control",
            "global/pg_filenode.map",
            "base/5/PG_VERSION",
            "base/5/t3_16384",
            "base/pgsql_tmp/1",
            "base/5/16384_x",
            "base/5/16384.",
            "pg_tblspc/16500/../5/1",
        ] {
            assert!(!is_path(path), "{path}");
        }
    }

    #[test]
    fn all_are_found_in_the_order_of_their_names() {
        let data = tempfile::tempdir().unwrap();
        for path in ["base/5/2", "base/5/1", "base/5/PG_VERSION", "pg_tblspc/9/PG_15_2/5/3_vm", "global/1", "pg_wal/1"]
        {
            let path = data.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let mut found = Vec::new();
        for_each(data.path(), &mut |path| {
            found.push(path.to_string());
            Ok(())
        })
        .unwrap();
        assert_eq!(found, ["global/1", "base/5/1", "base/5/2", "pg_tblspc/9/PG_15_2/5/3_vm"]);
    }

    #[test]
    fn what_can_not_be_read_is_not_taken_for_empty() {
        let data = tempfile::tempdir().unwrap();
        let place = |path: &str| data.path().join(path);
        for directory in ["global", "base", "pg_tblspc"] {
            fs::create_dir(place(directory)).unwrap();
        }
        // Nobody's, and it may be that nobody else may look into it.
        fs::write(place("base/lost+found"), "").unwrap();
        let look = || for_each(data.path(), &mut |_| Ok(()));
        look().unwrap();
        let refused = |part: &str| {
            let error = format!("{:#}", look().unwrap_err());
            assert!(error.contains(part), "{error}");
        };
        fs::write(place("base/5"), "").unwrap();
        refused("base/5: ");
        fs::remove_file(place("base/5")).unwrap();
        std::os::unix::fs::symlink("/nonexistent/space", place("pg_tblspc/9")).unwrap();
        refused("pg_tblspc/9: ");
        fs::remove_file(place("pg_tblspc/9")).unwrap();
        look().unwrap();
        fs::remove_dir_all(place("base")).unwrap();
        refused("base: ");
    }
}
