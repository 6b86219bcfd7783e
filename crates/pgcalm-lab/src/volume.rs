//! A block device that behaves like a cloud's volume, for as long as somebody wants it.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use anyhow::{Context, bail};
use pgcalm_host::{HostRoot, replacement};
use pgcalm_volume::{Counters, Server, Volume};

use crate::interrupt::Interrupt;
use crate::journal::Change;
use crate::lab_dir::LabDir;
use crate::need_root::need_root;
use crate::progress::Progress;
use crate::{Size, device};
use pgcalm_host::Failure;

/// How often the live line changes.
const TICK: Duration = Duration::from_secs(1);

/// What is asked for.
#[derive(Debug)]
pub struct Options {
    /// How it behaves.
    pub volume: Volume,
    /// Of the image, if that has to be made.
    pub size: Option<Size>,
    /// Where the data lies; none: in `dir`.
    pub image: Option<PathBuf>,
    /// Where the volume's file appears; none: in `dir`.
    pub mount: Option<PathBuf>,
    /// For what is made and for the journal of changes.
    pub dir: PathBuf,
    /// Whether flushes go to the image's file system.
    pub honour_flushes: bool,
}

/// A device that is there, and how to use it.
#[derive(Debug)]
pub struct Ready {
    /// E.g. `/dev/loop0`.
    pub node: String,
    /// What it allows, in one line.
    pub description: String,
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = &self.node;
        writeln!(f, "{node} is {}", self.description)?;
        writeln!(f, "  mkfs.ext4 {node} && mount {node} /mnt")?;
        writeln!(f, "Unmount it before Ctrl-C takes it down.")
    }
}

/// Makes the device, calls `announce`, and shows what the device does until `interrupt`; whatever way it ends, the host is
/// as before.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    announce: impl FnOnce(&Ready) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    need_root("mounts and loop devices")?;
    if let Some(image) = &options.image
        && !image.exists()
    {
        // A link that leads nowhere would be replaced.
        replacement::check(image)
            .map_err(|error| Failure::Usage(format!("--image {}: {error}; name a file", image.display())))?;
    }
    let made = options.image.as_ref().is_none_or(|image| !image.exists());
    let size = match (made, options.size) {
        (true, None) => {
            return Err(Failure::Usage("--size: give one, there is no image yet, e.g. --size 20GB".to_string()).into());
        }
        (false, Some(_)) => {
            bail!(Failure::Usage("--size: the image has its own; leave it out, or name another --image".to_string(),));
        }
        (_, size) => size,
    };
    let lab = LabDir::open_volume(&options.dir)?;
    let progress = Progress::new();
    let outcome = serve(options, size, &lab, &progress, interrupt, announce);
    let outcome = match outcome {
        // That is how it is meant to end.
        Err(error) if matches!(error.downcast_ref(), Some(Failure::Interrupted(_))) => Ok(()),
        other => other,
    };
    // What could not be undone is noted still, and tried once more.
    let left = lab.journal(HostRoot::default())?.undo_all();
    if left.is_ok() {
        lab.remove_if_empty()?;
    }
    outcome?;
    left.map(drop)
}

fn serve(
    options: &Options,
    size: Option<Size>,
    lab: &LabDir,
    progress: &Progress,
    interrupt: &Interrupt,
    announce: impl FnOnce(&Ready) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let root = HostRoot::default();
    let journal = lab.clean_journal(&root, progress)?;
    let image = absolute(options.image.clone().unwrap_or_else(|| lab.image("data")))?;
    let _image = match size {
        Some(size) => {
            if options.image.is_none() {
                lab.need_space(size.bytes(), "a smaller --size")?;
            }
            progress.note(&format!("filling {} with {size}", image.display()));
            let undo = journal.note(Change::File { path: image.clone() })?;
            device::fill(&image, size, interrupt)?;
            Some(undo)
        }
        None => None,
    };
    let mountpoint = absolute(options.mount.clone().unwrap_or_else(|| lab.mountpoint("mount")))?;
    let _directory = match mountpoint.exists() {
        true => None,
        false => {
            let undo = journal.note(Change::Directory { path: mountpoint.clone() })?;
            fs::create_dir_all(&mountpoint).with_context(|| format!("create {}", mountpoint.display()))?;
            Some(undo)
        }
    };
    let mountpoint = mountpoint.canonicalize().with_context(|| format!("resolve {}", mountpoint.display()))?;
    let mount_undo = journal.note(Change::Mount { target: mountpoint.clone() })?;
    let limits = options.volume.limits();
    let server = Server::mount(&image, &mountpoint, limits, options.honour_flushes)?;
    let handle = server.handle();
    let loop_undo = journal.note(Change::LoopDevice { backing_file: server.file() })?;
    let name = device::attach(&server.file(), &[], interrupt)?;
    let queue = device::queue_of_volume(&journal, &name, limits.depth)?;
    handle.set_limited(Some(100));
    announce(&Ready { node: format!("/dev/{name}"), description: options.volume.description() })?;
    let outcome = watch(progress, interrupt, || handle.counters(), || server.ended());
    drop(queue);
    drop(loop_undo);
    mount_undo.now()?;
    server.wait()?;
    outcome
}

fn watch(
    progress: &Progress,
    interrupt: &Interrupt,
    counters: impl Fn() -> Counters,
    ended: impl Fn() -> bool,
) -> anyhow::Result<()> {
    let mut before = (Instant::now(), counters());
    loop {
        interrupt.sleep(TICK)?;
        if ended() {
            bail!("the volume has been unmounted by somebody else");
        }
        let now = (Instant::now(), counters());
        progress.status(&line(&before.1, &now.1, now.0 - before.0));
        before = now;
    }
}

fn line(before: &Counters, now: &Counters, time: Duration) -> String {
    let per_second = |count: u64| count as f64 / time.as_secs_f64();
    let mib = |bytes: u64| per_second(bytes) / f64::from(1 << 20);
    format!(
        "{:.0} operations/s ({:.0} read, {:.0} write), {:.1} MiB/s ({:.1} read, {:.1} write)",
        per_second(now.operations() - before.operations()),
        per_second(now.read_operations - before.read_operations),
        per_second(now.write_operations - before.write_operations),
        mib(now.bytes() - before.bytes()),
        mib(now.read_bytes - before.read_bytes),
        mib(now.written_bytes - before.written_bytes),
    )
}

fn absolute(path: PathBuf) -> anyhow::Result<PathBuf> {
    std::path::absolute(&path).with_context(|| format!("resolve {}", path.display()))
}
