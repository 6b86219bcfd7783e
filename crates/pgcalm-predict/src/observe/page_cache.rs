//! Looks at data files through the page cache, for servers without the module.

use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use anyhow::ensure;
use pgcalm_host::HostRoot;
use pgcalm_host::process_file;

use crate::observe::cachestat::Range;
use crate::observe::cachestat::cachestat;
use crate::observe::growth::Growth;

/// Bytes of a region and of a block.
const REGION: u64 = 8 << 20;
const BLOCK: u64 = 8192;

/// Regions looked at in one pass at most; of more every n-th is.
const MOST: u64 = 8192;

/// Files not written for so long are not looked at: the kernel flushes by then (`vm.dirty_expire_centisecs` and more).
const IDLE: Duration = Duration::from_secs(120);

/// Bytes of a page of memory.
pub(super) fn page_size() -> u64 {
    // SAFETY: takes and returns integers.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// What is remembered of a region between looks.
#[derive(Debug, Clone, Copy)]
struct Seen {
    dirty: u64,
    since: Instant,
}

/// The data files of a server, by the names that it has for them. They are its user's, and so are found beneath the
/// server's root directory, and opened if they are regular files.
#[derive(Debug)]
pub(super) struct PageCache {
    root: HostRoot,
    /// Its postmaster.
    pid: i32,
    data_directory: PathBuf,
    seen: HashMap<(PathBuf, u64), Seen>,
    page_size: u64,
}

impl PageCache {
    pub fn of(root: &HostRoot, pid: i32, data_directory: &Path) -> anyhow::Result<Self> {
        let mut cache = Self {
            root: root.clone(),
            pid,
            data_directory: data_directory.to_path_buf(),
            seen: HashMap::new(),
            page_size: page_size(),
        };
        // What is dirty now got so at unknown times.
        cache.sample(&mut Growth::default())?;
        Ok(cache)
    }

    /// Looks at all regions of files that were written lately.
    pub fn sample(&mut self, growth: &mut Growth) -> anyhow::Result<()> {
        let files = self.files()?;
        let regions: u64 = files.iter().map(|(_, length)| length.div_ceil(REGION)).sum();
        let step = regions.div_ceil(MOST).max(1);
        let now = Instant::now();
        for (path, length) in files {
            // Dropped or truncated since it was listed, which happens.
            let found = process_file::find_no_link(&self.root, self.pid, &path);
            let Ok(file) = found.and_then(process_file::open_regular) else {
                continue;
            };
            for number in (0..length.div_ceil(REGION)).step_by(step as usize) {
                let range = Range { offset: number * REGION, length: REGION };
                let Ok(state) = cachestat(&file, range) else {
                    continue;
                };
                let dirty = state.dirty * self.page_size / BLOCK;
                let key = (path.clone(), number);
                let before = self.seen.get(&key).copied();
                let since = match before {
                    // It grows.
                    Some(seen) if seen.dirty > 0 && dirty >= seen.dirty => seen.since,
                    // Flushed, or dirtied for the first time.
                    _ => now,
                };
                self.seen.insert(key, Seen { dirty, since });
                if dirty > 0 {
                    growth.look(
                        &path.display().to_string(),
                        number,
                        dirty as f64,
                        now.duration_since(since).as_secs_f64(),
                    );
                }
            }
        }
        Ok(())
    }

    /// Files of tables and indexes that were written lately, with their lengths.
    fn files(&self) -> anyhow::Result<Vec<(PathBuf, u64)>> {
        let base = self.data_directory.join("base");
        let mut directories = self.below(&base);
        ensure!(!directories.is_empty(), "read {}", base.display());
        // pg_tblspc/OID/PG_15_202209061/DATABASE
        for tablespace in self.below(&self.data_directory.join("pg_tblspc")) {
            for version in self.below(&tablespace) {
                directories.extend(self.below(&version));
            }
        }
        let now = SystemTime::now();
        let mut files = Vec::new();
        for path in directories.iter().flat_map(|path| self.below(path)) {
            // 16384, 16384.1; not 16384_vm, t3_16384 and others.
            let name = path.file_name().and_then(|name| name.to_str());
            let is_data = |name: &str| name.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            if !name.is_some_and(is_data) {
                continue;
            }
            // Dropped since it was listed, which happens.
            let found = process_file::find_no_link(&self.root, self.pid, &path);
            let Some(found) = found.ok().and_then(|file| rustix::fs::fstat(file).ok()) else {
                continue;
            };
            let written = UNIX_EPOCH + Duration::from_secs(found.st_mtime.max(0) as u64);
            let lately = now.duration_since(written).map_or(true, |age| age < IDLE);
            if lately && found.st_size > 0 {
                files.push((path, found.st_size as u64));
            }
        }
        Ok(files)
    }

    /// What is in a directory, or nothing if it is none.
    fn below(&self, directory: &Path) -> Vec<PathBuf> {
        process_file::names(&self.root, self.pid, directory).into_iter().map(|name| directory.join(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::observe::cachestat;
    use crate::observe::rates::Rates;
    use crate::observe::tables::Extent;

    #[test]
    fn written_blocks_of_data_files_are_seen_and_other_files_are_not() {
        if !cachestat::is_there() {
            eprintln!("skipped: the kernel has no cachestat(2), or it is not allowed");
            return;
        }
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let database = dir.path().join("base/5");
        fs::create_dir_all(&database).unwrap();
        let file = |name: &str| File::options().write(true).create_new(true).open(database.join(name)).unwrap();
        let table = file("16384.1");
        let map = file("16384_vm");
        map.write_all_at(&[1; 8192], 0).unwrap();
        for block in 0..32 {
            table.write_all_at(&[1; 8192], block * 8192).unwrap();
        }
        table.write_all_at(&[1; 8192], REGION).unwrap();
        table.sync_all().unwrap();

        // What the server's user may put there.
        symlink("16384_vm", database.join("16390")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, database.join("16391"), fifo, rustix::fs::Mode::RUSR, 0).unwrap();

        let own = std::process::id() as i32;
        let mut cache = PageCache::of(&HostRoot::default(), own, dir.path()).unwrap();
        table.write_all_at(&[2; 8192], 8192).unwrap();
        table.write_all_at(&[2; 8192], 5 * 8192).unwrap();
        cache.sample(&mut Growth::default()).unwrap();
        let path = database.join("16384.1");
        assert_eq!(cache.seen[&(path.clone(), 0)].dirty, 2);
        assert_eq!(cache.seen[&(path.clone(), 1)].dirty, 0);
        assert_eq!(cache.seen.len(), 2);

        // The clock goes on while it grows, and starts anew after a flush.
        let since = cache.seen[&(path.clone(), 0)].since;
        table.write_all_at(&[2; 8192], 9 * 8192).unwrap();
        let mut growth = Growth::default();
        cache.sample(&mut growth).unwrap();
        assert_eq!(cache.seen[&(path.clone(), 0)].since, since);
        assert_eq!(growth.classes(&Rates::default(), Extent::default(), 0.0).0.len(), 1);
        table.sync_all().unwrap();
        cache.sample(&mut Growth::default()).unwrap();
        assert_eq!(cache.seen[&(path, 0)].dirty, 0);
    }
}
