//! Filling the page cache before a run.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, anyhow};
use rustix::fs::Advice;
use rustix::process::Signal;

use crate::control_group::ControlGroup;
use crate::interrupt::Interrupt;
use crate::options::Warm;
use crate::progress::Progress;
use crate::template::for_each_file;
use crate::{shared_file, tool};

/// The hidden verb of `pgcalm lab` that does it in a process of its own.
pub const VERB: &str = "warm";

/// Bytes of a read. Without read-ahead it is as good as one for each block, and takes a hundredth of the requests: what is read by
/// a file that was advised to be read at random gets folios of a page each (force_page_cache_ra, mm/readahead.c).
const READ: usize = 1 << 20;

/// What a reader takes at a time.
const PART: u64 = 32 << 20;

/// A single reader waits for the device most of the time.
const READERS: usize = 4;

/// The same in a process of its own that belongs to `group`: what is read into the page cache is charged to the group of
/// the process that reads it first.
pub(crate) fn warm_in(
    group: &ControlGroup,
    data: &Path,
    how: Warm,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    if how == Warm::None {
        return Ok(());
    }
    progress.status("reading the table");
    let program = tool::this_program()?;
    tool::run(
        tool::command(program).args(["lab", VERB, "--how", how.name(), "--members"]).arg(group.members()).arg(data),
        interrupt,
    )?;
    Ok(())
}

/// What that process does: joins the group whose members `members` lists, and reads.
pub fn join_and_warm(members: &Path, data: &Path, how: Warm) -> anyhow::Result<()> {
    // A lab that is killed must not find its group in use when it is cleaned up.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    fs::write(members, std::process::id().to_string()).with_context(|| format!("write {}", members.display()))?;
    warm(data, how, &Progress::new(), &Interrupt::default())
}

/// Reads all tables and indexes of the cluster in `data` into the page cache.
///
/// How matters: with read-ahead the kernel fills the cache with folios of up to 2 MiB, and one written block then
/// counts as a whole dirty folio. A cache that look-ups have filled over days holds small folios.
pub(crate) fn warm(data: &Path, warm: Warm, progress: &Progress, interrupt: &Interrupt) -> anyhow::Result<()> {
    let advice = match warm {
        Warm::Random => Advice::Random,
        Warm::Sequential => Advice::Sequential,
        Warm::None => return Ok(()),
    };
    let mut parts: Vec<(PathBuf, u64)> = Vec::new();
    for_each_file(&data.join("base"), &mut |path| {
        let size = path.metadata()?.len();
        parts.extend((0..size).step_by(PART as usize).map(|offset| (path.to_path_buf(), offset)));
        Ok(())
    })?;

    let next = AtomicUsize::new(0);
    let done = AtomicU64::new(0);
    let read_parts = || -> anyhow::Result<()> {
        let mut buffer = vec![0; READ];
        while let Some((path, offset)) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            interrupt.check()?;
            let read =
                read_part(path, *offset, advice, &mut buffer).with_context(|| format!("read {}", path.display()))?;
            done.fetch_add(read, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read_parts)).collect();
        while readers.iter().any(|reader| !reader.is_finished()) {
            progress.status(&format!("reading the table: {} MiB", done.load(Ordering::Relaxed) >> 20));
            thread::sleep(Duration::from_millis(50));
        }
        readers.into_iter().try_for_each(|reader| reader.join().map_err(|_| anyhow!("reader panicked"))?)
    })
}

fn read_part(path: &Path, start: u64, advice: Advice, buffer: &mut [u8]) -> anyhow::Result<u64> {
    let file = shared_file::open_for_reading(path)?;
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

    #[test]
    fn a_file_is_read_to_its_end_and_no_further_than_its_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("16384");
        fs::File::create(&path).unwrap().set_len(PART + 5).unwrap();
        let mut buffer = vec![0; READ];
        let mut read = |start| read_part(&path, start, Advice::Random, &mut buffer).unwrap();
        assert_eq!(read(0), PART);
        assert_eq!(read(PART), 5);
    }
}
