//! Files that are replaced as a whole: whoever reads one finds the old text or the new one, never a part.
//!
//! The new text is written beside the file and renamed. rename(2) puts it in the place of whatever is there, be it a device, a
//! FIFO, a socket or a symbolic link. So what is there is looked at first: only a file is replaced, and only a file removed.

use std::fs::{File, FileType, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{FlockOperation, OFlags, flock};

/// Whether a replacement outlasts a crash of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The text is on disk before it gets the name, and the name when the call returns.
    Synced,
    /// Left to the kernel.
    Unsynced,
}

/// Fails if there is something at `path` that is no regular file, with what it is; links are not followed.
pub fn check(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(metadata) => Err(not_a_file(metadata.file_type())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The error about something that is no regular file.
pub fn not_a_file(kind: FileType) -> io::Error {
    let text = match kind {
        kind if kind.is_dir() => "is a directory and no file",
        kind if kind.is_symlink() => "is a symbolic link and no file",
        kind if kind.is_fifo() => "is a FIFO and no file",
        kind if kind.is_socket() => "is a socket and no file",
        _ => "is a device and no file",
    };
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Removes a file; that it isn't there is no error, but that it is no regular file is.
pub fn remove(path: &Path) -> io::Result<()> {
    check(path)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes files whose names begin with `prefix` and that nobody has locked ([`Replacement::lock`]): their processes have ended
/// without doing so. What can't be read or removed is left.
pub fn remove_abandoned(directory: &Path, prefix: &str) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()) {
            continue;
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(entry.path()) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = remove(&entry.path());
        }
    }
}

/// Replaces `path` by `text`. Until it is renamed it is called `temporary`, in the same directory. Errors are those of the
/// calls, and of what is there and no regular file.
pub fn write(path: &Path, temporary: &Path, mode: u32, text: &[u8], durability: Durability) -> io::Result<()> {
    check(path)?;
    let mut replacement = Replacement::create(temporary.to_path_buf(), mode)?;
    // Without locks, as on some network file systems, it may be taken for abandoned; then it can't be renamed.
    let _ = replacement.lock();
    replacement.write_all(text)?;
    if durability == Durability::Synced {
        replacement.sync()?;
    }
    replacement.rename_to(path)?;
    match (durability, path.parent()) {
        (Durability::Synced, Some(directory)) => open_directory(directory)?.sync_all(),
        _ => Ok(()),
    }
}

fn open_directory(directory: &Path) -> io::Result<File> {
    if directory.as_os_str().is_empty() { File::open(".") } else { File::open(directory) }
}

/// A new file beside the one that it is to replace; removed unless it gets the name.
#[derive(Debug)]
pub struct Replacement {
    path: PathBuf,
    file: File,
    renamed: bool,
}

impl Replacement {
    /// Creates it as `path`, in the place of what an earlier process has left under that name. A link is not followed. It has
    /// `mode`, whatever the umask is: others may have to read it.
    pub fn create(path: PathBuf, mode: u32) -> io::Result<Self> {
        remove(&path)?;
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
        let new = Self { path, file, renamed: false };
        new.file.set_permissions(Permissions::from_mode(mode))?;
        Ok(new)
    }

    /// Its name until it is renamed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps it from [`remove_abandoned`] as long as this is there.
    pub fn lock(&self) -> io::Result<()> {
        Ok(flock(&self.file, FlockOperation::NonBlockingLockExclusive)?)
    }

    /// Puts what was written on disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Gives it the name `path`, in the place of the file that has it; of nothing else.
    pub fn rename_to(mut self, path: &Path) -> io::Result<()> {
        check(path)?;
        fs::rename(&self.path, path)?;
        self.renamed = true;
        Ok(())
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.renamed {
            // The next one of this name removes it if this fails.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::CWD;
    use rustix::fs::FileType as NodeType;
    use rustix::fs::Mode;

    use super::*;

    fn replace(path: &Path) -> io::Result<()> {
        let temporary = path.with_file_name("temporary");
        write(path, &temporary, 0o600, b"new", Durability::Synced)
    }

    #[test]
    fn a_file_is_replaced_and_removed_and_nothing_stays_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        // What a killed process has left.
        fs::write(directory.path().join("temporary"), "left").unwrap();
        for _ in 0..2 {
            replace(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        }
        remove(&path).unwrap();
        remove(&path).unwrap();
    }

    #[test]
    fn the_mode_is_the_one_that_was_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let new = Replacement::create(path.clone(), 0o666).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
        drop(new);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        fs::create_dir(place("directory")).unwrap();
        symlink("elsewhere", place("symbolic link")).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, place("FIFO"), NodeType::Fifo, mode, 0).unwrap();
        let _socket = UnixListener::bind(place("socket")).unwrap();
        for name in ["directory", "symbolic link", "FIFO", "socket"] {
            let path = place(name);
            let before = fs::symlink_metadata(&path).unwrap().file_type();
            for result in [check(&path), replace(&path), remove(&path)] {
                let error = result.unwrap_err().to_string();
                assert_eq!(error, format!("is a {name} and no file"));
            }
            assert_eq!(fs::symlink_metadata(&path).unwrap().file_type(), before);
        }
        assert!(check(Path::new("/dev/null")).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_link_in_place_of_the_temporary_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, directory.path().join("temporary")).unwrap();
        assert!(replace(&directory.path().join("a")).is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }
}
