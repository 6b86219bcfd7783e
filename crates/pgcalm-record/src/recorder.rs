//! `pgcalm record`: samples go into a ring in memory, and a thread of its own writes them out.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pgcalm_monitor::Monitor;
use pgcalm_monitor::model::{Host, Reachability};
use rustix::mm::MlockAllFlags;

use crate::detect::Detector;
use crate::incident::{GOES_ON, Incident};
use crate::place;
use crate::sampler::Sampler;
use crate::store::{Item, Limits, Packer, Reader, Writer};
use crate::stuck::Looker;

/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// What is in the ring is written after this time, so that a disk gets few writes; incidents at once.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// Between attempts to write, while the disk takes nothing.
const RETRY: Duration = Duration::from_secs(10);

/// What goes on is written at this interval.
const GOING_ON_INTERVAL: Duration = Duration::from_secs(30);

/// What is too old or too much is removed at this interval.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);

/// What the ring may hold while nothing can be written: some minutes of ten instances, most of an hour of one.
const RING_BYTES: usize = 8 << 20;

/// What it may hold of incidents alone: hundreds.
const RING_BYTES_OF_INCIDENTS: usize = 2 * RING_BYTES;

/// At the start, so much of the record's end is judged again: a recorder that was killed has not told of what went on, and a host
/// that is reset comes back minutes later. Of a server that hung at the end, what was before that, too; but no more than is kept each
/// second.
const LOOK_BACK_MS: u64 = 600_000;
const MOST_BACK_MS: u64 = 3_600_000;

/// What ended so long before the record's end was judged by the recorder that saw it, which knew more than is recorded: it is told
/// already, or was no stall.
const JUDGED_MS: u64 = 120_000;

/// Judged by less of what was before, one that is known may seem to begin or end a second sooner or later.
const SAME_MS: u64 = 3000;

/// By so much each time that the record is tidied, the time it goes by comes nearer to a clock that has jumped ahead.
const STEP_MS: u64 = 600_000;

/// What is recorded, and where to.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of the store.
    pub directory: PathBuf,
    /// How much is kept.
    pub limits: Limits,
    /// Whether the directory may be on a device of a server.
    pub same_device: bool,
    /// What is watched.
    pub monitor: pgcalm_monitor::Options,
}

/// Records until `stop` says so. `say` is told what goes wrong, once for each reason.
///
/// # Errors
///
/// [`pgcalm_host::Failure::Usage`] for a directory on a device of a server; or that the store can't be used at the start.
/// What fails later ends nothing: the ring keeps what it can.
pub fn run(options: Options, stop: &dyn Fn() -> bool, say: fn(&str)) -> anyhow::Result<()> {
    let root = options.monitor.root.clone();
    if !options.same_device {
        place::check(&root, &options.directory)?;
    }
    let writer = Writer::open(&options.directory, options.limits)?;
    let mut detector = Detector::default();
    let ring = Arc::new(Ring::default());
    let known = judge_again(&options.directory, &mut detector, &ring, say);
    // A second for the connections to come is lost to the first sample in any case.
    let monitor = Monitor::start(pgcalm_monitor::Options { history: None, ..options.monitor })?;
    lock_memory(say);
    let thread = WriterThread::start(Arc::clone(&ring), writer, say)?;
    say(&format!("pgcalm record: {}", options.directory.display()));
    let looker = Looker::start(root.clone())?;
    let mut sampler = Sampler::new(root);
    let mut told = String::new();
    let mut packer = Packer::default();
    let mut last = 0;
    let mut going_on = Instant::now();
    while !stop() {
        let Some(host) = monitor.wait_for(LOOK, |host| host.time_ms != last) else { continue };
        last = host.time_ms;
        tell_missing(&host, &mut told, say);
        detector.add_looks(&looker.take());
        detector.add_samples(|server| sampler.samples(server));
        let step = detector.push(&host);
        let targets = detector.targets();
        sampler.follow(&targets);
        looker.watch(targets);
        match packer.pack(&host) {
            Ok(items) => items.into_iter().for_each(|item| ring.push(item)),
            Err(error) => say(&format!("pgcalm record: a sample can't be kept: {error:#}")),
        }
        for (server, second, bad) in step.seconds {
            ring.push(Item::Second(server, Box::new(second), bad));
        }
        push_new(step.incidents, &known, &ring);
        if going_on.elapsed() >= GOING_ON_INTERVAL {
            push_new(detector.tell_long(), &known, &ring);
            going_on = Instant::now();
        }
    }
    push_new(detector.finish(), &known, &ring);
    thread.finish(say);
    Ok(())
}

/// Gives the detector the last minutes of the record: what is usual is known at once, and what went on when the recorder was killed
/// is an incident. Gives those that are in the record.
fn judge_again(directory: &Path, detector: &mut Detector, ring: &Ring, say: fn(&str)) -> Vec<Incident> {
    let read = Reader::open(directory).and_then(|reader| {
        let Some(until) = reader.last(now_ms())? else { return Ok(Vec::new()) };
        let mut hung = 0.0_f64;
        reader.samples(until, until, |host| {
            hung = host.instances.iter().map(|instance| hung_for(&instance.reachability)).fold(hung, f64::max);
        })?;
        let from = until.saturating_sub((LOOK_BACK_MS + (hung * 1000.0) as u64).min(MOST_BACK_MS));
        let known = reader.incidents(from)?;
        // Of which the recorder that wrote them has not seen the end. It may be judged to be later yet.
        for incident in known.iter().filter(|known| known.ended_by.as_deref() == Some(GOES_ON)) {
            let ended_by = Some("recorder_gap".to_string());
            ring.push(Item::Incident(Box::new(Incident { ended_by, ..incident.clone() })));
        }
        reader.samples(from, until, |host| {
            let mut found = detector.push(&host).incidents;
            found.retain(|incident| incident.ended_ms + JUDGED_MS >= until);
            push_new(found, &known, ring);
        })?;
        Ok(known)
    });
    read.unwrap_or_else(|error| {
        say(&format!("pgcalm record: what was recorded before is not looked at again: {error}"));
        Vec::new()
    })
}

fn hung_for(reachability: &Reachability) -> f64 {
    if let Reachability::Hung { seconds } = reachability { *seconds } else { 0.0 }
}

/// Adds those that the record did not have at the start, or not to their end.
fn push_new(incidents: Vec<Incident>, known: &[Incident], ring: &Ring) {
    for mut incident in incidents {
        let same = |other: &&Incident| {
            other.server == incident.server
                && other.started_ms <= incident.ended_ms
                && incident.started_ms <= other.ended_ms
        };
        if let Some(known) = known.iter().find(same) {
            if incident.ended_ms <= known.ended_ms + SAME_MS {
                continue;
            }
            // It goes on, and is written over that one.
            incident.seconds += (incident.started_ms as f64 - known.started_ms as f64) / 1000.0;
            incident.started_ms = known.started_ms;
            // Judged without what was usual, it tells less than that one does already.
            if incident.usual_commits_per_second.is_none() && known.usual_commits_per_second.is_some() {
                let Incident { seconds, ended_ms, ended_by, .. } = incident;
                incident = Incident { seconds, ended_ms, ended_by, ..known.clone() };
            }
        }
        ring.push(Item::Incident(Box::new(incident)));
    }
}

/// So that nothing of this process has to be read from a disk that hangs, or is swapped out.
fn lock_memory(say: fn(&str)) {
    // Pages count when they are touched: stacks of threads are large and hardly used.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = rustix::mm::mlockall(flags) {
        say(&format!(
            "pgcalm record: its memory is not locked ({error}), and may have to be read from a disk: run it as root, or give it \
             LimitMEMLOCK=infinity"
        ));
    }
}

/// What is missing of the picture, once for each that is.
fn tell_missing(host: &Host, told: &mut String, say: fn(&str)) {
    let of_instances = host.instances.iter().flat_map(|instance| {
        let named = |missing: &pgcalm_monitor::model::Missing| (Some(instance.identity.name.clone()), missing.clone());
        instance.missing.iter().map(named).collect::<Vec<_>>()
    });
    let missing = host.missing.iter().map(|missing| (None, missing.clone())).chain(of_instances);
    for (server, missing) in missing {
        // A reason may tell a number that changes with each sample.
        let key = format!("\n{}:{}\n", server.as_deref().unwrap_or(""), missing.subject.name());
        if told.contains(&key) {
            continue;
        }
        told.push_str(&key);
        let server = server.map_or("the host".to_string(), |server| format!("instance {server}"));
        let remedy = missing.remedy.map_or(String::new(), |remedy| format!("; {remedy}"));
        let what = missing.subject.name();
        say(&format!("pgcalm record: {server} is recorded, but without {what}: {}{remedy}", missing.reason));
    }
}

/// What waits to be written.
#[derive(Default)]
struct Ring {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    bytes: usize,
    /// Samples, seconds and incidents for which there was no room.
    lost: u64,
    urgent: bool,
    stop: bool,
}

impl Ring {
    /// Adds one. Never waits for a disk: who has the lock does nothing but move items.
    fn push(&self, item: Item) {
        let mut queue = self.lock();
        queue.urgent |= matches!(item, Item::Incident(_));
        queue.add(item);
        if queue.urgent {
            self.wake.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Adds one; an incident that is given again replaces what waits of it.
    fn add(&mut self, item: Item) {
        if let Item::Incident(new) = &item {
            let key = |incident: &Incident| (incident.server.clone(), incident.started_ms);
            let key_of_new = key(new);
            self.remove(|item| matches!(item, Item::Incident(old) if key(old) == key_of_new));
        }
        self.bytes += size(&item);
        self.items.push_back(item);
        while self.bytes > RING_BYTES && self.drop_oldest() {
            self.lost += 1;
        }
    }

    /// Drops the oldest sample or second, and incidents when these alone are too much; what samples are read with stays. False if
    /// there is none.
    fn drop_oldest(&mut self) -> bool {
        self.remove(|item| matches!(item, Item::Sample { .. } | Item::Second(..)))
            || self.bytes > RING_BYTES_OF_INCIDENTS && self.remove(|item| matches!(item, Item::Incident(_)))
    }

    fn remove(&mut self, which: impl Fn(&Item) -> bool) -> bool {
        let item = self.items.iter().position(which).and_then(|at| self.items.remove(at));
        self.bytes -= item.as_ref().map_or(0, size);
        item.is_some()
    }
}

/// Of an item, roughly.
fn size(item: &Item) -> usize {
    match item {
        Item::Dictionary { json, .. } => json.len() + 64,
        Item::Sample { packed, .. } => packed.len() + 64,
        Item::Second(_, second, _) => {
            1000 + 80 * (second.events.len() + second.waits.len() + second.standbys.len() + second.maintenance.len())
        }
        Item::Incident(incident) => 40_000 + 120 * incident.timeline.len(),
    }
}

/// Writes what is in the ring.
struct WriterThread {
    ring: Arc<Ring>,
    thread: JoinHandle<()>,
}

impl WriterThread {
    fn start(ring: Arc<Ring>, mut writer: Writer, say: fn(&str)) -> anyhow::Result<Self> {
        let ours = Arc::clone(&ring);
        let thread = thread::Builder::new()
            .name("pgcalm writer".to_string())
            .spawn(move || write_out(&ours, &mut writer, say))
            .context("start a thread")?;
        Ok(Self { ring, thread })
    }

    /// Writes what is left, and ends; but not for long where the disk hangs.
    fn finish(self, say: fn(&str)) {
        self.ring.lock().stop = true;
        self.ring.wake.notify_all();
        let end = Instant::now() + RETRY;
        while !self.thread.is_finished() && Instant::now() < end {
            thread::sleep(LOOK / 4);
        }
        if !self.thread.is_finished() || !self.ring.lock().items.is_empty() {
            say("pgcalm record: ends before all is written: what the disk has not taken is lost");
        }
    }
}

fn write_out(ring: &Ring, writer: &mut Writer, say: fn(&str)) {
    let mut said = String::new();
    let mut pause = WRITE_INTERVAL;
    let mut tidied: Option<Instant> = None;
    let mut clock = Clock::new();
    loop {
        let queue = ring.lock();
        let waits = |queue: &mut Queue| !(queue.stop || queue.urgent && pause == WRITE_INTERVAL);
        let (mut queue, _) = ring.wake.wait_timeout_while(queue, pause, waits).unwrap_or_else(PoisonError::into_inner);
        let (stop, lost) = (queue.stop, std::mem::take(&mut queue.lost));
        queue.urgent = false;
        let items: Vec<Item> = queue.items.drain(..).collect();
        queue.bytes = 0;
        drop(queue);
        let mut outcome = writer.write(&items);
        if outcome.is_err() {
            put_back(ring, items, lost);
        } else if tidied.is_none_or(|when| when.elapsed() >= TIDY_INTERVAL) {
            outcome = writer.tidy(clock.now_ms());
            tidied = Some(Instant::now());
        }
        let problem = outcome.as_ref().err().map_or_else(String::new, ToString::to_string);
        if problem != said && !problem.is_empty() {
            say(&format!("pgcalm record: {problem}; what is not written yet stays in memory"));
        }
        // A write that hangs does not fail, but the ring may have had no room meanwhile.
        if outcome.is_ok() && (lost > 0 || !said.is_empty()) {
            let lost =
                if lost > 0 { format!(", but for {lost} samples, seconds and incidents") } else { String::new() };
            say(&format!("pgcalm record: writes again, and all that was kept in memory{lost}"));
        }
        pause = if outcome.is_ok() { WRITE_INTERVAL } else { RETRY };
        said = problem;
        if stop {
            return;
        }
    }
}

/// What could not be written is before what has come since.
fn put_back(ring: &Ring, items: Vec<Item>, lost: u64) {
    let mut queue = ring.lock();
    let newer = std::mem::take(&mut queue.items);
    queue.bytes = 0;
    queue.lost += lost;
    items.into_iter().chain(newer).for_each(|item| queue.add(item));
}

/// The wall clock, but after one that jumps ahead by [`STEP_MS`] a look: all of the record must not look too old at once, while
/// somebody may still set the clock right.
struct Clock {
    wall_ms: u64,
    steady: Instant,
}

impl Clock {
    fn new() -> Self {
        Self { wall_ms: now_ms(), steady: Instant::now() }
    }

    fn now_ms(&mut self) -> u64 {
        let steady = self.wall_ms + self.steady.elapsed().as_millis() as u64;
        let wall = now_ms();
        // Set back, or slewed: that is the time from now on.
        if wall < steady {
            *self = Self::new();
            return self.wall_ms;
        }
        let step = (wall - steady).min(STEP_MS);
        self.wall_ms += step;
        steady + step
    }
}

/// This moment: milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

#[cfg(test)]
mod tests;
