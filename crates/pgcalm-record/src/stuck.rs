//! Processes in uninterruptible sleep: one that does not come out of it holds users, and where in the kernel they are tells a
//! journal from a dirty limit without eBPF.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pgcalm_host::process::Process;
use pgcalm_host::server_process::Role;
use pgcalm_host::{HostRoot, process, server_process};
use pgcalm_trace::why::report::Cause;
use pgcalm_trace::why::stack_class::waiter;

use crate::incident::Stuck;

/// Innermost functions that are kept of a stack.
const FRAMES: usize = 12;

/// The time between two looks. Who is found in the same sleep in two of them has slept for so long at least.
const INTERVAL: Duration = Duration::from_millis(500);

/// Processes whose state is read in one look, so that a host with thousands pays no more: some ten milliseconds.
const MOST_PROCESSES: usize = 1000;

/// Stacks that are read in one look.
const MOST_STACKS: usize = 50;

/// Which processes there are is found out at this interval, since that takes a look at all of the host.
const LIST_INTERVAL: Duration = Duration::from_secs(5);

/// What a stack of the kernel is a sign of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A transaction of the file system's journal.
    Journal,
    /// The limit of dirty memory.
    DirtyLimit,
    /// Reclaim of memory.
    Reclaim,
    /// Anything else.
    Other,
}

/// What functions of mm/vmscan.c, mm/memcontrol.c and mm/memory.c begin with in whose sleeps memory is reclaimed. `trace why`
/// counts these by what they are called for.
const RECLAIM: [&str; 4] = ["try_to_free", "shrink_", "mem_cgroup_handle_over_high", "do_swap_page"];

/// Where a stack is, the function that tells it, else the innermost, and what is waited for in words.
fn told(stack: &[String]) -> (Place, &str, Option<&'static str>) {
    if let Some(frame) = stack.iter().find(|frame| RECLAIM.iter().any(|begin| frame.starts_with(begin))) {
        return (Place::Reclaim, frame, Some("reclaim of memory"));
    }
    let Some((function, cause)) = waiter(stack) else {
        return (Place::Other, stack.first().map_or("", String::as_str), None);
    };
    let place = match cause {
        Cause::Journal | Cause::XfsLog => Place::Journal,
        Cause::DirtyThrottling => Place::DirtyLimit,
        _ => Place::Other,
    };
    (place, function, Some(cause.label()))
}

/// Where a stack is.
pub fn place(stack: &[String]) -> Place {
    told(stack).0
}

/// An instance whose processes are looked at.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name.
    pub server: String,
    /// Its postmaster.
    pub postmaster: i32,
    /// Its setting cluster_name, which process titles begin with.
    pub cluster_name: String,
    /// Whether its users are known to be held.
    pub held: bool,
}

/// Looks twice each second, in a thread of its own: reading the title of a process may wait for what the process waits for.
#[derive(Debug)]
pub struct Looker(Arc<Mutex<Watch>>);

#[derive(Debug, Default)]
struct Watch {
    targets: Vec<Target>,
    found: Vec<(String, Looks)>,
}

impl Looker {
    /// Starts the thread, which ends some time after this is dropped.
    ///
    /// # Errors
    ///
    /// That no thread can be started.
    pub fn start(root: HostRoot) -> std::io::Result<Self> {
        let shared = Arc::new(Mutex::new(Watch::default()));
        let ours = Arc::downgrade(&shared);
        thread::Builder::new().name("pgcalm looker".to_string()).spawn(move || {
            let mut asleep = Asleep::default();
            while let Some(watch) = ours.upgrade() {
                let targets = lock(&watch).targets.clone();
                let found = asleep.look(&root, &targets, Instant::now());
                lock(&watch).found.extend(found);
                drop(watch);
                thread::sleep(INTERVAL);
            }
        })?;
        Ok(Self(shared))
    }

    /// Whose processes are looked at from now on.
    pub fn watch(&self, targets: Vec<Target>) {
        lock(&self.0).targets = targets;
    }

    /// What was seen since this was called last.
    pub fn take(&self) -> Vec<(String, Looks)> {
        std::mem::take(&mut lock(&self.0).found)
    }
}

fn lock(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is remembered from look to look.
#[derive(Debug, Default)]
struct Asleep {
    /// Postmasters, and the processes that they have started.
    families: BTreeMap<i32, Vec<i32>>,
    listed: Option<Instant>,
    sleeps: BTreeMap<i32, Sleep>,
    turn: usize,
}

#[derive(Debug, Clone, Copy)]
struct Sleep {
    /// With the pid it names the process for good.
    start_ticks: u64,
    /// Its how manieth sleep it is.
    number: Option<u64>,
    since: Instant,
}

impl Asleep {
    /// Those of these instances that sleep so now.
    fn look(&mut self, root: &HostRoot, targets: &[Target], now: Instant) -> Vec<(String, Looks)> {
        // One line of the kernel's spares all others nearly always. Who sleeps for anything but I/O, as a frozen group, is not
        // seen by it; but then the server stops answering, and its users are known to be held.
        if targets.is_empty() || !targets.iter().any(|target| target.held) && !process::any_waits_for_io(root) {
            self.sleeps.clear();
            return Vec::new();
        }
        self.list(root, targets, now);
        // Where not all can be looked at, others come first after two looks; those whose users are held always do.
        let mut order: Vec<&Target> = targets.iter().collect();
        order.rotate_left(self.turn / 2 % targets.len());
        order.sort_by_key(|target| !target.held);
        self.turn += 1;
        let before = std::mem::take(&mut self.sleeps);
        let (mut processes, mut stacks) = (MOST_PROCESSES, MOST_STACKS);
        let mut found = Vec::new();
        for target in order {
            let mut looks = Looks::default();
            for pid in self.families.get(&target.postmaster).into_iter().flatten().take(processes) {
                processes -= 1;
                let Ok(process) = Process::read(root, *pid) else { continue };
                // A number may have gone to another program.
                if process.state != 'D' || process.parent != target.postmaster {
                    continue;
                }
                let number = process::sleeps(root, *pid);
                let new = Sleep { start_ticks: process.start_ticks, number, since: now };
                let is_same =
                    |old: &&Sleep| (old.start_ticks, old.number) == (new.start_ticks, number) && number.is_some();
                let sleep = before.get(pid).filter(is_same).copied().unwrap_or(new);
                self.sleeps.insert(*pid, sleep);
                let role = process::command_line(root, *pid)
                    .ok()
                    .and_then(|line| server_process::parse_title(&line, &target.cluster_name))
                    .map(|title| title.role);
                looks.users += u64::from(role.is_some_and(serves_users) && now.duration_since(sleep.since) >= INTERVAL);
                let stack = if stacks > 0 { stack_of(root, *pid) } else { Vec::new() };
                stacks = stacks.saturating_sub(1);
                looks.add(role.map_or("server process", Role::name), stack);
            }
            if looks != Looks::default() {
                found.push((target.server.clone(), looks));
            }
        }
        found
    }

    fn list(&mut self, root: &HostRoot, targets: &[Target], now: Instant) {
        let is_known = |target: &Target| self.families.contains_key(&target.postmaster);
        let is_fresh = self.listed.is_some_and(|when| now.duration_since(when) < LIST_INTERVAL);
        if is_fresh && targets.iter().all(is_known) {
            return;
        }
        let table = process::table(root).unwrap_or_default();
        let children = |postmaster: i32| {
            table.iter().filter(|process| process.parent == postmaster).map(|process| process.pid).collect()
        };
        self.families = targets.iter().map(|target| (target.postmaster, children(target.postmaster))).collect();
        self.listed = Some(now);
    }
}

/// Whether users wait while a process of this kind does. A second counts by what it did to users: the checkpointer may sleep in
/// its fsync for minutes while all commit, and so may the background writer, autovacuum, the archiver and walsenders. The WAL
/// writer sleeps with the lock that every commit needs, and an I/O worker reads for a session.
fn serves_users(role: Role) -> bool {
    matches!(role, Role::Backend | Role::ParallelWorker | Role::WalWriter | Role::IoWorker)
}

fn stack_of(root: &HostRoot, pid: i32) -> Vec<String> {
    let mut stack = process::kernel_stack(root, pid);
    stack.truncate(FRAMES);
    if stack.is_empty() {
        stack.extend(process::wait_channel(root, pid));
    }
    stack
}

/// Looks added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Looks {
    /// How many looks found a process there.
    seen: BTreeMap<(String, Vec<String>), u64>,
    /// Most processes at once that serve users and had slept for half a second without waking.
    pub users: u64,
}

impl Looks {
    /// Adds those of others.
    pub fn join(&mut self, looks: &Self) {
        for (key, count) in &looks.seen {
            *self.seen.entry(key.clone()).or_default() += count;
        }
        self.users = self.users.max(looks.users);
    }

    /// Adds one that was seen.
    pub fn add(&mut self, process: &str, stack: Vec<String>) {
        *self.seen.entry((process.to_string(), stack)).or_default() += 1;
    }

    /// All of them, longest first.
    pub fn all(&self) -> Vec<Stuck> {
        let of = |((process, stack), looks): (&(String, Vec<String>), &u64)| {
            let (_, function, words) = told(stack);
            Stuck {
                process: process.clone(),
                stack: stack.clone(),
                seconds: *looks as f64 * INTERVAL.as_secs_f64(),
                function: function.to_string(),
                waits_for: words.map(str::to_string),
            }
        };
        let mut all: Vec<Stuck> = self.seen.iter().map(of).collect();
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        all
    }
}

/// Kinds of processes by the function they slept in, longest first: each with all its time, and the stack that was seen longest.
pub fn by_function(stuck: &[Stuck]) -> Vec<Stuck> {
    let mut sums: Vec<Stuck> = Vec::new();
    for one in stuck {
        match sums.iter_mut().find(|sum| (&sum.process, &sum.function) == (&one.process, &one.function)) {
            Some(sum) => sum.seconds += one.seconds,
            None => sums.push(one.clone()),
        }
    }
    sums.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    sums
}

#[cfg(test)]
#[path = "stuck/tests.rs"]
mod tests;
