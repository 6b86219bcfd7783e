//! Which system call a process is in, and on what kind of file.

use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::libc;
use pgcalm_host::HostRoot;

/// Most of a path that is read. Those of a data directory are shorter: servers use them relative to it.
const PATH_SIZE: usize = 256;

/// What tells of which file a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    /// The first argument, a descriptor.
    Descriptor,
    /// The argument with this number, counted from 0, is the address of a path.
    Path(usize),
    /// What it makes is no file.
    Directory,
}

/// Calls that write, make or remove files; others are not of interest here.
const CALLS: [(i64, &str, Object); 14] = [
    (libc::SYS_pwrite64, "pwrite64", Object::Descriptor),
    (libc::SYS_pwritev, "pwritev", Object::Descriptor),
    (libc::SYS_write, "write", Object::Descriptor),
    (libc::SYS_fsync, "fsync", Object::Descriptor),
    (libc::SYS_fdatasync, "fdatasync", Object::Descriptor),
    (libc::SYS_ftruncate, "ftruncate", Object::Descriptor),
    (libc::SYS_fallocate, "fallocate", Object::Descriptor),
    (libc::SYS_sync_file_range, "sync_file_range", Object::Descriptor),
    (libc::SYS_truncate, "truncate", Object::Path(0)),
    (libc::SYS_openat, "openat", Object::Path(1)),
    (libc::SYS_renameat, "renameat", Object::Path(1)),
    (libc::SYS_renameat2, "renameat2", Object::Path(1)),
    (libc::SYS_unlinkat, "unlinkat", Object::Path(1)),
    (libc::SYS_mkdirat, "mkdirat", Object::Directory),
];

/// Older forms that some platforms have besides.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: [(i64, &str, Object); 4] = [
    (libc::SYS_open, "open", Object::Path(0)),
    (libc::SYS_rename, "rename", Object::Path(0)),
    (libc::SYS_unlink, "unlink", Object::Path(0)),
    (libc::SYS_mkdir, "mkdir", Object::Directory),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: [(i64, &str, Object); 0] = [];

/// Name of the system call that process `pid` is in, and the kind of its file; none for a call that is not of interest.
pub(super) fn of_process(root: &HostRoot, pid: i32) -> Option<(&'static str, Option<String>)> {
    let text = root.read(format!("proc/{pid}/syscall")).ok()?;
    let mut fields = text.split_whitespace();
    // `running`, or -1 outside of any.
    let number: i64 = fields.next()?.parse().ok()?;
    let (_, name, object) = CALLS.iter().chain(&OLD_CALLS).find(|(of, _, _)| *of == number)?;
    let arguments: Vec<u64> =
        fields.map_while(|field| u64::from_str_radix(field.strip_prefix("0x")?, 16).ok()).collect();
    let path = match object {
        Object::Descriptor => arguments
            .first()
            .and_then(|descriptor| fs::read_link(root.path(format!("proc/{pid}/fd/{descriptor}"))).ok()),
        Object::Path(argument) => arguments.get(*argument).and_then(|address| path_at(root, pid, *address)),
        Object::Directory => None,
    };
    Some((name, path.and_then(|path| kind_of(&path))))
}

/// The path in the memory of a process.
fn path_at(root: &HostRoot, pid: i32, address: u64) -> Option<PathBuf> {
    let memory = File::open(root.path(format!("proc/{pid}/mem"))).ok()?;
    let mut bytes = [0; PATH_SIZE];
    let read = memory.read_at(&mut bytes, address).ok()?;
    let path = bytes[..read].split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// What a file of a data directory is for: names differ, and places are to be counted.
fn kind_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let inside = |directory: &str| path.iter().any(|part| part == directory);
    Some(if inside("pg_wal") {
        if name.starts_with("xlogtemp") { "new WAL segment".to_string() } else { "WAL segment".to_string() }
    } else if name.starts_with("pg_internal.init") {
        "relation cache file".to_string()
    } else if inside("base") || inside("global") {
        "data file".to_string()
    } else {
        let directory = path.parent()?.file_name()?.to_str()?;
        format!("file of {directory}")
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A process in a call, with the path `path` at 0x20 of its memory and behind descriptor 31.
    fn process(call: &str, path: &str) -> (tempfile::TempDir, HostRoot) {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        fs::create_dir_all(root.path("proc/11/fd")).unwrap();
        fs::write(root.path("proc/11/syscall"), call).unwrap();
        let mut memory = vec![b'x'; 0x20];
        memory.extend_from_slice(path.as_bytes());
        memory.extend_from_slice(b"\0more");
        fs::write(root.path("proc/11/mem"), memory).unwrap();
        symlink(path, root.path("proc/11/fd/31")).unwrap();
        (dir, root)
    }

    #[test]
    fn the_file_of_a_call_is_behind_a_descriptor_or_a_path() {
        for (call, path, expected) in [
            (format!("{} 0x1f 0x0\n", libc::SYS_fsync), "/d/pg_wal/xlogtemp.77", ("fsync", "new WAL segment")),
            (
                format!("{} 0xffffff9c 0x20 0x241\n", libc::SYS_openat),
                "base/1/pg_internal.init.77",
                ("openat", "relation cache file"),
            ),
            (
                format!("{} 0xffffff9c 0x20 0xffffff9c 0x0\n", libc::SYS_renameat),
                "global/pg_internal.init.77",
                ("renameat", "relation cache file"),
            ),
        ] {
            let (_dir, root) = process(&call, path);
            let (name, file) = of_process(&root, 11).unwrap();
            assert_eq!((name, file.as_deref()), (expected.0, Some(expected.1)));
        }
    }

    #[test]
    fn a_process_outside_of_calls_or_in_another_has_none() {
        for call in ["running\n", "-1 0x0 0x0\n", "0 0x1f 0x20\n"] {
            let (_dir, root) = process(call, "/d/base/5/16396");
            assert_eq!(of_process(&root, 11), None);
        }
    }

    #[test]
    fn files_are_named_by_what_they_are_for() {
        for (path, kind) in [
            ("/d/pg_wal/000000010000000000000013", "WAL segment"),
            ("/d/base/5/16396.1", "data file"),
            ("/d/base/5/pg_internal.init", "relation cache file"),
            ("global/pg_internal.init.4711", "relation cache file"),
            ("/d/pg_xact/0000", "file of pg_xact"),
        ] {
            assert_eq!(kind_of(Path::new(path)).as_deref(), Some(kind));
        }
    }
}
