//! A second out of what can be read at its end, without eBPF: samples of /proc, views, the log, disks.

use std::collections::HashMap;

use crate::clock::monotonic_ns;
use crate::server_log::ServerLog;
use crate::server_log::message::Message;
use crate::target::Target;
use crate::why::attribution::{Spent, WalLoad};
use crate::why::history::History;
use crate::why::report::{CheckpointPhase, Disk, Second, Trigger, Verdict, WalSource, by_cause};
use crate::why::views::{Counters, Difference, Views};
use crate::why::{attribution, kernel_threads};
use crate::{clock, disks, polling};

/// The seconds of a trace, from what can be read at the end of each.
pub(super) struct Seconds<'a> {
    target: &'a Target,
    views: Option<Views>,
    counters: Counters,
    log: Option<ServerLog>,
    /// The last checkpoint that the log told of: when it was seen to start, whether it goes on, the counters then.
    checkpoint: Option<(u64, bool, Counters)>,
    disks: HashMap<String, disks::Statistics>,
    commits_per_s: History,
    number: u64,
    began_ns: u64,
}

impl<'a> Seconds<'a> {
    /// The first second begins now.
    pub(super) fn start(target: &'a Target, mut views: Option<Views>, log: Option<ServerLog>) -> anyhow::Result<Self> {
        let counters = match &mut views {
            Some(views) => views.read()?,
            None => Counters::default(),
        };
        Ok(Self {
            target,
            views,
            counters,
            log,
            checkpoint: None,
            disks: disks::statistics(&target.root),
            commits_per_s: History::default(),
            number: 0,
            began_ns: monotonic_ns(),
        })
    }

    /// When the second at hand began, CLOCK_MONOTONIC in ns.
    pub(super) fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Whether the server has ended the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.views.as_ref().is_some_and(Views::is_closed)
    }

    /// Ends the second; with a verdict if commits fell below half of the median.
    pub(super) fn close(
        &mut self,
        ended_ns: u64,
        backends: u32,
        spent: &[Spent],
    ) -> anyhow::Result<(Second, Option<Verdict>)> {
        let now = match &mut self.views {
            // Of a stopped server the answer would not come.
            Some(views) if !polling::is_stopped(self.target) => views.read()?,
            _ => self.counters,
        };
        let Difference { commits, aborts, mut wal } = now.since(&self.counters);
        if self.views.is_none() {
            wal.source = WalSource::Unknown;
        }
        self.counters = now;
        self.follow_log(ended_ns);
        let attribution = attribution::attribute(spent, &WalLoad::default());
        let length_s = (ended_ns - self.began_ns) as f64 / 1e9;
        let second = Second {
            time: clock::unix_seconds(self.began_ns),
            number: self.number,
            length_s,
            commits,
            aborts,
            median_commits_per_s: self.commits_per_s.median(),
            backends,
            on_cpu_s: attribution.on_cpu_ns as f64 / 1e9,
            client_s: attribution.client_ns as f64 / 1e9,
            lost_s: attribution.lost_ns as f64 / 1e9,
            shares: attribution.shares,
            wal,
            checkpoint: self.checkpoint.map(|(start_ns, goes_on, at_start)| {
                let since = now.since(&at_start).wal;
                CheckpointPhase {
                    phase: if goes_on { "write" } else { "after" }.to_string(),
                    since_start_s: ended_ns.saturating_sub(start_ns) as f64 / 1e9,
                    page_images: since.page_images,
                    wal_bytes: since.bytes,
                }
            }),
            disks: self.close_disks(length_s),
        };
        let rate = commits as f64 / length_s.max(0.001);
        // What the end of the trace cuts off is too short to tell: backends report once a second.
        let is_whole = length_s >= 0.5;
        let is_slow = is_whole && self.commits_per_s.median().is_some_and(|median| rate < median / 2.0);
        let verdict = is_slow.then(|| {
            let largest = by_cause(&second.shares).first().copied();
            Verdict {
                second: second.number,
                triggers: vec![Trigger::CommitsBelowHalf],
                cause: largest.map(|(cause, _)| cause),
                share: largest.map_or(0.0, |(_, seconds)| seconds / second.lost_s),
                stacks: Vec::new(),
                kernel_threads: kernel_threads::sleeping(&self.target.root),
                long_syscalls: Vec::new(),
            }
        });
        if self.views.is_some() {
            self.commits_per_s.push(rate);
        }
        self.number += 1;
        self.began_ns = ended_ns;
        Ok((second, verdict))
    }

    fn follow_log(&mut self, now_ns: u64) {
        let Some(log) = &mut self.log else { return };
        for message in log.read() {
            match message {
                Message::Start { .. } => self.checkpoint = Some((now_ns, true, self.counters)),
                Message::Complete(_) => {
                    if let Some((_, goes_on, _)) = &mut self.checkpoint {
                        *goes_on = false;
                    }
                }
            }
        }
    }

    fn close_disks(&mut self, length_s: f64) -> Vec<Disk> {
        let now = disks::statistics(&self.target.root);
        let before = std::mem::replace(&mut self.disks, now);
        disks::between(&before, &self.disks, length_s)
    }
}
