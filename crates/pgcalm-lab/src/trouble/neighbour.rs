//! A program beside the server, on the same file system: the process of `pgcalm lab neighbour`, and the troubles that start it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{io, thread};

use anyhow::Context;
use clap::ValueEnum;
use rustix::fs::OFlags;
use rustix::process::Signal;

use crate::trouble::Ground;
use crate::trouble::play::Play;
use crate::trouble::program::{ByProgram, Start};
use crate::{Size, device, tool};

/// The hidden verb of `pgcalm lab`.
pub const VERB: &str = "neighbour";

/// Of its file.
const FILE: u64 = 512 << 20;

/// And what a file system needs for it.
pub(crate) const ROOM: u64 = FILE + (64 << 20);

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// Writes a file over and over, through the page cache.
    Writes,
    /// Writes 8 kB and syncs.
    Syncs,
    /// Reads at random, past the page cache.
    Reads,
}

pgcalm_host::names! { fn name(How): Writes "writes", Syncs "syncs", Reads "reads" }

pub(crate) fn writes() -> Box<dyn Play> {
    Box::new(ByProgram::new(
        "neighbour-writes",
        |ground, _left| start(ground, How::Writes),
        |_bytes, line| told("wrote", line),
    ))
}

pub(crate) fn syncs() -> Box<dyn Play> {
    Box::new(ByProgram::new(
        "neighbour-syncs",
        |ground, _left| start(ground, How::Syncs),
        |_bytes, line| told("wrote and synced", line),
    ))
}

pub(crate) fn reads() -> Box<dyn Play> {
    Box::new(ByProgram {
        prepare: |ground| {
            let file = ground.volume.join(How::Reads.name());
            device::fill(&file, Size(FILE), ground.stage.interrupt)?;
            Ok(false)
        },
        ..ByProgram::new(
            "neighbour-reads",
            |ground, _left| start(ground, How::Reads),
            |_bytes, line| told("read", line),
        )
    })
}

fn told(verb: &str, line: &str) -> Option<String> {
    (!line.is_empty()).then(|| format!("{verb} {line}"))
}

fn start(ground: &Ground<'_>, how: How) -> anyhow::Result<Start> {
    let program = tool::this_program()?;
    let mut command = ground.devices.command(ground.options, program);
    command.args(["lab", VERB, "--how", how.name()]).arg(ground.volume.join(how.name())).current_dir(ground.directory);
    Ok(Start::of(command))
}

/// Does it until it is killed, on `file`, and prints how often once a second.
pub fn run(how: How, file: &Path) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let threads = if how == How::Reads { 4 } else { 1 };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(how, file, &done))).collect();
        let unit = match how {
            How::Writes => "MiB",
            How::Syncs => "times",
            How::Reads => "times 64 kB",
        };
        while workers.iter().all(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_secs(1));
            println!("{} {unit}", done.load(Ordering::Relaxed));
        }
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))))
    })
    .with_context(|| format!("{} {}", how.name(), file.display()))
}

fn work(how: How, file: &Path, done: &AtomicU64) -> io::Result<()> {
    match how {
        How::Writes => {
            let file = File::create(file)?;
            let block = vec![b'n'; 1 << 20];
            loop {
                for offset in (0..FILE).step_by(block.len()) {
                    file.write_all_at(&block, offset)?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        How::Syncs => {
            let mut file = File::create(file)?;
            let block = vec![b'n'; 8 << 10];
            loop {
                file.write_all(&block)?;
                file.sync_all()?;
                // As large as a log that is rotated.
                if done.fetch_add(1, Ordering::Relaxed) % 8192 == 8191 {
                    file.set_len(0)?;
                }
            }
        }
        How::Reads => {
            const BLOCK: usize = 64 << 10;
            let file = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(file)?;
            let buffer = &mut vec![0; BLOCK + 4096];
            let begin = buffer.as_ptr().align_offset(4096);
            loop {
                let block = fastrand::u64(..FILE / BLOCK as u64);
                file.read_exact_at(&mut buffer[begin..begin + BLOCK], block * BLOCK as u64)?;
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
