//! Where processes are in uninterruptible sleep: in which call, on what file, in which kernel functions.

mod call;

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use pgcalm_host::process::Process;
use pgcalm_host::{HostRoot, process};

use crate::background::Background;
use crate::interference::report::Hang;
use crate::sampler::{STACK_DEPTH, process_name};

/// Time between samples.
const INTERVAL: Duration = Duration::from_millis(100);

/// Places kept of the victim, of logins, of the neighbour and of the kernel.
const KEPT: usize = 6;

/// Who sleeps, and where; the samples are counted.
type Place = (&'static str, String, Option<String>, Option<String>, Vec<String>);

/// The processes to look at.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    /// Postmaster of the victim.
    pub victim: i32,
    /// Postmaster of the neighbour.
    pub neighbour: i32,
    /// Name of the victim's device, whose journal's thread is looked at.
    pub device: String,
}

/// Samples in a thread of its own.
#[derive(Debug)]
pub(super) struct HangSampler(Background<HashMap<Place, u32>>);

impl HangSampler {
    /// Starts.
    pub(super) fn start(root: HostRoot, watched: Watched) -> Self {
        Self(Background::start(move |stop| {
            let mut places = HashMap::new();
            while !stop.is_set() {
                // A process that ends meanwhile is no loss.
                let _ = sample(&root, &watched, &mut places);
                thread::sleep(INTERVAL);
            }
            places
        }))
    }

    /// Ends, and returns the places of each of who, most often seen first.
    pub(super) fn finish(self) -> Vec<Hang> {
        ranked(self.0.finish().unwrap_or_default())
    }
}

fn sample(root: &HostRoot, watched: &Watched, places: &mut HashMap<Place, u32>) -> pgcalm_host::Result<()> {
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
    let line = process::command_line(root, pid);
    let name = match &line {
        _ if who == "kernel" => "journal thread".to_string(),
        Ok(line) => process_name(line),
        Err(_) => String::new(),
    };
    let who = match &line {
        Ok(line) if who == "victim" && is_login(line) => "login",
        _ => who,
    };
    let mut stack = process::kernel_stack(root, pid);
    stack.truncate(STACK_DEPTH);
    let (call, file) = call::of_process(root, pid).unzip();
    (who, name, call.map(str::to_string), file.flatten(), stack)
}

/// Whether the process with this title is a backend on its way to the first query (`set_ps_display` in the server's
/// postmaster.c and postinit.c).
fn is_login(line: &str) -> bool {
    let state = line.split_whitespace().next_back();
    line.starts_with("postgres: ")
        && line.contains('[')
        && matches!(state, Some("initializing" | "authentication" | "startup"))
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
    hangs.sort_by(|a, b| (b.samples, &a.process, &a.stack, &a.call).cmp(&(a.samples, &b.process, &b.stack, &b.call)));
    ["victim", "login", "neighbour", "kernel"]
        .iter()
        .flat_map(|who| {
            let of_who = hangs.iter().filter(|hang| hang.who == **who);
            of_who.take(KEPT).cloned().collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::libc;

    use super::*;

    #[test]
    fn a_sleeper_is_seen_with_its_call_and_the_kind_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        for (pid, parent, state) in [(10, 1, 'S'), (11, 10, 'D'), (20, 1, 'S'), (21, 20, 'D')] {
            fs::create_dir_all(root.path(format!("proc/{pid}/fd"))).unwrap();
            fs::write(
                root.path(format!("proc/{pid}/stat")),
                format!("{pid} (postgres) {state} {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0\n"),
            )
            .unwrap();
            fs::write(root.path(format!("proc/{pid}/cmdline")), "postgres: postgres postgres [local] COMMIT\0")
                .unwrap();
            fs::write(root.path(format!("proc/{pid}/syscall")), format!("{} 0x1f 0x0\n", libc::SYS_fsync)).unwrap();
            fs::write(root.path(format!("proc/{pid}/stack")), "[<0>] jbd2_log_wait_commit+0x1/0x2\n").unwrap();
            symlink("/d/pg_wal/xlogtemp.77", root.path(format!("proc/{pid}/fd/31"))).unwrap();
        }
        let watched = Watched { victim: 10, neighbour: 20, device: "loop0".into() };
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
    fn a_backend_is_a_login_until_its_first_query() {
        for (title, expected) in [
            ("postgres: postgres template1 [local] startup", true),
            ("postgres: postgres template1 [local] authentication", true),
            ("postgres: postgres startup [local] idle", false),
            ("postgres: startup ", false),
        ] {
            assert_eq!(is_login(title), expected, "{title}");
        }
    }
}
