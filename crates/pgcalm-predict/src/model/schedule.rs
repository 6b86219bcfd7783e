//! When a region is flushed.

/// Horizon of the walk, in checkpoint intervals.
const CHECKPOINTS: u32 = 6;

/// Places of the region in the checkpoint's order, and moments of the flusher's visits, that are averaged over.
const PHASES: u32 = 12;

/// Nobody looks more often (`STATE_INTERVAL_MS` in extension/pg_calm/src/worker/worker.c); seconds.
const SHORTEST: f64 = 0.25;

/// Pages of a checkpoint in the mean with which a region has one at least, mostly.
const LEAST: f64 = 0.5;

/// What makes a region be flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// Its pages are old enough, or there are enough of them.
    Due,
    /// The checkpointer has written its pages of the region, and goes on to the next.
    Window,
    /// The kernel's flusher visits the file.
    Visit,
    /// The checkpointer syncs the file.
    Sync,
}

/// The rhythms that a region lives in; seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Schedule {
    /// Between checkpoints.
    pub checkpoint: f64,
    /// Part of that in which the checkpointer writes.
    pub completion: f64,
    /// Whether a region is flushed when the checkpointer has passed it.
    pub windows: bool,
    /// Between visits of the kernel's flusher.
    pub visit: f64,
}

impl Schedule {
    /// Calls `flush` for each time that a region is flushed, with the seconds since the last time. Returns over how many
    /// seconds that went on. A region is due `due` seconds after it was flushed, and has
    /// `checkpoint_pages` for the checkpointer to write: with none it is not passed by.
    pub fn walk(&self, due: f64, checkpoint_pages: f64, mut flush: impl FnMut(f64, Occasion)) -> f64 {
        let due = due.max(SHORTEST);
        let end = self.checkpoint * f64::from(CHECKPOINTS);
        for phase in 0..PHASES {
            let place = (f64::from(phase) + 0.5) / f64::from(PHASES);
            // Anywhere in the cycle, and not in step with the place.
            let visit_phase = (f64::from(phase) * 0.618_034 + 0.5).fract();
            let mut window = if self.windows && checkpoint_pages >= LEAST {
                place * self.completion * self.checkpoint
            } else {
                f64::INFINITY
            };
            let mut sync = self.completion * self.checkpoint;
            let mut visit = if self.visit.is_finite() { visit_phase * self.visit } else { f64::INFINITY };
            let mut last = 0.0;
            loop {
                let next_due = last + due;
                let next = next_due.min(window).min(sync).min(visit);
                if next >= end {
                    break;
                }
                let occasion = if next == window {
                    window += self.checkpoint;
                    Occasion::Window
                } else if next == sync {
                    sync += self.checkpoint;
                    Occasion::Sync
                } else if next == visit {
                    visit += self.visit;
                    Occasion::Visit
                } else {
                    Occasion::Due
                };
                flush(next - last, occasion);
                last = next;
            }
        }
        end * f64::from(PHASES)
    }
}
