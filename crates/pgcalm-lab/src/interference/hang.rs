//! Where processes are in uninterruptible sleep: in which call, on what file, in which kernel functions.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::libc;
use pgcalm_host::HostRoot;
use pgcalm_host::process;
use pgcalm_host::process::Process;

use crate::interference::report::Hang;
use crate::sampler::STACK_DEPTH;
use crate::sampler::process_name;

/// Time between samples.
const INTERVAL: Duration = Duration::from_millis(100);

/// Places kept of the victim, of the neighbour and of the kernel.
const KEPT: usize = 6;

/// Who sleeps, and where; the samples are counted.
type Place = (
    &'static str,
    String,
    Option<String>,
    Option<String>,
    Vec<String>,
);

/// The processes to look at.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Postmaster of the victim.
    pub victim: i32,
    /// Postmaster of the neighbour.
    pub neighbour: i32,
    /// Name of the victim's device, whose journal's thread is looked at.
    pub device: String,
}

/// Samples in a thread of its own.
#[derive(Debug)]
pub struct HangSampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<HashMap<Place, u32>>>,
}

impl HangSampler {
    /// Starts.
    pub fn start(root: HostRoot, watched: Watched) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut places = HashMap::new();
                while !stop.load(Ordering::Relaxed) {
                    // A process that ends meanwhile is no loss.
                    let _ = sample(&root, &watched, &mut places);
                    thread::sleep(INTERVAL);
                }
                places
            })
        };
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Ends, and returns the places of each of who, most often seen first.
    pub fn finish(mut self) -> Vec<Hang> {
        self.stop.store(true, Ordering::Relaxed);
        let places = self.thread.take().and_then(|thread| thread.join().ok());
        ranked(places.unwrap_or_default())
    }
}

impl Drop for HangSampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn sample(
    root: &HostRoot,
    watched: &Watched,
    places: &mut HashMap<Place, u32>,
) -> pgcalm_host::Result<()> {
    let table = process::table(root)?;
    let mut look_at = |who: &'static str, process: &Process| {
        if process.state != 'D' {
            return;
        }
        let place = place(root, who, process.pid);
        // If it has gone on meanwhile, the stack is of somewhere else.
        if Process::read(root, process.pid).is_ok_and(|now| now.state == 'D') {
            *places.entry(place).or_default() += 1;
        }
    };
    for (who, postmaster) in [("victim", watched.victim), ("neighbour", watched.neighbour)] {
        for process in process::family(&table, postmaster) {
            look_at(who, &process);
        }
    }
    // ext4 alone has such a thread; XFS writes its log in work queues.
    let thread = root
        .read(format!("sys/fs/ext4/{}/journal_task", watched.device))
        .ok()
        .and_then(|pid| pid.trim().parse().ok())
        .and_then(|pid: i32| table.iter().find(|process| process.pid == pid));
    if let Some(thread) = thread {
        look_at("kernel", thread);
    }
    Ok(())
}

fn place(root: &HostRoot, who: &'static str, pid: i32) -> Place {
    let name = if who == "kernel" {
        "journal thread".to_string()
    } else {
        process::command_line(root, pid)
            .map(|line| process_name(&line))
            .unwrap_or_default()
    };
    let mut stack = process::kernel_stack(root, pid);
    stack.truncate(STACK_DEPTH);
    let (call, file) = call(root, pid).unzip();
    (who, name, call, file.flatten(), stack)
}

/// The system call of a process, and what kind of file its first argument is a descriptor of.
fn call(root: &HostRoot, pid: i32) -> Option<(String, Option<String>)> {
    let text = root.read(format!("proc/{pid}/syscall")).ok()?;
    let mut fields = text.split_whitespace();
    // `running`, or -1 outside of any.
    let number: i64 = fields.next()?.parse().ok()?;
    let name = call_name(number)?;
    let first = fields.next()?.strip_prefix("0x")?;
    let fd = u64::from_str_radix(first, 16).ok()?;
    let file = takes_descriptor(number)
        .then(|| fs::read_link(root.path(format!("proc/{pid}/fd/{fd}"))).ok())
        .flatten()
        .and_then(|path| kind_of(&path));
    Some((name.to_string(), file))
}

/// Calls that write, make or remove files; others are not of interest here.
const CALLS: [(i64, &str); 14] = [
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_pwritev, "pwritev"),
    (libc::SYS_write, "write"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_fallocate, "fallocate"),
    (libc::SYS_sync_file_range, "sync_file_range"),
    (libc::SYS_truncate, "truncate"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_renameat, "renameat"),
    (libc::SYS_renameat2, "renameat2"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_mkdirat, "mkdirat"),
];

/// Older forms that some platforms have besides.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: [(i64, &str); 4] = [
    (libc::SYS_open, "open"),
    (libc::SYS_rename, "rename"),
    (libc::SYS_unlink, "unlink"),
    (libc::SYS_mkdir, "mkdir"),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: [(i64, &str); 0] = [];

fn call_name(number: i64) -> Option<&'static str> {
    CALLS
        .iter()
        .chain(&OLD_CALLS)
        .find(|(of, _)| *of == number)
        .map(|(_, name)| *name)
}

fn takes_descriptor(number: i64) -> bool {
    CALLS[..8].iter().any(|(of, _)| *of == number)
}

/// What a file of a data directory is for: names differ, and places are to be counted.
fn kind_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let inside = |directory: &str| path.iter().any(|part| part == directory);
    Some(if inside("pg_wal") {
        if name.starts_with("xlogtemp") {
            "new WAL segment".to_string()
        } else {
            "WAL segment".to_string()
        }
    } else if inside("base") || inside("global") {
        "data file".to_string()
    } else {
        let directory = path.parent()?.file_name()?.to_str()?;
        format!("file of {directory}")
    })
}

fn ranked(places: HashMap<Place, u32>) -> Vec<Hang> {
    let mut hangs: Vec<Hang> = places
        .into_iter()
        .map(|((who, process, call, file, stack), samples)| Hang {
            who: who.to_string(),
            process,
            call,
            file,
            stack,
            samples,
        })
        .collect();
    hangs.sort_by(|a, b| {
        (b.samples, &a.process, &a.stack, &a.call).cmp(&(a.samples, &b.process, &b.stack, &b.call))
    });
    ["victim", "neighbour", "kernel"]
        .iter()
        .flat_map(|who| {
            let of_who = hangs.iter().filter(|hang| hang.who == **who);
            of_who.take(KEPT).cloned().collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_sleeper_is_seen_with_its_call_and_the_kind_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        for (pid, parent, state) in [(10, 1, 'S'), (11, 10, 'D'), (20, 1, 'S'), (21, 20, 'D')] {
            fs::create_dir_all(root.path(format!("proc/{pid}/fd"))).unwrap();
            fs::write(
                root.path(format!("proc/{pid}/stat")),
                format!(
                    "{pid} (postgres) {state} {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0\n"
                ),
            )
            .unwrap();
            fs::write(
                root.path(format!("proc/{pid}/cmdline")),
                "postgres: postgres postgres [local] COMMIT\0",
            )
            .unwrap();
            fs::write(
                root.path(format!("proc/{pid}/syscall")),
                format!("{} 0x1f 0x0\n", libc::SYS_fsync),
            )
            .unwrap();
            fs::write(
                root.path(format!("proc/{pid}/stack")),
                "[<0>] jbd2_log_wait_commit+0x1/0x2\n",
            )
            .unwrap();
            symlink(
                "/d/pg_wal/xlogtemp.77",
                root.path(format!("proc/{pid}/fd/31")),
            )
            .unwrap();
        }
        let watched = Watched {
            victim: 10,
            neighbour: 20,
            device: "loop0".into(),
        };
        let mut places = HashMap::new();
        for _ in 0..2 {
            sample(&root, &watched, &mut places).unwrap();
        }
        let hangs = ranked(places);
        assert_eq!(hangs.len(), 2);
        assert_eq!(
            hangs[0],
            Hang {
                who: "victim".into(),
                process: "client backend".into(),
                call: Some("fsync".into()),
                file: Some("new WAL segment".into()),
                stack: vec!["jbd2_log_wait_commit".into()],
                samples: 2
            }
        );
        assert_eq!(hangs[1].who, "neighbour");
    }

    #[test]
    fn files_are_named_by_what_they_are_for() {
        for (path, kind) in [
            ("/d/pg_wal/000000010000000000000013", "WAL segment"),
            ("/d/base/5/16396.1", "data file"),
            ("/d/pg_xact/0000", "file of pg_xact"),
        ] {
            assert_eq!(kind_of(Path::new(path)).as_deref(), Some(kind));
        }
    }
}
