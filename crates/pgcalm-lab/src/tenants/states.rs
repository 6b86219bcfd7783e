//! What the servers' processes do, second by second: run, sleep, or wait in the kernel, and where there.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgcalm_host::{HostRoot, process};

use crate::background::Background;
use crate::sampler::process_name;
use crate::tenants::report::{Role, Wait};

/// Functions of a stack by which two waits are told apart: enough to see who waits for what.
const DEPTH: usize = 5;

/// Places of waiting that are kept of a role: uninterruptible, and others.
const WAITS: [usize; 2] = [2, 1];

/// Of this thread: a hundred groups have as much of the processors each as the rest of the host has for itself.
const NICE: i32 = -20;

/// Of one second: the role, the state's letter, the stack, and how many.
pub(super) type Tally = HashMap<(String, char, Vec<String>), u32>;

/// A look at all of them at the beginning of each second, in a thread of its own.
pub(super) struct States(Background<BTreeMap<i64, Tally>>);

impl States {
    /// Of the servers below this process.
    pub(super) fn start(root: HostRoot) -> Self {
        let own = std::process::id() as i32;
        Self(Background::start(move |stop| {
            // Without it there are fewer looks.
            let _ = rustix::process::setpriority_process(None, NICE);
            let mut seconds = BTreeMap::new();
            let mut roles = HashMap::new();
            let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            while !stop.is_set() {
                let second = now().as_secs() as i64;
                seconds.entry(second).or_insert_with(|| look(&root, own, &mut roles).unwrap_or_default());
                let left = Duration::from_secs(second as u64 + 1).saturating_sub(now());
                thread::sleep(left.min(Duration::from_millis(50)));
            }
            seconds
        }))
    }

    /// What was seen, by the second of the epoch.
    pub(super) fn finish(self) -> BTreeMap<i64, Tally> {
        self.0.finish().unwrap_or_default()
    }
}

fn look(root: &HostRoot, ancestor: i32, roles: &mut HashMap<(i32, u64), String>) -> pgcalm_host::Result<Tally> {
    let mut tally = Tally::new();
    for process in process::family(&process::table(root)?, ancestor) {
        let role = match roles.entry((process.pid, process.start_ticks)) {
            Entry::Occupied(known) => known.into_mut(),
            // A process that was just started, a postmaster and a client have no such title; the first gets one yet.
            Entry::Vacant(new) => match process::command_line(root, process.pid) {
                Ok(line) if line.starts_with("postgres: autovacuum worker") => {
                    new.insert("autovacuum worker".to_string())
                }
                Ok(line) if line.starts_with("postgres: ") => new.insert(process_name(&line)),
                _ => continue,
            },
        };
        let mut stack = match process.state {
            'D' | 'S' => process::kernel_stack(root, process.pid),
            _ => Vec::new(),
        };
        // Which call it was, the functions below tell.
        stack.retain(|function| {
            !["do_syscall", "entry_SYSCALL", "__x64_sys"].iter().any(|way| function.starts_with(way))
        });
        stack.truncate(DEPTH);
        *tally.entry((role.clone(), process.state, stack)).or_default() += 1;
    }
    Ok(tally)
}

/// Each role in the chosen seconds, those that are blocked most first.
pub(super) fn roles(seconds: &BTreeMap<i64, Tally>, chosen: &[i64]) -> Vec<Role> {
    type Waits<'a> = HashMap<(char, &'a [String]), u32>;
    let mut all: BTreeMap<&str, (Role, Waits<'_>)> = BTreeMap::new();
    for ((name, state, stack), count) in chosen.iter().filter_map(|second| seconds.get(second)).flatten() {
        let (role, waits) = all.entry(name).or_default();
        role.samples += count;
        match state {
            'D' => role.blocked += count,
            'R' => role.running += count,
            _ => role.sleeping += count,
        }
        if !stack.is_empty() {
            *waits.entry((*state, stack)).or_default() += count;
        }
    }
    let mut roles: Vec<Role> = all
        .into_iter()
        .map(|(name, (role, waits))| {
            let mut waits: Vec<Wait> = waits
                .into_iter()
                .map(|((state, stack), samples)| Wait { blocked: state == 'D', stack: stack.to_vec(), samples })
                .collect();
            waits.sort_by(|a, b| (b.blocked, b.samples, &a.stack).cmp(&(a.blocked, a.samples, &b.stack)));
            let mut left = WAITS;
            waits.retain(|wait| {
                let left = &mut left[usize::from(!wait.blocked)];
                let kept = *left > 0;
                *left = left.saturating_sub(1);
                kept
            });
            Role { name: name.to_string(), waits, ..role }
        })
        .collect();
    let part = |role: &Role| f64::from(role.blocked) / f64::from(role.samples);
    roles.sort_by(|a, b| part(b).total_cmp(&part(a)));
    roles
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn roles_are_told_by_state_and_by_where_they_wait_in_the_chosen_seconds() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        let process = |pid: i32, parent: i32, state: char, line: &str, stack: &str| {
            let proc = root.path(format!("proc/{pid}"));
            fs::create_dir_all(&proc).unwrap();
            let stat = format!("{pid} (x) {state} {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0\n");
            fs::write(proc.join("stat"), stat).unwrap();
            fs::write(proc.join("cmdline"), line).unwrap();
            fs::write(proc.join("stack"), stack).unwrap();
        };
        process(1, 0, 'S', "pgcalm", "");
        process(10, 1, 'D', "/usr/lib/postgresql/15/bin/postgres -D x", "");
        process(
            11,
            10,
            'D',
            "postgres: checkpointer ",
            "[<0>] start_this_handle+0x1/0x2\n[<0>] do_syscall_64+0x1/0x2\n",
        );
        process(12, 10, 'S', "postgres: a b [local] INSERT", "[<0>] ep_poll+0x1/0x2\n");
        process(13, 10, 'R', "postgres: a b [local] INSERT", "");
        process(14, 1, 'D', "pgbench", "");
        let mut known = HashMap::new();
        let first = look(&root, 1, &mut known).unwrap();
        process(11, 10, 'S', "postgres: checkpointer ", "[<0>] ep_poll+0x1/0x2\n");
        let seconds = BTreeMap::from([(7, first), (8, look(&root, 1, &mut known).unwrap())]);

        let both = roles(&seconds, &[7, 8, 9]);
        let names: Vec<&str> = both.iter().map(|role| role.name.as_str()).collect();
        assert_eq!(names, ["checkpointer", "client backend"]);
        let counts = |role: &Role| [role.samples, role.blocked, role.sleeping, role.running];
        assert_eq!((counts(&both[0]), counts(&both[1])), ([2, 1, 1, 0], [4, 0, 2, 2]));
        let stack = vec!["start_this_handle".to_string()];
        assert_eq!(both[0].waits[0], Wait { blocked: true, stack, samples: 1 });
        assert_eq!(counts(&roles(&seconds, &[8])[0]), [1, 0, 1, 0]);
    }
}
