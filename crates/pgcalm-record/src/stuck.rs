//! Processes in uninterruptible sleep, looked at while an incident goes on: where in the kernel they are tells a journal from a
//! dirty limit without eBPF.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pgcalm_host::{HostRoot, process, server_process};

use crate::incident::Stuck;

/// Innermost functions that are kept of a stack.
const FRAMES: usize = 12;

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

/// Functions by whose presence a place is told, in mm/page-writeback.c, mm/vmscan.c, mm/memcontrol.c, fs/jbd2 and fs/xfs.
const SIGNS: [(Place, &[&str]); 3] = [
    (Place::DirtyLimit, &["balance_dirty_pages"]),
    (Place::Reclaim, &["try_to_free", "shrink_", "mem_cgroup_handle_over_high", "do_swap_page"]),
    (Place::Journal, &["jbd2_", "start_this_handle", "wait_transaction", "xlog_", "xfs_log_", "do_get_write_access"]),
];

/// Where a stack is.
pub fn place(stack: &[String]) -> Place {
    let has = |signs: &[&str]| stack.iter().any(|frame| signs.iter().any(|sign| frame.starts_with(sign)));
    SIGNS.iter().find(|(_, signs)| has(signs)).map_or(Place::Other, |(place, _)| *place)
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
}

/// Looks each second, in a thread of its own: reading the title of a process may wait for what the process waits for.
#[derive(Debug)]
pub struct Looker(Arc<Mutex<Watch>>);

#[derive(Debug, Default)]
struct Watch {
    targets: Vec<Target>,
    found: Vec<(String, Looks)>,
}

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

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
            while let Some(watch) = ours.upgrade() {
                let targets = lock(&watch).targets.clone();
                let table = if targets.is_empty() { None } else { process::table(&root).ok() };
                for target in table.iter().flat_map(|_| &targets) {
                    let mut looks = Looks::default();
                    looks.look(&root, table.as_deref().unwrap_or_default(), target.postmaster, &target.cluster_name);
                    lock(&watch).found.push((target.server.clone(), looks));
                }
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

/// Looks added up.
#[derive(Debug, Clone, Default)]
pub struct Looks(BTreeMap<(String, Vec<String>), u64>);

impl Looks {
    /// Adds the processes that sleep so now below a postmaster.
    pub fn look(&mut self, root: &HostRoot, table: &[process::Process], postmaster: i32, cluster_name: &str) {
        for process in process::family(table, postmaster).iter().filter(|process| process.state == 'D') {
            let title = process::command_line(root, process.pid)
                .ok()
                .and_then(|line| server_process::parse_title(&line, cluster_name))
                .map_or("server process", |title| title.role.name());
            let mut stack = process::kernel_stack(root, process.pid);
            stack.truncate(FRAMES);
            self.add(title, stack);
        }
    }

    /// Adds those of others.
    pub fn join(&mut self, looks: Self) {
        for (key, count) in looks.0 {
            *self.0.entry(key).or_default() += count;
        }
    }

    /// Adds one that was seen.
    pub fn add(&mut self, process: &str, stack: Vec<String>) {
        *self.0.entry((process.to_string(), stack)).or_default() += 1;
    }

    /// All of them, most often seen first.
    pub fn all(&self) -> Vec<Stuck> {
        let of = |((process, stack), looks): (&(String, Vec<String>), &u64)| Stuck {
            process: process.clone(),
            stack: stack.clone(),
            looks: *looks,
        };
        let mut all: Vec<Stuck> = self.0.iter().map(of).collect();
        all.sort_by_key(|stuck| std::cmp::Reverse(stuck.looks));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_tells_what_is_waited_for() {
        let stack = |frames: &[&str]| frames.iter().map(|frame| frame.to_string()).collect::<Vec<_>>();
        let journal =
            stack(&["wait_transaction_locked", "add_transaction_credits", "start_this_handle", "ext4_create"]);
        assert_eq!(place(&journal), Place::Journal);
        assert_eq!(place(&stack(&["io_schedule_timeout", "balance_dirty_pages"])), Place::DirtyLimit);
        assert_eq!(place(&stack(&["io_schedule", "shrink_lruvec", "try_to_free_mem_cgroup_pages"])), Place::Reclaim);
        assert_eq!(place(&stack(&["folio_wait_bit", "ext4_sync_file"])), Place::Other);
        let mut looks = Looks::default();
        looks.add("backend", journal.clone());
        looks.add("checkpointer", stack(&["folio_wait_bit"]));
        looks.add("backend", journal);
        assert_eq!((looks.all()[0].looks, looks.all()[0].process.as_str()), (2, "backend"));
    }
}
