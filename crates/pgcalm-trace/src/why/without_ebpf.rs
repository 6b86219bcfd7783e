//! What /proc, the server's log and its views tell where eBPF is out of reach: samples instead of a full account.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use pgcalm_host::process;
use pgcalm_host::process::Process;
use pgcalm_host::server_process::Role;

use crate::clock::monotonic_ns;
use crate::io::report::Operation;
use crate::report::file_kind::FileKind;
use crate::report::{Drops, End, EndReason, Missing, Take};
use crate::server_log::ServerLog;
use crate::stop::Stop;
use crate::target::Target;
use crate::why::Options;
use crate::why::attribution::{Spent, What, named};
use crate::why::report::{Line, Summary};
use crate::why::sampled_second::Seconds;
use crate::why::views::Views;
use crate::{clock, polling, server_memory, session, syscalls};

/// Time between two samples; each stands for that long.
const INTERVAL: Duration = Duration::from_millis(50);

/// Traces by samples of /proc, with what the server's log and, with --connect, its views tell. `reason` is why eBPF is
/// out of reach.
pub fn run(
    target: &Target,
    options: &Options,
    stop: &Stop,
    reason: &str,
    take: Take<'_, Line>,
) -> anyhow::Result<EndReason> {
    let views = match &options.connect {
        Some(connect) => Some(Views::connect(target, connect)?),
        None => None,
    };
    let log = ServerLog::open(target);
    let mut missing = missing(reason, views.is_some(), log.as_ref().err());
    take(Line::Start(session::start_line(
        target,
        "why",
        vec![format!("samples each {} ms", INTERVAL.as_millis())],
        false,
        missing.clone(),
    )))?;
    let sampler = Sampler {
        target,
        // Without the right to look what it would tell is unknown.
        wait_event: server_memory::address_of(target, "my_wait_event_info").ok(),
    };
    let deadline = options.duration.map(|duration| Instant::now() + duration);
    let mut summary = Summary::default();
    let mut seconds = Seconds::start(target, views, log.ok())?;
    let reason = loop {
        let mut spent = Vec::new();
        let mut backends = 0;
        polling::note_if_stopped(target, &mut missing);
        let mut last_ns = seconds.began_ns();
        let end = Instant::now() + Duration::from_secs(1);
        let ended = loop {
            let ended = polling::wait(target, stop, INTERVAL, deadline);
            let now_ns = monotonic_ns();
            let sample = sampler.sample(now_ns - last_ns);
            last_ns = now_ns;
            backends = backends.max(sample.iter().filter(|s| s.role == Role::Backend).count());
            spent.extend(sample);
            if ended.is_some() || Instant::now() >= end {
                break ended;
            }
        };
        let (second, verdict) = match seconds.close(last_ns, backends as u32, &spent) {
            Ok(closed) => closed,
            // A server that shuts down ends its sessions first.
            Err(_) if !polling::is_running(target) || seconds.is_closed() => {
                break EndReason::ServerEnded;
            }
            Err(error) => return Err(error),
        };
        summary.all.add(&second);
        if verdict.is_some() {
            summary.with_verdict.add(&second);
        }
        take(Line::Second(second))?;
        if let Some(verdict) = verdict {
            take(Line::Verdict(verdict))?;
        }
        if let Some(reason) = ended {
            break reason;
        }
    };
    take(Line::Summary(summary))?;
    take(Line::End(End { time: clock::unix_seconds(monotonic_ns()), reason, drops: Drops::default(), missing }))?;
    Ok(reason)
}

fn missing(reason: &str, is_connected: bool, no_log: Option<&String>) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut add = |answer: &str, reason: &str| {
        missing.push(Missing { answer: answer.to_string(), reason: reason.to_string() });
    };
    if is_connected {
        add("exact commits and WAL of a second: backends report about once a second", reason);
        add("long system calls; bytes of full-page images; calls on WAL files; kernel stacks of a verdict", reason);
    } else {
        add(
            "commits, so verdicts; WAL and its full-page images",
            &format!("{reason}; with --connect the server's views tell some of it"),
        );
    }
    add("block-cgroup throttling apart from the disk's own time", reason);
    if let Some(no_log) = no_log {
        add("checkpoints", no_log);
    }
    add("exact times: each is a sum of samples", "only /proc is left to look at");
    missing
}

struct Sampler<'a> {
    target: &'a Target,
    wait_event: Option<u64>,
}

impl Sampler<'_> {
    /// What each process of the server does now, for `ns`.
    fn sample(&self, ns: u64) -> Vec<Spent> {
        let mut titles: HashMap<i32, Role> = HashMap::new();
        for pid in self.target.children().unwrap_or_default() {
            if let Some(title) = self.target.title(pid) {
                titles.insert(pid, title.role);
            }
        }
        titles.into_iter().filter_map(|(pid, role)| Some(Spent { role, what: self.what(pid)?, ns })).collect()
    }

    fn what(&self, pid: i32) -> Option<What> {
        let root = &self.target.root;
        let state = Process::read(root, pid).ok()?.state;
        if state == 'R' {
            // Running or ready to run: /proc does not tell them apart at a moment.
            return Some(What::OnCpu);
        }
        let call = root.read(format!("proc/{pid}/syscall")).unwrap_or_default();
        let (number, argument) = parse_syscall(&call).unwrap_or((syscalls::NO_SYSCALL, 0));
        let operation = syscalls::operation(number);
        if state == 'D' {
            let mut frames = process::kernel_stack(root, pid);
            if frames.is_empty() {
                // Only root sees the stack; the function in which it sleeps, others of the same user.
                frames.extend(root.read(format!("proc/{pid}/wchan")));
            }
            return Some(What::Uninterruptible {
                frames,
                operation,
                file: self.file(pid, operation, argument),
                throttled: false,
            });
        }
        let what = What::WaitEvent { event: self.event(pid), operation, polls: syscalls::polls(number) };
        Some(named(what, self.target.major))
    }

    fn file(&self, pid: i32, operation: Operation, descriptor: u64) -> FileKind {
        let works_on_file = matches!(
            operation,
            Operation::Read | Operation::Write | Operation::Sync | Operation::SyncRange | Operation::Allocate
        );
        if !works_on_file {
            return FileKind::None;
        }
        let link = self.target.root.path(format!("proc/{pid}/fd/{descriptor}"));
        std::fs::read_link(link).map_or(FileKind::None, |path| kind_of_path(&path))
    }

    fn event(&self, pid: i32) -> Option<u32> {
        let memory = File::open(self.target.root.path(format!("proc/{pid}/mem"))).ok()?;
        let mut pointer = [0; 8];
        memory.read_exact_at(&mut pointer, self.wait_event?).ok()?;
        let mut event = [0; 4];
        memory.read_exact_at(&mut event, u64::from_ne_bytes(pointer)).ok()?;
        Some(u32::from_ne_bytes(event))
    }
}

/// Number and first argument of the system call in /proc/PID/syscall; none if the process is in none.
fn parse_syscall(text: &str) -> Option<(u16, u64)> {
    let mut words = text.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let argument = words.next()?.strip_prefix("0x")?;
    Some((number, u64::from_str_radix(argument, 16).ok()?))
}

/// The same rules as in bpf/file_kind.bpf.h, for what a sleep is likely to be on.
fn kind_of_path(path: &Path) -> FileKind {
    let text = path.to_string_lossy();
    if text.starts_with("socket:") {
        return FileKind::Socket;
    }
    if text.starts_with("pipe:") {
        return FileKind::Pipe;
    }
    let mut names = path.iter().rev().map(|name| name.to_string_lossy());
    let name = names.next().unwrap_or_default();
    let directory = names.next().unwrap_or_default();
    let above = names.next().unwrap_or_default();
    let is_wal =
        name.starts_with("xlogtemp.") || (name.len() >= 24 && name.bytes().take(24).all(|b| b.is_ascii_hexdigit()));
    if directory == "archive_status" {
        FileKind::WalStatus
    } else if is_wal {
        FileKind::Wal
    } else if name.starts_with("pgsql_tmp") || directory.starts_with("pgsql_tmp") {
        FileKind::Temporary
    } else if ["pg_xact", "pg_subtrans", "pg_commit_ts", "pg_notify", "pg_serial"].contains(&directory.as_ref())
        || above == "pg_multixact"
    {
        FileKind::Slru
    } else if name.starts_with("pg_internal.init") {
        FileKind::RelationCache
    } else if above == "base" || above.starts_with("PG_") || directory == "global" {
        FileKind::Data
    } else {
        FileKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_call_has_a_number_and_an_argument_and_a_running_process_none() {
        assert_eq!(parse_syscall("75 0x1f 0x0 0x0 0x0 0x0 0x0 0x7ffc 0x7f00\n"), Some((75, 31)));
        assert_eq!(parse_syscall("running\n"), None);
        assert_eq!(parse_syscall("-1 0x7ffc 0x7f00\n"), None);
    }

    #[test]
    fn paths_tell_kinds() {
        for (path, kind) in [
            ("/wal/any/000000010000000000000003", FileKind::Wal),
            ("/d/base/5/16384_fsm", FileKind::Data),
            ("/d/base/5/pg_internal.init.77", FileKind::RelationCache),
            ("/t/PG_15_202209061/5/16384", FileKind::Data),
            ("/d/pg_multixact/offsets/0000", FileKind::Slru),
            ("/d/base/pgsql_tmp/pgsql_tmp7.0", FileKind::Temporary),
            ("/d/pg_wal/archive_status/000000010000000000000003.ready", FileKind::WalStatus),
            ("socket:[77]", FileKind::Socket),
            ("/d/postmaster.pid", FileKind::Other),
        ] {
            assert_eq!(kind_of_path(Path::new(path)), kind, "{path}");
        }
    }
}
