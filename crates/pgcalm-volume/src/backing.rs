use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use anyhow::Context;
use pgcalm_host::Failure;

/// The smallest unit that any device takes directly.
const SECTOR: u64 = 512;

/// The file that holds the volume's data.
#[derive(Debug)]
pub(crate) struct Backing {
    /// Through the page cache: for what direct I/O refuses.
    buffered: File,
    /// Past it; none where the file system has no direct I/O.
    direct: Option<File>,
    size: u64,
}

impl Backing {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let what = || format!("open image {}", path.display());
        let open =
            |flags: OFlags| OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(path);
        let buffered = open(OFlags::empty()).with_context(what)?;
        let direct = match open(OFlags::DIRECT) {
            Ok(file) => Some(file),
            Err(error) if refused(&error) => None,
            Err(error) => return Err(error).with_context(what),
        };
        let metadata = buffered.metadata().with_context(what)?;
        if !metadata.is_file() || metadata.len() < SECTOR {
            anyhow::bail!(Failure::Usage(format!(
                "image {}: not a file of at least {SECTOR} bytes; make it with truncate --size",
                path.display()
            )));
        }
        Ok(Self { buffered, direct, size: metadata.len() })
    }

    /// Bytes; the file keeps its size.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Reads into an aligned buffer; returns how much there is before the end of the file.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..length];
        match self.direct_for(length, offset) {
            Some(file) => match file.read_exact_at(buffer, offset) {
                Err(error) if refused(&error) => self.buffered.read_exact_at(buffer, offset),
                other => other,
            },
            None => self.buffered.read_exact_at(buffer, offset),
        }?;
        Ok(length)
    }

    /// Writes from an aligned buffer. What direct I/O refuses is on the file system's device, too, when this returns.
    pub(crate) fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > self.size) {
            return Err(Errno::NOSPC.into());
        }
        if let Some(file) = self.direct_for(data.len(), offset) {
            match file.write_all_at(data, offset) {
                Err(error) if refused(&error) => {}
                other => return other,
            }
        }
        self.buffered.write_all_at(data, offset)?;
        match self.direct {
            Some(_) => self.buffered.sync_data(),
            // The page cache is all there is to write to.
            None => Ok(()),
        }
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        self.buffered.sync_data()
    }

    /// Makes a range zeros and gives back its blocks, as far as the file system can.
    pub(crate) fn fallocate(&self, mode: i32, offset: u64, length: u64) -> io::Result<()> {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        if !mode.contains(FallocateFlags::KEEP_SIZE) && offset + length > self.size {
            return Err(Errno::NOSPC.into());
        }
        Ok(rustix::fs::fallocate(&self.buffered, mode, offset, length)?)
    }

    fn direct_for(&self, length: usize, offset: u64) -> Option<&File> {
        let aligned = offset.is_multiple_of(SECTOR) && (length as u64).is_multiple_of(SECTOR);
        self.direct.as_ref().filter(|_| aligned)
    }
}

/// Direct I/O that the file system, or the sector size of its device, doesn't allow.
fn refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::buffer::Pool;

    fn round_trip(path: &Path) {
        std::fs::write(path, vec![7; 65536]).unwrap();
        let backing = Backing::open(path).unwrap();
        let mut buffer = Arc::new(Pool::default()).take();
        // Aligned to pages, to sectors, and to nothing.
        for (offset, length) in [(4096, 8192), (512, 1536), (1, 3), (65535, 1)] {
            buffer[..length].fill(length as u8);
            backing.write(&buffer[..length], offset).unwrap();
            buffer.fill(0);
            assert_eq!(backing.read(&mut buffer[..length], offset).unwrap(), length);
            assert!(buffer[..length].iter().all(|byte| *byte == length as u8));
        }
        backing.flush().unwrap();
        assert_eq!(backing.read(&mut buffer[..4096], 65024).unwrap(), 512);
        assert_eq!(backing.read(&mut buffer[..4096], 70000).unwrap(), 0);
        assert!(backing.write(&buffer[..4096], 65024).is_err());
        assert_eq!(std::fs::metadata(path).unwrap().len(), 65536);
    }

    #[test]
    fn any_request_works_with_direct_io_and_without() {
        let dir = tempfile::tempdir().unwrap();
        round_trip(&dir.path().join("image"));
        if let Ok(dir) = tempfile::tempdir_in("/dev/shm") {
            round_trip(&dir.path().join("image"));
        }
    }
}
