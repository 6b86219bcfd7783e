//! The device that the volumes of all tenants lie on, and the volumes.

use std::ffi::CString;
use std::fs;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pgcalm_host::block_device;
use rustix::fs::OFlags;
use rustix::mount::MountFlags;

use crate::device::Device;
use crate::interrupt::Interrupt;
use crate::journal::{Change, Journal, Undo};
use crate::options::{FsType, MountOptions};
use crate::{Size, device, filesystem};

/// What is copied at a time.
const PART: usize = 1 << 20;

/// Enough for direct I/O on any device.
const ALIGNMENT: usize = 4096;

/// Fills a device before its file system is made, so that what that never wrote can be told and need not be copied.
const UNTOUCHED: u8 = 0xA5;

/// A buffer that direct I/O takes.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    fn new() -> Self {
        let bytes = vec![0; PART + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { bytes, start }
    }

    fn part(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + length]
    }
}

/// Writes the pattern all over a device that gets a file system next.
pub(super) fn mark_untouched(device: &Device, size: Size, interrupt: &Interrupt) -> anyhow::Result<()> {
    let node = device.node();
    let target = open_direct(&node)?;
    let mut buffer = Buffer::new();
    buffer.part(PART).fill(UNTOUCHED);
    let mut offset = 0;
    while offset < size.bytes() {
        interrupt.check()?;
        let length = (size.bytes() - offset).min(PART as u64) as usize;
        target.write_all_at(buffer.part(length), offset).with_context(|| format!("write {node}"))?;
        offset += length as u64;
    }
    Ok(())
}

/// A part of the pool with a file system on it.
#[derive(Debug, Clone)]
pub(super) struct Volume {
    /// E.g. `loop7`.
    pub(super) name: String,
    /// `MAJ:MIN`.
    pub(super) number: String,
    /// Where it is mounted.
    pub(super) path: PathBuf,
}

/// Loop devices on parts of the pool, mounted below one directory. Undone when dropped: mounts first, then devices.
#[derive(Debug)]
pub(super) struct Volumes<'a> {
    pool: &'a Device,
    journal: &'a Journal,
    directory: PathBuf,
    mount_options: CString,
    _mounts: Undo,
    _directory: Undo,
    _devices: Undo,
}

impl<'a> Volumes<'a> {
    /// Nothing is mounted yet; `image` is the file of `pool`.
    pub(super) fn new(
        journal: &'a Journal,
        pool: &'a Device,
        image: &Path,
        directory: PathBuf,
        mount_options: Option<&MountOptions>,
    ) -> anyhow::Result<Self> {
        let last = block_device::loop_numbers(journal.root())?.into_iter().max().unwrap_or_default();
        let devices = journal.note(Change::LoopDevicesOn { image: image.to_path_buf(), last })?;
        let directory_undo = journal.note(Change::Directory { path: directory.clone() })?;
        fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
        let mounts = journal.note(Change::MountsBelow { directory: directory.clone() })?;
        Ok(Self {
            pool,
            journal,
            directory,
            mount_options: CString::new(mount_options.map_or("", MountOptions::as_str))?,
            _mounts: mounts,
            _directory: directory_undo,
            _devices: devices,
        })
    }

    /// Copies the file system on `model` to the pool at `offset` and mounts it as `name`.
    pub(super) fn add(
        &self,
        name: &str,
        model: &Device,
        offset: u64,
        size: Size,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Volume> {
        copy(model, self.pool, offset, size, interrupt)?;
        let device = device::attach(
            Path::new(&self.pool.node()),
            &[&format!("--offset={offset}"), &format!("--sizelimit={}", size.bytes())],
            interrupt,
        )?;
        let path = self.directory.join(name);
        fs::create_dir(&path).with_context(|| format!("create {}", path.display()))?;
        rustix::mount::mount(
            format!("/dev/{device}"),
            &path,
            "ext4",
            MountFlags::NOATIME | MountFlags::NODEV | MountFlags::NOSUID,
            self.mount_options.as_c_str(),
        )
        .map_err(|error| filesystem::refused(error, FsType::Ext4, &self.mount_options))
        .with_context(|| format!("mount /dev/{device} at {}", path.display()))?;
        Ok(Volume { number: block_device::number(self.journal.root(), &device)?, name: device, path })
    }
}

/// Copies what is in use of a device to a part of another.
fn copy(from: &Device, to: &Device, offset: u64, size: Size, interrupt: &Interrupt) -> anyhow::Result<()> {
    // Through the page cache: it is read once for each tenant.
    let source = File::open(from.node()).with_context(|| format!("open {}", from.node()))?;
    let target = open_direct(&to.node())?;
    let mut buffer = Buffer::new();
    let mut done = 0;
    while done < size.bytes() {
        interrupt.check()?;
        let length = (size.bytes() - done).min(PART as u64) as usize;
        let part = buffer.part(length);
        source.read_exact_at(part, done).with_context(|| format!("read {}", from.node()))?;
        if part.iter().any(|byte| *byte != UNTOUCHED) {
            target.write_all_at(part, offset + done).with_context(|| format!("write {}", to.node()))?;
        }
        done += length as u64;
    }
    Ok(())
}

fn open_direct(node: &str) -> anyhow::Result<File> {
    OpenOptions::new()
        .write(true)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(node)
        .with_context(|| format!("open {node}"))
}
