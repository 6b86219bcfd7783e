//! What all verbs do alike: attach, run until something ends it, detach.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::Context;
use libbpf_rs::{Link, MapCore, OpenMapMut, ProgramMut, UprobeOpts};
use pgcalm_host::process::Process;
use pgcalm_host::server_process::{Role, Title};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

use crate::error::{host_apart, server_ended};
use crate::probes::server_processes::{ProcessChange, ServerProcesses};
use crate::report::{Drops, End, EndReason, Missing, Server, Start};
use crate::ring::Wake;
use crate::stop::Stop;
use crate::target::Target;
use crate::usdt::{Places, Probes};
use crate::{clock, polling, tracefs};
use pgcalm_host::Failure;

/// Longest time between two looks at the state of the trace.
const TICK: Duration = Duration::from_millis(250);
/// How long a new process may take to set its title before it counts as unknown: authentication comes before.
const TITLE_TIME: Duration = Duration::from_secs(2);
/// How many processes that have ended are remembered: what they did may be read only after that.
const MAX_ENDED: usize = 4096;

/// The answer that a server without probes can't give.
const OWN_PROBES: &str = "everything that the server's own probes tell";

/// Why a trace goes on or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Nothing ends it.
    Running,
    /// The time asked for is over.
    TimeIsUp,
    /// A signal.
    Stopped,
    /// The postmaster has ended.
    ServerEnded,
}

impl Status {
    /// Why the trace ends, if it does.
    pub fn end(self) -> Option<EndReason> {
        match self {
            Self::Running => None,
            Self::TimeIsUp => Some(EndReason::Duration),
            Self::Stopped => Some(EndReason::Interrupted),
            Self::ServerEnded => Some(EndReason::ServerEnded),
        }
    }
}

/// A trace of one server under way. Dropping it detaches all probes.
pub struct Session {
    /// The server.
    pub target: Target,
    /// Answers that can't be given, and why.
    pub missing: Vec<Missing>,
    stop: Stop,
    end: Option<Instant>,
    postmaster: OwnedFd,
    probes: Probes,
    links: Vec<Link>,
    processes: ServerProcesses,
    titles: HashMap<u32, Title>,
    /// Processes without a title yet, and since when.
    untitled: HashMap<u32, Instant>,
    ended: VecDeque<u32>,
    alive: HashSet<u32>,
    ends: u64,
    stopped_asked: Instant,
}

impl Session {
    /// Starts to watch the server's processes; probes are attached after that.
    ///
    /// [`Failure::Host`] if eBPF can't be used here: no root, no BTF, another pid namespace.
    pub fn start(target: &Target, stop: &Stop, duration: Option<Duration>) -> anyhow::Result<Self> {
        check_host(target)?;
        // Only what libbpf could not do is of interest, and that comes back as an error.
        libbpf_rs::set_print(None);
        let pid = target.pid();
        let gone = || server_ended(pid);
        let postmaster = rustix::process::pidfd_open(Pid::from_raw(pid).ok_or_else(gone)?, PidfdFlags::empty())
            .map_err(|_| gone())?;
        // The pid may have been given to another process since the server was found.
        let now = Process::read(&target.root, pid).map_err(|_| gone())?;
        if now.start_ticks != target.postmaster.process.start_ticks {
            return Err(gone().into());
        }
        let processes = ServerProcesses::load(pid as u32)?;
        let mut session = Self {
            target: target.clone(),
            missing: Vec::new(),
            stop: stop.clone(),
            end: None,
            postmaster,
            probes: Probes::of(&target.program())?,
            links: Vec::new(),
            processes,
            titles: HashMap::new(),
            untitled: HashMap::new(),
            ended: VecDeque::new(),
            alive: HashSet::from([pid as u32]),
            ends: 0,
            stopped_asked: Instant::now(),
        };
        session.processes.attach()?;
        // After attaching, so that no fork is missed between the two.
        session.processes.enter(pid as u32, Role::Postmaster)?;
        for child in target.children()? {
            session.untitled.insert(child as u32, Instant::now());
            session.alive.insert(child as u32);
            session.processes.enter(child as u32, Role::Unknown)?;
        }
        session.read_titles();
        if session.probes.is_empty() {
            session.miss(OWN_PROBES, "it was built without --enable-dtrace");
        }
        if target.is_newer_than_known() {
            session.miss(
                "certainty about the meaning of probe arguments",
                &format!("PostgreSQL {} is newer than this program", target.major),
            );
        }
        polling::note_if_stopped(target, &mut session.missing);
        session.end = duration.map(|duration| Instant::now() + duration);
        Ok(session)
    }

    /// Begins a session for what only the server's own probes tell; or says why there can be none.
    pub fn with_probes(
        target: &Target,
        stop: &Stop,
        duration: Option<Duration>,
    ) -> anyhow::Result<Result<Self, String>> {
        let session = host_apart(Self::start(target, stop, duration))?;
        Ok(session.and_then(|session| {
            if session.has_probes() {
                Ok(session)
            } else {
                Err("the server was built without --enable-dtrace and has no probes".to_string())
            }
        }))
    }

    /// Makes another group's server_processes map that of this session; call it before the group is loaded.
    pub fn share(&self, server_processes: &mut OpenMapMut<'_>) -> anyhow::Result<()> {
        self.processes.share(server_processes)
    }

    /// Whether the server's program has probes at all.
    pub fn has_probes(&self) -> bool {
        !self.probes.is_empty()
    }

    /// Leaves the server's program as it is: the kernel puts a breakpoint for a probe into each process that runs it.
    pub fn leave_probes(&mut self) {
        self.probes.forget();
        self.missing.retain(|missing| missing.answer != OWN_PROBES);
    }

    /// Attaches a program to a probe of the server, e.g. `checkpoint__start`; if that can't be, `answer` is missing.
    ///
    /// `argument_sets` is the map of that name of the program's object; `None` if the program reads no arguments.
    /// Returns whether it is attached.
    pub fn usdt(
        &mut self,
        program: &ProgramMut<'_>,
        probe: &str,
        argument_sets: Option<&dyn MapCore>,
        answer: &str,
    ) -> bool {
        if self.probes.is_empty() {
            return false;
        }
        match self.probes.attach(program, probe, argument_sets) {
            Ok(links) => {
                self.links.extend(links);
                true
            }
            Err(error) => {
                self.miss(answer, &format!("{error:#}"));
                false
            }
        }
    }

    /// As [`Self::usdt`], but for as long as the caller keeps the links.
    pub fn usdt_for_a_while(
        &mut self,
        program: &ProgramMut<'_>,
        probe: &str,
        argument_sets: Option<&dyn MapCore>,
    ) -> anyhow::Result<Vec<Link>> {
        self.probes.attach(program, probe, argument_sets)
    }

    /// The places of a probe of the server, for attaching to it in one process at a time; if there are none, `answer` is
    /// missing.
    pub fn usdt_places(&mut self, probe: &str, argument_sets: &dyn MapCore, answer: &str) -> Option<Places> {
        match self.probes.places(probe, argument_sets) {
            Ok(places) => Some(places),
            Err(error) => {
                self.miss(answer, &format!("{error:#}"));
                None
            }
        }
    }

    /// Attaches a program to a tracepoint of the kernel's, by tracefs' names, e.g. `syscalls`, `sys_enter_fsync`.
    pub fn tracepoint(&mut self, program: &ProgramMut<'_>, category: &str, name: &str, answer: &str) -> bool {
        let link = tracefs::with_tracefs(|| {
            program
                .attach_tracepoint(libbpf_rs::TracepointCategory::Custom(category.to_string()), name)
                .with_context(|| format!("attach to the tracepoint {category}:{name}"))
        });
        self.keep(link, answer)
    }

    /// Attaches a program to a function that the server's program exports, at its entry or its return.
    pub fn uprobe(&mut self, program: &ProgramMut<'_>, function: &str, at_return: bool, answer: &str) -> bool {
        let options =
            UprobeOpts { retprobe: at_return, func_name: Some(function.to_string()), ..UprobeOpts::default() };
        // Not for one process: those that come later are the server's, too. Programs look at server_processes.
        let link = program
            .attach_uprobe_with_opts(-1, self.target.program(), 0, options)
            .with_context(|| format!("attach to the server's function {function}"));
        self.keep(link, answer)
    }

    /// Attaches a program as its section says: `tp_btf/NAME`, `raw_tp/NAME`.
    pub fn attach(&mut self, program: &ProgramMut<'_>, answer: &str) -> bool {
        let link = program.attach().with_context(|| format!("attach {}", program.name().to_string_lossy()));
        self.keep(link, answer)
    }

    fn keep(&mut self, link: anyhow::Result<Link>, answer: &str) -> bool {
        match link {
            Ok(link) => {
                self.links.push(link);
                true
            }
            Err(error) => {
                self.miss(answer, &format!("{error:#}"));
                false
            }
        }
    }

    /// Notes that an answer can't be given.
    pub fn miss(&mut self, answer: &str, reason: &str) {
        let missing = Missing { answer: answer.to_string(), reason: reason.to_string() };
        if !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
    }

    /// As [`Self::wait`], but no longer than until a moment of CLOCK_MONOTONIC.
    pub fn wait_until(&mut self, rings: &[&dyn Wake], moment_ns: u64) -> anyhow::Result<Status> {
        let left = Duration::from_nanos(moment_ns.saturating_sub(clock::monotonic_ns()));
        self.wait_at_most(rings, left.min(TICK))
    }

    /// Whether that answer can't be given.
    pub fn is_missing(&self, answer: &str) -> bool {
        self.missing.iter().any(|missing| missing.answer == answer)
    }

    /// Waits until an event is there, a moment of a quarter second is over, or the trace ends.
    ///
    /// Afterwards look into the rings: what happened before the end is still in them.
    pub fn wait(&mut self, rings: &[&dyn Wake]) -> anyhow::Result<Status> {
        self.wait_at_most(rings, TICK)
    }

    fn wait_at_most(&mut self, rings: &[&dyn Wake], most: Duration) -> anyhow::Result<Status> {
        let now = Instant::now();
        let time = match self.end {
            Some(end) => end.saturating_duration_since(now).min(most),
            None => most,
        };
        let timeout = Timespec::try_from(time).context("time to wait")?;
        let own: [&dyn Wake; 1] = [&self.processes.events];
        let fds: Vec<i32> = own.into_iter().chain(rings.iter().copied()).map(Wake::epoll_fd).collect();
        let mut poll: Vec<PollFd<'_>> = fds
            .iter()
            .map(|fd| {
                // SAFETY: the rings are borrowed for as long as this function runs, so their descriptors stay open.
                let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
                PollFd::from_borrowed_fd(fd, PollFlags::IN)
            })
            .collect();
        poll.push(PollFd::new(&self.postmaster, PollFlags::IN));
        match rustix::event::poll(&mut poll, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("wait for events"),
        }
        let ended = poll.last().is_some_and(|fd| fd.revents().contains(PollFlags::IN));
        self.follow_processes()?;
        // Some verbs are here a hundred times a second.
        if self.stopped_asked.elapsed() >= TICK / 2 {
            self.stopped_asked = Instant::now();
            polling::note_if_stopped(&self.target, &mut self.missing);
        }
        Ok(if self.stop.is_set() {
            Status::Stopped
        } else if ended {
            Status::ServerEnded
        } else if self.end.is_some_and(|end| Instant::now() >= end) {
            Status::TimeIsUp
        } else {
            Status::Running
        })
    }

    /// What a process of the server does or did.
    pub fn title(&self, pid: u32) -> Option<&Title> {
        self.titles.get(&pid)
    }

    /// Whether a process of the server has not ended yet.
    pub fn is_alive(&self, pid: u32) -> bool {
        self.target.root.path(format!("proc/{pid}")).exists()
    }

    /// Its role.
    pub fn role(&self, pid: u32) -> Role {
        if pid == self.target.pid() as u32 {
            return Role::Postmaster;
        }
        self.title(pid).map_or(Role::Unknown, |title| title.role)
    }

    /// The server's processes that have not ended, as far as their forks and ends were told.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.alive.iter().copied()
    }

    /// How many of them have ended since the trace began.
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// Process ids known to have that role; those that have ended are among them.
    pub fn with_role(&self, role: Role) -> Vec<u32> {
        self.titles.iter().filter(|(_, title)| title.role == role).map(|(pid, _)| *pid).collect()
    }

    /// The first line of a verb's output.
    pub fn start_line(&self, verb: &str, options: Vec<String>) -> Start {
        start_line(&self.target, verb, options, true, self.missing.clone())
    }

    /// The last line; `drops` are those of the verb's own groups.
    pub fn end_line(&self, reason: EndReason, drops: Drops) -> End {
        let mut all = self.processes.drops();
        all.add(drops);
        End { time: clock::unix_seconds(clock::monotonic_ns()), reason, drops: all, missing: self.missing.clone() }
    }

    fn follow_processes(&mut self) -> anyhow::Result<()> {
        for change in self.processes.changes()? {
            match change {
                ProcessChange::Forked(pid) => {
                    // A pid may come again.
                    self.titles.remove(&pid);
                    self.alive.insert(pid);
                    self.ended.retain(|ended| *ended != pid);
                    self.untitled.insert(pid, Instant::now());
                }
                ProcessChange::Exited(pid) => {
                    self.untitled.remove(&pid);
                    self.alive.remove(&pid);
                    self.ends += 1;
                    self.ended.push_back(pid);
                    if self.ended.len() > MAX_ENDED
                        && let Some(oldest) = self.ended.pop_front()
                    {
                        self.titles.remove(&oldest);
                    }
                }
            }
        }
        self.read_titles();
        Ok(())
    }

    fn read_titles(&mut self) {
        let untitled: Vec<(u32, Instant)> = self.untitled.iter().map(|(pid, since)| (*pid, *since)).collect();
        for (pid, since) in untitled {
            let is_late = since.elapsed() >= TITLE_TIME;
            match self.target.title(pid as i32) {
                // What looks like a background worker of its own name may be one whose title is not complete yet.
                Some(title) if title.role != Role::BackgroundWorker || is_late => {
                    self.untitled.remove(&pid);
                    // It may have ended just now.
                    let _ = self.processes.set_role(pid, title.role);
                    self.titles.insert(pid, title);
                }
                None if is_late => {
                    self.untitled.remove(&pid);
                }
                _ => {}
            }
        }
    }
}

/// The first line of a verb's output; `ebpf` is whether that is in use.
pub fn start_line(target: &Target, verb: &str, options: Vec<String>, ebpf: bool, missing: Vec<Missing>) -> Start {
    let kernel = target.root.read("proc/sys/kernel/osrelease");
    Start {
        verb: verb.to_string(),
        pgcalm: env!("CARGO_PKG_VERSION").to_string(),
        time: clock::unix_seconds(clock::monotonic_ns()),
        server: Server {
            pid: target.pid(),
            version: target.version.clone(),
            data_directory: target.postmaster.data_directory.display().to_string(),
            port: target.postmaster.port,
            kernel: kernel.map_or_else(|_| "unknown".to_string(), |text| text.trim().to_string()),
        },
        options,
        ebpf,
        missing,
    }
}

/// The initial pid namespace, PROC_PID_INIT_INO of include/uapi/linux/nsfs.h.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Why eBPF is no use there.
const IN_A_CONTAINER: &str = "\
this is a container with process ids of its own, which eBPF does not see; run on the host, where --instance finds \
servers in containers, too";

fn check_host(target: &Target) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::Host(
            "eBPF needs root (CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE); run as root".to_string(),
        ));
    }
    if !target.root.path("sys/kernel/btf/vmlinux").exists() {
        return Err(Failure::Host(
            "the kernel has no BTF (/sys/kernel/btf/vmlinux): eBPF programs can't find its structures; it needs one \
             built with CONFIG_DEBUG_INFO_BTF"
                .to_string(),
        ));
    }
    let namespace = std::fs::read_link(target.root.path("proc/self/ns/pid"));
    if namespace.is_ok_and(|namespace| namespace.as_os_str() != INITIAL_PID_NAMESPACE) {
        return Err(Failure::Host(IN_A_CONTAINER.to_string()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_out_of_a_container_is_an_option_that_there_is() {
        assert!(IN_A_CONTAINER.contains(" --instance ") && !IN_A_CONTAINER.contains("--pid"), "{IN_A_CONTAINER}");
    }
}
