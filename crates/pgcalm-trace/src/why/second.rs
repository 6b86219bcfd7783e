//! From what the kernel has counted in a second to the model.

use std::collections::{HashMap, HashSet};

use pgcalm_host::server_process::Role;

use crate::clock::monotonic_ns;
use crate::io::report::Operation;
use crate::kernel_symbols::{KernelSymbols, Stacks};
use crate::probes::why::{Counters, Event, WalCalls, Why};
use crate::session::Session;
use crate::waits::{Activity, Charge, ChargeKey, NO_STACK};
use crate::why::attribution::{Spent, WalLoad, What};
use crate::why::history::History;
use crate::why::process_samples::Call;
use crate::why::report::{CheckpointPhase, Disk, LongSyscall, Second, Stack, Trigger, Verdict, Wal, WalSource};
use crate::why::{attribution, kernel_threads, stack_class};
use crate::{clock, disks, syscalls};

/// Stacks of client backends, and of other processes, that a verdict shows.
const BACKEND_STACKS: usize = 6;
const OTHER_STACKS: usize = 4;

/// Bytes of a page, and so of the largest page image: BLCKSZ as PostgreSQL is built unless told otherwise.
const PAGE_BYTES: u64 = 8192;
/// SizeOfXLogRecord, src/include/access/xlogrecord.h: no record is smaller.
const SMALLEST_RECORD_BYTES: u64 = 24;

/// The last checkpoint that was seen to start.
#[derive(Debug)]
struct Checkpoint {
    start_ns: u64,
    phase: &'static str,
    at_start: Counters,
}

/// The seconds of a trace.
pub(super) struct Seconds {
    symbols: KernelSymbols,
    stacks: Stacks,
    threshold_ns: u64,
    number: u64,
    began_ns: u64,
    counters: Counters,
    disks: HashMap<String, disks::Statistics>,
    checkpoint: Option<Checkpoint>,
    clients: HashSet<u32>,
    commits_per_s: History,
    wal_wait_per_commit_ns: History,
    page_image_share: History,
}

impl Seconds {
    /// The first second begins now.
    pub(super) fn start(
        why: &mut Why,
        session: &Session,
        symbols: KernelSymbols,
        threshold_ns: u64,
    ) -> anyhow::Result<Self> {
        why.processes.begin();
        let began_ns = monotonic_ns();
        Ok(Self {
            symbols,
            stacks: Stacks::default(),
            threshold_ns,
            number: 0,
            began_ns,
            counters: why.counters()?,
            disks: disks::statistics(&session.target.root),
            checkpoint: None,
            clients: HashSet::new(),
            commits_per_s: History::default(),
            wal_wait_per_commit_ns: History::default(),
            page_image_share: History::default(),
        })
    }

    /// Notes the events that have arrived.
    pub(super) fn take_events(&mut self, why: &Why) -> anyhow::Result<()> {
        for event in why.take_events()? {
            match event {
                Event::CheckpointStart(start_ns) => {
                    self.checkpoint = Some(Checkpoint { start_ns, phase: "write", at_start: why.counters()? });
                }
                Event::CheckpointSync => self.set_phase("sync"),
                Event::CheckpointEnd => self.set_phase("after"),
            }
        }
        Ok(())
    }

    fn set_phase(&mut self, phase: &'static str) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.phase = phase;
        }
    }

    /// Ends the second now; with a verdict if it calls for one.
    pub(super) fn close(&mut self, why: &mut Why, session: &Session) -> anyhow::Result<(Second, Option<Verdict>)> {
        let charges = why.processes.charge();
        let calls = why.processes.calls();
        let now_ns = monotonic_ns();
        let length_s = now_ns.saturating_sub(self.began_ns) as f64 / 1e9;
        let counters = why.counters()?;
        let before = std::mem::replace(&mut self.counters, counters);
        let commits = counters.commits - before.commits;
        self.note_clients(&charges);
        self.clients.retain(|pid| calls.contains_key(pid));

        let roles: HashMap<u32, Role> =
            charges.iter().map(|(key, _)| (key.tgid, self.role(session, key.tgid))).collect();
        let (keys, spent): (Vec<ChargeKey>, Vec<Spent>) = charges
            .iter()
            .filter_map(|(key, charge)| {
                let what = attribution::named(self.what(why, key)?, session.target.major);
                Some((*key, Spent { role: roles[&key.tgid], what, ns: charge.ns }))
            })
            .unzip();
        let wal = wal_of(why, &before, &counters);
        let page_image_share = if wal.bytes > 0 { wal.page_image_bytes as f64 / wal.bytes as f64 } else { 0.0 };
        let attribution = attribution::attribute(
            &spent,
            &WalLoad {
                commits,
                page_image_share,
                usual_page_image_share: self.page_image_share.median(),
                usual_wait_per_commit_ns: self.wal_wait_per_commit_ns.median(),
            },
        );
        let backends: HashSet<u32> =
            charges.iter().filter(|(key, _)| roles[&key.tgid] == Role::Backend).map(|(key, _)| key.tgid).collect();
        let second = Second {
            time: clock::unix_seconds(self.began_ns),
            number: self.number,
            length_s,
            commits,
            aborts: counters.aborts - before.aborts,
            median_commits_per_s: self.commits_per_s.median(),
            backends: backends.len() as u32,
            on_cpu_s: attribution.on_cpu_ns as f64 / 1e9,
            client_s: attribution.client_ns as f64 / 1e9,
            lost_s: attribution.lost_ns as f64 / 1e9,
            shares: attribution.shares,
            wal,
            checkpoint: self.checkpoint.as_ref().map(|checkpoint| CheckpointPhase {
                phase: checkpoint.phase.to_string(),
                since_start_s: now_ns.saturating_sub(checkpoint.start_ns) as f64 / 1e9,
                page_images: counters.wal_page_images - checkpoint.at_start.wal_page_images,
                wal_bytes: counters.wal_bytes - checkpoint.at_start.wal_bytes,
            }),
            disks: self.close_disks(why, session, length_s),
        };
        let long_syscalls = self.long_syscalls(why, &calls, &backends);
        let in_long_calls: Vec<Spent> = keys
            .iter()
            .zip(spent)
            .map(|(key, mut spent)| {
                if !long_syscalls.iter().any(|call| is_in(key, call)) {
                    spent.role = Role::Unknown;
                }
                spent
            })
            .collect();
        let verdict = self.verdict(why, session, &second, &charges, &roles, (long_syscalls, &in_long_calls));

        self.commits_per_s.push(commits as f64 / length_s.max(0.001));
        if commits > 0 {
            self.wal_wait_per_commit_ns.push(attribution.wal_ns / commits as f64);
            self.page_image_share.push(page_image_share);
        }
        self.began_ns = now_ns;
        self.number += 1;
        Ok((second, verdict))
    }

    /// Who waits for a client serves one. Short connections end before their command line is read.
    fn note_clients(&mut self, charges: &[(ChargeKey, Charge)]) {
        for (key, _) in charges {
            if key.activity() == Some(Activity::WaitEvent)
                && key.detail as u32 & attribution::EVENT_CLASS == attribution::EVENT_CLIENT
            {
                self.clients.insert(key.tgid);
            }
        }
    }

    fn role(&self, session: &Session, pid: u32) -> Role {
        match session.role(pid) {
            Role::Unknown if self.clients.contains(&pid) => Role::Backend,
            role => role,
        }
    }

    fn frames(&mut self, why: &Why, detail: u64) -> Vec<String> {
        match u32::try_from(detail) {
            Ok(id) if detail != NO_STACK => self.stacks.frames(id, &self.symbols, |id| why.stack(id)).to_vec(),
            _ => Vec::new(),
        }
    }

    fn what(&mut self, why: &Why, key: &ChargeKey) -> Option<What> {
        Some(match key.activity()? {
            Activity::OnCpu => What::OnCpu,
            Activity::RunQueue => What::RunQueue,
            Activity::Uninterruptible => What::Uninterruptible {
                frames: self.frames(why, key.detail),
                operation: syscalls::operation(key.syscall),
                file: key.file(),
                throttled: key.is_throttled(),
            },
            Activity::Lwlock => What::Lwlock(why.lock_name(key.detail).unwrap_or_else(|| "unnamed".to_string())),
            Activity::HeavyweightLock => What::HeavyweightLock(key.detail.saturating_sub(1) as u32),
            Activity::WaitEvent
                if key.detail as u32 & attribution::EVENT_CLASS == attribution::EVENT_LWLOCK
                    && why.lock_name(key.detail).is_some() =>
            {
                What::Lwlock(why.lock_name(key.detail).unwrap_or_default())
            }
            Activity::WaitEvent => What::WaitEvent {
                event: why.knows_wait_events.then_some(key.detail as u32),
                operation: syscalls::operation(key.syscall),
                polls: syscalls::polls(key.syscall),
            },
        })
    }

    fn close_disks(&mut self, why: &mut Why, session: &Session, length_s: f64) -> Vec<Disk> {
        let root = &session.target.root;
        let now = disks::statistics(root);
        let before = std::mem::replace(&mut self.disks, now);
        let mut found = disks::between(&before, &self.disks, length_s);
        let names = disks::names(root);
        for (device, bios) in why.take_held_back() {
            let Some(name) = names.get(&device) else { continue };
            match found.iter_mut().find(|disk| disk.name == *name) {
                Some(disk) => disk.throttled_bios = bios,
                // Held back altogether.
                None => found.push(Disk {
                    name: name.clone(),
                    busy: 0.0,
                    requests: 0,
                    service_ms: 0.0,
                    throttled_bios: bios,
                }),
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    fn long_syscalls(
        &mut self,
        why: &mut Why,
        calls: &HashMap<u32, Option<Call>>,
        backends: &HashSet<u32>,
    ) -> Vec<LongSyscall> {
        let long = |pid: u32, call: &Call, under_way: bool| {
            Some(LongSyscall {
                pid,
                syscall: syscalls::name(call.syscall)?,
                file: call.file,
                seconds: call.seen_ns.saturating_sub(call.since_ns) as f64 / 1e9,
                under_way,
            })
        };
        let ended = why.processes.take_long_calls();
        let mut found: Vec<LongSyscall> = ended
            .iter()
            .filter_map(|(pid, call)| long(*pid, call, false))
            .chain(calls.iter().filter_map(|(pid, call)| {
                let call = call.as_ref().filter(|call| call.is_long(self.threshold_ns))?;
                long(*pid, call, true)
            }))
            .filter(|call| backends.contains(&call.pid))
            .collect();
        found.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        found
    }

    fn verdict(
        &mut self,
        why: &Why,
        session: &Session,
        second: &Second,
        charges: &[(ChargeKey, Charge)],
        roles: &HashMap<u32, Role>,
        (long_syscalls, in_long_calls): (Vec<LongSyscall>, &[Spent]),
    ) -> Option<Verdict> {
        let mut triggers = Vec::new();
        let rate = second.commits as f64 / second.length_s.max(0.001);
        if second.median_commits_per_s.is_some_and(|median| rate < median / 2.0) {
            triggers.push(Trigger::CommitsBelowHalf);
        }
        if !long_syscalls.is_empty() {
            triggers.push(Trigger::LongSyscall);
        }
        if triggers.is_empty() {
            return None;
        }
        let only_calls = triggers == [Trigger::LongSyscall];
        let decisive = attribution::decisive(&second.shares, second.lost_s, only_calls.then_some(in_long_calls));
        Some(Verdict {
            second: second.number,
            triggers,
            cause: decisive.map(|(cause, _)| cause),
            share: decisive.map_or(0.0, |(_, share)| share),
            stacks: self.stacks_of(why, charges, roles),
            kernel_threads: kernel_threads::sleeping(&session.target.root),
            long_syscalls,
        })
    }

    /// The stacks that most time was slept in, those of client backends first.
    fn stacks_of(&mut self, why: &Why, charges: &[(ChargeKey, Charge)], roles: &HashMap<u32, Role>) -> Vec<Stack> {
        let mut sums: HashMap<(Role, ChargeKey), u64> = HashMap::new();
        for (key, charge) in charges {
            if key.activity() != Some(Activity::Uninterruptible) {
                continue;
            }
            let role = roles[&key.tgid];
            *sums.entry((role, key.of_anyone())).or_default() += charge.ns;
        }
        let mut sums: Vec<_> = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
        sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let (mut backends, mut others) = (0, 0);
        sums.retain(|((role, _), _)| {
            let (count, most) =
                if *role == Role::Backend { (&mut backends, BACKEND_STACKS) } else { (&mut others, OTHER_STACKS) };
            *count += 1;
            *count <= most
        });
        sums.sort_by_key(|((role, _), ns)| (*role != Role::Backend, std::cmp::Reverse(*ns)));
        sums.into_iter()
            .map(|((role, key), ns)| {
                let frames = self.frames(why, key.detail);
                let operation: Operation = syscalls::operation(key.syscall);
                Stack {
                    role: role.to_string(),
                    seconds: ns as f64 / 1e9,
                    syscall: syscalls::name(key.syscall),
                    file: key.file(),
                    cause: stack_class::cause(&frames, operation, key.file(), key.is_throttled()),
                    frames,
                }
            })
            .collect()
    }
}

/// Whether time was spent in that call.
fn is_in(key: &ChargeKey, call: &LongSyscall) -> bool {
    key.tgid == call.pid && syscalls::name(key.syscall).as_ref() == Some(&call.syscall)
}

fn wal_of(why: &Why, before: &Counters, now: &Counters) -> Wal {
    let bytes = now.wal_bytes - before.wal_bytes;
    let records = now.wal_records - before.wal_records;
    let page_images = now.wal_page_images - before.wal_page_images;
    let calls = now.wal_calls.map(|now| {
        let before = before.wal_calls.unwrap_or_default();
        WalCalls {
            writes: now.writes - before.writes,
            written_bytes: now.written_bytes - before.written_bytes,
            syncs: now.syncs - before.syncs,
            sync_ns: now.sync_ns - before.sync_ns,
        }
    });
    Wal {
        source: if why.knows_wal { WalSource::Inserts } else { WalSource::Unknown },
        bytes,
        records,
        page_images,
        page_image_bytes: page_image_bytes(bytes, records, page_images),
        writes: calls.map(|calls| calls.writes),
        written_bytes: calls.map(|calls| calls.written_bytes),
        syncs: calls.map(|calls| calls.syncs),
        sync_s: calls.map(|calls| calls.sync_ns as f64 / 1e9),
    }
}

/// The server counts images, not their bytes: no image is larger than a page, and none takes what the other records need.
fn page_image_bytes(bytes: u64, records: u64, page_images: u64) -> u64 {
    let others = records.saturating_sub(page_images) * SMALLEST_RECORD_BYTES;
    (page_images * PAGE_BYTES).min(bytes.saturating_sub(others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_page_images_are_bounded_by_pages_and_by_what_other_records_leave() {
        assert_eq!(page_image_bytes(100_000, 10, 0), 0);
        assert_eq!(page_image_bytes(100_000, 10, 2), 2 * PAGE_BYTES);
        // Compressed ones.
        assert_eq!(page_image_bytes(10_000, 12, 10), 10_000 - 2 * 24);
        assert_eq!(page_image_bytes(0, 0, 0), 0);
    }
}
