//! The bad seconds that are judged, those before them, and what can be asked of them.

use pgcalm_monitor::model::{Blocked, CheckpointPhase, WaitCause};

use crate::baseline::Usual;
use crate::incident::Stuck;
use crate::second::{CapUse, Disk, Second};
use crate::stuck::{Place, place};

/// Part of the sessions' time in locks from which on they pile up.
pub(super) const LOCK_SHARE: f64 = 0.4;

/// Part of the bad seconds that processes were stuck for in all, below which that is not what held the others up: somebody always
/// sleeps in an fsync for a moment.
const STUCK_SHARE: f64 = 0.3;

/// Part of the bad seconds from which on a checkpoint's fsync is what held the others up: each checkpoint has one.
const SYNC_SHARE: f64 = 0.25;

/// What is judged.
pub struct Window<'a> {
    /// The bad seconds, and what lies between them.
    pub during: Vec<&'a Second>,
    /// The good seconds of the minute before.
    pub before: Vec<&'a Second>,
    /// What is usual.
    pub usual: Usual,
    /// Processes that slept uninterruptibly.
    pub stuck: &'a [Stuck],
}

impl Window<'_> {
    /// Part of the bad seconds of which this holds.
    pub fn share(&self, holds: impl Fn(&Second) -> bool) -> f64 {
        let count = self.during.iter().filter(|second| holds(second)).count();
        if self.during.is_empty() { 0.0 } else { count as f64 / self.during.len() as f64 }
    }

    fn mean(seconds: &[&Second], of: impl Fn(&Second) -> Option<f64>) -> f64 {
        let values: Vec<f64> = seconds.iter().filter_map(|second| of(second)).collect();
        if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
    }

    /// Mean over the bad seconds, and over those before.
    pub fn means(&self, of: impl Fn(&Second) -> Option<f64>) -> (f64, f64) {
        (Self::mean(&self.during, &of), Self::mean(&self.before, &of))
    }

    /// Part of the active sessions' time that was spent waiting for these.
    pub fn waiting(&self, causes: &[WaitCause]) -> f64 {
        let waits: u64 = self.during.iter().flat_map(|second| causes.iter().map(|cause| second.waiting(*cause))).sum();
        let active: u64 = self.during.iter().map(|second| second.active).sum();
        if active == 0 { 0.0 } else { waits as f64 / active as f64 }
    }

    /// Most sessions that waited for this at once.
    pub fn most(&self, cause: WaitCause) -> u64 {
        self.during.iter().map(|second| second.waiting(cause)).max().unwrap_or(0)
    }

    /// Part of the time in which sessions waited for reads, writes or syncs of any file.
    pub fn waiting_for_io(&self) -> f64 {
        use WaitCause::{DataIo, DataSync, OtherIo, Wal, WalLock};
        self.waiting(&[DataIo, DataSync, OtherIo, Wal, WalLock])
    }

    /// Part of the stuck processes' time that was spent there; 0 where hardly anybody was stuck.
    pub fn stuck_at(&self, wanted: Place) -> f64 {
        self.stuck_where(|stack| place(stack) == wanted)
    }

    /// Likewise, by what tells a stack of that place.
    pub fn stuck_where(&self, is_there: impl Fn(&[String]) -> bool) -> f64 {
        let all: f64 = self.stuck.iter().map(|stuck| stuck.seconds).sum();
        let there = self.stuck.iter().filter(|stuck| is_there(&stuck.stack));
        let there: f64 = there.map(|stuck| stuck.seconds).sum();
        if all < (STUCK_SHARE * self.during.len() as f64).max(1.0) { 0.0 } else { there / all }
    }

    /// Part of the bad seconds in which a checkpoint was in one of these phases.
    pub fn phase(&self, wanted: &[CheckpointPhase]) -> f64 {
        self.share(|second| second.checkpoint.as_ref().is_some_and(|checkpoint| wanted.contains(&checkpoint.phase)))
    }

    /// Part of the bad seconds that the checkpointer slept in fsyncs of data files.
    pub fn fsyncs(&self) -> f64 {
        let of_data = |stuck: &&Stuck| stuck.process == "checkpointer" && syncs_data(&stuck.stack);
        let seconds: f64 = self.stuck.iter().filter(of_data).map(|stuck| stuck.seconds).sum();
        if seconds < 1.0 || self.during.is_empty() { 0.0 } else { seconds / self.during.len() as f64 }
    }

    /// Whether the checkpointer syncs files for a good part of the bad seconds.
    pub fn syncs(&self) -> bool {
        self.fsyncs().max(self.phase(&[CheckpointPhase::Sync])) >= SYNC_SHARE
    }

    /// The disk that was busiest in the bad seconds, as it was in its busiest second.
    pub fn disk(&self, of: fn(&Second) -> Option<&Disk>) -> Option<&Disk> {
        let disks = self.during.iter().filter_map(|second| of(second));
        disks.max_by(|a, b| {
            (a.cap_share(), a.busy).partial_cmp(&(b.cap_share(), b.busy)).unwrap_or(std::cmp::Ordering::Equal)
        })
    }

    /// Part of the bad seconds in which that disk was at its cap.
    pub fn is_full(&self, of: fn(&Second) -> Option<&Disk>) -> f64 {
        self.share(|second| of(second).is_some_and(Disk::is_full))
    }

    /// The cap of that disk and what was done before, if sessions wait for it and it allows less than that: it was lowered. Then
    /// nobody has filled the disk by more than it took so far, and what gathers is a consequence.
    pub fn cut(&self, of: fn(&Second) -> Option<&Disk>) -> Option<(&CapUse, f64)> {
        let disk = self.disk(of).filter(|disk| disk.is_at_cap())?;
        let cap = disk.cap.as_ref()?;
        let same = |second: &Second| of(second).filter(|other| other.name == disk.name).map(|it| it.done(cap.what));
        let (during, before) = self.means(same);
        // A cap that is given as less than the disk takes is not what holds it.
        let is_less = cap.allowed.max(during) < 0.9 * before;
        (is_less && self.is_full(of) >= 0.5 && self.waiting_for_io() >= 0.2).then_some((cap, before))
    }

    /// The last known checkpoint of the bad seconds, in words.
    pub fn checkpoint(&self) -> String {
        let under_way = |second: &&&Second| {
            second.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.phase != CheckpointPhase::Idle)
        };
        let checkpoint = self.during.iter().find(under_way).and_then(|second| second.checkpoint.as_ref());
        let requested = self.grown(|second| second.checkpoints_requested);
        let timed = self.grown(|second| second.checkpoints_timed);
        let waited_for = |second: &&Second| second.events.iter().any(|(event, _)| event.starts_with("IPC:Checkpoint"));
        match checkpoint.and_then(|checkpoint| checkpoint.reason.as_deref()) {
            None if self.during.iter().any(waited_for) => {
                "A checkpoint that a session asked for and waited for (CHECKPOINT, or a database made or dropped)"
                    .to_string()
            }
            Some(reason) => format!("A checkpoint ({reason})"),
            None if requested && !timed => "A checkpoint (asked for, by WAL or a command)".to_string(),
            None if timed && !requested => "A checkpoint (by time)".to_string(),
            None => "A checkpoint".to_string(),
        }
    }

    fn grown(&self, counter: fn(&Second) -> u64) -> bool {
        let all = || self.before.iter().chain(&self.during).map(|second| counter(second)).filter(|count| *count > 0);
        all().max() > all().min()
    }

    /// Whom the queue for locks stands behind: the longest wait for a process that waits for no lock itself.
    pub fn head_of_lock_queue(&self) -> Option<&Blocked> {
        let all = || self.during.iter().flat_map(|second| &second.blocked);
        all().filter(|one| !all().any(|other| other.pid == one.by)).max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// Whether the sessions wait for one that does nothing: then no lack of memory or processors is why.
    pub fn waits_for_idle_session(&self) -> bool {
        let is_idle = |head: &Blocked| head.by == 0 || head.by_state.starts_with("idle");
        self.waiting(&[WaitCause::Lock]) >= LOCK_SHARE && self.head_of_lock_queue().is_some_and(is_idle)
    }
}

/// Whether a stack is that of an fsync of a data file. The server calls fdatasync for WAL, unless wal_sync_method says otherwise, and
/// sync_file_range where it writes.
fn syncs_data(stack: &[String]) -> bool {
    let has = |part: &str| stack.iter().any(|frame| frame.contains(part));
    (has("fsync") || has("sync_file")) && !has("fdatasync") && !has("sync_file_range")
}
