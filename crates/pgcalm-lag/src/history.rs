//! What a primary said before, and what a new answer means in its light.

mod key;
mod standby;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pgcalm_host::network::InterfaceStat;

use self::key::{Key, keyed};
use crate::attribution::Observation;
use crate::interface::InterfaceReading;
use crate::model::{
    Checkpoint, Interface, KeptWal, LagSource, Position, Sample, Slot, Standby, StandbyState, Wal, WalNeed, WalStatus,
};
use crate::reading::{Reading, Sender, SlotReading};
use crate::{attribution, lsn::Lsn, prediction::Pace, segment};

/// Longest time over which rates for predictions are taken, s.
pub const WINDOW_S: f64 = 30.0;

/// Marks of the primary's flush position that are kept for lags in seconds; two hours of them at one a second.
const MARKS: usize = 7200;

/// How long a standby without a slot is remembered after its connection ended, s: a day.
const FORGET_S: f64 = 86_400.0;

/// A base backup streams WAL, too, and ends when it is complete.
const BASE_BACKUP: &str = "pg_basebackup";

/// Names that nobody chose: two who have one need not be the same.
const DEFAULT_NAMES: [&str; 2] = ["walreceiver", "pg_receivewal"];

/// What a primary said before, as far as it is needed: readings of [`WINDOW_S`], when the primary was where for longer, and
/// who was connected. A new cluster, a new timeline or a clock that is set back begins it anew.
#[derive(Debug, Default)]
pub struct History {
    readings: VecDeque<Reading>,
    marks: VecDeque<(f64, Lsn)>,
    seen: BTreeMap<Key, Seen>,
    observations: BTreeMap<Key, VecDeque<Observation>>,
    /// How long the last checkpoint took whose end was seen, s.
    checkpoint_s: Option<f64>,
}

/// A standby when it was last connected.
#[derive(Debug, Clone)]
struct Seen {
    time: f64,
    sender: Sender,
    has_temporary_slot: bool,
}

impl History {
    /// Takes an answer and makes a sample of it.
    pub fn add(&mut self, reading: Reading) -> Sample {
        if self.readings.back().is_some_and(|last| {
            last.cluster != reading.cluster || last.time >= reading.time || last.insert_lsn > reading.insert_lsn
        }) {
            *self = Self::default();
        }
        self.checkpoint_s = self.ended_checkpoint(&reading).or(self.checkpoint_s);
        self.marks.push_back((reading.time, reading.flush_lsn));
        if self.marks.len() > MARKS {
            self.marks.pop_front();
        }
        let mut sample = self.primary(&reading);
        let pace = self.pace(&reading, &sample);
        sample.checkpoint.next_end_s = pace.and_then(|pace| pace.next_checkpoint_end());
        sample.slots = reading.slots.iter().map(|slot| self.slot(&reading, pace, slot)).collect();
        sample.standbys = self.standbys(&reading, pace, &sample);
        sample.kept.seconds_until_needed_removed = sample
            .standbys
            .iter()
            .filter_map(|standby| standby.need.seconds_until_removed)
            .chain(sample.slots.iter().filter_map(|slot| slot.seconds_until_lost))
            .min_by(f64::total_cmp);

        self.readings.push_back(reading);
        let now = sample.time;
        // One that is older stays, so that the window is covered.
        while self.readings.get(1).is_some_and(|second| now - second.time >= WINDOW_S) {
            self.readings.pop_front();
        }
        sample
    }

    /// How long checkpoints took that have ended since the last reading, each, s.
    fn ended_checkpoint(&self, reading: &Reading) -> Option<f64> {
        let previous = self.previous()?;
        let seconds = reading.checkpoints_s - previous.checkpoints_s;
        // Of one that began before, the end alone is new.
        let done = (reading.checkpoints - previous.checkpoints).max(1);
        (seconds > 0.0).then(|| seconds / done as f64)
    }

    fn previous(&self) -> Option<&Reading> {
        self.readings.back()
    }

    /// The oldest reading of the window.
    fn window(&self) -> Option<&Reading> {
        self.readings.front()
    }

    fn primary(&self, reading: &Reading) -> Sample {
        let previous = self.previous();
        let rate = |position: fn(&Reading) -> Lsn| {
            previous.map(|earlier| per_second(earlier, reading, position(earlier), position(reading)))
        };
        let counted = |counter: fn(&Reading) -> Option<u64>| {
            let earlier = previous?;
            Some(counter(reading)?.saturating_sub(counter(earlier)?) as f64 / (reading.time - earlier.time))
        };
        let settings = &reading.settings;
        let oldest_lsn =
            reading.oldest_segment.as_deref().and_then(|name| segment::begin(name, settings.segment_bytes));
        Sample {
            time: reading.time,
            interval_s: previous.map(|earlier| reading.time - earlier.time),
            wal: Wal {
                insert_lsn: reading.insert_lsn,
                write_lsn: reading.write_lsn,
                flush_lsn: reading.flush_lsn,
                unflushed_bytes: reading.end().bytes_since(reading.flush_lsn),
                generation_bytes_per_s: rate(|reading| reading.insert_lsn),
                generation_window_bytes_per_s: self
                    .window()
                    .map(|earlier| per_second(earlier, reading, earlier.insert_lsn, reading.insert_lsn)),
                flush_bytes_per_s: rate(|reading| reading.flush_lsn),
                buffers_full_per_s: counted(|reading| u64::try_from(reading.buffers_full).ok()),
                waiting_processes: reading.waiting_processes,
                walwriter_disk_bytes_per_s: counted(|reading| reading.walwriter_disk_bytes),
                segment_bytes: settings.segment_bytes,
            },
            checkpoint: Checkpoint {
                redo_lsn: reading.redo_lsn,
                age_s: reading.checkpoint_age_s,
                timeout_s: settings.checkpoint_timeout_s,
                trigger_bytes: settings.trigger_bytes(),
                mean_duration_s: reading.checkpoint_duration_s,
                next_end_s: None,
            },
            kept: KeptWal {
                oldest_segment: reading.oldest_segment.clone(),
                oldest_lsn,
                bytes: oldest_lsn.map(|oldest| reading.write_lsn.bytes_since(oldest)),
                max_wal_size_bytes: settings.max_wal_size_bytes,
                wal_keep_size_bytes: settings.wal_keep_size_bytes,
                max_slot_wal_keep_size_bytes: settings.max_slot_wal_keep_size_bytes,
                seconds_until_needed_removed: None,
            },
            standbys: Vec::new(),
            slots: Vec::new(),
            interfaces: self.interfaces(reading),
            missing: reading.missing.clone(),
        }
    }

    fn interfaces(&self, reading: &Reading) -> Vec<Interface> {
        let previous = self.previous();
        let of = |now: &InterfaceReading| {
            let before = previous.and_then(|previous| {
                let mut all = previous.interfaces.iter();
                let same = all.find(|before| before.stat.name == now.stat.name)?;
                Some((&same.stat, reading.time - previous.time))
            });
            let rate = |counter: fn(&InterfaceStat) -> u64| {
                let (before, seconds) = before?;
                // One that was made anew counts from 0.
                let grown = counter(&now.stat).checked_sub(counter(before))?;
                Some(grown as f64 / seconds)
            };
            Interface {
                name: now.stat.name.clone(),
                sent_bytes_per_s: rate(|stat| stat.sent_bytes),
                sent_packets_per_s: rate(|stat| stat.sent_packets),
                received_bytes_per_s: rate(|stat| stat.received_bytes),
                received_packets_per_s: rate(|stat| stat.received_packets),
                link_bytes_per_s: now.link_bytes_per_s,
            }
        };
        reading.interfaces.iter().map(of).collect()
    }

    fn pace(&self, reading: &Reading, sample: &Sample) -> Option<Pace> {
        Some(Pace {
            insert_lsn: reading.insert_lsn,
            generation: sample.wal.generation_window_bytes_per_s?,
            redo_lsn: reading.redo_lsn,
            checkpoint_age_s: reading.checkpoint_age_s,
            timeout_s: reading.settings.checkpoint_timeout_s,
            trigger_bytes: reading.settings.trigger_bytes(),
            // The mean is of all loads since statistics were reset, and before PostgreSQL 17 a server that was a standby has counted
            // each restartpoint that it put off, too.
            duration_s: self.checkpoint_s.or(reading.checkpoint_duration_s).unwrap_or(0.0),
            segment_bytes: reading.settings.segment_bytes,
        })
    }

    fn slot(&self, reading: &Reading, pace: Option<Pace>, slot: &SlotReading) -> Slot {
        let of = |reading: &Reading| {
            let earlier = reading.slots.iter().find(|earlier| earlier.name == slot.name)?;
            earlier.restart_lsn
        };
        let rate =
            self.previous().and_then(|earlier| Some(per_second(earlier, reading, of(earlier)?, slot.restart_lsn?)));
        let window_rate =
            self.window().and_then(|earlier| Some(per_second(earlier, reading, of(earlier)?, slot.restart_lsn?)));
        let generation =
            self.previous().map(|earlier| per_second(earlier, reading, earlier.insert_lsn, reading.insert_lsn));
        Slot {
            name: slot.name.clone(),
            physical: slot.physical,
            active: slot.active,
            active_pid: slot.active_pid,
            restart_lsn: slot.restart_lsn,
            restart_bytes_per_s: rate,
            retained_bytes: slot.restart_lsn.map(|restart| reading.end().bytes_since(restart)),
            retained_growth_bytes_per_s: generation.zip(rate).map(|(generation, rate)| generation - rate),
            wal_status: slot.wal_status,
            safe_wal_size_bytes: slot.safe_wal_size_bytes,
            invalidation_reason: slot.invalidation_reason.clone(),
            seconds_until_lost: if slot.wal_status == Some(WalStatus::Lost) {
                Some(0.0)
            } else {
                let rate = if slot.active { window_rate } else { Some(0.0) };
                let by_size = slot_keep(reading).and_then(|keep| pace?.removal(slot.restart_lsn?, rate?, keep));
                // A checkpoint looks for those that have WAL and were inactive for too long (`CanInvalidateIdleSlot` in slot.c).
                let idle = slot.inactive_s.filter(|_| !slot.active && slot.restart_lsn.is_some());
                let timeout = reading.settings.idle_slot_timeout_s;
                let by_time = timeout.zip(idle).and_then(|(timeout, idle)| pace?.checkpoint_end_after(timeout - idle));
                [by_size, by_time].into_iter().flatten().min_by(f64::total_cmp)
            },
        }
    }

    fn standbys(&mut self, reading: &Reading, pace: Option<Pace>, sample: &Sample) -> Vec<Standby> {
        let connected = keyed(reading, &self.seen, self.previous().map(|previous| previous.time));
        let mut standbys = Vec::new();
        for (key, sender) in &connected {
            let mut standby = self.standby(reading, key, sender);
            standby.need = self.need(reading, pace, sample, &standby);
            standbys.push((key.clone(), standby));
            if !self.seen.contains_key(key) {
                self.forget_moved(key, &connected);
            }
            let slot = key.slot.as_ref();
            self.seen.insert(
                key.clone(),
                Seen {
                    time: reading.time,
                    sender: (*sender).clone(),
                    has_temporary_slot: reading.slots.iter().any(|other| other.temporary && Some(&other.name) == slot),
                },
            );
        }
        self.forget(reading, &connected);
        let gone: Vec<(Key, Seen)> = self
            .seen
            .iter()
            .filter(|(key, _)| !connected.iter().any(|(other, _)| other == *key))
            .map(|(key, seen)| (key.clone(), seen.clone()))
            .collect();
        let known: BTreeSet<&str> = gone.iter().filter_map(|(key, _)| key.slot.as_deref()).collect();
        // A slot that nobody uses and that has WAL, or had, is somebody's who should be there.
        let absent = reading.slots.iter().filter(|slot| {
            !slot.active
                && !known.contains(slot.name.as_str())
                && (slot.restart_lsn.is_some() || slot.wal_status == Some(WalStatus::Lost))
        });
        let gone = gone.iter().map(|(key, seen)| {
            let standby = standby::disconnected(&seen.sender, key.slot.clone());
            (key.clone(), Some(reading.time - seen.time), standby)
        });
        let absent = absent.map(|slot| {
            let key =
                Key { application_name: String::new(), client_address: None, slot: Some(slot.name.clone()), number: 0 };
            (key, None, standby::of_slot(slot))
        });
        for (key, since, mut standby) in gone.chain(absent) {
            let slot = slot_of(reading, &standby);
            standby.disconnected_s = slot.and_then(|slot| slot.inactive_s).or(since);
            for position in [&mut standby.sent, &mut standby.write, &mut standby.flush, &mut standby.replay] {
                self.measure(reading, position);
            }
            standby.need = self.need(reading, pace, sample, &standby);
            standbys.push((key, standby));
        }
        standbys.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.attribute(reading, &mut standbys);
        standbys.into_iter().map(|(_, standby)| standby).collect()
    }

    /// A connected one.
    fn standby(&self, reading: &Reading, key: &Key, sender: &Sender) -> Standby {
        let earlier = self.previous().and_then(|previous| {
            let seen = self.seen.get(key).filter(|seen| seen.time == previous.time)?;
            Some((previous, &seen.sender))
        });
        let position = |index: usize| {
            let mut position = Position {
                lsn: sender.lsn[index],
                server_lag_s: sender.server_lag_s[index],
                bytes_per_s: earlier.as_ref().and_then(|(previous, earlier)| {
                    let from = earlier.lsn[index]?;
                    Some(per_second(previous, reading, from, sender.lsn[index]?))
                }),
                ..Position::default()
            };
            self.measure(reading, &mut position);
            position
        };
        // Counters of another process or connection are no beginning.
        let same = earlier.filter(|(_, earlier)| earlier.pid == sender.pid);
        let seconds = same.as_ref().map(|(previous, _)| reading.time - previous.time);
        Standby {
            application_name: sender.application_name.clone(),
            client_address: sender.client_address.clone(),
            client_port: sender.client_port,
            slot: key.slot.clone(),
            pid: Some(sender.pid),
            state: sender.state,
            sync_state: sender.sync_state.clone(),
            disconnected_s: None,
            sent: position(0),
            write: position(1),
            flush: position(2),
            replay: position(3),
            reply_age_s: sender.reply_age_s,
            wait_event: sender.wait_event.clone(),
            connection: standby::connection(sender, same.as_ref().map(|(_, earlier)| *earlier), seconds),
            walsender_disk_bytes_per_s: same.as_ref().and_then(|(_, earlier)| {
                let bytes = sender.disk_read_bytes?.saturating_sub(earlier.disk_read_bytes?);
                Some(bytes as f64 / seconds?)
            }),
            need: WalNeed::default(),
            bottleneck: attribution::attribute(&[], 0),
        }
    }

    /// The distance of a position from the primary's flush position, in bytes and seconds.
    fn measure(&self, reading: &Reading, position: &mut Position) {
        let Some(lsn) = position.lsn else { return };
        position.lag_bytes = Some(reading.flush_lsn.bytes_since(lsn));
        let (seconds, source) = self.age(reading.time, lsn);
        position.lag_s = Some(seconds);
        position.lag_source = Some(source);
    }

    /// Since when there has been WAL beyond `lsn`, s.
    fn age(&self, now: f64, lsn: Lsn) -> (f64, LagSource) {
        // The first mark beyond it.
        let beyond = self.marks.partition_point(|(_, mark)| *mark <= lsn);
        let Some((to_time, to)) = self.marks.get(beyond) else { return (0.0, LagSource::CaughtUp) };
        let Some((from_time, from)) = beyond.checked_sub(1).and_then(|at| self.marks.get(at)) else {
            return (now - to_time, LagSource::AtLeast);
        };
        let part = lsn.bytes_since(*from) as f64 / to.bytes_since(*from) as f64;
        (now - (from_time + part * (to_time - from_time)), LagSource::History)
    }

    fn need(&self, reading: &Reading, pace: Option<Pace>, sample: &Sample, standby: &Standby) -> WalNeed {
        let slot = slot_of(reading, standby);
        let lsn =
            slot.and_then(|slot| slot.restart_lsn).or(standby.flush.lsn).or(standby.write.lsn).or(standby.sent.lsn);
        let Some(lsn) = lsn else {
            return WalNeed {
                removed: slot.map(|slot| slot.wal_status == Some(WalStatus::Lost)),
                seconds_until_removed: None,
                ..WalNeed::default()
            };
        };
        let size = reading.settings.segment_bytes;
        let removed = sample.kept.oldest_lsn.map(|oldest| lsn < oldest && lsn < reading.write_lsn);
        let rate = match standby.state {
            StandbyState::Disconnected => Some(0.0),
            // A subscriber's slot stands still while a long transaction is open, however far it has flushed.
            _ if slot.is_some_and(|slot| !slot.physical) => self.readings.iter().find_map(|earlier| {
                let before = slot_of(earlier, standby)?.restart_lsn?;
                Some(per_second(earlier, reading, before, lsn))
            }),
            // Since this connection began, at most.
            _ => self.readings.iter().find_map(|earlier| {
                let sender = earlier.senders.iter().find(|other| Some(other.pid) == standby.pid)?;
                Some(per_second(earlier, reading, sender.lsn[2]?, standby.flush.lsn?))
            }),
        };
        // The slot that is the furthest behind keeps WAL for all (`KeepLogSeg` in xlog.c), if it is not about to overtake.
        let keeps = |other: &Slot| {
            other.wal_status != Some(WalStatus::Lost)
                && other.restart_lsn.is_some_and(|restart| restart <= lsn)
                && (!other.active || other.restart_bytes_per_s <= rate)
        };
        let keep = match slot {
            None if !sample.slots.iter().any(keeps) => Some(reading.settings.wal_keep_size_bytes),
            _ => slot_keep(reading),
        };
        WalNeed {
            lsn: Some(lsn),
            segment: Some(segment::name(lsn, reading.cluster.1, size)),
            removed,
            seconds_until_removed: if removed == Some(true) {
                Some(0.0)
            } else {
                keep.and_then(|keep| pace?.removal(lsn, rate?, keep))
            },
        }
    }

    /// Drops the only one that had this name, if it is gone and has no slot: it has come back from another address.
    fn forget_moved(&mut self, new: &Key, connected: &[(Key, &Sender)]) {
        let mut same = self.seen.keys().filter(|old| old.application_name == new.application_name);
        let (Some(old), None) = (same.next().cloned(), same.next()) else { return };
        let is_gone = !connected.iter().any(|(key, _)| *key == old);
        if is_gone && old.slot.is_none() && !DEFAULT_NAMES.contains(&old.application_name.as_str()) {
            self.seen.remove(&old);
        }
    }

    /// Drops those that are known to be gone for good.
    fn forget(&mut self, reading: &Reading, connected: &[(Key, &Sender)]) {
        self.seen.retain(|key, seen| {
            let is_connected = connected.iter().any(|(other, _)| other == key);
            let Some(name) = &key.slot else {
                return is_connected
                    || (seen.sender.application_name != BASE_BACKUP
                        && seen.sender.lsn[0].is_some()
                        && reading.time - seen.time < FORGET_S);
            };
            let slot = reading.slots.iter().find(|slot| slot.name == *name);
            match slot {
                _ if is_connected => true,
                // Somebody else uses it now: the same standby under another name or address.
                Some(slot) => !slot.active,
                // It went with the connection. Of others: somebody dropped it.
                None => {
                    seen.has_temporary_slot
                        && seen.sender.application_name != BASE_BACKUP
                        && reading.time - seen.time < FORGET_S
                }
            }
        });
        // Standbys with temporary slots come back with another name of it.
        let names: BTreeSet<(String, Option<String>)> =
            connected.iter().map(|(key, _)| (key.application_name.clone(), key.client_address.clone())).collect();
        self.seen.retain(|key, seen| {
            let name = (key.application_name.clone(), key.client_address.clone());
            !(seen.has_temporary_slot && names.contains(&name)) || connected.iter().any(|(other, _)| other == key)
        });
    }

    /// Notes what was seen of each, and says where it is held up.
    fn attribute(&mut self, reading: &Reading, standbys: &mut [(Key, Standby)]) {
        self.observations.retain(|key, _| standbys.iter().any(|(other, _)| other == key));
        for (key, standby) in standbys {
            let observations = self.observations.entry(key.clone()).or_default();
            let last = if standby.replay.lsn.is_some() { &standby.replay } else { &standby.flush };
            observations.push_back(Observation {
                time: reading.time,
                insert: reading.insert_lsn,
                primary_flush: reading.flush_lsn,
                connected: standby.state != StandbyState::Disconnected,
                logical: slot_of(reading, standby).is_some_and(|slot| !slot.physical),
                sent: standby.sent.lsn,
                write: standby.write.lsn,
                flush: standby.flush.lsn,
                replay: standby.replay.lsn,
                lag_s: last.lag_s,
                lag_is_lower_bound: last.lag_source == Some(LagSource::AtLeast),
                wait_event: standby.wait_event.clone(),
                waiting_processes: reading.waiting_processes,
                connection: standby.connection.clone(),
            });
            if observations.len() > attribution::OBSERVATIONS {
                observations.pop_front();
            }
            standby.bottleneck = attribution::attribute(observations.make_contiguous(), reading.settings.segment_bytes);
        }
    }
}

/// What is kept for slots behind the end of WAL; none means without limit.
fn slot_keep(reading: &Reading) -> Option<u64> {
    let settings = &reading.settings;
    let slots = settings.max_slot_wal_keep_size_bytes?;
    Some(slots.max(settings.wal_keep_size_bytes))
}

fn slot_of<'a>(reading: &'a Reading, standby: &Standby) -> Option<&'a SlotReading> {
    let name = standby.slot.as_ref()?;
    reading.slots.iter().find(|slot| slot.name == *name)
}

fn per_second(earlier: &Reading, now: &Reading, from: Lsn, to: Lsn) -> f64 {
    (to.0 as f64 - from.0 as f64) / (now.time - earlier.time)
}

#[cfg(test)]
mod tests;
