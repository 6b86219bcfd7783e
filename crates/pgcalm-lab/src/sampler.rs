use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::cpu_time::CpuTime;
use pgcalm_host::meminfo::MemInfo;
use pgcalm_host::process::Process;
use pgcalm_host::stop::Stop;
use pgcalm_host::{HostRoot, process};
use pgcalm_volume::Counters;

use crate::background::Background;
use crate::contest::report::Blocked;
use crate::volume_process::VolumeReader;

/// Kernel functions kept of a stack.
pub(crate) const STACK_DEPTH: usize = 8;

/// Places of blocking kept in a report.
const BLOCKED_KEPT: usize = 12;

/// The state of the host at the beginning of a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// The second of the epoch that begins.
    pub second: i64,
    /// Dirty and Writeback.
    pub memory: MemInfo,
    /// Counters of the data device; sums if there are several.
    pub data: DeviceStat,
    /// Counters of the WAL device; likewise. `None` where WAL lies with the data.
    pub wal: Option<DeviceStat>,
    /// What the emulated volumes have done; `None` if there are none.
    pub volumes: Option<Volumes>,
    /// Of the whole host.
    pub cpu: CpuTime,
    /// Processes of the cluster in state D.
    pub blocked: u32,
    /// Of the data device in the second before; not known if there are several.
    pub data_in_flight: InFlight,
    /// Of the WAL device; likewise.
    pub wal_in_flight: InFlight,
}

/// Sums over emulated volumes, since they were made.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Volumes {
    /// Seconds for which the machine has held up answers.
    pub held_up_s: f64,
    /// Requests that were answered late.
    pub late: u64,
    /// All reads and writes.
    pub requests: u64,
}

/// Requests that a device was at work on, over some looks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct InFlight {
    sum: u64,
    looks: u64,
    /// The most that were seen.
    pub max: u64,
}

impl InFlight {
    /// Mean of the looks.
    pub(crate) fn mean(&self) -> f64 {
        self.sum as f64 / self.looks.max(1) as f64
    }

    /// Whether there was a look.
    pub(crate) fn is_known(&self) -> bool {
        self.looks > 0
    }

    /// Adds a look.
    pub(crate) fn see(&mut self, requests: u64) {
        self.sum += requests;
        self.looks += 1;
        self.max = self.max.max(requests);
    }
}

/// Where the processes of the cluster were seen blocked, with the number of samples.
type Places = HashMap<(String, Vec<String>), u32>;

/// Takes a [`Sample`] at the beginning of each second, in a thread of its own.
#[derive(Debug)]
pub(crate) struct Sampler {
    latest: Arc<Mutex<Option<Sample>>>,
    thread: Background<(Vec<Sample>, Places)>,
}

impl Sampler {
    /// Starts sampling the devices (none for WAL where that lies with the data) and the processes below `postmaster`.
    pub(crate) fn start(
        root: HostRoot,
        data: Vec<String>,
        wal: Vec<String>,
        volumes: Vec<VolumeReader>,
        postmaster: i32,
    ) -> Self {
        let latest = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&latest);
        let thread = Background::start(move |stop| {
            let mut samples = Vec::new();
            let mut places = Places::new();
            let mut next = now().as_secs() + 1;
            let mut depth = Depth::default();
            while wait_for(next, stop, || depth.look(&root, &data, &wal)) {
                // A reader can fail only when the device or the cluster goes away under it; that second then has
                // no sample, and the run fails by itself.
                let sample = sample(&root, next, &data, &wal, postmaster, &mut places);
                let Depth { data, wal } = std::mem::take(&mut depth);
                if let Ok(sample) = sample {
                    let counters: Vec<_> = volumes.iter().map(|volume| volume.counters().ok()).collect();
                    let volumes = all_together(&counters);
                    let sample = Sample { data_in_flight: data, wal_in_flight: wal, volumes, ..sample };
                    samples.push(sample);
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(sample);
                }
                next = (next + 1).max(now().as_secs());
            }
            (samples, places)
        });
        Self { latest, thread }
    }

    /// The newest sample.
    pub(crate) fn latest(&self) -> Option<Sample> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends sampling and returns all samples, and where processes were seen blocked, most often seen first.
    pub(crate) fn finish(self) -> (Vec<Sample>, Vec<Blocked>) {
        let (samples, places) = self.thread.finish().unwrap_or_default();
        (samples, ranked(places))
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Looks at the queues of both devices.
#[derive(Debug, Default)]
struct Depth {
    data: InFlight,
    wal: InFlight,
}

impl Depth {
    /// Of single devices: looking at a hundred so often would cost what is measured.
    fn look(&mut self, root: &HostRoot, data: &[String], wal: &[String]) {
        for (devices, seen) in [(data, &mut self.data), (wal, &mut self.wal)] {
            // A device that can't be read has no sample either.
            if let [device] = devices
                && let Ok(stat) = DeviceStat::read(root, device)
            {
                seen.see(stat.in_flight);
            }
        }
    }
}

/// Sleeps until `second` of the epoch begins, with a look about twenty times a second; false if sampling is to end.
fn wait_for(second: u64, stop: &Stop, mut look: impl FnMut()) -> bool {
    loop {
        look();
        if stop.is_set() {
            return false;
        }
        let left = Duration::from_secs(second).saturating_sub(now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(Duration::from_millis(50)));
    }
}

fn sample(
    root: &HostRoot,
    second: u64,
    data: &[String],
    wal: &[String],
    postmaster: i32,
    places: &mut Places,
) -> pgcalm_host::Result<Sample> {
    let data = sum(root, data)?;
    let wal = match wal {
        [] => None,
        devices => Some(sum(root, devices)?),
    };
    let memory = MemInfo::read(root)?;
    let cpu = CpuTime::read(root)?;
    let mut blocked = 0;
    for process in process::family(&process::table(root)?, postmaster) {
        if process.state != 'D' {
            continue;
        }
        blocked += 1;
        let name = process::command_line(root, process.pid).map(|line| process_name(&line)).unwrap_or_default();
        let mut stack = process::kernel_stack(root, process.pid);
        stack.truncate(STACK_DEPTH);
        // If it has gone on meanwhile, the stack is of somewhere else.
        if Process::read(root, process.pid).is_ok_and(|now| now.state == 'D') {
            *places.entry((name, stack)).or_default() += 1;
        }
    }
    Ok(Sample {
        second: second as i64,
        memory,
        data,
        wal,
        volumes: None,
        cpu,
        blocked,
        data_in_flight: InFlight::default(),
        wal_in_flight: InFlight::default(),
    })
}

/// Of all or of none: they count since the volumes were made, so a part of them would be less than what was before, and the
/// longest of them would not tell what another adds.
fn all_together(of_each: &[Option<Counters>]) -> Option<Volumes> {
    let mut sum = Volumes::default();
    for counters in of_each {
        let counters = counters.as_ref()?;
        sum.held_up_s += counters.held_up_s;
        sum.late += counters.late;
        sum.requests += counters.reads + counters.writes;
    }
    (!of_each.is_empty()).then_some(sum)
}

fn sum(root: &HostRoot, devices: &[String]) -> pgcalm_host::Result<DeviceStat> {
    let mut sum = DeviceStat { flush_ops: Some(0), ..DeviceStat::default() };
    for device in devices {
        let stat = DeviceStat::read(root, device)?;
        sum.read_ops += stat.read_ops;
        sum.read_bytes += stat.read_bytes;
        sum.write_ops += stat.write_ops;
        sum.write_bytes += stat.write_bytes;
        sum.in_flight += stat.in_flight;
        sum.flush_ops = sum.flush_ops.zip(stat.flush_ops).map(|(a, b)| a + b);
    }
    Ok(sum)
}

fn ranked(places: Places) -> Vec<Blocked> {
    let mut blocked: Vec<Blocked> =
        places.into_iter().map(|((process, stack), samples)| Blocked { process, stack, samples }).collect();
    blocked.sort_by(|a, b| (b.samples, &a.process, &a.stack).cmp(&(a.samples, &b.process, &b.stack)));
    blocked.truncate(BLOCKED_KEPT);
    blocked
}

/// What a process of the cluster is, from the title it gives itself.
pub(crate) fn process_name(command_line: &str) -> String {
    // postgres: checkpointer
    // postgres: postgres postgres [local] INSERT
    match command_line.trim().strip_prefix("postgres: ") {
        Some(title) if title.contains('[') => "client backend".to_string(),
        Some(title) => title.trim().to_string(),
        None => "postmaster".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgcalm_host::fake::FakeHost;

    #[test]
    fn processes_are_named_after_their_role() {
        for (line, name) in [
            ("postgres: checkpointer ", "checkpointer"),
            ("postgres: background writer", "background writer"),
            ("postgres: postgres postgres [local] INSERT waiting", "client backend"),
            ("/usr/lib/postgresql/15/bin/postgres -D /x", "postmaster"),
        ] {
            assert_eq!(process_name(line), name);
        }
    }

    #[test]
    fn what_one_volume_was_held_up_by_before_hides_nothing_of_another() {
        let of = |held_up_s, late| Some(Counters { held_up_s, late, reads: 20, writes: 300, ..Counters::default() });
        let both = Volumes { held_up_s: 4.0, late: 12, requests: 640 };
        assert_eq!(all_together(&[of(3.0, 5), of(1.0, 7)]), Some(both));
        assert_eq!(all_together(&[of(3.0, 5), None]), None);
        assert_eq!(all_together(&[]), None);
    }

    #[test]
    fn a_queue_is_told_by_its_mean_and_by_the_most_that_was_seen() {
        let mut seen = InFlight::default();
        assert_eq!(seen.mean(), 0.0);
        for requests in [0, 128, 4] {
            seen.see(requests);
        }
        assert_eq!((seen.mean(), seen.max), (44.0, 128));
    }

    #[test]
    fn blocked_processes_of_the_cluster_are_counted_with_their_stacks() {
        let root = FakeHost::default();
        root.put("proc/meminfo", "MemTotal: 100 kB\nDirty: 20 kB\nWriteback: 3 kB\n");
        root.put("proc/stat", "cpu  60 0 20 10 5 0 0 5 0 0\n");
        let counters = "1 0 16 0 5 0 80 0 0 0 0 0 0 0 0 3 0\n";
        root.put("sys/block/loop0/stat", counters);
        root.put("sys/block/loop1/stat", counters);
        for (pid, parent, state) in [(10, 1, 'S'), (11, 10, 'D'), (12, 1, 'D')] {
            root.put(
                format!("proc/{pid}/stat"),
                &format!("{pid} (postgres) {state} {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0\n"),
            );
            root.put(format!("proc/{pid}/cmdline"), "postgres: checkpointer \0");
        }
        root.put("proc/11/stack", "[<0>] do_fsync+0x1/0x2\n");
        let mut places = Places::new();
        let sample =
            sample(&root, 7, &["loop0".to_string(), "loop1".to_string()], &["loop1".to_string()], 10, &mut places)
                .unwrap();
        assert_eq!(sample.blocked, 1);
        assert_eq!((sample.cpu.busy, sample.cpu.stolen, sample.cpu.total), (80, 5, 100));
        assert_eq!(sample.data.write_bytes, 2 * 80 * 512);
        assert_eq!(sample.data.flush_ops, Some(6));
        assert_eq!(sample.wal.unwrap().write_bytes, 80 * 512);
        assert_eq!(
            ranked(places),
            [Blocked { process: "checkpointer".into(), stack: vec!["do_fsync".into()], samples: 1 }]
        );
    }
}
