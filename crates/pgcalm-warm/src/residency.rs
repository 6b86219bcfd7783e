//! Which blocks of a file the page cache has.
//!
//! cachestat(2) counts the pages of a range where the kernel has it (Linux 6.5): most of a large cluster is not cached at all,
//! and much of the rest is so entirely, and then nothing more is to be asked. mincore(2) tells page by page, by a mapping that
//! nobody touches: no page is read for it, and none counts as used.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use memmap2::MmapOptions;

use crate::runs::BLOCK;

/// What is asked at a time; whole pages and blocks of any size.
const WINDOW: u64 = 64 << 20;

/// The same on all architectures that have the unified table of system calls.
const CACHESTAT: libc::c_long = 451;

/// Blocks within `bytes` that are cached, in runs. Only owner and root get true answers (`can_do_mincore` in the kernel).
pub fn cached(file: &File, bytes: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let page = rustix::param::page_size() as u64;
    let mut found = Vec::new();
    // Mappings begin with pages, which may be larger than blocks.
    let mut start = bytes.start - bytes.start % page.max(BLOCK);
    while start < bytes.end {
        let window = start..bytes.end.min(start + WINDOW);
        let pages = (window.end - start).div_ceil(page);
        match count(file, &window)? {
            Some(0) => {}
            Some(cached) if cached >= pages => push(&mut found, start / BLOCK..window.end.div_ceil(BLOCK)),
            _ => look(file, &window, page, &mut found)?,
        }
        start = window.end;
    }
    let wanted = bytes.start / BLOCK..bytes.end.div_ceil(BLOCK);
    let within = found.into_iter().map(|range| range.start.max(wanted.start)..range.end.min(wanted.end));
    Ok(within.filter(|range| !range.is_empty()).collect())
}

/// As linux/mman.h has it.
#[repr(C)]
struct CachestatRange {
    offset: u64,
    length: u64,
}

/// Cached pages in a range; none where the kernel does not tell.
fn count(file: &File, range: &Range<u64>) -> io::Result<Option<u64>> {
    let asked = CachestatRange { offset: range.start, length: range.end - range.start };
    // nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted.
    let mut answer = [0_u64; 5];
    // SAFETY: both structures are as large as the kernel takes them to be, and outlive the call.
    let result = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const asked, answer.as_mut_ptr(), 0) };
    match result {
        0 => Ok(Some(answer[0])),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM | libc::EOPNOTSUPP)) => Ok(None),
            error => Err(error),
        },
    }
}

fn look(file: &File, window: &Range<u64>, page: u64, found: &mut Vec<Range<u64>>) -> io::Result<()> {
    let length = (window.end - window.start) as usize;
    // SAFETY: nothing of the mapping is read or written, so that it does not matter who changes the file or cuts it off.
    let map = unsafe { MmapOptions::new().offset(window.start).len(length).map(file) }?;
    let mut pages = vec![0_u8; (length as u64).div_ceil(page) as usize];
    // SAFETY: the mapping begins with a page, has this length, and there is a byte for each of its pages.
    let result = unsafe { libc::mincore(map.as_ptr() as *mut libc::c_void, length, pages.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    for block in window.start / BLOCK..window.end.div_ceil(BLOCK) {
        let end = ((block + 1) * BLOCK).min(window.end);
        let own = (block * BLOCK - window.start) / page..(end - window.start).div_ceil(page);
        if pages[own.start as usize..own.end as usize].iter().all(|page| page & 1 == 1) {
            push(found, block..block + 1);
        }
    }
    Ok(())
}

fn push(found: &mut Vec<Range<u64>>, range: Range<u64>) {
    match found.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => found.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Advice;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    /// On a disk: what is in tmpfs is always there.
    #[test]
    fn what_was_read_is_told_from_what_was_not_and_looking_reads_nothing() {
        let blocks = |file: &File, bytes| {
            let found = cached(file, bytes).unwrap();
            found.into_iter().map(|range| (range.start, range.end)).collect::<Vec<_>>()
        };
        let size = 32 * BLOCK + 100;
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&vec![1; size as usize]).unwrap();
        assert_eq!(blocks(&file, 0..size), [(0, 33)]);
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        assert_eq!(blocks(&file, 0..size), []);
        rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
        let mut buffer = [0; 2 * BLOCK as usize];
        file.read_exact_at(&mut buffer, 8 * BLOCK).unwrap();
        file.read_exact_at(&mut buffer[..100], 32 * BLOCK).unwrap();
        for _ in 0..2 {
            assert_eq!(blocks(&file, 0..size), [(8, 10), (32, 33)]);
        }
        assert_eq!(blocks(&file, 9 * BLOCK..size), [(9, 10), (32, 33)]);
        assert_eq!(blocks(&file, 0..9 * BLOCK), [(8, 9)]);
    }
}
