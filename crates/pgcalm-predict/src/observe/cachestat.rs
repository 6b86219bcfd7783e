//! cachestat(2): what of a file is in the page cache, and dirty there.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Number of the call on all architectures (include/uapi/asm-generic/unistd.h, Linux 6.5).
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of include/uapi/linux/mman.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 is to the end of the file.
    pub length: u64,
}

/// `struct cachestat` there; in pages of memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// Cached.
    pub cached: u64,
    /// Dirty. Counts a large folio as a whole when a part of it was written.
    pub dirty: u64,
    /// Being written.
    pub writeback: u64,
    /// Evicted.
    pub evicted: u64,
    /// Of those the ones evicted lately.
    pub recently_evicted: u64,
}

/// What of a range of `file` is in the page cache. `ENOSYS` before Linux 6.5, and `EPERM` where a container's system call
/// filter refuses it.
pub fn cachestat(file: &File, range: Range) -> io::Result<CacheStat> {
    let mut result = CacheStat::default();
    // SAFETY: both pointers are to live values of the layout that the kernel reads and writes, and it keeps neither.
    let status = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut result, 0) };
    if status == 0 { Ok(result) } else { Err(io::Error::last_os_error()) }
}

/// Whether the kernel has it, and lets us.
pub fn is_there() -> bool {
    // Since 6.14 the caller must own a file or be able to write to it (can_do_cachestat of mm/filemap.c): not so this program.
    let writable = File::options().write(true).open("/dev/null");
    writable.is_ok_and(|file| {
        let range = Range { offset: 0, length: 1 };
        cachestat(&file, range).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// On a file system that has a page cache of its own to flush, which tmpfs hasn't.
    fn file() -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = File::options().read(true).write(true).create_new(true).open(dir.path().join("16384")).unwrap();
        (dir, file)
    }

    #[test]
    fn dirty_pages_are_those_written_since_the_last_sync() {
        if !is_there() {
            eprintln!("skipped: the kernel has no cachestat(2), or it is not allowed");
            return;
        }
        let (_dir, file) = file();
        // Blocks written one by one are small folios.
        for block in 0..64 {
            file.write_all_at(&[1; 8192], block * 8192).unwrap();
        }
        file.sync_all().unwrap();
        let whole = Range { offset: 0, length: 0 };
        assert_eq!(cachestat(&file, whole).unwrap().dirty, 0);
        for block in [3, 20, 40] {
            file.write_all_at(&[2; 8192], block * 8192).unwrap();
        }
        let half = Range { offset: 0, length: 32 * 8192 };
        let page = rustix_page_size();
        assert_eq!(cachestat(&file, whole).unwrap().dirty, 3 * 8192 / page);
        assert_eq!(cachestat(&file, half).unwrap().dirty, 2 * 8192 / page);
    }

    fn rustix_page_size() -> u64 {
        super::super::page_cache::page_size()
    }
}
