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
        reader.samples(from, until, |host| push_new(detector.push(&host).incidents, &known, ring))?;
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
        let server = server.map_or(String::new(), |server| format!("instance {server}: "));
        let remedy = missing.remedy.map_or(String::new(), |remedy| format!("; {remedy}"));
        say(&format!("pgcalm record: {server}not recorded: {}: {}{remedy}", missing.subject.name(), missing.reason));
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
mod tests {
    use pgcalm_monitor::model::{Activity, Connections, Identity, Instance, Rates, Wait, WaitCause};

    use super::*;
    use crate::incident::Cause;
    use crate::second::Second;
    use crate::store::tests::{NOW, incident};

    fn incidents(ring: &Ring) -> Vec<Incident> {
        let queue = ring.lock();
        let of = |item: &Item| if let Item::Incident(incident) = item { Some((**incident).clone()) } else { None };
        queue.items.iter().filter_map(of).collect()
    }

    #[test]
    fn an_incident_that_went_on_over_a_restart_is_the_one_that_is_known() {
        let known = [incident(NOW, Cause::LockPileUp)];
        let later = |ms, server: &str, ended_ms| Incident {
            server: server.to_string(),
            ended_ms: NOW + ended_ms,
            ..incident(NOW + ms, Cause::Unknown)
        };
        let ring = Ring::default();
        push_new(vec![later(1000, "5432", 6000), later(1000, "5432", 60_000)], &known, &ring);
        push_new(vec![later(1000, "5433", 6000), later(6000, "5432", 9000)], &known, &ring);
        let written: Vec<_> = incidents(&ring).iter().map(|it| (it.started_ms - NOW, it.seconds)).collect();
        assert_eq!(written, [(0, 7.0), (1000, 6.0), (6000, 6.0)]);
    }

    #[test]
    fn one_that_went_on_when_the_recorder_was_killed_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits { keep: Duration::from_secs(86_400), bytes: Limits::LEAST_BYTES };
        let started_ms = now_ms() - 60_000;
        let goes_on = Incident { ended_by: Some(GOES_ON.to_string()), ..incident(started_ms, Cause::VolumeHung) };
        let mut items = Packer::default().pack(&Host { time_ms: goes_on.ended_ms, ..Host::default() }).unwrap();
        items.push(Item::Incident(Box::new(goes_on)));
        Writer::open(directory.path(), limits).unwrap().write(&items).unwrap();
        let ring = Ring::default();
        let known = judge_again(directory.path(), &mut Detector::default(), &ring, |line| panic!("{line}"));
        let ends = || incidents(&ring).iter().map(|it| it.ended_by.clone().unwrap_or_default()).collect::<Vec<_>>();
        assert_eq!(ends(), ["recorder_gap"]);
        // Judged by less, it has another end and nothing else.
        let later = Incident {
            ended_ms: started_ms + 60_000,
            usual_commits_per_second: None,
            ..incident(started_ms + 4000, Cause::Unknown)
        };
        push_new(vec![later], &known, &ring);
        let kept: Vec<_> = incidents(&ring).iter().map(|it| (it.cause, it.started_ms, it.seconds)).collect();
        assert_eq!(kept, [(Cause::VolumeHung, started_ms, 10.0)]);
    }

    /// A second of a server whose sessions wait for WAL.
    fn host(time_ms: u64, commits_per_second: f64) -> Host {
        Host {
            time_ms,
            instances: vec![Instance {
                identity: Identity { name: "5432".to_string(), ..Identity::default() },
                reachability: Reachability::Reachable,
                sampled_ms: Some(time_ms),
                rates: Some(Rates { commits_per_second, ..Rates::default() }),
                activity: Some(Activity {
                    connections: Connections { active: 4, ..Connections::default() },
                    waits: vec![Wait {
                        cause: WaitCause::Wal,
                        event_type: "IO".to_string(),
                        event: "WALSync".to_string(),
                        sessions: 4,
                    }],
                    ..Activity::default()
                }),
                ..Instance::default()
            }],
            ..Host::default()
        }
    }

    /// Else nothing is known of what was usual, and nothing is lost.
    #[test]
    fn the_hang_before_a_reset_is_judged_by_what_was_before_it_however_long_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let reset_ms = now_ms() - 600_000;
        let begin_ms = reset_ms - 1_200_000;
        let mut packer = Packer::default();
        let mut items = Vec::new();
        for second in 0..1200 {
            let mut host = host(begin_ms + second * 1000, 100.0);
            if second >= 60 {
                let instance = &mut host.instances[0];
                let identity = instance.identity.clone();
                let reachability = Reachability::Hung { seconds: (second - 59) as f64 };
                *instance = Instance { identity, reachability, ..Instance::default() };
            }
            items.extend(packer.pack(&host).unwrap());
        }
        let limits = Limits { keep: Duration::from_secs(86_400), bytes: Limits::LEAST_BYTES };
        Writer::open(directory.path(), limits).unwrap().write(&items).unwrap();
        let (ring, mut detector) = (Ring::default(), Detector::default());
        let known = judge_again(directory.path(), &mut detector, &ring, |line| panic!("{line}"));
        push_new(detector.finish(), &known, &ring);
        let found: Vec<_> = incidents(&ring).iter().map(|it| it.usual_commits_per_second).collect();
        assert_eq!(found, [Some(100.0)]);
    }

    #[test]
    fn the_stall_before_a_reset_is_judged_however_long_ago_that_was() {
        let directory = tempfile::tempdir().unwrap();
        let reset_ms = now_ms() - 3_600_000;
        let mut packer = Packer::default();
        let mut items = Vec::new();
        for second in 0..60 {
            let commits = if (50..56).contains(&second) { 0.0 } else { 100.0 };
            items.extend(packer.pack(&host(reset_ms - 60_000 + second * 1000, commits)).unwrap());
        }
        // What a clock that was wrong has left is not the end.
        items.extend(packer.pack(&host(now_ms() + 365 * 86_400_000, 100.0)).unwrap());
        let limits = Limits { keep: Duration::from_secs(86_400), bytes: Limits::LEAST_BYTES };
        Writer::open(directory.path(), limits).unwrap().write(&items).unwrap();
        let ring = Ring::default();
        judge_again(directory.path(), &mut Detector::default(), &ring, |line| panic!("{line}"));
        let found: Vec<_> = incidents(&ring).iter().map(|it| (it.started_ms, it.seconds)).collect();
        assert_eq!(found, [(reset_ms - 10_000, 6.0)]);
    }

    #[test]
    fn the_ring_holds_an_incident_once_and_the_newest_of_too_many() {
        let ring = Ring::default();
        let longer = |number: u64| Item::Incident(Box::new(incident(NOW + number / 2, Cause::Unknown)));
        (0..2000).for_each(|number| ring.push(longer(number)));
        let kept = incidents(&ring);
        let lost = std::mem::take(&mut ring.lock().lost);
        assert_eq!(kept.len() as u64 + lost, 1000);
        assert!(lost > 0 && ring.lock().bytes <= RING_BYTES_OF_INCIDENTS, "{lost}");
        assert_eq!(kept.last().map(|it| it.started_ms), Some(NOW + 999));
        // What could not be written is not more of it than what has come since.
        put_back(&ring, vec![longer(1998)], 0);
        assert_eq!(incidents(&ring), kept);
    }

    #[test]
    fn what_was_lost_while_a_write_hung_or_at_the_end_is_told() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        fn say(line: &str) {
            SAID.lock().unwrap().push(line.to_string());
        }
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits { keep: Duration::from_secs(86_400), bytes: Limits::LEAST_BYTES };
        let mut writer = Writer::open(directory.path(), limits).unwrap();
        let ring = Arc::new(Ring::default());
        *ring.lock() = Queue { lost: 3, stop: true, ..Queue::default() };
        write_out(&ring, &mut writer, say);
        let ended = |ring| WriterThread { ring, thread: thread::spawn(|| {}) }.finish(say);
        ended(Arc::clone(&ring));
        let said = std::mem::take(&mut *SAID.lock().unwrap());
        assert!(said.len() == 1 && said[0].contains("but for 3 samples"), "{said:?}");
        ring.push(Item::Dictionary { id: 1, json: vec![0; 10] });
        ended(ring);
        let said = std::mem::take(&mut *SAID.lock().unwrap());
        assert!(said.len() == 1 && said[0].contains("is lost"), "{said:?}");
    }

    #[test]
    fn a_clock_that_has_jumped_ahead_is_followed_step_by_step() {
        let jumped = now_ms();
        let mut clock = Clock { wall_ms: jumped - 3 * STEP_MS, steady: Instant::now() };
        assert!(clock.now_ms() < jumped - STEP_MS);
        for _ in 0..2 {
            clock.now_ms();
        }
        assert!(clock.now_ms() >= jumped);
        // Set back, it is the time at once.
        let mut clock = Clock { wall_ms: jumped + 86_400_000, steady: Instant::now() };
        assert!(clock.now_ms() < jumped + STEP_MS);
    }

    #[test]
    fn the_ring_forgets_the_oldest_seconds_and_no_dictionary() {
        let ring = Ring::default();
        ring.push(Item::Dictionary { id: 1, json: vec![0; 10] });
        for time_ms in 0..20_000 {
            ring.push(Item::Second("a".to_string(), Box::new(Second { time_ms, ..Second::default() }), false));
        }
        let queue = ring.lock();
        assert!(queue.bytes <= RING_BYTES && queue.lost > 0, "{} {}", queue.bytes, queue.lost);
        assert_eq!(queue.items.len() as u64 + queue.lost, 20_001);
        assert!(matches!(queue.items.front(), Some(Item::Dictionary { .. })));
        assert!(matches!(queue.items.back(), Some(Item::Second(_, second, _)) if second.time_ms == 19_999));
    }
}
