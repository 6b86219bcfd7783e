//! Transactions, connections, waits.

use crate::metrics::{Kind, Metric, Read};
use crate::model::WaitCause;

pub const TABLE: &[Metric] = &[
    Metric {
        name: "pgcalm_transactions",
        kind: Kind::Counter,
        help: "Transactions of all databases since statistics were reset, one per sample of pgcalm's own included; outcome \
               is commit or rollback",
        labels: &["outcome"],
        read: Read::Instance(|instance, points| {
            if let Some(counters) = &instance.counters {
                points.add(&["commit"], counters.commits);
                points.add(&["rollback"], counters.rollbacks);
            }
        }),
    },
    Metric {
        name: "pgcalm_deadlocks",
        kind: Kind::Counter,
        help: "Deadlocks since statistics were reset",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.counters.map(|counters| counters.deadlocks));
        }),
    },
    Metric {
        name: "pgcalm_temporary_file_bytes",
        kind: Kind::Counter,
        help: "Bytes written to temporary files since statistics were reset",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.counters.map(|counters| counters.temporary_bytes));
        }),
    },
    Metric {
        name: "pgcalm_connections",
        kind: Kind::Gauge,
        help: "Client connections; state is active, idle, idle_in_transaction or other",
        labels: &["state"],
        read: Read::Instance(|instance, points| {
            if let Some(activity) = &instance.activity {
                let connections = &activity.connections;
                points.add(&["active"], connections.active);
                points.add(&["idle"], connections.idle);
                points.add(&["idle_in_transaction"], connections.idle_in_transaction);
                points.add(&["other"], connections.other);
            }
        }),
    },
    Metric {
        name: "pgcalm_max_connections",
        kind: Kind::Gauge,
        help: "Setting max_connections",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.activity.as_ref().map(|activity| activity.max_connections));
        }),
    },
    Metric {
        name: "pgcalm_active_sessions",
        kind: Kind::Gauge,
        help: "Client sessions that run a statement, by what they wait for at that moment; cause is cpu (no wait event), \
               data_io, data_sync, wal, wal_lock, other_io, lock, lightweight_lock, buffer_pin, synchronous_replication, \
               guard, other_process, client, timeout or other",
        labels: &["cause"],
        read: Read::Instance(|instance, points| {
            if let Some(activity) = &instance.activity {
                let causes = activity.sessions_by_cause();
                for cause in WaitCause::ALL {
                    points.add(&[cause.name()], causes.get(&cause).copied().unwrap_or(0));
                }
            }
        }),
    },
    Metric {
        name: "pgcalm_active_session_seconds",
        kind: Kind::Counter,
        help: "Time of active client sessions by what they waited for, all sessions together, since the exporter started: \
               sampled at its interval",
        labels: &["cause"],
        read: Read::Instance(|instance, points| {
            if let Some(activity) = &instance.activity {
                for cause in WaitCause::ALL {
                    let seconds = activity.wait_session_seconds.get(&cause);
                    points.add(&[cause.name()], seconds.copied().unwrap_or(0.0));
                }
            }
        }),
    },
    Metric {
        name: "pgcalm_oldest_transaction_seconds",
        kind: Kind::Gauge,
        help: "Age of the oldest transaction of a client; 0 if none is open",
        labels: &[],
        read: Read::Instance(|instance, points| {
            if let Some(activity) = &instance.activity {
                points.add(&[], activity.oldest_transaction_seconds.unwrap_or(0.0));
            }
        }),
    },
];
