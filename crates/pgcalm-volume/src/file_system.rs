use std::ffi::OsStr;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    WriteFlags,
};

use crate::answer::{Answer, Kind};
use crate::backing::Backing;
use crate::buffer::{LARGEST, Pool};
use crate::completion::{Clock, Completions};
use crate::limiter::Direction;
use crate::{Counters, Limiter, Limits};

/// The one file.
pub(crate) const FILE: &str = "volume";

const FILE_INODE: INodeNo = INodeNo(2);

/// Nothing but us changes anything there.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Requests that the kernel may have on their way: the bound is the volume's own (`fuse_request_queue_background`,
/// fs/fuse/dev.c, holds asynchronous direct I/O back beyond it).
const BACKGROUND: u16 = 4096;

/// What the threads of a volume share.
pub(crate) struct State {
    backing: Backing,
    limits: Limits,
    honour_flushes: bool,
    clock: Clock,
    /// None: no limits.
    limiter: Mutex<Option<Limiter>>,
    completions: Arc<Completions>,
    counters: Mutex<Counters>,
    in_flight: Arc<AtomicU64>,
    pool: Arc<Pool>,
    made: SystemTime,
}

impl State {
    pub(crate) fn new(backing: Backing, limits: Limits, honour_flushes: bool) -> io::Result<Arc<Self>> {
        let clock = Clock::new();
        Ok(Arc::new(Self {
            backing,
            limits,
            honour_flushes,
            clock,
            limiter: Mutex::new(None),
            completions: Completions::start(clock)?,
            counters: Mutex::default(),
            in_flight: Arc::default(),
            pool: Arc::default(),
            made: SystemTime::now(),
        }))
    }

    /// From now on so many percent of the limits hold, with full credits, or none do.
    pub(crate) fn set_limited(&self, percent: Option<u32>) {
        let limiter = percent.map(|percent| Limiter::new(self.limits.scaled(percent), self.clock.now()));
        *lock(&self.limiter) = limiter;
        if percent.is_none() {
            self.completions.give_all();
        }
    }

    /// Answers nothing for `time` from now on.
    pub(crate) fn hang(&self, time: Duration) {
        self.completions.hold(time);
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters {
            late: self.completions.late.load(Relaxed),
            held_up_s: self.completions.held_up_s(),
            ..*lock(&self.counters)
        }
    }

    pub(crate) fn end(&self) {
        self.completions.end();
        self.completions.give_all();
    }

    /// Takes note of a request that has arrived; when it is due.
    fn arrive(&self, direction: Direction, bytes: u64) -> Option<u64> {
        let in_flight = self.in_flight.fetch_add(1, Relaxed) + 1;
        let admission = lock(&self.limiter).as_mut().map(|limiter| limiter.admit(self.clock.now(), direction, bytes));
        let operations = match admission {
            Some(admission) => admission.operations,
            None => self.limits.operations_of(bytes),
        };
        let mut counters = lock(&self.counters);
        counters.most_in_flight = counters.most_in_flight.max(in_flight);
        match direction {
            Direction::Read => {
                counters.reads += 1;
                counters.read_bytes += bytes;
                counters.read_operations += operations;
            }
            Direction::Write => {
                counters.writes += 1;
                counters.written_bytes += bytes;
                counters.write_operations += operations;
            }
        }
        let throttled = admission.map_or(Duration::ZERO, |admission| admission.throttled);
        if !throttled.is_zero() {
            counters.throttled += 1;
            counters.throttled_s += throttled.as_secs_f64();
        }
        admission.map(|admission| admission.due)
    }

    fn answer(&self, due: Option<u64>, kind: Kind) {
        let answer = Answer::new(kind, Arc::clone(&self.in_flight));
        self.completions.at(due.unwrap_or(0), answer);
    }

    fn failed(&self, error: io::Error) -> Errno {
        self.in_flight.fetch_sub(1, Relaxed);
        lock(&self.counters).errors += 1;
        error.into()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file system that the kernel sees: a directory with one file. Its threads do the I/O as a request arrives, and what
/// is done waits for its time with [`Completions`].
pub(crate) struct FileSystem(pub(crate) Arc<State>);

impl FileSystem {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let state = &self.0;
        let file = inode == FILE_INODE;
        let size = if file { state.backing.size() } else { 0 };
        FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: state.made,
            mtime: state.made,
            ctime: state.made,
            crtime: state.made,
            kind: if file { FileType::RegularFile } else { FileType::Directory },
            perm: if file { 0o600 } else { 0o700 },
            nlink: if file { 1 } else { 2 },
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What this kernel lacks costs speed only.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(LARGEST as u32);
        let _ = config.set_max_readahead(LARGEST as u32);
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_congestion_threshold(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == FILE {
            reply.entry(&FOR_EVER, &self.attributes(FILE_INODE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attributes(inode));
    }

    fn readdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE_INODE, FileType::RegularFile, FILE),
        ];
        for (number, (inode, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(inode, number, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(
            FileHandle(0),
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES | FopenFlags::FOPEN_NOFLUSH,
        );
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let state = &self.0;
        let size = (size as usize).min(LARGEST);
        let due = state.arrive(Direction::Read, size as u64);
        let mut buffer = state.pool.take();
        match state.backing.read(&mut buffer[..size], offset) {
            Ok(length) => state.answer(due, Kind::Read(reply, buffer, length)),
            Err(error) => reply.error(state.failed(error)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let state = &self.0;
        // No more comes at once than was agreed on in init.
        let data = &data[..data.len().min(LARGEST)];
        let due = state.arrive(Direction::Write, data.len() as u64);
        let mut buffer = state.pool.take();
        buffer[..data.len()].copy_from_slice(data);
        match state.backing.write(&buffer[..data.len()], offset) {
            Ok(()) => state.answer(due, Kind::Written(reply, data.len() as u32)),
            Err(error) => reply.error(state.failed(error)),
        }
    }

    fn fsync(&self, _request: &Request, _inode: INodeNo, _handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        lock(&self.0.counters).flushes += 1;
        if !self.0.honour_flushes {
            return reply.ok();
        }
        match self.0.backing.flush() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match self.0.backing.fallocate(mode, offset, length) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }
}
