//! Transactions, connections, waits.

use crate::metrics::{Kind, Metric, Read};
use crate::model::WaitCause;

metrics! {
    Counter "pgcalm_transactions" ["outcome"]
        "Transactions of all databases since statistics were reset, one per sample of pgcalm's own included; \
         outcome is commit or rollback"
        Instance |instance, points| {
            if let Some(counters) = &instance.counters {
                points.add(&["commit"], counters.commits);
                points.add(&["rollback"], counters.rollbacks);
            }
        };
    Counter "pgcalm_deadlocks" []
        "Deadlocks since statistics were reset"
        Instance |instance| instance.counters.map(|counters| counters.deadlocks);
    Counter "pgcalm_temporary_file_bytes" []
        "Bytes written to temporary files since statistics were reset"
        Instance |instance| instance.counters.map(|counters| counters.temporary_bytes);
    Gauge "pgcalm_connections" ["state"]
        "Client connections; state is active, idle, idle_in_transaction or other"
        Instance |instance, points| {
            if let Some(activity) = &instance.activity {
                let connections = &activity.connections;
                points.add(&["active"], connections.active);
                points.add(&["idle"], connections.idle);
                points.add(&["idle_in_transaction"], connections.idle_in_transaction);
                points.add(&["other"], connections.other);
            }
        };
    Gauge "pgcalm_max_connections" []
        "Setting max_connections"
        Instance |instance| instance.activity.as_ref().map(|activity| activity.max_connections);
    Gauge "pgcalm_active_sessions" ["cause"]
        "Client sessions that run a statement, by what they wait for at that moment; cause is cpu (no wait event), \
         data_io, data_sync, wal, wal_lock, other_io, lock, lightweight_lock, buffer_pin, synchronous_replication, \
         guard, other_process, client, timeout or other"
        Instance |instance, points| {
            if let Some(activity) = &instance.activity {
                let causes = activity.sessions_by_cause();
                for cause in WaitCause::ALL {
                    points.add(&[cause.name()], causes.get(&cause).copied().unwrap_or(0));
                }
            }
        };
    Counter "pgcalm_active_session_seconds" ["cause"]
        "Time of active client sessions by what they waited for, all sessions together, since the exporter started: \
         sampled at its interval"
        Instance |instance, points| {
            if let Some(activity) = &instance.activity {
                for cause in WaitCause::ALL {
                    let seconds = activity.wait_session_seconds.get(&cause);
                    points.add(&[cause.name()], seconds.copied().unwrap_or(0.0));
                }
            }
        };
    Gauge "pgcalm_oldest_transaction_seconds" []
        "Age of the oldest transaction of a client; 0 if none is open"
        Instance |instance, points| {
            if let Some(activity) = &instance.activity {
                points.add(&[], activity.oldest_transaction_seconds.unwrap_or(0.0));
            }
        };
}
