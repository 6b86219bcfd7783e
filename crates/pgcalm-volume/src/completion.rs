//! Answers that wait for their time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::answer::Answer;

/// Answers that are due so soon are given at once: it would take as long to go to sleep and come back.
const AT_ONCE: u64 = 15_000;

/// An answer counts as late by this.
const LATE: u64 = 200_000;

/// By this the machine has held the volume up: longer than a process has to wait for a CPU on a host that is at work, shorter than
/// what a commit is noticed by.
const HELD_UP: u64 = 20_000_000;

/// A clock that never goes back, in nanoseconds since it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn new() -> Self {
        // A start in the past leaves room for a limiter's slack.
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

struct Entry {
    /// The request's own time, which a hang may put off.
    due: u64,
    /// So that answers of the same time go in order.
    number: u64,
    answer: Answer,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest is the greatest: `BinaryHeap` gives that first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

#[derive(Default)]
struct Waiting {
    entries: BinaryHeap<Entry>,
    number: u64,
    ended: bool,
}

/// The thread that gives answers at their time.
pub(crate) struct Completions {
    clock: Clock,
    waiting: Mutex<Waiting>,
    earlier: Condvar,
    /// Nothing is given before.
    held_until: AtomicU64,
    pub(crate) late: AtomicU64,
    held_up: Mutex<HeldUp>,
}

/// When answers were overdue by more than [`HELD_UP`].
#[derive(Default)]
struct HeldUp {
    /// The end of the last such time.
    end: u64,
    /// Of all such times, each moment once.
    sum: u64,
}

impl HeldUp {
    /// An answer that was due is given.
    fn see(&mut self, due: u64, now: u64) {
        self.sum += now.saturating_sub(due.max(self.end));
        self.end = self.end.max(now);
    }
}

impl Completions {
    pub(crate) fn start(clock: Clock) -> io::Result<Arc<Self>> {
        let completions = Arc::new(Self {
            clock,
            waiting: Mutex::default(),
            earlier: Condvar::new(),
            held_until: AtomicU64::new(0),
            late: AtomicU64::new(0),
            held_up: Mutex::default(),
        });
        let own = Arc::clone(&completions);
        thread::Builder::new().name("completions".to_string()).spawn(move || own.run())?;
        Ok(completions)
    }

    /// Gives the answer when it is due; with 0, which is no time, at once.
    pub(crate) fn at(&self, due: u64, answer: Answer) {
        let now = self.clock.now();
        if self.held(due) <= now + AT_ONCE {
            self.note_lateness(now, due);
            answer.give();
            return;
        }
        let mut waiting = self.lock();
        let first = waiting.entries.peek().is_none_or(|entry| self.held(due) < self.held(entry.due));
        let number = waiting.number;
        waiting.number += 1;
        waiting.entries.push(Entry { due, number, answer });
        drop(waiting);
        if first {
            self.earlier.notify_one();
        }
    }

    /// Gives nothing for `time` from now on; zero ends it.
    pub(crate) fn hold(&self, time: Duration) {
        // One that is ended has held answers until then, by which they are not late.
        let until = self.clock.now() + time.as_nanos() as u64;
        // Under the lock, so that the thread does not go to sleep by the old one.
        let waiting = self.lock();
        self.held_until.store(until, Relaxed);
        drop(waiting);
        self.earlier.notify_one();
    }

    /// Gives all that wait, now: limits have been switched off.
    pub(crate) fn give_all(&self) {
        let entries = std::mem::take(&mut self.lock().entries);
        for entry in entries.into_sorted_vec().into_iter().rev() {
            entry.answer.give();
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.earlier.notify_one();
    }

    fn run(&self) {
        // By default the kernel lets a sleep last 50 µs longer, to wake fewer times (prctl(2), PR_SET_TIMERSLACK).
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut waiting = self.lock();
        while !waiting.ended {
            let now = self.clock.now();
            let Some(due) = waiting.entries.peek().map(|entry| self.held(entry.due)) else {
                waiting = self.earlier.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if due > now + AT_ONCE {
                waiting = self
                    .earlier
                    .wait_timeout(waiting, Duration::from_nanos(due - now))
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                continue;
            }
            if let Some(entry) = waiting.entries.pop() {
                drop(waiting);
                self.note_lateness(now, entry.due);
                entry.answer.give();
                waiting = self.lock();
            }
        }
    }

    /// When an answer with that time of its own is given: asked anew each time, since a hang may begin or end meanwhile.
    fn held(&self, due: u64) -> u64 {
        due.max(self.held_until.load(Relaxed))
    }

    /// An answer is given. One that has no time of its own is not late, however long ago a hang has ended.
    fn note_lateness(&self, now: u64, due: u64) {
        if due == 0 {
            return;
        }
        let due = self.held(due);
        if now > due + LATE {
            self.late.fetch_add(1, Relaxed);
        }
        if now > due + HELD_UP {
            self.held_up.lock().unwrap_or_else(PoisonError::into_inner).see(due, now);
        }
    }

    /// For how long the machine has held answers up, at least, in seconds.
    pub(crate) fn held_up_s(&self) -> f64 {
        Duration::from_nanos(self.held_up.lock().unwrap_or_else(PoisonError::into_inner).sum).as_secs_f64()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver};

    use super::*;
    use crate::answer::Kind;

    fn answer() -> (Answer, Receiver<()>) {
        let (sender, given) = mpsc::channel();
        (Answer::new(Kind::Told(sender), Arc::new(AtomicU64::new(1))), given)
    }

    #[test]
    fn the_end_of_a_hang_is_one_for_requests_that_came_during_it() {
        let clock = Clock::new();
        let completions = Completions::start(clock).unwrap();
        completions.hold(Duration::from_secs(60));
        let held = [0, clock.now() + 1_000_000].map(|due| {
            let (answer, given) = answer();
            completions.at(due, answer);
            given
        });
        for given in &held {
            assert!(given.try_recv().is_err());
        }
        let end = clock.now();
        completions.hold(Duration::ZERO);
        for given in &held {
            given.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        // What was due during the hang is late from its end on.
        assert!(completions.held(1) >= end);
        completions.end();
    }

    #[test]
    fn nothing_is_late_by_a_hang_that_has_run_out() {
        let completions = Completions::start(Clock::new()).unwrap();
        completions.hold(Duration::from_millis(1));
        thread::sleep(Duration::from_nanos(2 * HELD_UP));
        let (answer, given) = answer();
        completions.at(0, answer);
        given.try_recv().unwrap();
        assert_eq!((completions.late.load(Relaxed), completions.held_up_s()), (0, 0.0));
        completions.end();
    }

    #[test]
    fn a_moment_in_which_several_answers_were_overdue_counts_once() {
        let mut held_up = HeldUp::default();
        for (due, now) in [(100, 150), (120, 151), (110, 151), (200, 300)] {
            held_up.see(due, now);
        }
        assert_eq!(held_up.sum, 51 + 100);
    }
}
