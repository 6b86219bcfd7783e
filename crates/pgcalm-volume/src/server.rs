//! The file `volume` in a FUSE mount.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use anyhow::Context;
use fuser::{Config, MountOption, Session};
use pgcalm_host::Failure;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::backing::Backing;
use crate::file_system::{FILE, FileSystem, State};
use crate::{Counters, Limits};

/// Threads that take requests and do their I/O on the backing file. They don't wait for a request's time, only for the
/// file, so there are fewer than the queue is deep.
const THREADS: usize = 16;

/// Above what a load has: it must not starve the volume that it waits for.
const NICE: i32 = -10;

/// A mounted volume. Dropping it leaves the mount to [`Handle::detach`] or to whoever unmounts it.
pub struct Server {
    mountpoint: PathBuf,
    state: Arc<State>,
    session: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Mounts a directory on `mountpoint` whose one file, `volume`, has the size and the data of `image`. The limits are
    /// off. Flushes are passed on to the image's file system, or answered at once.
    pub fn mount(image: &Path, mountpoint: &Path, limits: Limits, honour_flushes: bool) -> anyhow::Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Failure::Host("needs root to mount a volume: run it with sudo".to_string()).into());
        }
        if !Path::new("/dev/fuse").exists() {
            return Err(no_fuse().into());
        }
        let what = format!("mount on {}", mountpoint.display());
        let mountpoint = mountpoint.canonicalize().with_context(|| what.clone())?;
        let backing = Backing::open(image)?;
        // They hold for this thread and those that it starts.
        take_precautions();
        let state = State::new(backing, limits, honour_flushes).context("start a thread")?;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("pgcalm-volume".to_string()),
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::NoExec,
            MountOption::NoAtime,
        ];
        config.n_threads = Some(THREADS);
        let file_system = FileSystem(Arc::clone(&state));
        let session = Session::new(file_system, &mountpoint, &config).map_err(|error| {
            state.end();
            match Errno::from_io_error(&error) {
                Some(Errno::NODEV | Errno::PERM | Errno::NXIO) => no_fuse().into(),
                _ => anyhow::Error::new(error).context(what),
            }
        })?;
        let session = thread::Builder::new()
            .name("session".to_string())
            .spawn(move || session.run())
            .context("start a thread")?;
        Ok(Self { mountpoint, state, session })
    }

    /// The file to put a loop device on.
    pub fn file(&self) -> PathBuf {
        self.mountpoint.join(FILE)
    }

    /// What can be used from other threads while one waits.
    pub fn handle(&self) -> Handle {
        Handle { mountpoint: self.mountpoint.clone(), state: Arc::clone(&self.state) }
    }

    /// Whether it has been unmounted.
    pub fn ended(&self) -> bool {
        self.session.is_finished()
    }

    /// Serves until it is unmounted by whomever and nobody has the file open any more.
    pub fn wait(self) -> anyhow::Result<()> {
        let result = self.session.join();
        self.state.end();
        let result = result.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        // A thread that takes a request just when the last file is closed is told so (fuse_dev_do_read, fs/fuse/dev.c); the directory of
        // a connection that somebody else has aborted can't be looked at.
        let aborted = Some(rustix::io::Errno::CONNABORTED.raw_os_error());
        let unmounted = || std::fs::metadata(&self.mountpoint).is_ok();
        let result = result.or_else(|error| match error.raw_os_error() == aborted && unmounted() {
            true => Ok(()),
            false => Err(error),
        });
        result.with_context(|| format!("serve {}", self.mountpoint.display()))
    }
}

/// A running volume's switches and counters.
#[derive(Clone)]
pub struct Handle {
    mountpoint: PathBuf,
    state: Arc<State>,
}

impl Handle {
    /// Puts so many percent of the limits in force, with full credits, or none.
    pub fn set_limited(&self, percent: Option<u32>) {
        self.state.set_limited(percent);
    }

    /// Answers nothing for `time` from now on; zero ends it.
    pub fn hang(&self, time: Duration) {
        self.state.hang(time);
    }

    /// What the volume has done.
    pub fn counters(&self) -> Counters {
        self.state.counters()
    }

    /// Takes the mount out of the tree at once; it is served for as long as somebody has the file open.
    pub fn detach(&self) -> anyhow::Result<()> {
        rustix::mount::unmount(&self.mountpoint, UnmountFlags::DETACH)
            .with_context(|| format!("unmount {}", self.mountpoint.display()))
    }
}

fn no_fuse() -> Failure {
    Failure::Host("FUSE is not to be had here: modprobe fuse, or run on the host".to_string())
}

/// Against waiting for what waits for us. Some container or other refuses these; the volume works without.
fn take_precautions() {
    // Memory that is short makes the kernel write to file systems; not to this volume for a page of this process
    // (prctl(2), PR_SET_IO_FLUSHER).
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let _ = rustix::process::setpriority_process(None, NICE);
}
