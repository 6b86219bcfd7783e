//! Files as a process sees them, and the ones that it has open.

use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::OFlags;

use crate::Error;
use crate::HostRoot;
use crate::Result;
use crate::resolve;

/// No file that is read here is larger, unless somebody wants it to be.
const LARGEST: u64 = 64 << 10;

/// The path without symbolic links of what process `pid` calls `path`; `None` if it isn't there or can't be looked at.
pub fn resolve(root: &HostRoot, pid: i32, path: &Path) -> Option<PathBuf> {
    resolve::resolve(root, &its_root(pid), path)
}

/// Where this process finds the file that process `pid` calls `path`, which must be free of symbolic links.
pub fn real_path(root: &HostRoot, pid: i32, path: &Path) -> PathBuf {
    root.path(its_root(pid).join(path.strip_prefix("/").unwrap_or(path)))
}

/// The text of a small regular file that process `pid` calls `path`; `None` if it is none or can't be read.
pub fn read(root: &HostRoot, pid: i32, path: &Path) -> Option<String> {
    read_regular(&real_path(root, pid, path)).ok()
}

/// The text of a small regular file in the working directory of process `pid`, in whatever mount namespace that is.
///
/// Errors are those of reading it; a symbolic link and whatever else is no regular file is refused.
pub fn read_in_working_directory(root: &HostRoot, pid: i32, name: &str) -> Result<String> {
    let path = root.path(format!("proc/{pid}/cwd")).join(name);
    read_regular(&path).map_err(|source| Error::Read { path, source })
}

/// The directory may belong to anybody, so nothing that he puts there may hold the reader up, as a FIFO would, or lead
/// it elsewhere.
fn read_regular(path: &Path) -> io::Result<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is no regular file",
        ));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The regular files that process `pid` has open for writing, by descriptor, as it calls them.
pub fn open_for_writing(root: &HostRoot, pid: i32) -> Vec<(u32, PathBuf)> {
    let names = root.list(format!("proc/{pid}/fd")).unwrap_or_default();
    let mut files: Vec<(u32, PathBuf)> = names
        .iter()
        .filter_map(|name| {
            let target = std::fs::read_link(root.path(format!("proc/{pid}/fd/{name}"))).ok()?;
            let info = root.read(format!("proc/{pid}/fdinfo/{name}")).ok()?;
            // Sockets and pipes have no absolute name; a removed file has one that isn't there.
            let is_file = target.is_absolute()
                && real_path(root, pid, &target)
                    .symlink_metadata()
                    .is_ok_and(|metadata| metadata.is_file());
            (is_file && is_writable(&info)?).then_some((name.parse().ok()?, target))
        })
        .collect();
    files.sort();
    files
}

fn its_root(pid: i32) -> PathBuf {
    PathBuf::from(format!("proc/{pid}/root"))
}

fn is_writable(info: &str) -> Option<bool> {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
    Some(flags & OFlags::RWMODE.bits() != OFlags::RDONLY.bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_but_a_regular_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        fs::create_dir_all(root.path("proc/7")).unwrap();
        symlink("../..", root.path("proc/7/root")).unwrap();
        fs::write(root.path("a"), "text").unwrap();
        symlink("a", root.path("b")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.path("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(read(&root, 7, Path::new("/a")).as_deref(), Some("text"));
        assert_eq!(read(&root, 7, Path::new("/b")), None);
        assert_eq!(read(&root, 7, Path::new("/fifo")), None);
        assert_eq!(read(&root, 8, Path::new("/a")), None);
        symlink("../..", root.path("proc/7/cwd")).unwrap();
        assert_eq!(read_in_working_directory(&root, 7, "a").unwrap(), "text");
        assert!(read_in_working_directory(&root, 7, "b").is_err());
        assert!(read_in_working_directory(&root, 7, "fifo").is_err());
    }

    #[test]
    fn files_open_for_writing_are_told_from_all_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        for directory in ["proc/7/fd", "proc/7/fdinfo", "log"] {
            fs::create_dir_all(root.path(directory)).unwrap();
        }
        symlink("../..", root.path("proc/7/root")).unwrap();
        fs::write(root.path("log/a"), "").unwrap();
        for (fd, target, flags) in [
            (2, "/log/a", "0102001"),
            (3, "/log/a", "0100000"),
            (4, "socket:[1]", "02"),
            (5, "/log/gone (deleted)", "01"),
        ] {
            symlink(target, root.path(format!("proc/7/fd/{fd}"))).unwrap();
            fs::write(
                root.path(format!("proc/7/fdinfo/{fd}")),
                format!("pos:\t0\nflags:\t{flags}\n"),
            )
            .unwrap();
        }
        assert_eq!(open_for_writing(&root, 7), [(2, "/log/a".into())]);
    }
}
