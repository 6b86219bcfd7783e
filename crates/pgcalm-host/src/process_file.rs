//! Files as a process sees them, and what it has open.
//!
//! The process may be anybody's, in a container too, and so may all names below its root directory be. Each path is walked
//! by the kernel beneath that root (openat2(2)): no link leads out of it, and what is opened is what was looked at.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::{Error, HostRoot, Result, process};

/// No file that is read here is larger, unless somebody wants it to be.
const LARGEST: u64 = 64 << 10;

/// How often a walk is begun anew that a rename elsewhere has disturbed (`EAGAIN` of openat2(2)).
const WALKS: u32 = 64;

/// The working directory of process `pid` as it calls it itself; `None` if the process has ended, may not be looked at, or
/// has its working directory outside of its root directory.
pub fn working_directory(root: &HostRoot, pid: i32) -> Option<PathBuf> {
    in_its_words(root, pid, process::working_directory(root, pid)?)
}

/// The directory that process `pid` was put into by chroot(2), from the root of its mount namespace; `None` if it has that
/// for its own, as in most containers.
pub fn chroot(root: &HostRoot, pid: i32) -> Option<PathBuf> {
    let directory = std::fs::read_link(root.path(format!("proc/{pid}/root"))).ok()?;
    (directory.is_absolute() && directory != Path::new("/")).then_some(directory)
}

/// What process `pid` calls the file to which a link in its /proc directory points: the kernel writes such a link from the
/// reader's root, or the mount namespace's if that is another one (`d_path`), and not from the process's own.
///
/// So are names in /proc/PID/maps. `None` for what is outside of its root directory.
pub fn in_its_words(root: &HostRoot, pid: i32, link: PathBuf) -> Option<PathBuf> {
    match chroot(root, pid) {
        Some(chroot) => Some(Path::new("/").join(link.strip_prefix(chroot).ok()?)),
        None => Some(link),
    }
}

/// A handle on what process `pid` calls `path` (`O_PATH`: nothing is opened by it). Links are followed as that process
/// would, beneath its root directory.
///
/// Errors are those of openat2(2), and of reading /proc/PID/root: permission denied for another user's process.
pub fn find(root: &HostRoot, pid: i32, path: &Path) -> io::Result<OwnedFd> {
    let flags = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    beneath(&its_root(root, pid)?, path, OFlags::empty(), flags)
}

/// Likewise, of something that is no link itself.
pub fn find_no_link(root: &HostRoot, pid: i32, path: &Path) -> io::Result<OwnedFd> {
    let flags = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    beneath(&its_root(root, pid)?, path, OFlags::NOFOLLOW, flags)
}

/// A handle on what descriptor `descriptor` of process `pid` is on, whatever its name leads to by now.
pub fn find_open(root: &HostRoot, pid: i32, descriptor: u32) -> io::Result<OwnedFd> {
    let path = root.path(format!("proc/{pid}/fd/{descriptor}"));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// The path without symbolic links of what process `pid` calls `path`, as it calls it; `None` if it isn't there or can't
/// be looked at.
pub fn resolve(root: &HostRoot, pid: i32, path: &Path) -> Option<PathBuf> {
    let directory = std::fs::read_link(handle(&its_root(root, pid).ok()?)).ok()?;
    let found = std::fs::read_link(handle(&find(root, pid, path).ok()?)).ok()?;
    Some(Path::new("/").join(found.strip_prefix(directory).ok()?))
}

/// The names in what process `pid` calls the directory `path`; none if it is none or can't be read.
pub fn names(root: &HostRoot, pid: i32, path: &Path) -> Vec<std::ffi::OsString> {
    let read = || -> io::Result<Vec<std::ffi::OsString>> {
        let directory = find(root, pid, path)?;
        let entries = std::fs::read_dir(handle(&directory))?;
        entries.map(|entry| Ok(entry?.file_name())).collect()
    };
    read().unwrap_or_default()
}

/// The text of a small regular file that process `pid` calls `path`; `None` if it is none or can't be read.
pub fn read(root: &HostRoot, pid: i32, path: &Path) -> Option<String> {
    text(find_no_link(root, pid, path).ok()?).ok()
}

/// The text of a small regular file in the working directory of process `pid`, in whatever mount namespace that is.
///
/// Errors are those of reading it; a symbolic link and whatever else is no regular file is refused.
pub fn read_in_working_directory(root: &HostRoot, pid: i32, name: &str) -> Result<String> {
    let path = root.path(format!("proc/{pid}/cwd"));
    let read = || {
        let directory = rustix::fs::openat(CWD, &path, DIRECTORY, Mode::empty())?;
        let flags = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        text(beneath(&directory, Path::new(name), OFlags::empty(), flags)?)
    };
    read().map_err(|source| Error::Read { path: path.join(name), source })
}

/// Opens the regular file that a handle is on for reading.
///
/// What was looked at is opened, by the handle and not by its name. Nothing else is: a FIFO would hold the reader up, and
/// to open a device may do something.
pub fn open_regular(file: impl AsFd) -> io::Result<File> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is no regular file"));
    }
    File::open(handle(&file))
}

/// A path that leads to what a handle is on, and nowhere else, for as long as that is open.
pub fn handle(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

fn text(file: OwnedFd) -> io::Result<String> {
    let mut bytes = Vec::new();
    open_regular(file)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The root directory of process `pid`. The last step is the kernel's own link, which no user controls.
fn its_root(root: &HostRoot, pid: i32) -> io::Result<OwnedFd> {
    let path = root.path(format!("proc/{pid}/root"));
    Ok(rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())?)
}

fn beneath(directory: &OwnedFd, path: &Path, flags: OFlags, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
    for _ in 0..WALKS {
        match rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS) => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "the kernel has no openat2(2), without which no path of another process is followed: \
                     Linux 5.6 or later is needed, or a container runtime that allows it",
                ));
            }
            result => return Ok(result?),
        }
    }
    Err(Errno::AGAIN.into())
}

/// The inodes of the sockets that process `pid` has open; none if it may not be looked at.
pub fn sockets(root: &HostRoot, pid: i32) -> BTreeSet<u64> {
    let names = root.list(format!("proc/{pid}/fd")).unwrap_or_default();
    let targets = names.iter().filter_map(|name| std::fs::read_link(root.path(format!("proc/{pid}/fd/{name}"))).ok());
    targets
        .filter_map(|target| {
            let inode = target.to_str()?.strip_prefix("socket:[")?;
            inode.strip_suffix(']')?.parse().ok()
        })
        .collect()
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
                && find_no_link(root, pid, &target)
                    .and_then(|file| Ok(rustix::fs::fstat(file)?))
                    .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile);
            (is_file && is_writable(&info)?).then_some((name.parse().ok()?, target))
        })
        .collect();
    files.sort();
    files
}

fn is_writable(info: &str) -> Option<bool> {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
    Some(flags & OFlags::RWMODE.bits() != OFlags::RDONLY.bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;
    use std::fs;

    #[test]
    fn nothing_but_a_regular_file_is_read() {
        let root = FakeHost::default();
        root.link("proc/7/root", "../..");
        root.put("a", "text");
        root.link("b", "a");
        rustix::fs::mknodat(rustix::fs::CWD, root.path("fifo"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        assert_eq!(read(&root, 7, Path::new("/a")).as_deref(), Some("text"));
        assert_eq!(read(&root, 7, Path::new("/b")), None);
        assert_eq!(read(&root, 7, Path::new("/fifo")), None);
        assert_eq!(read(&root, 8, Path::new("/a")), None);
        root.link("proc/7/cwd", "../..");
        assert_eq!(read_in_working_directory(&root, 7, "a").unwrap(), "text");
        assert!(read_in_working_directory(&root, 7, "b").is_err());
        assert!(read_in_working_directory(&root, 7, "fifo").is_err());
    }

    #[test]
    fn in_a_chroot_paths_are_those_that_the_process_uses() {
        let root = FakeHost::default();
        root.link("proc/7/root", "/jail");
        root.link("proc/7/cwd", "/jail/srv/pg");
        assert_eq!(chroot(&root, 7), Some("/jail".into()));
        assert_eq!(working_directory(&root, 7), Some("/srv/pg".into()));
        // Its working directory from before chroot(2): it has no name for it.
        fs::remove_file(root.path("proc/7/cwd")).unwrap();
        root.link("proc/7/cwd", "/jailed/srv");
        assert_eq!(working_directory(&root, 7), None);
        // A container: the kernel has written both from the root of its mount namespace.
        fs::remove_file(root.path("proc/7/root")).unwrap();
        root.link("proc/7/root", "/");
        assert_eq!(chroot(&root, 7), None);
        assert_eq!(working_directory(&root, 7), Some("/jailed/srv".into()));
    }

    #[test]
    fn files_open_for_writing_are_told_from_all_else() {
        let root = FakeHost::default();
        root.link("proc/7/root", "../..");
        root.put("log/a", "");
        for (fd, target, flags) in [
            (2, "/log/a", "0102001"),
            (3, "/log/a", "0100000"),
            (4, "socket:[1]", "02"),
            (5, "/log/gone (deleted)", "01"),
        ] {
            root.link(format!("proc/7/fd/{fd}"), target);
            root.put(format!("proc/7/fdinfo/{fd}"), &format!("pos:\t0\nflags:\t{flags}\n"));
        }
        assert_eq!(open_for_writing(&root, 7), [(2, "/log/a".into())]);
    }
}
