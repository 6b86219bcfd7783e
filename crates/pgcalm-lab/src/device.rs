//! Loop devices on files of the lab.

use std::fs;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pgcalm_host::backing_device::BackingDevice;
use pgcalm_host::block_device;
use pgcalm_volume::Volume;
use rustix::fs::{FallocateFlags, OFlags};

use crate::interrupt::Interrupt;
use crate::journal::{Change, Journal, Undo};
use crate::options::Stack;
use crate::stacked::Stacked;
use crate::volume_process::{LimitsInForce, VolumeProcess};
use crate::{Size, tool};
use pgcalm_host::Failure;

/// Size of the writes that fill a new image.
const FILL: usize = 4 << 20;

/// `TMPFS_MAGIC` of linux/magic.h.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// Requests that a loop device has at work (`LOOP_DEFAULT_HW_Q_DEPTH`, drivers/block/loop.c).
const LOOP_DEPTH: u32 = 128;

/// Fewer are not taken (`BLKDEV_MIN_RQ`, include/linux/blkdev.h).
const LEAST_REQUESTS: u32 = 4;

/// Read-ahead of volumes: the kernel's for disks that do not rotate, as cloud volumes are. A loop device counts as one that
/// does, and gets what two of its largest requests have (block/blk-settings.c `blk_apply_bdi_limits`): a scan's reads then fill
/// the queue of a volume, which all others wait for.
pub(crate) const CLOUD_READ_AHEAD: Size = Size(128 << 10);

/// Enough for direct I/O on any device.
const ALIGNMENT: usize = 4096;

/// What a device of the lab is made to be.
#[derive(Debug, Clone, Copy)]
pub enum Kind<'a> {
    /// A loop device on its file, without limits of its own; caps of control groups can be put on it.
    Loop {
        /// The largest operation that it is to be sent.
        max_io: Option<Size>,
    },
    /// A volume that behaves like a cloud's, limits included.
    Volume {
        /// Which one.
        volume: &'a Volume,
        /// For its process, and where its file appears.
        directory: &'a Path,
    },
}

impl<'a> Kind<'a> {
    /// A loop device that takes what the kernel sends.
    pub const LOOP: Self = Self::Loop { max_io: None };

    /// A volume if one is asked for; `directory` is for its process.
    pub fn of(volume: Option<&'a Volume>, directory: &'a Path) -> Self {
        volume.map_or(Self::LOOP, |volume| Self::Volume { volume, directory })
    }
}

/// A loop device on a file, past the host's page cache.
#[derive(Debug)]
pub struct Device {
    /// E.g. `loop0`.
    pub name: String,
    /// `MAJ:MIN`.
    pub number: String,
    /// That the loop device is on.
    file: PathBuf,
    /// What was put on it; that is where its file system is made.
    stacked: Option<Stacked>,
    // Undone in this order: the limit of the queue outlives the detached device, so it goes first.
    queue: Vec<Undo>,
    _dirty_limits: Vec<Undo>,
    _loop: Undo,
    volume: Option<VolumeProcess>,
    _image: Undo,
}

impl Device {
    /// Creates `image` with `size` bytes and puts a device of this kind on it.
    pub fn create(
        journal: &Journal,
        image: &Path,
        size: Size,
        kind: Kind<'_>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let image_undo = journal.note(Change::File { path: image.to_path_buf() })?;
        fill(image, size, interrupt)?;
        let volume = match kind {
            Kind::Loop { .. } => None,
            Kind::Volume { volume, directory } => Some(VolumeProcess::start(journal, volume, image, directory)?),
        };
        let file = volume.as_ref().map_or_else(|| image.to_path_buf(), VolumeProcess::file);
        let loop_undo = journal.note(Change::LoopDevice { backing_file: file.clone() })?;
        let name = attach(&file, &[], interrupt)?;

        let root = journal.root();
        let queue = match kind {
            Kind::Loop { max_io: None } => Vec::new(),
            Kind::Loop { max_io: Some(max_io) } => {
                let file = block_device::max_sectors_path(&name);
                let undo = former(journal, Path::new(&file))?;
                let kib = (max_io.bytes() >> 10).to_string();
                root.write(&file, &kib).map_err(|error| {
                    Failure::Usage(format!("{name} refuses operations of {max_io} ({error}): give 4kB to 1280kB"))
                })?;
                vec![undo]
            }
            Kind::Volume { volume, .. } => queue_of_volume(journal, &name, volume.limits().depth)?,
        };
        let number = block_device::number(root, &name)?;
        Ok(Self {
            _dirty_limits: lift_dirty_limits(journal, &number)?,
            number,
            name,
            file,
            stacked: None,
            queue,
            _loop: loop_undo,
            volume,
            _image: image_undo,
        })
    }

    /// Puts a stack on it.
    pub fn stack(&mut self, journal: &Journal, stack: Stack, interrupt: &Interrupt) -> anyhow::Result<()> {
        self.stacked = Stacked::create(journal, stack, &self.name, &self.file, interrupt)?;
        if let (Some(stacked), Some(_)) = (&self.stacked, &self.volume) {
            let undo = set_read_ahead(journal, &stacked.name, CLOUD_READ_AHEAD)?;
            self.queue.insert(0, undo);
        }
        Ok(())
    }

    /// Sets the read-ahead of the device and of what is put on it.
    pub fn read_ahead(&mut self, journal: &Journal, size: Size) -> anyhow::Result<()> {
        let upper = self.stacked.as_ref().map(|stacked| &stacked.name);
        for name in [Some(&self.name), upper].into_iter().flatten() {
            // What was changed last is undone first.
            self.queue.insert(0, set_read_ahead(journal, name, size)?);
        }
        Ok(())
    }

    /// Puts the limits in force that the device has itself: those of a volume.
    pub fn limit(&self) -> anyhow::Result<Option<LimitsInForce>> {
        self.volume.as_ref().map(VolumeProcess::limit).transpose()
    }

    /// The process of the volume below; `None` for a mere loop device.
    pub fn volume(&self) -> Option<&VolumeProcess> {
        self.volume.as_ref()
    }

    /// Gives back what the device holds, and with it the blocks of its file.
    pub fn discard(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        tool::run(tool::command("blkdiscard").arg("--force").arg(self.node()), interrupt)?;
        Ok(())
    }

    /// The node that file systems are made on, e.g. `/dev/loop0`, or that of what was put on it.
    pub fn node(&self) -> String {
        let stacked = self.stacked.as_ref().map(|stacked| &stacked.name);
        format!("/dev/{}", stacked.unwrap_or(&self.name))
    }
}

fn set_read_ahead(journal: &Journal, name: &str, size: Size) -> anyhow::Result<Undo> {
    let file = Path::new("sys/block").join(name).join("queue/read_ahead_kb");
    let undo = former(journal, &file)?;
    journal.root().write(&file, &(size.bytes() >> 10).to_string())?;
    Ok(undo)
}

/// Puts a loop device on `file`, past the page cache; returns its name.
pub(crate) fn attach(file: &Path, arguments: &[&str], interrupt: &Interrupt) -> anyhow::Result<String> {
    let output = tool::run(
        tool::command("losetup").args(["--find", "--show", "--direct-io=on"]).args(arguments).arg(file),
        interrupt,
    )?;
    Ok(output
        .trim()
        .strip_prefix("/dev/")
        .with_context(|| format!("losetup printed {output:?} for a device"))?
        .to_string())
}

/// Lets the queue of a loop device behave like that of the volume below it, which has so many requests at work at most.
pub(crate) fn queue_of_volume(journal: &Journal, name: &str, depth: u32) -> anyhow::Result<Vec<Undo>> {
    let directory = Path::new("sys/block").join(name).join("queue");
    let set = |file: &str, value: &str| {
        let file = directory.join(file);
        let undo = former(journal, &file)?;
        journal.root().write(&file, value)?;
        anyhow::Ok(undo)
    };
    // As cloud volumes say: what they have acknowledged is durable, so that the kernel sends no flushes.
    let mut queue = vec![set("write_cache", "write through")?, set_read_ahead(journal, name, CLOUD_READ_AHEAD)?];
    // Else more would wait in the queue of the loop device than in that of the volume.
    let depth = depth.max(LEAST_REQUESTS);
    if depth < LOOP_DEPTH {
        queue.push(set("nr_requests", &depth.to_string())?);
    }
    Ok(queue)
}

/// Notes what a file of the kernel says now, to be written back.
fn former(journal: &Journal, file: &Path) -> anyhow::Result<Undo> {
    journal.note(Change::Setting {
        file: Path::new("/").join(file),
        former: journal.root().read(file)?.trim().to_string(),
    })
}

/// Gives the device the whole of the kernel's dirty limits, as a new device has it. A limit that somebody set outlives what
/// the loop device was used for. A small share makes the kernel's flusher write ahead of everybody, and a strict limit holds
/// writers up however little the host has dirty (`__wb_calc_thresh` and `balance_wb_limits`, mm/page-writeback.c).
fn lift_dirty_limits(journal: &Journal, number: &str) -> anyhow::Result<Vec<Undo>> {
    let root = journal.root();
    let mut undo = Vec::new();
    let share = BackingDevice::read(root, number)?.map(|device| (PathBuf::from(&device.file), device.no_limit()));
    let strict = (Path::new("/sys/class/bdi").join(number).join("strict_limit"), "0");
    for (file, free) in share.into_iter().chain([strict]) {
        if root.path(&file).exists() && root.read(&file)?.trim() != free {
            undo.push(former(journal, &file)?);
            root.write(&file, free)?;
        }
    }
    Ok(undo)
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
        .with_context(|| format!("create {} with direct I/O; use a --dir on ext4 or XFS", image.display()))?;
    if rustix::fs::fstatfs(&file)?.f_type == TMPFS_MAGIC {
        return file.set_len(size.bytes()).with_context(|| format!("make {} {size} long", image.display()));
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
        file.write_all(&zeros[..part]).with_context(|| format!("fill {}", image.display()))?;
        left -= part as u64;
    }
    file.sync_all().with_context(|| format!("sync {}", image.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_host::HostRoot;

    #[test]
    fn dirty_limits_that_somebody_left_do_not_hold_up_the_lab_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        let limits = Path::new("sys/class/bdi/7:0");
        fs::create_dir_all(root.path(limits)).unwrap();
        let set = |values: [&str; 2]| {
            for (file, value) in ["max_ratio_fine", "strict_limit"].iter().zip(values) {
                root.write(limits.join(file), value).unwrap();
            }
        };
        let read = || ["max_ratio_fine", "strict_limit"].map(|file| root.read(limits.join(file)).unwrap());
        let journal = Journal::open(root.clone(), &dir.path().join("journal.json")).unwrap();

        set(["937\n", "1\n"]);
        let undo = lift_dirty_limits(&journal, "7:0").unwrap();
        assert_eq!(read(), ["1000000", "0"]);
        drop(undo);
        assert_eq!(read(), ["937", "1"]);

        set(["1000000\n", "0\n"]);
        assert!(lift_dirty_limits(&journal, "7:0").unwrap().is_empty());

        // Before Linux 6.2.
        fs::remove_file(root.path(limits.join("max_ratio_fine"))).unwrap();
        let coarse = limits.join("max_ratio");
        root.write(&coarse, "1\n").unwrap();
        let undo = lift_dirty_limits(&journal, "7:0").unwrap();
        assert_eq!(root.read(&coarse).unwrap(), "100");
        drop(undo);
        assert_eq!(root.read(&coarse).unwrap(), "1");
    }
}
