//! Who is behind, and by how much.

use pgcalm_lag::{History, Sample};
use postgres::Error;

use crate::model::{Replication, ServerRole, Slot, Standby, Subject, WalReceiver};
use crate::server::facts::Facts;
use crate::server::session::{Columns, Session};

/// Where the WAL of this server ends: a cascading standby sends what it has replayed or received.
const END: &str = "CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) \
                   ELSE pg_current_wal_lsn() END";

const RECEIVER: &str = "SELECT (SELECT coalesce(status, 'hidden') FROM pg_stat_wal_receiver) AS status, \
    pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())::int8 AS replay_bytes, \
    CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0 ELSE \
    extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END::float8 AS replay_seconds";

/// How long a standby that is disconnected and has no slot is missed, s: nobody tells whether it comes back. Long enough for an
/// alert to be seen; one that was taken away falls further behind for ever.
const MISSED_S: f64 = 3600.0;

/// Asks for all. A primary that has standbys or slots, or had, is asked in detail; others are spared that. `reads_control`: whether
/// pg_control can be read, without which there is no detail.
pub(super) fn ask(
    session: &mut Session,
    facts: &Facts,
    role: ServerRole,
    history: &mut Option<History>,
    reads_control: bool,
) -> Result<Replication, Error> {
    let mut replication = Replication {
        standbys: standbys(session)?,
        slots: slots(session)?,
        receiver: match role {
            ServerRole::Primary => None,
            ServerRole::Standby => Some(receiver(session)?),
        },
    };
    let alone = replication.standbys.is_empty() && replication.slots.is_empty();
    if reads_control && role == ServerRole::Primary && facts.sees_all_sessions && (!alone || history.is_some()) {
        let history = history.get_or_insert_default();
        let sample = session.part("lag", Subject::Replication, |session| session.lag(history))?;
        if let Some(sample) = sample {
            for missing in &sample.missing {
                let reason = format!("{}: {}", missing.what, missing.reason);
                session.lacks(Subject::Replication, reason, None);
            }
            refine(&mut replication, &sample);
        }
    }
    Ok(replication)
}

/// Takes over what a sample of lag has besides.
fn refine(replication: &mut Replication, sample: &Sample) {
    replication.standbys = sample
        .standbys
        .iter()
        .filter(|standby| standby.slot.is_some() || standby.disconnected_s.is_none_or(|seconds| seconds < MISSED_S))
        .map(|standby| Standby {
            name: match standby.application_name.as_str() {
                "" => standby.slot.clone().unwrap_or_default(),
                name => name.to_string(),
            },
            state: word(&standby.state),
            sync_state: standby.sync_state.clone().unwrap_or_default(),
            sent_lag_bytes: standby.sent.lag_bytes,
            write_lag_bytes: standby.write.lag_bytes,
            flush_lag_bytes: standby.flush.lag_bytes,
            replay_lag_bytes: standby.replay.lag_bytes,
            write_lag_seconds: standby.write.lag_s,
            flush_lag_seconds: standby.flush.lag_s,
            replay_lag_seconds: standby.replay.lag_s,
            disconnected_seconds: standby.disconnected_s,
            interface: connection(standby).and_then(|connection| connection.interface.clone()),
            network_bytes_per_second: connection(standby).and_then(|connection| connection.acknowledged_bytes_per_s),
            network_packets_per_second: connection(standby).and_then(|connection| connection.sent_packets_per_s),
            held_up_at: Some(word(&standby.bottleneck.place)),
            seconds_until_wal_removed: standby.need.seconds_until_removed,
        })
        .collect();
    for slot in &mut replication.slots {
        let known = sample.slots.iter().find(|known| known.name == slot.name);
        slot.seconds_until_lost = known.and_then(|known| known.seconds_until_lost);
    }
}

fn connection(standby: &pgcalm_lag::model::Standby) -> Option<&pgcalm_lag::model::Connection> {
    standby.connection.as_ref()
}

/// The word that stands for a variant in JSON.
fn word(variant: &impl serde::Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "other".to_string(),
    }
}

fn standbys(session: &mut Session) -> Result<Vec<Standby>, Error> {
    let sql = format!(
        "SELECT coalesce(application_name, '') AS name, coalesce(state, '') AS state, \
         coalesce(sync_state, '') AS sync_state, \
         pg_wal_lsn_diff(e.lsn, sent_lsn)::int8 AS sent, pg_wal_lsn_diff(e.lsn, write_lsn)::int8 AS write, \
         pg_wal_lsn_diff(e.lsn, flush_lsn)::int8 AS flush, pg_wal_lsn_diff(e.lsn, replay_lsn)::int8 AS replay, \
         extract(epoch FROM write_lag)::float8 AS write_lag, extract(epoch FROM flush_lag)::float8 AS flush_lag, \
         extract(epoch FROM replay_lag)::float8 AS replay_lag \
         FROM pg_stat_replication, (SELECT {END} AS lsn) e ORDER BY 1, pid"
    );
    session
        .rows(&sql)?
        .iter()
        .map(|row| {
            Ok(Standby {
                name: row.text("name")?.unwrap_or_default(),
                state: row.text("state")?.unwrap_or_default(),
                sync_state: row.text("sync_state")?.unwrap_or_default(),
                sent_lag_bytes: row.count("sent")?,
                write_lag_bytes: row.count("write")?,
                flush_lag_bytes: row.count("flush")?,
                replay_lag_bytes: row.count("replay")?,
                write_lag_seconds: row.number("write_lag")?,
                flush_lag_seconds: row.number("flush_lag")?,
                replay_lag_seconds: row.number("replay_lag")?,
                ..Standby::default()
            })
        })
        .collect()
}

fn slots(session: &mut Session) -> Result<Vec<Slot>, Error> {
    let sql = format!(
        // The primary keeps a standby's copy (17), as long as it is in recovery.
        "SELECT slot_name::text AS name, wal_status, \
         active OR (pg_is_in_recovery() AND coalesce((to_jsonb(s) ->> 'synced')::bool, false)) AS active, \
         pg_wal_lsn_diff(e.lsn, restart_lsn)::int8 AS retained \
         FROM pg_replication_slots s, (SELECT {END} AS lsn) e ORDER BY 1"
    );
    session
        .rows(&sql)?
        .iter()
        .map(|row| {
            Ok(Slot {
                name: row.text("name")?.unwrap_or_default(),
                active: row.flag("active")?,
                wal_status: row.text("wal_status")?,
                retained_bytes: row.count("retained")?,
                seconds_until_lost: None,
            })
        })
        .collect()
}

fn receiver(session: &mut Session) -> Result<WalReceiver, Error> {
    let rows = session.rows(RECEIVER)?;
    let row = &rows[0];
    Ok(WalReceiver {
        status: row.text("status")?,
        replay_lag_bytes: row.count("replay_bytes")?,
        replay_lag_seconds: row.number("replay_seconds")?,
    })
}

#[cfg(test)]
mod tests {
    use pgcalm_lag::Lsn;
    use pgcalm_lag::model::StandbyState;
    use pgcalm_lag::reading::{Reading, Sender, Settings, SlotReading};

    use super::*;

    fn sender(pid: i32, name: &str) -> Sender {
        Sender {
            pid,
            application_name: name.to_string(),
            client_address: None,
            client_port: None,
            state: StandbyState::Streaming,
            sync_state: None,
            lsn: [Some(Lsn(1 << 30)); 4],
            server_lag_s: [None; 4],
            reply_age_s: None,
            wait_event: None,
            disk_read_bytes: None,
            tcp: None,
            interface: None,
        }
    }

    /// With a slot of the last sender's.
    fn reading(time: f64, senders: &[Sender]) -> Reading {
        let end = Lsn((1 << 30) + ((time as u64) << 20));
        let active_pid = senders.last().map(|sender| sender.pid);
        Reading {
            time,
            insert_lsn: end,
            write_lsn: end,
            flush_lsn: end,
            settings: Settings {
                segment_bytes: 16 << 20,
                max_wal_size_bytes: 1 << 30,
                checkpoint_timeout_s: 300.0,
                checkpoint_completion_target: 0.9,
                ..Settings::default()
            },
            senders: senders.to_vec(),
            slots: vec![SlotReading {
                name: "slot".to_string(),
                physical: true,
                active: active_pid.is_some(),
                active_pid,
                restart_lsn: Some(Lsn(1 << 30)),
                ..SlotReading::default()
            }],
            ..Reading::default()
        }
    }

    #[test]
    fn a_standby_without_a_slot_is_not_missed_for_ever() {
        let mut history = History::default();
        history.add(reading(0.0, &[sender(100, "bare"), sender(101, "kept")]));
        let mut missed = |time| {
            let mut replication = Replication::default();
            refine(&mut replication, &history.add(reading(time, &[])));
            let missed = replication.standbys.iter().filter(|standby| standby.replay_lag_bytes.is_some());
            missed.map(|standby| standby.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(missed(1.0), ["bare", "kept"]);
        assert_eq!(missed(MISSED_S + 1.0), ["kept"]);
    }
}
