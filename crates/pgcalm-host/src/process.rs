//! The process table: state, parent, command line, kernel stack.

use std::fs;
use std::path::PathBuf;

use crate::{Error, HostRoot, Result};

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Parent's process id.
    pub parent: i32,
    /// State letter, `D` being uninterruptible sleep.
    pub state: char,
    /// Start in clock ticks since boot; with the pid it names a process for good.
    pub start_ticks: u64,
    /// Clock ticks of CPU time, its own.
    pub cpu_ticks: u64,
    /// That of the children that it has waited for, and of theirs.
    pub children_cpu_ticks: u64,
}

impl Process {
    /// Reads /proc/PID/stat.
    pub fn read(root: &HostRoot, pid: i32) -> Result<Self> {
        let path = format!("proc/{pid}/stat");
        let text = root.read(&path)?;
        parse_stat(&text).ok_or_else(|| Error::Format {
            path: root.path(&path),
            expected: "a process status line",
            found: text,
        })
    }

    /// Whether it has ended and only waits for its parent to notice.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// All processes; those that end while the table is read are left out, and those that may not be read, as other users' where
/// /proc is mounted with hidepid=1.
pub fn table(root: &HostRoot) -> Result<Vec<Process>> {
    let mut processes = Vec::new();
    for name in root.list("proc")? {
        let Ok(pid) = name.parse() else { continue };
        match Process::read(root, pid) {
            Ok(process) => processes.push(process),
            Err(Error::Read { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(processes)
}

/// `ancestor` and everything below it.
pub fn family(table: &[Process], ancestor: i32) -> Vec<Process> {
    let mut pids = vec![ancestor];
    let mut next = 0;
    while next < pids.len() {
        let parent = pids[next];
        pids.extend(
            table.iter().filter(|process| process.parent == parent && process.pid != parent).map(|process| process.pid),
        );
        next += 1;
    }
    table.iter().filter(|process| pids.contains(&process.pid)).cloned().collect()
}

/// Command line; arguments are separated by spaces.
pub fn command_line(root: &HostRoot, pid: i32) -> Result<String> {
    let text = root.read(format!("proc/{pid}/cmdline"))?;
    Ok(text.trim_end_matches('\0').replace('\0', " "))
}

/// The working directory, or `None` if the process has ended or may not be looked at.
pub fn working_directory(root: &HostRoot, pid: i32) -> Option<PathBuf> {
    fs::read_link(root.path(format!("proc/{pid}/cwd"))).ok()
}

/// The program file, or `None` if the process has ended or may not be looked at.
pub fn executable(root: &HostRoot, pid: i32) -> Option<PathBuf> {
    fs::read_link(root.path(format!("proc/{pid}/exe"))).ok()
}

/// Kernel functions that the process sleeps in, innermost first; empty where the kernel doesn't tell.
pub fn kernel_stack(root: &HostRoot, pid: i32) -> Vec<String> {
    let Ok(text) = root.read(format!("proc/{pid}/stack")) else { return Vec::new() };
    text.lines().filter_map(parse_frame).collect()
}

/// The function that the process sleeps in, for whoever may not read its stack; `None` where the kernel doesn't tell.
pub fn wait_channel(root: &HostRoot, pid: i32) -> Option<String> {
    let name = root.read(format!("proc/{pid}/wchan")).ok()?;
    (!name.is_empty() && name != "0").then_some(name)
}

/// How often the process has gone to sleep so far: one that has the same number again has not been awake in between.
pub fn sleeps(root: &HostRoot, pid: i32) -> Option<u64> {
    let text = root.read(format!("proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
}

/// Whether the process has memory in huge pages (`HugetlbPages`, proc_pid_status(5)).
pub fn has_huge_pages(root: &HostRoot, pid: i32) -> bool {
    let text = root.read(format!("proc/{pid}/status")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("HugetlbPages:")).is_some_and(|amount| amount.trim() != "0 kB")
}

/// Whether any task of the host waits for I/O at this moment; true where the kernel doesn't tell.
pub fn any_waits_for_io(root: &HostRoot) -> bool {
    let text = root.read("proc/stat").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("procs_blocked ")).is_none_or(|count| count.trim() != "0")
}

fn parse_frame(line: &str) -> Option<String> {
    // [<0>] folio_wait_bit_common+0x120/0x2a0
    let (_, symbol) = line.split_once("] ")?;
    // Without what the compiler adds to copies of a function, such as .constprop.0.
    let name = symbol.split(['+', ' ', '.']).next()?;
    (!name.is_empty()).then(|| name.to_string())
}

fn parse_stat(text: &str) -> Option<Process> {
    // The name stands in parentheses and may itself hold spaces and parentheses.
    let (pid, rest) = text.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Process {
        pid: pid.parse().ok()?,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
        cpu_ticks: sum(fields.get(11..13)?)?,
        children_cpu_ticks: sum(fields.get(13..15)?)?,
    })
}

fn sum(fields: &[&str]) -> Option<u64> {
    let values = fields.iter().map(|field| field.parse::<u64>().ok());
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    fn stat(pid: i32, name: &str, state: char, parent: i32) -> String {
        format!("{pid} ({name}) {state} {parent} 1 1 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 98765 1 2 3\n")
    }

    fn fake(processes: &[(i32, &str, char, i32)]) -> FakeHost {
        let host = FakeHost::default();
        host.make("proc/sys");
        for (pid, name, state, parent) in processes {
            host.put(format!("proc/{pid}/stat"), &stat(*pid, name, *state, *parent));
        }
        host
    }

    #[test]
    fn a_process_that_may_not_be_read_leaves_the_others() {
        let root = FakeHost::default();
        let stat = "7 (postgres) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0\n";
        // A directory can't be read as a file, whoever tries.
        root.make("proc/6/stat");
        root.put("proc/7/stat", stat);
        let pids: Vec<i32> = table(&root).unwrap().iter().map(|p| p.pid).collect();
        assert_eq!(pids, [7]);
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let process = parse_stat(&stat(7, "a) D (b", 'S', 3)).unwrap();
        assert_eq!(
            process,
            Process { pid: 7, parent: 3, state: 'S', start_ticks: 98765, cpu_ticks: 3, children_cpu_ticks: 0 }
        );
    }

    #[test]
    fn family_holds_descendants_and_nothing_else() {
        let root = fake(&[
            (1, "init", 'S', 0),
            (10, "postgres", 'S', 1),
            (11, "postgres", 'D', 10),
            (12, "postgres", 'S', 11),
            (20, "other", 'D', 1),
        ]);
        let table = table(&root).unwrap();
        let pids: Vec<i32> = family(&table, 10).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [10, 11, 12]);
    }

    #[test]
    fn reads_stack_and_command_line() {
        let root = fake(&[(5, "postgres", 'D', 1)]);
        let stack = "[<0>] folio_wait_bit_common+0x120/0x2a0\n[<0>] __mutex_lock.constprop.0+0x5/0x9\n\
                     [<0>] do_fsync+0x38/0x60\n[<0>] 0xffffffff\n";
        root.put("proc/5/stack", stack);
        root.put("proc/5/cmdline", "postgres: checkpointer \0\0");
        assert_eq!(kernel_stack(&root, 5), ["folio_wait_bit_common", "__mutex_lock", "do_fsync", "0xffffffff"]);
        assert_eq!(command_line(&root, 5).unwrap(), "postgres: checkpointer ");
        assert!(kernel_stack(&root, 6).is_empty());
        root.put("proc/5/wchan", "folio_wait_bit_common");
        root.put("proc/5/status", "Name:\tpostgres\nvoluntary_ctxt_switches:\t150\n");
        assert_eq!((wait_channel(&root, 5).as_deref(), sleeps(&root, 5)), (Some("folio_wait_bit_common"), Some(150)));
        assert_eq!((wait_channel(&root, 6), sleeps(&root, 6)), (None, None));
        assert!(any_waits_for_io(&root), "it is not told");
        for (count, waits) in [(0, false), (2, true)] {
            root.put("proc/stat", &format!("cpu 1 2\nprocs_blocked {count}\n"));
            assert_eq!(any_waits_for_io(&root), waits);
        }
        assert!(command_line(&root, 6).unwrap_err().is_not_found());
    }
}
