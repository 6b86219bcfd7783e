//! Files of root's in directories of the servers' user, who may put links there: no link is followed, on the way to a file
//! neither, and nothing but a regular file is opened.

use std::fs::File;
use std::io;
use std::io::{Read, Write};
use std::path::Path;

use pgcalm_host::process_file;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::installation::Installation;

/// A new file, or an old one without what it held.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let file = open(path, OFlags::WRONLY | OFlags::CREATE)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    file.set_len(0)?;
    Ok(file)
}

/// A file with this in it.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(bytes.as_ref())
}

/// Adds to a file that is there.
pub(crate) fn append(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = open(path, OFlags::WRONLY | OFlags::APPEND)?;
    if file.metadata()?.is_file() { file.write_all(bytes.as_ref()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// A file for reading.
pub(crate) fn open_for_reading(path: &Path) -> io::Result<File> {
    process_file::open_regular(open(path, OFlags::PATH)?)
}

/// What a file holds.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_for_reading(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Gives a file, and not what it may link to, to the servers' user.
pub(crate) fn give(path: &Path, installation: &Installation) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(installation.uid), Some(installation.gid))
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    // A FIFO or a device must not hold anybody up before it is seen for what it is. A handle opens nothing, and openat2(2)
    // takes no such flags with it.
    let flags =
        OFlags::CLOEXEC | if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK | OFlags::NOCTTY };
    let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o644) } else { Mode::empty() };
    let path = std::path::absolute(path)?;
    let file = rustix::fs::openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS)?;
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_is_followed_and_files_are_made_written_and_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let victim = path.join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, path.join("link")).unwrap();
        symlink(&path, path.join("way")).unwrap();
        for name in ["link", "way/victim"] {
            let name = path.join(name);
            assert!(create(&name).is_err());
            assert!(append(&name, "x").is_err());
            assert!(read(&name).is_err());
        }
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        let own = path.join("own");
        write(&own, "longer text").unwrap();
        write(&own, "text").unwrap();
        append(&own, "s").unwrap();
        assert_eq!(read(&own).unwrap(), b"texts");
    }
}
