//! How long a stop and recovery would take.

use crate::metrics::{Kind, Metric, Read};

metrics! {
    Gauge "pgcalm_stop_seconds" []
        "Estimate of a fast stop now: by pg_calm, or by what is dirty and the caps that are known, which is more than it will be; \
         absent if no cap is known"
        Instance |instance| instance.stop.as_ref().and_then(|stop| stop.stop_seconds);
    Gauge "pgcalm_recovery_seconds" []
        "Estimate of recovery after a crash now, at most: WAL since the redo point, at the rate of replay that pg_calm has seen, \
         or at 16 MB/s, and with the checkpoint at its end"
        Instance |instance| instance.stop.as_ref().and_then(|stop| stop.recovery_most_seconds);
}
