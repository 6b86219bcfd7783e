use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::anyhow;
use rustix::fs::Advice;

use crate::interrupt::Interrupt;
use crate::options::Warm;
use crate::progress::Progress;
use crate::template::for_each_file;

/// PostgreSQL's block size: what an index look-up reads.
const BLOCK: usize = 8192;

/// What a reader takes at a time.
const PART: u64 = 32 << 20;

/// A single reader waits for the device most of the time.
const READERS: usize = 4;

/// Reads all tables and indexes of the cluster in `data` into the page cache.
///
/// How matters: with read-ahead the kernel fills the cache with folios of up to 2 MiB, and one written block then
/// counts as a whole dirty folio. A cache that look-ups have filled over days holds small folios.
pub fn warm(
    data: &Path,
    warm: Warm,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let (advice, length) = match warm {
        Warm::Random => (Advice::Random, BLOCK),
        Warm::Sequential => (Advice::Sequential, 1 << 20),
        Warm::None => return Ok(()),
    };
    let mut parts: Vec<(PathBuf, u64)> = Vec::new();
    for_each_file(&data.join("base"), &mut |path| {
        let size = path.metadata()?.len();
        parts.extend(
            (0..size)
                .step_by(PART as usize)
                .map(|offset| (path.to_path_buf(), offset)),
        );
        Ok(())
    })?;

    let next = AtomicUsize::new(0);
    let done = AtomicU64::new(0);
    let read_parts = || -> anyhow::Result<()> {
        let mut buffer = vec![0; length];
        while let Some((path, offset)) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            interrupt.check()?;
            let read = read_part(path, *offset, advice, &mut buffer)
                .with_context(|| format!("read {}", path.display()))?;
            done.fetch_add(read, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read_parts)).collect();
        while readers.iter().any(|reader| !reader.is_finished()) {
            progress.status(&format!(
                "reading the table: {} MiB",
                done.load(Ordering::Relaxed) >> 20
            ));
            thread::sleep(Duration::from_millis(50));
        }
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().map_err(|_| anyhow!("reader panicked"))?)
    })
}

fn read_part(path: &Path, start: u64, advice: Advice, buffer: &mut [u8]) -> anyhow::Result<u64> {
    let file = File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, advice)?;
    let mut offset = start;
    while offset < start + PART {
        let read = file.read_at(buffer, offset)? as u64;
        if read == 0 {
            break;
        }
        offset += read;
    }
    Ok(offset - start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_read_to_its_end_and_no_further_than_its_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("16384");
        fs::File::create(&path).unwrap().set_len(PART + 5).unwrap();
        let mut buffer = vec![0; BLOCK];
        let mut read = |start| read_part(&path, start, Advice::Random, &mut buffer).unwrap();
        assert_eq!(read(0), PART);
        assert_eq!(read(PART), 5);
    }
}
