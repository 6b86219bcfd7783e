use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a passing state is printed where nobody watches live.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// What is going on, on standard error: a live line on a terminal, plain lines with the elapsed time elsewhere.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    last_plain: Mutex<Option<Instant>>,
}

impl Progress {
    /// Looks whether standard error is a terminal.
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, started: Instant::now(), last_plain: Mutex::new(None) }
    }

    /// Something that stays on the screen: a new phase or its outcome.
    pub(crate) fn note(&self, text: &str) {
        let elapsed = self.started.elapsed().as_secs();
        let line = format!("[{:>2}:{:02}] {text}", elapsed / 60, elapsed % 60);
        match &self.bar {
            Some(bar) => {
                bar.set_message("");
                bar.println(line);
            }
            None => say(&line),
        }
        *self.last_plain.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// The state of the phase, soon to be replaced by a newer one.
    pub(crate) fn status(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_string()),
            None => {
                let last = *self.last_plain.lock().unwrap_or_else(PoisonError::into_inner);
                if last.is_none_or(|last| last.elapsed() >= PLAIN_INTERVAL) {
                    self.note(text);
                }
            }
        }
    }
}

/// Prints a line to standard error. Unlike `eprintln!` it doesn't panic when that is closed, as it is after the
/// terminal has gone: the clean-up must go on.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
