//! Loop devices on files of the lab.

use std::fs;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use pgcalm_host::block_device;
use rustix::fs::FallocateFlags;
use rustix::fs::OFlags;

use crate::LabError;
use crate::Size;
use crate::interrupt::Interrupt;
use crate::journal::Change;
use crate::journal::Journal;
use crate::journal::Undo;
use crate::tool;

/// Size of the writes that fill a new image.
const FILL: usize = 4 << 20;

/// `TMPFS_MAGIC` of linux/magic.h.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// Enough for direct I/O on any device.
const ALIGNMENT: usize = 4096;

/// A loop device on a file, past the host's page cache.
#[derive(Debug)]
pub struct Device {
    /// E.g. `loop0`.
    pub name: String,
    /// `MAJ:MIN`.
    pub number: String,
    // Undone in this order: the limit of the queue outlives the detached device, so it goes first.
    _max_io: Option<Undo>,
    _max_ratio: Option<Undo>,
    _loop: Undo,
    _image: Undo,
}

impl Device {
    /// Creates `image` with `size` bytes and puts a loop device on it. `max_io` is the largest operation that the
    /// device is to be sent.
    pub fn create(
        journal: &Journal,
        image: &Path,
        size: Size,
        max_io: Option<Size>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let image_undo = journal.note(Change::File {
            path: image.to_path_buf(),
        })?;
        fill(image, size, interrupt)?;

        let loop_undo = journal.note(Change::LoopDevice {
            backing_file: image.to_path_buf(),
        })?;
        let output = tool::run(
            tool::command("losetup")
                .args(["--find", "--show", "--direct-io=on"])
                .arg(image),
            interrupt,
        )?;
        let name = output
            .trim()
            .strip_prefix("/dev/")
            .with_context(|| format!("losetup printed {output:?} for a device"))?
            .to_string();

        let root = journal.root();
        let max_io_undo = match max_io {
            Some(max_io) => {
                let file = block_device::max_sectors_path(&name);
                let undo = journal.note(Change::Setting {
                    file: Path::new("/").join(&file),
                    former: root.read(&file)?.trim().to_string(),
                })?;
                let kib = (max_io.bytes() >> 10).to_string();
                root.write(&file, &kib).map_err(|error| {
                    LabError::Usage(format!(
                        "{name} refuses operations of {max_io} ({error}): give --data-max-io and --wal-max-io 4kB to 1280kB"
                    ))
                })?;
                Some(undo)
            }
            None => None,
        };
        let number = block_device::number(root, &name)?;
        Ok(Self {
            _max_ratio: lift_dirty_limit(journal, &number)?,
            number,
            name,
            _max_io: max_io_undo,
            _loop: loop_undo,
            _image: image_undo,
        })
    }

    /// Gives back what the device holds, and with it the blocks of its file.
    pub fn discard(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        tool::run(
            tool::command("blkdiscard").arg("--force").arg(self.node()),
            interrupt,
        )?;
        Ok(())
    }

    /// The device's node, e.g. `/dev/loop0`.
    pub fn node(&self) -> String {
        format!("/dev/{}", self.name)
    }
}

/// Gives the device the whole of the kernel's dirty limits. A share that somebody set outlives what the loop device was
/// used for, and a small one makes the kernel's flusher write ahead of everybody (`__wb_calc_thresh`, mm/page-writeback.c).
fn lift_dirty_limit(journal: &Journal, number: &str) -> anyhow::Result<Option<Undo>> {
    /// Parts per million, since Linux 6.2.
    const WHOLE: &str = "1000000";
    let root = journal.root();
    let file = Path::new("sys/class/bdi")
        .join(number)
        .join("max_ratio_fine");
    if !root.path(&file).exists() {
        return Ok(None);
    }
    let former = root.read(&file)?;
    let former = former.trim();
    if former == WHOLE {
        return Ok(None);
    }
    let undo = journal.note(Change::Setting {
        file: Path::new("/").join(&file),
        former: former.to_string(),
    })?;
    root.write(&file, WHOLE)?;
    Ok(Some(undo))
}

/// Writes zeros all over the image. Blocks that are only allocated would cost journal commits of the host's file system
/// at their first write, so that the contestant who comes first would have the slower device. In a tmpfs, where memory that
/// is held for nothing would make the kernel write back for the sake of it, they are left out.
pub(crate) fn fill(image: &Path, size: Size, interrupt: &Interrupt) -> anyhow::Result<()> {
    // A new file: the blocks of an old one may be anything.
    match fs::remove_file(image) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", image.display()));
        }
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(image)
        .with_context(|| {
            format!(
                "create {} with direct I/O; use a --dir on ext4 or XFS",
                image.display()
            )
        })?;
    if rustix::fs::fstatfs(&file)?.f_type == TMPFS_MAGIC {
        return file
            .set_len(size.bytes())
            .with_context(|| format!("make {} {size} long", image.display()));
    }
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.bytes())
        .with_context(|| format!("allocate {size} for {}", image.display()))?;
    let buffer = vec![0; FILL + ALIGNMENT];
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    let zeros = &buffer[start..start + FILL];
    let mut left = size.bytes();
    while left > 0 {
        interrupt.check()?;
        let part = left.min(FILL as u64) as usize;
        file.write_all(&zeros[..part])
            .with_context(|| format!("fill {}", image.display()))?;
        left -= part as u64;
    }
    file.sync_all()
        .with_context(|| format!("sync {}", image.display()))
}
