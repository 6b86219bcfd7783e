use pgcalm_host::fake::FakeHost;

use super::*;

fn stack(frames: &[&str]) -> Vec<String> {
    frames.iter().map(std::string::ToString::to_string).collect()
}

#[test]
fn a_stack_tells_what_is_waited_for() {
    let journal = stack(&["wait_transaction_locked", "add_transaction_credits", "start_this_handle", "ext4_create"]);
    assert_eq!(told(&journal), (Place::Journal, "wait_transaction_locked", Some("ext4 journal (jbd2)")));
    assert_eq!(place(&stack(&["io_schedule_timeout", "balance_dirty_pages"])), Place::DirtyLimit);
    // Whatever memory is reclaimed for.
    let reclaim = stack(&["io_schedule", "shrink_lruvec", "try_to_free_mem_cgroup_pages", "start_this_handle"]);
    assert_eq!(told(&reclaim), (Place::Reclaim, "shrink_lruvec", Some("reclaim of memory")));
    assert_eq!(told(&stack(&["folio_wait_bit", "ext4_sync_file"])), (Place::Other, "folio_wait_bit", None));
    assert_eq!(told(&[]), (Place::Other, "", None));
}

#[test]
fn time_adds_up_by_stack_and_by_function() {
    let mut looks = Looks::default();
    let commit = |caller: &str| stack(&["jbd2_log_wait_commit", caller]);
    for _ in 0..3 {
        looks.add("client backend", stack(&["folio_wait_bit"]));
    }
    for caller in ["ext4_sync_file", "ext4_sync_file", "ext4_create", "ext4_create"] {
        looks.add("checkpointer", commit(caller));
    }
    let mut all = Looks::default();
    all.join(&looks);
    assert_eq!((all.all()[0].process.as_str(), all.all()[0].seconds), ("client backend", 1.5));
    let sums = by_function(&all.all());
    let first = &sums[0];
    assert_eq!((first.process.as_str(), first.function.as_str()), ("checkpointer", "jbd2_log_wait_commit"));
    assert_eq!((first.seconds, sums.len()), (2.0, 2));
}

/// A host with a postmaster, 10, and its children.
struct Made(FakeHost);

impl Made {
    fn new() -> Self {
        let made = Self(FakeHost::default());
        made.blocked(1);
        made.process(10, 1, "postgres -D /data", 'S', 1);
        made
    }

    fn blocked(&self, tasks: u32) {
        self.0.put("proc/stat", &format!("procs_blocked {tasks}\n"));
    }

    fn process(&self, pid: i32, parent: i32, title: &str, state: char, sleeps: u64) {
        let zeros = "0 ".repeat(17);
        self.0.put(format!("proc/{pid}/stat"), &format!("{pid} (postgres) {state} {parent} {zeros}77 0\n"));
        self.0.put(format!("proc/{pid}/cmdline"), title);
        self.0.put(format!("proc/{pid}/status"), &format!("voluntary_ctxt_switches:\t{sleeps}\n"));
        self.0.put(format!("proc/{pid}/stack"), "[<0>] jbd2_log_wait_commit+0x1/0x2\n");
    }
}

const BACKEND: &str = "postgres: app shop [local] COMMIT";

fn target(held: bool) -> [Target; 1] {
    [Target { server: "5432".to_string(), postmaster: 10, cluster_name: String::new(), held }]
}

/// What two looks half a second apart find, with `between` done in between: users that hang, and kinds of processes.
fn two_looks(made: &Made, between: impl Fn()) -> (u64, Vec<String>) {
    let mut asleep = Asleep::default();
    let begin = Instant::now();
    let first = asleep.look(&made.0, &target(false), begin);
    assert!(first.iter().all(|(_, looks)| looks.users == 0), "one look tells of no time");
    between();
    let second = asleep.look(&made.0, &target(false), begin + INTERVAL);
    let Some((_, looks)) = second.first() else { return (0, Vec::new()) };
    (looks.users, looks.all().into_iter().map(|stuck| stuck.process).collect())
}

#[test]
fn a_backend_that_does_not_come_out_of_its_sleep_holds_users_and_the_checkpointer_does_not() {
    let made = Made::new();
    made.process(11, 10, "postgres: checkpointer", 'D', 5);
    assert_eq!(two_looks(&made, || ()), (0, vec!["checkpointer".to_string()]));
    made.process(12, 10, BACKEND, 'D', 5);
    assert_eq!(two_looks(&made, || ()).0, 1);
    made.process(13, 10, "postgres: walwriter", 'D', 5);
    assert_eq!(two_looks(&made, || ()).0, 2);
    // It was awake in between: many short sleeps are no long one.
    assert_eq!(two_looks(&made, || made.process(12, 10, BACKEND, 'D', 6)).0, 1);
    assert_eq!(two_looks(&made, || made.process(12, 10, BACKEND, 'S', 6)).0, 1);
    // Another one with the same number below another parent.
    made.process(12, 10, BACKEND, 'D', 5);
    assert_eq!(two_looks(&made, || made.process(12, 9, BACKEND, 'D', 5)).0, 1);
}

#[test]
fn nothing_is_read_while_nobody_waits_for_io_unless_users_are_known_to_be_held() {
    let made = Made::new();
    made.process(12, 10, BACKEND, 'D', 5);
    made.blocked(0);
    let look = |held| Asleep::default().look(&made.0, &target(held), Instant::now());
    assert_eq!((look(false).len(), look(true).len()), (0, 1));
    assert_eq!(two_looks(&made, || made.blocked(1)).0, 0, "nobody saw when it began");
}
