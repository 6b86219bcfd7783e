//! Reading again what was cached.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Context, anyhow};
use pgcalm_host::{Failure, HostRoot, Known};
use rustix::fs::Advice;

use crate::extent::{Extent, LONGEST};
use crate::pace::{Caps, Pace, STEP, Seen};
use crate::report::{End, Restoring};
use crate::room::{Left, Room};
use crate::runs::{BLOCK, Run};
use crate::saved::Saved;
use crate::volume::Volume;
use crate::{extent, pace, relation_file, residency};

/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// The shortest wait for a turn.
const SHORTEST: Duration = Duration::from_millis(1);

/// What bounds it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Bytes to be read at most.
    pub limit: Option<u64>,
    /// Bytes per second at most.
    pub rate: Option<u64>,
    /// Of the volume, as its user or `pg_calm` knows them; else those of control groups count.
    pub caps: Caps,
}

/// Reads what `file` says was cached of the cluster in `data`. `stop` ends it, `tell` gets how far it is.
pub fn restore(
    root: &HostRoot,
    data: &Path,
    system_identifier: u64,
    file: &Path,
    options: &Options,
    stop: &(dyn Fn() -> bool + Sync),
    tell: &mut (dyn FnMut(&Restoring) + Send),
) -> anyhow::Result<Restoring> {
    let saved = Saved::read(file)?;
    if saved.system_identifier != system_identifier {
        anyhow::bail!(Failure::Usage(format!(
            "{}: was saved of the cluster {}, and {} is {system_identifier}; give --file",
            file.display(),
            saved.system_identifier,
            data.display()
        )));
    }
    let volume = Volume::below(root, data);
    let caps = options.caps.or(volume.caps);
    let worth = extent::worth(caps.operations, caps.bytes);
    let mut report = Restoring {
        pgcalm: env!("CARGO_PKG_VERSION").to_string(),
        data_directory: data.display().to_string(),
        system_identifier: system_identifier.to_string(),
        file: file.display().to_string(),
        saved_ms: saved.time_ms,
        disk: Known::from(volume.disk.clone()),
        operations_cap: caps.operations,
        bytes_cap: caps.bytes,
        wanted_bytes: saved.bytes(),
        ..Restoring::default()
    };
    let sizes = sizes(data, &saved, &mut report);
    let mut extents = Vec::new();
    for (number, (cached, size)) in saved.files.iter().zip(&sizes).enumerate() {
        extent::of_file(number, *size, &cached.runs, worth, &mut extents);
    }
    extent::order(&mut extents);

    let room = Room::look(root).context("look at the memory")?;
    let started = Instant::now();
    let turns = Mutex::new(Turns {
        rest: extents.iter(),
        left: room.left(0, 0)?,
        already: 0,
        pace: Pace::new(caps, options.rate.map(|rate| rate as f64)),
        step: Step::new(started),
        due: started,
        reading: 0,
        ended: false,
        report,
        volume,
        tell,
    });
    let device = device(data.metadata());
    let limit = options.limit;
    let reader = Reader { turns: &turns, data, device, saved: &saved, worth, limit, room: &room, stop, started };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..pace::READERS).map(|_| scope.spawn(|| reader.run())).collect();
        readers.into_iter().try_for_each(|reader| reader.join().map_err(|_| anyhow!("a reader panicked"))?)
    })?;
    let mut report = turns.into_inner().unwrap_or_else(PoisonError::into_inner).report;
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Whose turn it is, and what has come of it.
struct Turns<'a> {
    rest: std::slice::Iter<'a, Extent>,
    left: Left,
    /// What was found in the page cache since then.
    already: u64,
    pace: Pace,
    step: Step,
    /// When the next read may begin.
    due: Instant,
    /// Readers at work.
    reading: usize,
    ended: bool,
    report: Restoring,
    volume: Volume,
    tell: &'a mut (dyn FnMut(&Restoring) + Send),
}

/// One of those that read: where many wait for the volume, one that does so with one read at a time gets a small part.
struct Reader<'a, 't> {
    turns: &'a Mutex<Turns<'t>>,
    data: &'a Path,
    /// That it is on.
    device: Option<u64>,
    saved: &'a Saved,
    worth: u64,
    limit: Option<u64>,
    room: &'a Room,
    stop: &'a (dyn Fn() -> bool + Sync),
    started: Instant,
}

impl<'t> Reader<'_, 't> {
    fn turns(&self) -> MutexGuard<'_, Turns<'t>> {
        // What is counted is whole between any two lines.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) -> anyhow::Result<()> {
        let ended = self.read_all();
        if ended.is_err() {
            self.turns().ended = true;
        }
        ended
    }

    fn read_all(&self) -> anyhow::Result<()> {
        let mut buffer = vec![0; LONGEST as usize];
        let mut open: Option<(usize, File)> = None;
        while let Some(extent) = self.take() {
            let path = self.data.join(&self.saved.files[extent.file].path);
            let failed = |error: io::Error| format!("read {}: {error}", path.display());
            if open.as_ref().is_none_or(|(number, _)| *number != extent.file) {
                open = match open_file(&path) {
                    Ok(file) => file.map(|file| (extent.file, file)),
                    Err(error) => {
                        self.failed(0, failed(error));
                        continue;
                    }
                };
            }
            let Some((_, file)) = &open else {
                let mut turns = self.turns();
                turns.report.changed_bytes += extent.wanted;
                turns.reading -= 1;
                continue;
            };
            let cached = match residency::cached(file, extent.start..extent.start + extent.length) {
                Ok(cached) => cached,
                Err(error) => {
                    self.failed(0, failed(error));
                    continue;
                }
            };
            let blocks = Blocks::of(&extent, &self.saved.files[extent.file].runs, &cached);
            let Some(beside) = self.reserve(&extent, &blocks)? else { continue };
            let before = Instant::now();
            let read = match read(file, &extent, &mut buffer) {
                Ok(read) => read,
                Err(error) => {
                    self.failed(blocks.missing, failed(error));
                    continue;
                }
            };
            let cost = (blocks.cold == extent.length).then(|| pace::cost(read, self.worth) * beside as f64);
            let elsewhere = device(file.metadata()) != self.device;
            self.done(before.elapsed(), &blocks, cost, elsewhere)?;
        }
        Ok(())
    }

    /// Waits for what is to be read next; none at the end.
    fn take(&self) -> Option<Extent> {
        loop {
            let mut turns = self.turns();
            if turns.ended || turns.rest.len() == 0 {
                return None;
            }
            if (self.stop)() {
                turns.end(End::Interrupted);
                return None;
            }
            let now = Instant::now();
            if turns.reading < turns.pace.readers() && now >= turns.due {
                turns.reading += 1;
                return turns.rest.next().copied();
            }
            let wait = turns.due.saturating_duration_since(now).clamp(SHORTEST, LOOK);
            drop(turns);
            thread::sleep(wait);
        }
    }

    /// Counts what is read now, and how many read at once; none where nothing is to be read.
    fn reserve(&self, extent: &Extent, blocks: &Blocks) -> anyhow::Result<Option<usize>> {
        let mut turns = self.turns();
        let is_there = extent.wanted.saturating_sub(blocks.missing);
        turns.report.already_bytes += is_there;
        turns.already += is_there;
        // What was taken before the end is hotter than what ended it, and is read if it fits.
        let mut fits = blocks.missing > 0 && !(self.stop)();
        if fits {
            if turns.already > 0 {
                turns.already = 0;
                turns.left = self.room.left(turns.report.read_bytes, turns.report.already_bytes)?;
            }
            if self.limit.is_some_and(|limit| turns.report.read_bytes + blocks.cold > limit) {
                fits = false;
                turns.end(End::Limit);
            } else if turns.left.bytes < blocks.cold {
                fits = false;
                turns.report.memory_limit = turns.left.limit.as_ref().map(|file| file.display().to_string());
                turns.end(End::Memory);
            }
        }
        if !fits {
            turns.reading -= 1;
            return Ok(None);
        }
        turns.report.read_bytes += blocks.cold;
        turns.report.warmed_bytes += blocks.missing;
        turns.left.bytes -= blocks.cold;
        let wait = turns.pace.wait(blocks.cold, blocks.operations, self.worth);
        turns.due = turns.due.max(Instant::now()) + wait;
        Ok(Some(turns.reading))
    }

    /// A bad block, or a bad file, keeps nobody from the others. Of it, `counted` bytes were taken to be read.
    fn failed(&self, counted: u64, why: String) {
        let mut turns = self.turns();
        turns.reading -= 1;
        turns.report.warmed_bytes -= counted;
        turns.report.read_error.get_or_insert(why);
    }

    fn done(&self, took: Duration, blocks: &Blocks, cost: Option<f64>, elsewhere: bool) -> anyhow::Result<()> {
        let mut turns = self.turns();
        let turns = &mut *turns;
        turns.reading -= 1;
        turns.step.add(took, blocks.cold, pace::charge(blocks.cold, blocks.operations, self.worth), cost);
        turns.step.elsewhere |= elsewhere;
        if turns.step.begin.elapsed() >= STEP {
            let seen = turns.step.end(&mut turns.volume);
            turns.pace.step(&seen);
            turns.left = self.room.left(turns.report.read_bytes, turns.report.already_bytes)?;
            turns.report.seconds = self.started.elapsed().as_secs_f64();
            (turns.tell)(&turns.report);
        }
        Ok(())
    }
}

impl Turns<'_> {
    /// The first reason counts.
    fn end(&mut self, why: End) {
        if !self.ended {
            self.ended = true;
            self.report.end = why;
        }
    }
}

/// None if it was dropped meanwhile.
fn open_file(path: &Path) -> io::Result<Option<File>> {
    let file = match relation_file::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    // Else the kernel would read on beyond what is asked for.
    rustix::fs::fadvise(&file, 0, None, Advice::Random)?;
    Ok(Some(file))
}

/// As the kernel numbers it; none if that can't be told.
fn device(metadata: io::Result<std::fs::Metadata>) -> Option<u64> {
    metadata.ok().map(|metadata| metadata.dev())
}

/// What the files have now; 0 of one that is gone. Tells how they have changed.
fn sizes(data: &Path, saved: &Saved, report: &mut Restoring) -> Vec<u64> {
    let mut sizes = Vec::new();
    for file in &saved.files {
        let size = match data.join(&file.path).symlink_metadata() {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            // Whoever opens it tells what it is.
            _ => file.size,
        };
        let bytes = |size| {
            let lengths = file.runs.iter().map(|run| run.bytes(size)).map(|range| range.end - range.start);
            lengths.sum::<u64>()
        };
        if size == 0 && file.size > 0 {
            report.gone_files += 1;
        } else if size < file.size {
            report.shorter_files += 1;
        }
        let size = size.min(file.size);
        report.changed_bytes += bytes(file.size) - bytes(size);
        report.files += 1;
        sizes.push(size);
    }
    sizes
}

/// Reads it; how much of it there was. It is asked for as a whole before, since with a read-ahead of 0 the kernel would read page by page
/// (`page_cache_sync_ra`, mm/readahead.c).
fn read(file: &File, extent: &Extent, buffer: &mut [u8]) -> io::Result<u64> {
    rustix::fs::fadvise(file, extent.start, NonZeroU64::new(extent.length), Advice::WillNeed)?;
    let mut done = 0;
    while done < extent.length {
        let part = &mut buffer[done as usize..extent.length as usize];
        match file.read_at(part, extent.start + done) {
            Ok(0) => break,
            Ok(read) => done += read as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// What of an extent is not cached.
struct Blocks {
    /// Bytes of it, gaps included.
    cold: u64,
    /// Bytes of what had been cached.
    missing: u64,
    /// Operations that bring it: what is cached lies between them.
    operations: u64,
}

impl Blocks {
    fn of(extent: &Extent, runs: &[Run], cached: &[std::ops::Range<u64>]) -> Self {
        let end = extent.start + extent.length;
        let mut blocks = Self { cold: 0, missing: 0, operations: 0 };
        let mut before = None;
        let first = runs.partition_point(|run| run.end() * BLOCK <= extent.start);
        for block in extent.start / BLOCK..end.div_ceil(BLOCK) {
            if cached.iter().any(|range| range.contains(&block)) {
                continue;
            }
            let bytes = end.min((block + 1) * BLOCK) - block * BLOCK;
            blocks.cold += bytes;
            blocks.operations += u64::from(before.replace(block + 1) != Some(block));
            let mut near = runs[first..].iter().take_while(|run| run.start <= block);
            if near.any(|run| block < run.end()) {
                blocks.missing += bytes;
            }
        }
        blocks
    }
}

/// What comes together between two looks.
struct Step {
    begin: Instant,
    bytes: u64,
    /// What the reads counted as.
    charged: f64,
    /// Of reads that the page cache had no part of.
    time: Duration,
    cost: f64,
    /// Whether something was read from another device than the data directory's, as of a tablespace.
    elsewhere: bool,
}

impl Step {
    fn new(begin: Instant) -> Self {
        Self { begin, bytes: 0, charged: 0.0, time: Duration::ZERO, cost: 0.0, elsewhere: false }
    }

    fn add(&mut self, took: Duration, bytes: u64, charged: f64, cost: Option<f64>) {
        self.bytes += bytes;
        self.charged += charged;
        if let Some(cost) = cost {
            self.time += took;
            self.cost += cost;
        }
    }

    /// Begins the next.
    fn end(&mut self, volume: &mut Volume) -> Seen {
        let now = Instant::now();
        let step = std::mem::replace(self, Self::new(now));
        let seconds = now.duration_since(step.begin).as_secs_f64();
        Seen {
            bytes: step.charged / seconds,
            latency: (step.cost > 0.0).then(|| step.time.as_secs_f64() / step.cost),
            others: volume.others(step.bytes, step.elsewhere, seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::saved::CachedFile;

    use super::*;

    #[test]
    fn a_file_that_can_not_be_opened_keeps_nobody_from_the_others() {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir_all(data.path().join("base/5")).unwrap();
        let [moved, there] = ["base/5/1", "base/5/2"].map(|path| (path, data.path().join(path)));
        std::os::unix::fs::symlink("/nonexistent/1", moved.1).unwrap();
        fs::write(there.1, [1; BLOCK as usize]).unwrap();
        let file = |path: &str| CachedFile {
            path: path.to_string(),
            size: BLOCK,
            runs: vec![Run { start: 0, length: 1, heat: 1 }],
        };
        let list = data.path().join("list");
        Saved { files: vec![file(moved.0), file(there.0)], ..Saved::default() }.write(&list).unwrap();
        let restoring = restore(
            &HostRoot::default(),
            data.path(),
            0,
            &list,
            &Options::default(),
            &|| false,
            &mut |_: &Restoring| {},
        )
        .unwrap();
        assert!(restoring.read_error.as_ref().is_some_and(|why| why.contains(moved.0)), "{restoring:?}");
        assert_eq!(restoring.already_bytes + restoring.warmed_bytes, BLOCK, "{restoring:?}");
        assert_eq!((restoring.cold_bytes(), restoring.changed_bytes), (BLOCK, 0), "{restoring:?}");
    }

    #[test]
    fn what_is_cached_by_now_and_gaps_are_not_missing() {
        let runs = [Run { start: 0, length: 4, heat: 1 }, Run { start: 6, length: 3, heat: 2 }];
        let mut extents = Vec::new();
        extent::of_file(0, 8 * BLOCK + 10, &runs, extent::WORTH, &mut extents);
        let [extent] = extents[..] else { panic!("{extents:?}") };
        let tell = |cached: &[std::ops::Range<u64>]| {
            let blocks = Blocks::of(&extent, &runs, cached);
            (blocks.cold, blocks.missing, blocks.operations)
        };
        assert_eq!(tell(&[]), (8 * BLOCK + 10, 6 * BLOCK + 10, 1));
        assert_eq!(tell(&[0..2, 5..7]), (4 * BLOCK + 10, 3 * BLOCK + 10, 2));
        assert_eq!(tell(&[0..4, 6..9]), (2 * BLOCK, 0, 1));
    }
}
