//! Where WAL on its way to a standby is held up.
//!
//! A pure function over consecutive observations. WAL goes from the primary's WAL buffers to its disk, from there through the
//! walsender and the network to the walreceiver, which writes and flushes it, and the startup process replays it. A place
//! holds WAL up if the WAL before it is old and much, and what lies behind it is not. From the primary's positions alone three
//! stretches can be told apart: up to the standby's write, from there to its flush, from there to replay. What holds up the
//! first has to be told by other evidence, in this order:
//!
//! 1. The walsender waits for WAL to be read: the primary's disk.
//! 2. The kernel's accounts of the connection: the standby's kernel has it all, or data was waiting, and that kernel had no
//!    room, since the walreceiver did not read (the standby), or had some (the network). A walreceiver that waits for its disk
//!    reads in between, and its kernel takes megabytes meanwhile (tcp_rmem), so that it has no room in a small part of
//!    the time only. Then the replies are asked as well.
//! 3. The replies. A walreceiver that finds no more data in its socket says at once what it wrote (`WalReceiverMain`); one that
//!    always finds some, since it is slower than the network, says so only at the end of a segment (`XLogWalRcvClose`). So
//!    positions within segments mean that it waits for the network, and positions at segments' ends that the network waits for it.
//!    What it wrote it says before it syncs, and what it flushed thereafter (`XLogWalRcvFlush`), so positions that differ mean
//!    that it is in its fsync.
//!
//! If none of them tells, the place is unknown; a walreceiver that says nothing, for one, may be stopped or cut off.
//!
//! A logical subscriber has no walreceiver: one process receives and applies (`LogicalRepApplyLoop`), and replies when its socket is
//! empty. What it flushed are its own commits. So all that it does not take, or does not flush, it does not apply.

use crate::lsn::Lsn;
use crate::model::{Bottleneck, Connection, Place};
use crate::prediction::IDLE_BYTES_PER_S;
use crate::text::bytes;
use crate::versions;

/// Observations that are looked at, at most.
pub const OBSERVATIONS: usize = 5;

/// WAL older than this has been held up, s; or than an interval, if that is longer, since the history is not finer.
const HELD_UP_S: f64 = 1.0;

/// Part of the time in which a state has to be found for it to be what holds WAL up.
const MOST: f64 = 0.5;

/// Part of the time with data waiting in which a standby's kernel has no room if its walreceiver reads now and then. Behind a
/// slow network there is room always.
const SOME: f64 = 0.1;

/// What a walsender sends at once (`MAX_SEND_SIZE` in walsender.c): one that has more than this to send does not wait for WAL.
const MESSAGE_BYTES: u64 = 128 << 10;

/// A standby at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// When, s on any clock.
    pub time: f64,
    /// The primary's insert position.
    pub insert: Lsn,
    /// The primary's flush position.
    pub primary_flush: Lsn,
    /// Whether the standby is connected.
    pub connected: bool,
    /// Whether it is a logical subscriber.
    pub logical: bool,
    /// `sent_lsn`.
    pub sent: Option<Lsn>,
    /// `write_lsn`.
    pub write: Option<Lsn>,
    /// `flush_lsn`.
    pub flush: Option<Lsn>,
    /// `replay_lsn`; none of those that do not replay.
    pub replay: Option<Lsn>,
    /// Age of the oldest WAL that the standby has not done with, s.
    pub lag_s: Option<f64>,
    /// Whether it was missing already when the history began, so that it is older than that says.
    pub lag_is_lower_bound: bool,
    /// Wait event of the walsender; none while it runs.
    pub wait_event: Option<String>,
    /// Processes of the primary that wait for WAL to be written or synced.
    pub waiting_processes: Option<u32>,
    /// The connection since the observation before.
    pub connection: Option<Connection>,
}

/// Names the place, with the evidence for it. `observations` are consecutive, oldest first; `segment_bytes` is the size of a
/// segment.
pub fn attribute(observations: &[Observation], segment_bytes: u64) -> Bottleneck {
    let observations = &observations[observations.len().saturating_sub(OBSERVATIONS)..];
    let Some(last) = observations.last() else { return unknown("there is no sample") };
    if !last.connected {
        return found(Place::Disconnected, "the standby has no walsender".to_string());
    }
    // Only what was seen since it connected.
    let connected = observations.iter().rposition(|observation| !observation.connected).map_or(0, |at| at + 1);
    let seen = Seen(&observations[connected..]);
    let [first, .., _] = seen.0 else { return unknown("there is one sample only: give it another interval") };
    let (Some(write), Some(flush)) = (last.write, last.flush) else {
        return unknown("the receiver has not said yet how far it is");
    };
    let seconds = last.time - first.time;
    let interval = seconds / (seen.0.len() - 1) as f64;
    let generation = last.insert.bytes_since(first.insert) as f64 / seconds;
    match last.lag_s {
        None => return unknown("the age of the lag is not known yet"),
        Some(lag) if lag < HELD_UP_S.max(interval) && !last.lag_is_lower_bound => {
            return keeps_up(&seen, generation);
        }
        Some(_) => {}
    }

    let transfer = last.primary_flush.bytes_since(write);
    let unflushed = write.bytes_since(flush);
    let unreplayed = last.replay.map_or(0, |replay| flush.bytes_since(replay));
    let amounts = format!(
        "{} on the way to the standby's write, {} from there to its flush, {} from there to replay",
        bytes(transfer as f64),
        bytes(unflushed as f64),
        bytes(unreplayed as f64)
    );
    let mut bottleneck = if unreplayed >= transfer && unreplayed >= unflushed {
        replay(&seen, seconds)
    } else if unflushed >= transfer {
        found(
            Place::StandbyFlush,
            "the standby wrote more than it has on disk, and says so: its fsync of WAL is under way".to_string(),
        )
    } else {
        transfer_place(&seen, segment_bytes)
    };
    if last.logical && matches!(bottleneck.place, Place::StandbyWrite | Place::StandbyFlush | Place::Replay) {
        let why = "the subscriber applies as it receives, and does not keep up: its disk, locks, or rows that it finds by \
                   no index";
        bottleneck = found(Place::Replay, why.to_string());
    }
    bottleneck.evidence.insert(0, amounts);
    bottleneck
}

/// Observations of a connected standby, two at least.
struct Seen<'a>(&'a [Observation]);

impl Seen<'_> {
    /// Part of the observations for which `is` holds.
    fn share(&self, is: impl Fn(&Observation) -> bool) -> f64 {
        self.0.iter().filter(|observation| is(observation)).count() as f64 / self.0.len() as f64
    }

    /// Part of the observations in which the walsender waited for something like this.
    fn waits(&self, is: impl Fn(&str) -> bool) -> f64 {
        self.share(|observation| observation.wait_event.as_deref().is_some_and(&is))
    }

    /// Part of the observations with WAL that the standby has written and not flushed.
    fn flushing(&self) -> f64 {
        self.share(|observation| observation.write > observation.flush)
    }

    /// Part of the observations in which it has written segments up to their ends; none if it has written nothing all the
    /// while, since it may be cut off there.
    fn at_ends(&self, segment_bytes: u64) -> f64 {
        if self.first().write == self.last().write {
            return 0.0;
        }
        let is_end = |write: Lsn| write.0.is_multiple_of(segment_bytes.max(1));
        self.share(|observation| observation.write.is_some_and(is_end))
    }

    fn first(&self) -> &Observation {
        &self.0[0]
    }

    fn last(&self) -> &Observation {
        &self.0[self.0.len() - 1]
    }

    /// Mean of a share of the connections' time.
    fn mean(&self, share: impl Fn(&Connection) -> Option<f64>) -> Option<f64> {
        let shares: Vec<f64> =
            self.0[1..].iter().filter_map(|observation| share(observation.connection.as_ref()?)).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }
}

fn keeps_up(seen: &Seen, generation: f64) -> Bottleneck {
    if generation < IDLE_BYTES_PER_S {
        return found(Place::Idle, "the standby has all WAL, and none is made".to_string());
    }
    let waiting = |observation: &Observation| observation.waiting_processes.unwrap_or(0);
    if seen.0.len() >= 3 && seen.share(|observation| waiting(observation) > 0) == 1.0 {
        let mean = seen.0.iter().map(|o| f64::from(waiting(o))).sum::<f64>() / seen.0.len() as f64;
        return Bottleneck {
            place: Place::PrimaryWalDisk,
            evidence: vec![
                format!("the standby keeps up with {}/s", bytes(generation)),
                format!(
                    "in all of {} samples processes of the primary waited for WAL to be written or synced, {mean:.1} on average",
                    seen.0.len()
                ),
            ],
        };
    }
    found(Place::Generation, format!("the standby keeps up with {}/s", bytes(generation)))
}

fn replay(seen: &Seen, seconds: f64) -> Bottleneck {
    let moved = |position: fn(&Observation) -> Option<Lsn>| {
        let first = position(seen.first()).unwrap_or_default();
        position(seen.last()).unwrap_or_default().bytes_since(first) as f64 / seconds
    };
    let (flushed, replayed) = (moved(|observation| observation.flush), moved(|observation| observation.replay));
    found(
        Place::Replay,
        if replayed == 0.0 {
            format!(
                "nothing was replayed in {seconds:.1} s: paused, in a recovery conflict (max_standby_streaming_delay), or \
                 delayed (recovery_min_apply_delay)"
            )
        } else {
            format!("{}/s were replayed, {}/s came to its disk", bytes(replayed), bytes(flushed))
        },
    )
}

/// What holds WAL up before the standby has written it.
fn transfer_place(seen: &Seen, segment_bytes: u64) -> Bottleneck {
    let reading = seen.waits(versions::is_wal_read);
    if reading >= MOST {
        return found(
            Place::PrimaryWalDisk,
            format!(
                "the walsender waited for WAL to be read from the primary's disk in {:.0} % of the samples",
                reading * 100.0
            ),
        );
    }
    if let Some(bottleneck) = by_connection(seen, segment_bytes) {
        return bottleneck;
    }
    let logical = seen.last().logical;
    if seen.first().write == seen.last().write {
        return unknown(match logical {
            true => {
                "the subscriber says nothing: it applies as it receives, and may be in a large transaction or wait for a \
                 lock, or the walsender decodes one, or it is cut off"
            }
            false => {
                "the walreceiver says nothing: it stands still, or it is cut off; on the primary's host pgcalm sees which"
            }
        });
    }
    let blocked = seen.share(|observation| {
        let unsent = observation.primary_flush.bytes_since(observation.sent.unwrap_or_default());
        let waits = observation.wait_event.as_deref();
        unsent > MESSAGE_BYTES && waits.is_some_and(versions::is_send_wait)
    });
    if blocked < MOST {
        return unknown("the walsender was seen neither waiting for the connection nor for its disk in most samples");
    }
    let (place, replies) = if seen.at_ends(segment_bytes) == 1.0 {
        (Place::StandbyWrite, "the walreceiver replies at the ends of segments only: it never finds its socket empty")
    } else if !logical && seen.flushing() >= MOST {
        return unknown(
            "the walreceiver is in fsync in most samples, and finds its socket empty after it: its disk or the network; on \
             the primary's host pgcalm sees which",
        );
    } else {
        (Place::Network, "the walreceiver replies within segments: it finds its socket empty")
    };
    Bottleneck {
        place,
        evidence: vec![
            format!(
                "the walsender had WAL to send and waited for its connection in {:.0} % of the samples",
                blocked * 100.0
            ),
            replies.to_string(),
        ],
    }
}

/// By the kernel's accounts; none if they are not at hand, or do not tell.
fn by_connection(seen: &Seen, segment_bytes: u64) -> Option<Bottleneck> {
    let arrived = seen.share(|observation| {
        let connection = observation.connection.as_ref();
        connection.is_some_and(|connection| connection.unacknowledged_bytes == Some(0))
    });
    // A walsender that runs may decode a transaction for long, and has sent nothing of it.
    let decodes = seen.last().logical && seen.waits(|_| true) < MOST;
    if arrived == 1.0 && seen.last().sent > seen.last().write && !decodes {
        return Some(found(
            Place::StandbyWrite,
            "the standby's kernel has all that was sent, and its walreceiver does not say that it wrote it".to_string(),
        ));
    }
    let busy = seen.mean(|connection| connection.busy)?;
    let receiver = seen.mean(|connection| connection.receiver_limited)?;
    if busy.max(receiver) < MOST {
        return None;
    }
    let evidence = format!(
        "data waited in the walsender's connection {:.0} % of the time; the standby's kernel had no room for it {:.0} % of \
         the time",
        busy * 100.0,
        receiver * 100.0
    );
    let retransmits = seen
        .mean(|connection| connection.retransmits_per_s)
        .filter(|rate| *rate > 0.0)
        .map(|rate| format!("{rate:.1} segments per second were sent again"));
    let (flushing, at_ends) = (seen.flushing(), seen.at_ends(segment_bytes));
    let sometimes = receiver >= SOME * busy;
    let (place, replies) = if sometimes && flushing >= MOST {
        (
            Place::StandbyFlush,
            Some(format!(
                "in {:.0} % of the samples the standby had written what it had not flushed: its walreceiver was in fsync, and \
                 reads nothing meanwhile",
                flushing * 100.0
            )),
        )
    } else if at_ends >= MOST || sometimes && at_ends + flushing >= MOST {
        (
            Place::StandbyWrite,
            Some(format!(
                "in {:.0} % of the samples the walreceiver's last reply was at the end of a segment: it found its socket empty \
                 no more, and its kernel takes WAL while it writes and syncs",
                at_ends * 100.0
            )),
        )
    } else if receiver >= MOST * busy {
        (Place::StandbyWrite, None)
    } else {
        (Place::Network, None)
    };
    let mut bottleneck = found(place, evidence);
    bottleneck.evidence.extend(replies);
    bottleneck.evidence.extend(retransmits);
    Some(bottleneck)
}

fn found(place: Place, evidence: String) -> Bottleneck {
    Bottleneck { place, evidence: vec![evidence] }
}

fn unknown(why: &str) -> Bottleneck {
    found(Place::Unknown, why.to_string())
}

#[cfg(test)]
mod tests;
