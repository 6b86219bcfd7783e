//! `pgcalm export`: the latest sample over HTTP, and in a file.

pub mod alive;
mod http;
mod textfile;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::export::alive::{Lives, StallSource};
use crate::export::http::Listener;
use crate::export::textfile::Textfile;
use crate::model::{Host, Reachability};
use crate::{IncidentSource, Monitor, Options, metrics};
use pgcalm_host::Failure;

/// How often a stop is looked for.
const POLL: Duration = Duration::from_millis(100);

/// The first file waits for the first answers of the servers, but not longer than this.
const FIRST_ANSWERS: Duration = Duration::from_secs(5);

/// What is exported, and where to.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// Where to listen for HTTP.
    pub listen: Option<SocketAddr>,
    /// File that is written after each interval.
    pub textfile: Option<PathBuf>,
    /// Connection strings; empty: all instances of this host.
    pub connect: Vec<String>,
    /// Between samples.
    pub interval: Duration,
    /// Where incidents are counted.
    pub incidents: Option<IncidentSource>,
    /// Why servers are busy, for `/alive`.
    pub stalls: Option<StallSource>,
}

/// A running exporter.
#[derive(Debug)]
pub struct Exporter {
    // Dropped first: it reads from the monitor.
    listener: Option<Listener>,
    textfile: Option<Textfile>,
    lives: Arc<Lives>,
    interval: Duration,
}

impl Exporter {
    /// Starts listening and sampling.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] if the address can't be listened on, the file can't be written, or a connection string can't
    /// be read.
    pub fn start(options: ExportOptions) -> anyhow::Result<Self> {
        let textfile = options.textfile.map(Textfile::new).transpose()?;
        let monitor = Arc::new(Monitor::start(Options {
            connect: options.connect,
            interval: options.interval,
            history: None,
            incidents: options.incidents,
            ..Options::default()
        })?);
        let lives = Arc::new(Lives::new(monitor, options.stalls));
        let listener = options.listen.map(|address| Listener::start(address, &lives)).transpose()?;
        Ok(Self { listener, textfile, lives, interval: options.interval })
    }

    /// Where it listens: the port that the kernel chose for port 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(Listener::address)
    }

    /// Goes on until `stop` says so. The file is removed at the end: its values would look like those of the moment.
    ///
    /// A file that can't be written, as on a full disk, is reported by `say` once for each reason, and tried again: what is
    /// exported over HTTP does not end with that.
    ///
    /// # Errors
    ///
    /// That of removing the file.
    pub fn run(&self, stop: impl Fn() -> bool, say: impl Fn(&str)) -> anyhow::Result<()> {
        let Some(textfile) = &self.textfile else {
            while !stop() {
                self.lives.look();
                std::thread::sleep(POLL);
            }
            return Ok(());
        };
        let begin = Instant::now();
        while !stop() && begin.elapsed() < FIRST_ANSWERS && !all_answered(&self.lives.monitor().latest()) {
            std::thread::sleep(POLL);
        }
        let mut next = Instant::now();
        let mut said = String::new();
        while !stop() {
            if Instant::now() >= next {
                let done = match self.lives.monitor().fresh() {
                    Some(host) => textfile.write(&metrics::classic(&host)),
                    None => textfile.remove(),
                };
                let error = done.err().map_or_else(String::new, |error| format!("{error:#}"));
                if error != said && !error.is_empty() {
                    say(&error);
                }
                said = error;
                next = (next + self.interval).max(Instant::now());
            }
            self.lives.look();
            std::thread::sleep(POLL);
        }
        textfile.remove()
    }
}

fn all_answered(host: &Host) -> bool {
    host.instances.iter().all(|instance| instance.reachability != Reachability::Connecting)
}

fn usage(option: &str, value: impl std::fmt::Display, problem: impl std::fmt::Display) -> Failure {
    Failure::Usage(format!("{option} {value}: {problem}"))
}
