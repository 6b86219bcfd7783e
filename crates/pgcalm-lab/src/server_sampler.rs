//! What a server tells of itself each second, asked on one connection that is open all the time.
//!
//! The question reads shared memory only, so that a stall of the disks does not hold the answer; where it is held all the same, the
//! seconds meanwhile have none. See [`ServerSeries`] for what can be relied on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pgcalm_host::stop::Stop;
use pgcalm_postgres::{Client, Version};
use postgres::Statement;
use serde_json::Value;

use crate::background::{Background, sleep_until};
use crate::connection::connect;
use crate::contest::report::ServerSeries;

const MIB: f64 = (1 << 20) as f64;

/// How long the end of an answer under way is waited for. After that the connection ends with the server.
const LAST_ANSWER: Duration = Duration::from_secs(2);

/// What the server told at the beginning of a second.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServerSample {
    /// The second of the epoch that begins.
    pub second: i64,
    counters: Counters,
    checkpointer_wait: Option<String>,
    client_waits: BTreeMap<String, u32>,
    module: BTreeMap<String, f64>,
}

/// Counted since the server's start; `None` is what it does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counters {
    buffers_checkpointer: Option<f64>,
    buffers_bgwriter: Option<f64>,
    buffers_backend: Option<f64>,
    wal_mib: Option<f64>,
    wal_writes: Option<f64>,
    wal_syncs: Option<f64>,
    wal_full_page_images: Option<f64>,
}

/// Asks a server until it is finished or dropped.
#[derive(Debug)]
pub(crate) struct ServerSampler {
    samples: Arc<Mutex<Vec<ServerSample>>>,
    thread: Background<()>,
}

impl ServerSampler {
    /// Connects to the server with its socket in `directory` and begins. While there is no server there are no answers; one that is
    /// started again counts from zero.
    pub(crate) fn start(directory: &Path) -> anyhow::Result<Self> {
        let (client, question) = begin(directory)?;
        let samples = Arc::default();
        let (kept, directory) = (Arc::clone(&samples), directory.to_path_buf());
        let thread = Background::start(move |stop| watch(&directory, client, question, &kept, stop));
        Ok(Self { samples, thread: thread.with_patience(LAST_ANSWER) })
    }

    /// Ends asking and returns the answers.
    pub(crate) fn finish(self) -> Vec<ServerSample> {
        drop(self.thread);
        std::mem::take(&mut self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Connects, and prepares what is asked.
fn begin(directory: &Path) -> anyhow::Result<(Client, Statement)> {
    let mut client = connect(directory)?;
    let version = Version::read(&mut client)?;
    let has = |client: &mut Client, view: &str| -> anyhow::Result<bool> {
        Ok(client.query_one(&format!("select to_regclass('{view}') is not null"), &[])?.get(0))
    };
    let (module, guard) = (has(&mut client, "pg_calm_status")?, has(&mut client, "pg_calm_guard")?);
    let question = client.prepare(&question(version, module, guard)).context("ask the server for its statistics")?;
    Ok((client, question))
}

fn watch(
    directory: &Path,
    mut client: Client,
    mut question: Statement,
    samples: &Mutex<Vec<ServerSample>>,
    stop: &Stop,
) {
    let mut next = now().as_secs() + 1;
    while !sleep_until(Instant::now() + Duration::from_secs(next).saturating_sub(now()), stop) {
        match ask(&mut client, &question, next) {
            // An answer of the next second is not one of this.
            Ok(sample) if now() < Duration::from_secs(next + 1) => {
                samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
            }
            Ok(_) => {}
            // A server that has gone may come back.
            Err(_) => {
                if let Ok(new) = begin(directory) {
                    (client, question) = new;
                }
            }
        }
        next = (next + 1).max(now().as_secs());
    }
}

fn ask(client: &mut Client, question: &Statement, second: u64) -> anyhow::Result<ServerSample> {
    let row = client.query_one(question, &[])?;
    let waits: String = row.get("client_waits");
    let module: Option<String> = row.get("module");
    Ok(ServerSample {
        second: second as i64,
        counters: Counters {
            buffers_checkpointer: row.get("buffers_checkpointer"),
            buffers_bgwriter: row.get("buffers_bgwriter"),
            buffers_backend: row.get("buffers_backend"),
            wal_mib: row.get::<_, Option<f64>>("wal_bytes").map(|bytes| bytes / MIB),
            wal_writes: row.get("wal_writes"),
            wal_syncs: row.get("wal_syncs"),
            wal_full_page_images: row.get("wal_full_page_images"),
        },
        checkpointer_wait: row.get("checkpointer_wait"),
        client_waits: serde_json::from_str(&waits)?,
        module: match module {
            Some(row) => numbers(&serde_json::from_str(&row)?),
            None => BTreeMap::new(),
        },
    })
}

/// Fields that are numbers.
fn numbers(row: &BTreeMap<String, Value>) -> BTreeMap<String, f64> {
    row.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
}

/// What to ask a server of version `version`, with the module or without, with the guard or without.
fn question(version: Version, module: bool, guard: bool) -> String {
    let (writes, wal) = (version.writes(), version.wal());
    let status = if module && guard {
        "select to_jsonb(s) || coalesce((select jsonb_object_agg(concat_ws('_', 'guard', g.input, column_of.key), column_of.value) \
                                           from pg_calm_guard g, jsonb_each(to_jsonb(g) || jsonb_build_object('full_in_s', \
                                                extract(epoch from g.full_at - clock_timestamp())::float8)) column_of \
                                          where g.state <> 'off' and jsonb_typeof(column_of.value) = 'number'), '{}') \
           from pg_calm_status s"
    } else if module {
        "select to_jsonb(s) from pg_calm_status s"
    } else {
        "null"
    };
    format!(
        "select b.buffers_checkpoint::float8 as buffers_checkpointer, \
                b.buffers_clean::float8 as buffers_bgwriter, \
                b.buffers_backend::float8 as buffers_backend, \
                pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as wal_bytes, \
                w.wal_writes::float8 as wal_writes, \
                w.wal_syncs::float8 as wal_syncs, \
                w.wal_fpi::float8 as wal_full_page_images, \
                (select wait_event from pg_stat_activity where backend_type = 'checkpointer') as checkpointer_wait, \
                (select coalesce(json_object_agg(event, number), '{{}}')::text \
                   from (select coalesce(wait_event, 'none') as event, count(*) as number from pg_stat_activity \
                          where backend_type = 'client backend' and xact_start is not null and pid <> pg_backend_pid() \
                          group by 1) waits) as client_waits, \
                ({status})::text as module from {writes} b, {wal} w"
    )
}

/// From answers to series over the seconds from `first` to before `end`; empty if there was none.
pub(crate) fn server_series(samples: &[ServerSample], first: i64, end: i64) -> ServerSeries {
    let mut series = ServerSeries::default();
    if samples.is_empty() {
        return series;
    }
    // Not all of them are there from the first answer on.
    let columns: BTreeSet<&String> = samples.iter().flat_map(|s| s.module.keys()).collect();
    for second in first..end {
        // The state at the end of the second, and what was counted since its beginning or, if there was no answer then, the last
        // one before.
        let after = samples.binary_search_by_key(&(second + 1), |sample| sample.second).ok();
        let before = samples.partition_point(|sample| sample.second <= second);
        let pair = after.and_then(|after| Some((&samples[before.checked_sub(1)?], &samples[after])));
        let counted = |read: fn(&Counters) -> Option<f64>| {
            let (before, after) = pair?;
            // A server that was started between the two has begun anew.
            Some(read(&after.counters)? - read(&before.counters)?).filter(|counted| *counted >= 0.0)
        };
        let ServerSeries {
            buffers_checkpointer,
            buffers_bgwriter,
            buffers_backend,
            wal_mib,
            wal_writes,
            wal_syncs,
            wal_full_page_images,
            checkpointer_wait,
            client_waits,
            module,
        } = &mut series;
        buffers_checkpointer.push(counted(|c| c.buffers_checkpointer));
        buffers_bgwriter.push(counted(|c| c.buffers_bgwriter));
        buffers_backend.push(counted(|c| c.buffers_backend));
        wal_mib.push(counted(|c| c.wal_mib));
        wal_writes.push(counted(|c| c.wal_writes));
        wal_syncs.push(counted(|c| c.wal_syncs));
        wal_full_page_images.push(counted(|c| c.wal_full_page_images));
        let after = after.map(|after| &samples[after]);
        checkpointer_wait.push(after.and_then(|after| after.checkpointer_wait.clone()));
        client_waits.push(after.map(|after| after.client_waits.clone()));
        for column in &columns {
            let value = after.and_then(|after| after.module.get(*column).copied());
            module.entry((*column).clone()).or_default().push(value);
        }
    }
    series
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: i64, syncs: f64, flushed: f64) -> ServerSample {
        ServerSample {
            second,
            counters: Counters { wal_syncs: Some(syncs), ..Counters::default() },
            checkpointer_wait: Some("CheckpointWriteDelay".into()),
            module: [("flushed_pages".to_string(), flushed)].into(),
            ..ServerSample::default()
        }
    }

    #[test]
    fn counts_are_of_the_second_and_what_was_counted_without_an_answer_is_in_the_next() {
        let samples = [
            sample(100, 10.0, 5.0),
            sample(101, 30.0, 6.0),
            // None at the beginning of 102.
            sample(103, 90.0, 9.0),
        ];
        let series = server_series(&samples, 99, 104);
        assert_eq!(series.wal_syncs, [None, Some(20.0), None, Some(60.0), None]);
        assert_eq!(series.module["flushed_pages"], [Some(5.0), Some(6.0), None, Some(9.0), None]);
        assert_eq!(series.checkpointer_wait[2], None);
        assert_eq!(series.client_waits[1], Some(BTreeMap::new()));
        // What the server does not count has no value.
        assert_eq!(series.buffers_backend, [None; 5]);
        assert_eq!(server_series(&[], 99, 104), ServerSeries::default());
    }

    #[test]
    fn texts_and_flags_of_the_status_are_no_numbers() {
        let row =
            serde_json::from_str(r#"{"mode": "on", "degraded": null, "alert": true, "flushed_pages": 7}"#).unwrap();
        assert_eq!(numbers(&row), [("flushed_pages".to_string(), 7.0)].into());
    }
}
