//! Blocks that a file system has given to a file, and shows with what a deleted file had in them: it crashed before they
//! were written.
//!
//! All free space is filled with a pattern before each load, so that such a block is known wherever it shows up. Beside the server
//! somebody writes files that are never synced, which is where it may show up; in the server's it must not.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use anyhow::Context;

use crate::background::Background;
use crate::interrupt::Interrupt;
use crate::shared_file;
use pgcalm_host::stop::Stop;

/// Size of a block of the file system.
const BLOCK: usize = 4096;

/// What all blocks are filled with that are free when the load begins.
const DELETED: &[u8] = b"pgcalm: from a file that was deleted\n";

/// What files that are not synced are filled with.
const UNSYNCED: &[u8] = b"pgcalm: from a file that was not synced\n";

/// Blocks of a file that is not synced.
const BLOCKS: usize = 16;

/// Files that are not synced and lie there at a time.
const FILES: u64 = 64;

/// Time between two of them.
const PAUSE: Duration = Duration::from_millis(50);

/// Files that are named.
const NAMED: usize = 10;

fn pattern(of: &[u8]) -> Vec<u8> {
    of.iter().copied().cycle().take(BLOCK).collect()
}

/// Fills what is free of the file system at `mountpoint`, and frees it again.
pub(super) fn fill(mountpoint: &Path, interrupt: &Interrupt) -> anyhow::Result<()> {
    let path = mountpoint.join("deleted");
    let many = pattern(DELETED).repeat(256);
    let mut file = shared_file::create(&path).with_context(|| format!("create {}", path.display()))?;
    loop {
        interrupt.check()?;
        match file.write_all(&many) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => break,
            Err(error) => return Err(error).with_context(|| format!("write {}", path.display())),
        }
    }
    file.sync_all().with_context(|| format!("sync {}", path.display()))?;
    drop(file);
    fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
    Ok(())
}

/// Somebody who writes files without syncing them.
#[derive(Debug)]
pub(super) struct Unsynced(#[expect(dead_code, reason = "dropping it ends the thread")] Background<()>);

impl Unsynced {
    /// Starts in the file system at `mountpoint`; ends when it is dropped, or the file system is shut down.
    pub(super) fn start(mountpoint: &Path) -> anyhow::Result<Self> {
        let directory = directory(mountpoint);
        fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
        Ok(Self(Background::start(move |stop| {
            // What fails is the end of the file system, which is what is waited for.
            let _ = write(&directory, stop);
        })))
    }
}

fn directory(mountpoint: &Path) -> PathBuf {
    mountpoint.join("unsynced")
}

fn write(directory: &Path, stop: &Stop) -> std::io::Result<()> {
    let content = pattern(UNSYNCED).repeat(BLOCKS);
    let path = |number: u64| directory.join(number.to_string());
    for number in 0.. {
        if stop.is_set() {
            break;
        }
        fs::write(path(number), &content)?;
        if number >= FILES {
            fs::remove_file(path(number - FILES))?;
        }
        // It is this file that is synced. The commit of the journal that this takes has the size and the blocks of the
        // others in it, whether or not they are written.
        let mut other = File::create(directory.join("synced"))?;
        other.write_all(&content[..BLOCK])?;
        other.sync_all()?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Counts the blocks of files that nobody synced, and removes the files.
pub(super) fn in_unsynced_files(mountpoint: &Path) -> anyhow::Result<u64> {
    let directory = directory(mountpoint);
    let (blocks, _) = in_tree(&directory)?;
    fs::remove_dir_all(&directory).with_context(|| format!("remove {}", directory.display()))?;
    Ok(blocks)
}

/// Counts the blocks of all files in `directory`, and names files that have some, relative to it; not more than ten.
pub(super) fn in_tree(directory: &Path) -> anyhow::Result<(u64, Vec<String>)> {
    let deleted = pattern(DELETED);
    let (mut blocks, mut names) = (0, Vec::new());
    let mut directories = vec![directory.to_path_buf()];
    while let Some(inner) = directories.pop() {
        let entries = fs::read_dir(&inner).with_context(|| format!("read {}", inner.display()))?;
        for entry in entries {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                directories.push(path);
                continue;
            }
            if !kind.is_file() {
                continue;
            }
            let found = in_file(&path, &deleted).with_context(|| format!("read {}", path.display()))?;
            blocks += found;
            if found > 0 && names.len() < NAMED {
                let name = path.strip_prefix(directory).unwrap_or(&path);
                names.push(name.to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    Ok((blocks, names))
}

fn in_file(path: &Path, deleted: &[u8]) -> std::io::Result<u64> {
    let mut file = shared_file::open_for_reading(path)?;
    let mut buffer = vec![0; 256 * BLOCK];
    let (mut blocks, mut filled) = (0, 0);
    loop {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(blocks),
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        let whole = filled / BLOCK * BLOCK;
        let found = buffer[..whole].chunks_exact(BLOCK).filter(|block| *block == deleted);
        blocks += found.count() as u64;
        buffer.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_of_the_deleted_file_count() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("base/5");
        fs::create_dir_all(&inner).unwrap();
        let mut content = pattern(DELETED);
        content.extend_from_slice(&pattern(UNSYNCED));
        content.extend_from_slice(&pattern(DELETED));
        // Half of a block is no block.
        content.extend_from_slice(&pattern(DELETED)[..BLOCK / 2]);
        fs::write(inner.join("16384"), content).unwrap();
        fs::write(inner.join("16385"), pattern(UNSYNCED)).unwrap();
        assert_eq!(in_tree(dir.path()).unwrap(), (2, vec!["base/5/16384".to_string()]));
    }
}
