//! Work in a thread of its own until it is told to end.

use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pgcalm_host::stop::Stop;

/// How often a sleeping thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// A thread at work, and what it will give. Dropping it ends it and waits for that.
#[derive(Debug)]
pub(crate) struct Background<T> {
    stop: Stop,
    thread: Option<JoinHandle<T>>,
    /// How long dropping it waits; for ever without.
    patience: Option<Duration>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts `work`, which has to end soon once its argument is set.
    pub(crate) fn start(work: impl FnOnce(&Stop) -> T + Send + 'static) -> Self {
        let stop = Stop::default();
        let told = stop.clone();
        Self { stop, thread: Some(thread::spawn(move || work(&told))), patience: None }
    }

    /// The same with work that may hang: dropping it waits no longer than this, and leaves the thread behind.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }
}

impl<T> Background<T> {
    /// Tells it to end, and waits for nothing.
    pub(crate) fn tell(&self) {
        self.stop.set();
    }

    /// Whether it has ended, by itself or told to.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it, however long that takes, and returns what it gives; `None` if it panicked.
    pub(crate) fn finish(mut self) -> Option<T> {
        self.tell();
        self.thread.take()?.join().ok()
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.tell();
        let Some(thread) = self.thread.take() else { return };
        let end = self.patience.map(|patience| Instant::now() + patience);
        while end.is_some_and(|end| Instant::now() < end) && !thread.is_finished() {
            thread::sleep(LOOK / 5);
        }
        if end.is_none() || thread.is_finished() {
            let _ = thread.join();
        }
    }
}

/// Sleeps until then, or until `stop` is set, if that is earlier; whether it is set.
pub(crate) fn sleep_until(due: Instant, stop: &Stop) -> bool {
    while !stop.is_set() {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(left.min(LOOK));
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn it_gives_what_it_has_when_told_to_end() {
        let work = Background::start(|stop| {
            while !sleep_until(Instant::now() + Duration::from_secs(3600), stop) {}
            7
        });
        assert!(!work.has_ended());
        assert_eq!(work.finish(), Some(7));
        assert_eq!(Background::start(|_| panic!("SYNTHETIC")).finish(), None::<()>);
    }

    #[test]
    fn dropping_it_waits_for_its_end_unless_that_may_hang() {
        let (ended, end) = mpsc::channel();
        drop(Background::start(move |stop| {
            while !stop.is_set() {
                thread::yield_now();
            }
            ended.send(()).unwrap();
        }));
        assert_eq!(end.try_recv(), Ok(()));
        let (release, hang) = mpsc::channel::<()>();
        drop(Background::start(move |_| hang.recv()).with_patience(Duration::ZERO));
        drop(release);
    }
}
