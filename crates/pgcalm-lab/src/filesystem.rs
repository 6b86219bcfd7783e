//! File systems on devices of the lab.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, opcode};
use rustix::mount::MountFlags;

use crate::device::Device;
use crate::interrupt::Interrupt;
use crate::journal::{Change, Journal, Undo};
use crate::options::{FsType, MkfsOptions};
use crate::tool;
use pgcalm_host::{Failure, mounts};

/// How long another mount namespace may hold a file system.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);

/// `XFS_IOC_GOINGDOWN`, which ext4 has by the same number as `EXT4_IOC_SHUTDOWN`.
const GOING_DOWN: Opcode = opcode::read::<u32>(b'X', 125);

/// `XFS_FSOP_GOING_FLAGS_NOLOGFLUSH`, `EXT4_GOING_FLAGS_NOLOGFLUSH`.
const NO_LOG_FLUSH: u32 = 2;

/// Size of the blocks of ext4 in bytes; on a small device mkfs would choose smaller ones.
const BLOCK_SIZE: &str = "4096";

/// How a file system differs from what mkfs and mount make of it by themselves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout<'a> {
    /// Options of the file system, e.g. `data=writeback`, separated by commas.
    pub mount_options: &'a str,
    /// For mkfs, over what it is given by itself.
    pub mkfs_options: Option<&'a MkfsOptions>,
    /// The device of its log (XFS) or journal (ext4), if that is not inside.
    pub log: Option<&'a Device>,
}

/// What the kernel's refusal to mount a new file system means.
pub(crate) fn refused(error: Errno, fs_type: FsType, options: &CStr) -> anyhow::Error {
    if error == Errno::INVAL && !options.is_empty() {
        Failure::Usage(format!(
            "mount options {}: {} does not take them; the kernel log says which",
            options.to_string_lossy(),
            fs_type.name()
        ))
        .into()
    } else {
        error.into()
    }
}

/// Makes all of `device` the journal of an ext4 that is made next; its blocks must have the same size.
fn make_journal(device: &Device, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut command = tool::command("mke2fs");
    command.args(["-F", "-q", "-b", BLOCK_SIZE, "-O", "journal_dev"]).arg(device.node());
    tool::run(&mut command, interrupt)?;
    Ok(())
}

/// A mounted file system on a device of the lab.
#[derive(Debug)]
pub struct FileSystem {
    node: String,
    fs_type: FsType,
    target: PathBuf,
    mount_options: CString,
    journal: Journal,
    // Unmounted before the mountpoint is removed.
    mount: Option<Undo>,
    _directory: Undo,
}

impl FileSystem {
    /// Makes a new file system on `device` and mounts it at `target`.
    pub fn create(
        journal: &Journal,
        device: &Device,
        fs_type: FsType,
        target: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        Self::create_as(journal, device, fs_type, Layout::default(), target, interrupt)
    }

    /// The same with options.
    pub fn create_as(
        journal: &Journal,
        device: &Device,
        fs_type: FsType,
        layout: Layout<'_>,
        target: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let mut command = tool::command(format!("mkfs.{}", fs_type.name()));
        let asked = || layout.mkfs_options.into_iter().flat_map(MkfsOptions::pairs);
        match fs_type {
            // Nothing lazy that would write in the background during the measurement, and no discard: it would punch
            // holes into the image, whose blocks are written for good reason.
            FsType::Ext4 => {
                // The last -E is the only one that counts.
                let extended = asked().filter(|(letter, _)| *letter == "-E").map(|(_, value)| value);
                let extended: Vec<&str> =
                    extended.chain(["nodiscard,lazy_itable_init=0,lazy_journal_init=0"]).collect();
                command.args(["-F", "-q", "-b", BLOCK_SIZE, "-E", &extended.join(",")])
            }
            FsType::Xfs => command.args(["-f", "-q", "-K"]),
        };
        for (letter, value) in asked().filter(|(letter, _)| *letter != "-E") {
            command.args([letter, value]);
        }
        let mut mount_options = layout.mount_options.to_string();
        match (layout.log, fs_type) {
            (None, _) => {}
            // Its superblock names the journal: mount needs no option.
            (Some(log), FsType::Ext4) => {
                make_journal(log, interrupt)?;
                command.args(["-J", &format!("device={}", log.node())]);
            }
            (Some(log), FsType::Xfs) => {
                let option = format!("logdev={}", log.node());
                command.args(["-l", &option]);
                if !mount_options.is_empty() {
                    mount_options.push(',');
                }
                mount_options.push_str(&option);
            }
        }
        tool::run(command.arg(device.node()), interrupt)?;

        let directory = journal.note(Change::Directory { path: target.to_path_buf() })?;
        fs::create_dir_all(target).with_context(|| format!("create {}", target.display()))?;
        let mut file_system = Self {
            node: device.node(),
            fs_type,
            target: target.to_path_buf(),
            mount_options: CString::new(mount_options)?,
            journal: journal.clone(),
            mount: None,
            _directory: directory,
        };
        file_system.mount()?;
        Ok(file_system)
    }

    /// Mounts it again with these options of its type, e.g. `nodelalloc`, instead of those that it had.
    pub fn remount_with(&mut self, options: &CStr) -> anyhow::Result<()> {
        self.mount_options = options.to_owned();
        self.remount()
    }

    /// Unmounts and mounts again, which writes all that is dirty and empties its page cache.
    pub fn remount(&mut self) -> anyhow::Result<()> {
        if let Some(mount) = self.mount.take() {
            mount.now()?;
        }
        self.wait_until_released()?;
        self.mount()
    }

    /// Waits until the kernel has let go of the file system. A mount namespace that another process has made meanwhile
    /// holds a mount of its own, and mounting would then only bring back the same file system with its page cache.
    fn wait_until_released(&self) -> anyhow::Result<()> {
        let end = Instant::now() + RELEASE_TIMEOUT;
        loop {
            match rustix::fs::open(self.node.as_str(), OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::BUSY) if Instant::now() < end => {
                    thread::sleep(Duration::from_millis(10));
                }
                Err(error) => {
                    return Err(error).with_context(|| {
                        format!(
                            "open {} after its file system was unmounted; if it is busy, another mount namespace has it",
                            self.node
                        )
                    });
                }
            }
        }
    }

    /// Shuts it down at once: nothing more reaches the device, neither dirty pages nor the part of the log that is only
    /// in memory. What is on the device is what a power cut would leave; [`remount`](Self::remount) finds it.
    pub fn shut_down(&self) -> anyhow::Result<()> {
        let directory = File::open(&self.target)?;
        // SAFETY: GOING_DOWN reads one u32 through the pointer that Setter passes, on ext4 as on XFS.
        unsafe { rustix::ioctl::ioctl(&directory, Setter::<GOING_DOWN, u32>::new(NO_LOG_FLUSH)) }
            .with_context(|| format!("shut down the file system at {}", self.target.display()))
    }

    /// Its options in force, as the kernel shows them, which leaves out most that it has by itself.
    pub fn options(&self) -> anyhow::Result<String> {
        let mounts = mounts::read(self.journal.root())?;
        let mount = mounts::containing(&mounts, &self.target);
        Ok(mount.map(|mount| mount.super_options.join(",")).unwrap_or_default())
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.target
    }

    fn mount(&mut self) -> anyhow::Result<()> {
        let undo = self.journal.note(Change::Mount { target: self.target.clone() })?;
        rustix::mount::mount(
            self.node.as_str(),
            &self.target,
            self.fs_type.name(),
            MountFlags::NOATIME | MountFlags::NODEV | MountFlags::NOSUID,
            self.mount_options.as_c_str(),
        )
        .map_err(|error| refused(error, self.fs_type, &self.mount_options))
        .with_context(|| format!("mount {} at {}", self.node, self.target.display()))?;
        self.mount = Some(undo);
        Ok(())
    }

    /// Removes everything in it, so that unmounting has nothing to write.
    pub fn discard_contents(&self) -> anyhow::Result<()> {
        for entry in fs::read_dir(&self.target)? {
            let path = entry?.path();
            let removed =
                if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.with_context(|| format!("remove {}", path.display()))?;
        }
        Ok(())
    }
}
