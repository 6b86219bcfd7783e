//! A volume that another process starts and steers, by lines on its standard input and output.
//!
//! `ready FILE` is printed when it is mounted. `limits on`, `limits on PERCENT` (of the profile's) and `limits off` are answered
//! `ok`, and so is `hang MILLISECONDS`: for as long, no request is answered. `stats` is answered with one
//! line of JSON, [`Counters`](crate::Counters). Anything else is answered `error` and what there is. The end of the input
//! changes nothing: whoever steered may have been killed, and a mounted file system whose volume goes would hang. For the
//! same reason a hang ends by itself.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Duration;
use std::{io, thread};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::server::Handle;
use crate::{Server, Volume};

/// A device that is silent for longer is taken for dead by some kernels (hung_task_timeout_secs is 120 s).
const LONGEST_HANG: Duration = Duration::from_secs(60);

/// Serves until it is unmounted, by whomever. SIGTERM unmounts it, and it is served on for as long as the file is open; a
/// second SIGTERM ends it at once. SIGINT and SIGHUP of the terminal are for whoever steers.
pub fn run(volume: &Volume, image: &Path, mountpoint: &Path, honour_flushes: bool) -> anyhow::Result<()> {
    // Before the mount: none of them may end this process from here on.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("take signals")?;
    let server = Server::mount(image, mountpoint, volume.limits(), honour_flushes)?;
    let handle = server.handle();
    thread::spawn(move || await_signals(signals, &handle));
    let mut stdout = io::stdout();
    let announced = writeln!(stdout, "ready {}", server.file().display())
        .and_then(|()| stdout.flush())
        .context("write to standard output");
    let handle = server.handle();
    if let Err(error) = announced {
        handle.detach()?;
        server.wait()?;
        return Err(error);
    }
    thread::spawn(move || answer_lines(&handle));
    server.wait()
}

fn await_signals(mut signals: Signals, handle: &Handle) {
    let mut asked = false;
    for signal in &mut signals {
        if signal != SIGTERM {
            continue;
        }
        if asked {
            std::process::exit(1);
        }
        asked = true;
        // It may have been unmounted meanwhile.
        let _ = handle.detach();
    }
}

/// A line that is understood.
#[derive(Debug, PartialEq, Eq)]
enum Order {
    /// Percent of the profile's limits that are in force; none: no limits.
    Limit(Option<u32>),
    Hang(Duration),
    Stats,
}

impl Order {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["limits", "on"] => Some(Self::Limit(Some(100))),
            ["limits", "on", percent] => {
                let percent = percent.parse().ok()?;
                (1..=100).contains(&percent).then_some(Self::Limit(Some(percent)))
            }
            ["limits", "off"] => Some(Self::Limit(None)),
            ["hang", time] => {
                let time = Duration::from_millis(time.parse().ok()?);
                (time <= LONGEST_HANG).then_some(Self::Hang(time))
            }
            ["stats"] => Some(Self::Stats),
            _ => None,
        }
    }
}

fn answer_lines(handle: &Handle) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let answer = match Order::read(&line) {
            Some(Order::Limit(percent)) => {
                handle.set_limited(percent);
                "ok".to_string()
            }
            Some(Order::Hang(time)) => {
                handle.hang(time);
                "ok".to_string()
            }
            Some(Order::Stats) => {
                serde_json::to_string(&handle.counters()).unwrap_or_else(|error| format!("error {error}"))
            }
            None => "error: there are limits on [PERCENT], limits off, hang MILLISECONDS, stats".to_string(),
        };
        let mut stdout = io::stdout();
        if writeln!(stdout, "{answer}").and_then(|()| stdout.flush()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_and_what_is_none_is_refused() {
        for (line, order) in [
            ("limits on", Some(Order::Limit(Some(100)))),
            ("limits on 50", Some(Order::Limit(Some(50)))),
            (" limits off\n", Some(Order::Limit(None))),
            ("hang 5000", Some(Order::Hang(Duration::from_secs(5)))),
            ("stats", Some(Order::Stats)),
            ("limits on 0", None),
            ("limits on 101", None),
            ("hang", None),
            ("hang 60001", None),
            ("stats 1", None),
            ("", None),
        ] {
            assert_eq!(Order::read(line), order, "{line:?}");
        }
    }
}
