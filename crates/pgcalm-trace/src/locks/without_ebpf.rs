//! Lock waits out of samples of pg_stat_activity, where the server's probes are out of reach.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::locks::Options;
use crate::locks::report::{Line, LockClass, LockWaits, Period};
use crate::report::histogram::Histogram;
use crate::report::{Drops, End, EndReason, Missing, Take};
use crate::stop::Stop;
use crate::target::Target;
use crate::{clock, connection, polling, session};
use pgcalm_host::Failure;

const INTERVAL: Duration = Duration::from_millis(100);

/// Nothing of this session's own is in it: it waits for no lock while it runs.
const WAITS: &str = "SELECT wait_event_type, wait_event, coalesce(backend_type, 'unknown'), count(*) \
     FROM pg_stat_activity WHERE wait_event_type IN ('LWLock', 'Lock') GROUP BY 1, 2, 3";

/// Samples until something ends it. `reason` is why the probes are out of reach.
///
/// Without --connect nothing is left: [`Failure::Host`] with that reason.
pub(super) fn run(
    target: &Target,
    options: &Options,
    stop: &Stop,
    reason: &str,
    take: Take<'_, Line>,
) -> anyhow::Result<EndReason> {
    let Some(connect) = &options.connect else {
        anyhow::bail!(Failure::Host(format!(
            "{reason}; or give --connect, then samples of pg_stat_activity tell roughly who waits for what"
        )));
    };
    let mut client = connection::connect(target, connect)?;
    let mut missing: Vec<Missing> = [
        "numbers, modes and distributions of waits; the time is that of ten samples a second",
        "the split by checkpoint, and --count",
    ]
    .into_iter()
    .map(|answer| Missing { answer: answer.to_string(), reason: reason.to_string() })
    .collect();
    take(Line::Start(session::start_line(target, "locks", Vec::new(), false, missing.clone())))?;
    let started = Instant::now();
    let deadline = options.duration.map(|duration| started + duration);
    // A sample stands for the time since the one before.
    let mut waited: HashMap<(String, String, String), f64> = HashMap::new();
    let mut last = started;
    let end_reason = loop {
        let ended = polling::wait(target, stop, INTERVAL, deadline);
        polling::note_if_stopped(target, &mut missing);
        if ended == Some(EndReason::ServerEnded) {
            break EndReason::ServerEnded;
        }
        // It would not answer.
        if polling::is_stopped(target) {
            last = Instant::now();
            match ended {
                Some(reason) => break reason,
                None => continue,
            }
        }
        let rows = match client.query(WAITS, &[]) {
            Ok(rows) => rows,
            Err(_) if client.is_closed() => break EndReason::ServerEnded,
            Err(error) => return Err(error).context("read pg_stat_activity"),
        };
        let now = Instant::now();
        let seconds = (now - last).as_secs_f64();
        last = now;
        for row in rows {
            let count: i64 = row.get(3);
            *waited.entry((row.get(0), row.get(1), row.get(2))).or_default() += count as f64 * seconds;
        }
        if let Some(reason) = ended {
            break reason;
        }
    };
    take(Line::Total(period(waited, started.elapsed())))?;
    take(Line::End(End {
        time: clock::unix_seconds(clock::monotonic_ns()),
        reason: end_reason,
        drops: Drops::default(),
        missing,
    }))?;
    Ok(end_reason)
}

fn period(waited: HashMap<(String, String, String), f64>, time: Duration) -> Period {
    let mut locks: Vec<LockWaits> = waited
        .into_iter()
        .map(|((class, name, process_type), seconds)| LockWaits {
            class: if class == "LWLock" { LockClass::Lightweight } else { LockClass::Heavyweight },
            name,
            mode: "unknown".to_string(),
            database: None,
            relation: None,
            relation_name: None,
            process_type,
            waits: Histogram::default(),
            sampled_s: Some(seconds),
            acquisitions: None,
        })
        .collect();
    locks.sort_by(|a, b| {
        (b.sampled_s.unwrap_or(0.0))
            .total_cmp(&a.sampled_s.unwrap_or(0.0))
            .then_with(|| (&a.name, &a.process_type).cmp(&(&b.name, &b.process_type)))
    });
    Period { seconds: time.as_secs_f64(), locks }
}
