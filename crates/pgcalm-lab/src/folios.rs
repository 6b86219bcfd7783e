//! How much of a cluster's page cache lies in large folios: what the kernel takes for one unit when it marks pages dirty, so
//! that one block that is written can count as up to 2 MiB.
//!
//! A sample of pages is looked at, spread evenly over all files. Whether one is cached says mincore(2), whether its folio is
//! large /proc/kpageflags, by the page's number from /proc/self/pagemap. Looking changes nothing: only what is cached
//! is mapped, a page at a time, and as something that is read at random, whose use the kernel does not take note of.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use anyhow::Context;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::contest::report::Cached;
use crate::template::for_each_file;

/// Pages that are looked at: 64 MiB of them.
const SAMPLE: u64 = (64 << 20) / PAGE;

const PAGE: u64 = 4096;

/// `KPF_COMPOUND_HEAD`, `KPF_COMPOUND_TAIL` (include/uapi/linux/kernel-page-flags.h): folios of one page have neither.
const COMPOUND: u64 = 1 << 15 | 1 << 16;

/// Of an entry of pagemap: the page is in memory, and its number (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
const NUMBER: u64 = (1 << 55) - 1;

/// Looks at the tables and indexes of the cluster in `data`. Needs root.
pub(crate) fn cached(data: &Path) -> anyhow::Result<Cached> {
    let mut files: Vec<(PathBuf, u64)> = Vec::new();
    for_each_file(&data.join("base"), &mut |path| {
        files.push((path.to_path_buf(), path.metadata()?.len() / PAGE));
        Ok(())
    })?;
    let pages: u64 = files.iter().map(|(_, pages)| pages).sum();
    let step = (pages / SAMPLE).max(1);
    let kernel = Kernel::open()?;
    let (mut looked, mut cached, mut large) = (0, 0, 0);
    let mut next = 0;
    for (path, pages) in files {
        if next < pages {
            let file = match File::open(&path) {
                Ok(file) => file,
                // A table that was dropped meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(error).with_context(|| format!("open {}", path.display()));
                }
            };
            while next < pages {
                looked += 1;
                if let Some(is_large) = kernel.look(&file, next)? {
                    cached += 1;
                    large += u64::from(is_large);
                }
                next += step;
            }
        }
        next -= pages;
    }
    let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    Ok(Cached { cached_percent: percent(cached, looked), large_folios_percent: percent(large, cached) })
}

/// Where the kernel tells of pages.
struct Kernel {
    pagemap: File,
    flags: File,
}

/// One page of a file, mapped.
struct Mapped(*mut std::ffi::c_void);

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it is a mapping of ours of this length, and nothing refers into it.
        let _ = unsafe { munmap(self.0, PAGE as usize) };
    }
}

impl Kernel {
    fn open() -> anyhow::Result<Self> {
        let open = |path: &str| File::open(path).with_context(|| format!("open {path}"));
        Ok(Self { pagemap: open("/proc/self/pagemap")?, flags: open("/proc/kpageflags")? })
    }

    /// Whether the page of `file` lies in a large folio; none if it is not cached.
    fn look(&self, file: &File, page: u64) -> anyhow::Result<Option<bool>> {
        // SAFETY: a new mapping at an address that the kernel chooses; nothing reads it as memory.
        let address = unsafe { mmap(null_mut(), PAGE as usize, ProtFlags::READ, MapFlags::SHARED, file, page * PAGE) }
            .context("map a page")?;
        let mapped = Mapped(address);
        let mut resident = 0u8;
        // SAFETY: the range is the mapping, and there is a byte for its only page.
        let result = unsafe { libc::mincore(mapped.0, PAGE as usize, &raw mut resident) };
        if result != 0 || resident & 1 == 0 {
            return Ok(None);
        }
        // SAFETY: both concern the mapping alone. Where the file has become shorter, populating it is an error, and no SIGBUS.
        let populated = unsafe {
            madvise(mapped.0, PAGE as usize, Advice::Random)
                .and_then(|()| madvise(mapped.0, PAGE as usize, Advice::LinuxPopulateRead))
        };
        if populated.is_err() {
            return Ok(None);
        }
        let entry = word(&self.pagemap, mapped.0 as u64 / PAGE).context("read pagemap")?;
        if entry & PRESENT == 0 || entry & NUMBER == 0 {
            return Ok(None);
        }
        let flags = word(&self.flags, entry & NUMBER).context("read kpageflags")?;
        Ok(Some(flags & COMPOUND != 0))
    }
}

/// The number at place `index` of a file of these.
fn word(file: &File, index: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, index * 8)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use pgcalm_testkit::need;
    use rustix::fs::Advice as FileAdvice;
    use rustix::fs::fadvise;

    use super::*;

    /// A cluster of one file of 8 MiB, which nobody has cached, below the build's directory: not in memory.
    fn cluster() -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let base = dir.path().join("base");
        std::fs::create_dir(&base).unwrap();
        let path = base.join("16384");
        File::create(&path).unwrap().write_all(&vec![1; 8 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, FileAdvice::DontNeed).unwrap();
        (dir, file)
    }

    #[test]
    fn what_is_read_ahead_lies_in_larger_folios_than_what_is_read_at_random() {
        if !need::met("page flags of the kernel", &[need::ROOT]) {
            return;
        }
        let (dir, file) = cluster();
        assert_eq!(cached(dir.path()).unwrap().cached_percent, 0.0);
        // A host that is short of memory may take some of it back at once.
        let after = |advice, bytes: usize, percent: f64| {
            let seen = (0..50).map(|_| {
                fadvise(&file, 0, None, advice).unwrap();
                let mut block = [0; 8192];
                for offset in (0..bytes).step_by(block.len()) {
                    file.read_exact_at(&mut block, offset as u64).unwrap();
                }
                cached(dir.path()).unwrap()
            });
            let mut seen = seen.skip_while(|cached| cached.cached_percent != percent);
            seen.next().expect("what was read is cached")
        };
        let random = after(FileAdvice::Random, 4 << 20, 50.0);
        assert_eq!(random.large_folios_percent, 0.0);
        let whole = after(FileAdvice::Sequential, 8 << 20, 100.0);
        // Which file systems have large folios depends on the kernel; what was there before stays as it is.
        assert!(whole.large_folios_percent <= 50.0, "{whole:?}");
        println!("{whole:?}");
    }
}
