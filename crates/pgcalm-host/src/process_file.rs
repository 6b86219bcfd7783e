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
use crate::process;
use crate::resolve;

/// No file that is read here is larger, unless somebody wants it to be.
const LARGEST: u64 = 64 << 10;

/// The working directory of process `pid` as it calls it itself; `None` if the process has ended, may not be looked at, or
/// has its working directory outside of its root directory.
pub fn working_directory(root: &HostRoot, pid: i32) -> Option<PathBuf> {
    in_its_words(root, pid, process::working_directory(root, pid)?)
}

/// The directory that process `pid` was put into by chroot(2), from the root of its mount namespace; `None` if it has that
/// for its own, as in most containers.
pub fn chroot(root: &HostRoot, pid: i32) -> Option<PathBuf> {
    let directory = std::fs::read_link(root.path(its_root(pid))).ok()?;
    (directory.is_absolute() && directory != Path::new("/")).then_some(directory)
}

/// What process `pid` calls the file to which a link in its /proc directory points: the kernel writes such a link from the
/// reader's root, or the mount namespace's if that is another one (`d_path`), and not from the process's own.
fn in_its_words(root: &HostRoot, pid: i32, link: PathBuf) -> Option<PathBuf> {
    match chroot(root, pid) {
        Some(chroot) => Some(Path::new("/").join(link.strip_prefix(chroot).ok()?)),
        None => Some(link),
    }
}

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

/// The regular files that process `pid` has open for writing, by descriptor, as it calls them; without those outside of its
/// root directory.
pub fn open_for_writing(root: &HostRoot, pid: i32) -> Vec<(u32, PathBuf)> {
    let names = root.list(format!("proc/{pid}/fd")).unwrap_or_default();
    let mut files: Vec<(u32, PathBuf)> = names
        .iter()
        .filter_map(|name| {
            let target = std::fs::read_link(root.path(format!("proc/{pid}/fd/{name}"))).ok()?;
            let target = in_its_words(root, pid, target)?;
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
    fn in_a_chroot_paths_are_those_that_the_process_uses() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        fs::create_dir_all(root.path("proc/7/fd")).unwrap();
        symlink("/jail", root.path("proc/7/root")).unwrap();
        symlink("/jail/srv/pg", root.path("proc/7/cwd")).unwrap();
        assert_eq!(chroot(&root, 7), Some("/jail".into()));
        assert_eq!(working_directory(&root, 7), Some("/srv/pg".into()));
        // Its working directory from before chroot(2): it has no name for it.
        fs::remove_file(root.path("proc/7/cwd")).unwrap();
        symlink("/jailed/srv", root.path("proc/7/cwd")).unwrap();
        assert_eq!(working_directory(&root, 7), None);
        // A container: the kernel has written both from the root of its mount namespace.
        fs::remove_file(root.path("proc/7/root")).unwrap();
        symlink("/", root.path("proc/7/root")).unwrap();
        assert_eq!(chroot(&root, 7), None);
        assert_eq!(working_directory(&root, 7), Some("/jailed/srv".into()));
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
