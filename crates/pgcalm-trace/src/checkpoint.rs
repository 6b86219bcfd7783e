//! `pgcalm trace checkpoint`.

mod assemble;
mod files;
pub mod report;
mod without_ebpf;

use std::collections::VecDeque;
use std::time::Duration;

use crate::checkpoint::assemble::{Assembler, Building};
use crate::checkpoint::report::Line;
use crate::clock::NS_PER_S;
use crate::probes::checkpoint::{CheckpointProbes, Extras, FSYNC, HINTS, SecondCount};
use crate::relation_names::{NAMES, Names};
use crate::report::{EndReason, Take};
use crate::session::Session;
use crate::stop::Stop;
use crate::target::Target;

/// What is to be traced.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How long; until something else ends it if none.
    pub duration: Option<Duration>,
    /// How many checkpoints; no limit if none.
    pub count: Option<u64>,
    /// Whether to time single buffers, which costs two traps into the kernel more for each.
    pub per_buffer: bool,
    /// Whether to tell each file's fsync calls and flush hints, which costs two traps into the kernel more for each hint.
    pub files: bool,
    /// Whether to count transactions, which costs a trap into the kernel for each.
    pub transactions: bool,
    /// Whether to tell of a checkpoint that is under way at the end, too, as far as it has come.
    pub under_way: bool,
    /// Seconds before and after a checkpoint whose transactions are shown.
    pub around: u64,
    /// How to connect to the database for the names of relations, as libpq has it.
    pub connect: Option<String>,
}

/// Runs the trace and gives its lines to `take`; returns why it ended.
pub fn run(target: &Target, options: &Options, stop: &Stop, take: Take<'_, Line>) -> anyhow::Result<EndReason> {
    let mut session = match Session::with_probes(target, stop, options.duration)? {
        Ok(session) => session,
        Err(reason) => return without_ebpf::run(target, options, stop, &reason, take),
    };
    let extras = Extras { per_buffer: options.per_buffer, files: options.files, transactions: options.transactions };
    let probes = CheckpointProbes::attach(&mut session, extras)?;
    // Dropped before the group from here on: libbpf's links to USDT probes point into their object.
    let mut session = session;
    let names = Names::of(&mut session, options.connect.as_deref())?;
    let mut shown = Vec::new();
    if options.per_buffer {
        shown.push("per-buffer".to_string());
    }
    if options.files {
        shown.push("files".to_string());
    }
    take(Line::Start(session.start_line("checkpoint", shown)))?;
    Trace {
        session,
        probes,
        names,
        options,
        assembler: Assembler::new(options.files),
        ended: VecDeque::new(),
        history: Vec::new(),
        told: 0,
    }
    .run(take)
}

struct Trace<'a> {
    /// First, so that its links are dropped before the probes' object.
    session: Session,
    probes: CheckpointProbes,
    names: Option<Names>,
    options: &'a Options,
    assembler: Assembler,
    /// Checkpoints that wait for the seconds after them.
    ended: VecDeque<Building>,
    history: Vec<SecondCount>,
    told: u64,
}

impl Trace<'_> {
    fn run(mut self, take: Take<'_, Line>) -> anyhow::Result<EndReason> {
        let reason = loop {
            let status = self.session.wait(&[&self.probes.events])?;
            self.collect()?;
            self.tell(false, take)?;
            if self.options.count.is_some_and(|count| self.told >= count) {
                break EndReason::Count;
            }
            if let Some(reason) = status.end() {
                break reason;
            }
        };
        if self.options.under_way
            && let Some(mut building) = self.assembler.take_open()
        {
            self.set_syncs(&mut building)?;
            self.ended.push_back(building);
        }
        self.tell(true, take)?;
        take(Line::End(self.session.end_line(reason, self.probes.drops())))?;
        Ok(reason)
    }

    fn collect(&mut self) -> anyhow::Result<()> {
        self.probes.follow_checkpointers(&mut self.session);
        for event in self.probes.take_events()? {
            let Some(mut building) = self.assembler.take(&event) else { continue };
            if self.options.per_buffer {
                building.checkpoint.per_buffer = Some(self.probes.take_per_buffer());
            }
            self.set_syncs(&mut building)?;
            self.ended.push_back(building);
        }
        self.history.extend(self.probes.take_seconds()?);
        // What no checkpoint under way or to come can need.
        let oldest = self
            .ended
            .front()
            .map(|building| building.start_ns)
            .or(self.assembler.open_since_ns())
            .map_or(u64::MAX, |start| start / NS_PER_S);
        let newest = self.history.last().map_or(0, |count| count.second);
        let needed = oldest.min(newest).saturating_sub(self.options.around + 1);
        self.history.retain(|count| count.second >= needed);
        Ok(())
    }

    fn set_syncs(&self, building: &mut Building) -> anyhow::Result<()> {
        let is_seen = |answer| !self.session.is_missing(answer);
        if is_seen(FSYNC) {
            building.set_syncs();
        }
        if self.options.files {
            let hints = self.probes.take_file_hints()?;
            if is_seen(FSYNC) && is_seen(HINTS) {
                building.set_files(&hints);
            }
        }
        Ok(())
    }

    /// Tells of checkpoints whose seconds after are over, or of all.
    fn tell(&mut self, all: bool, take: Take<'_, Line>) -> anyhow::Result<()> {
        let newest = self.history.last().map_or(0, |count| count.second);
        while let Some(building) = self.ended.front_mut() {
            let end = building.end_ns.unwrap_or(0) / NS_PER_S;
            if !all && newest < end + self.options.around {
                break;
            }
            if self.options.count.is_some_and(|count| self.told >= count) {
                break;
            }
            if self.options.transactions {
                building.set_transactions(&self.history, self.options.around);
            }
            let mut checkpoint = std::mem::take(&mut building.checkpoint);
            self.ended.pop_front();
            if let Some(names) = &mut self.names
                && let Err(error) = names.resolve(&mut checkpoint)
            {
                self.session.miss(NAMES, &format!("{error:#}"));
            }
            self.told += 1;
            take(Line::Checkpoint(Box::new(checkpoint)))?;
        }
        Ok(())
    }
}
