//! pg_calm: page map, writes, latencies, guard, share, flushes of WAL.

use std::collections::BTreeMap;

use crate::metrics::Histogram;
use crate::metrics::Kind;
use crate::metrics::Metric;
use crate::metrics::Read;
use crate::model::Instance;
use crate::model::IoHistogram;
use crate::model::Module;

/// Upper bounds of the exported histograms, seconds: every second one of the module's, which are powers of two
/// microseconds.
const BOUNDS: [f64; 11] =
    [16e-6, 64e-6, 256e-6, 1024e-6, 4096e-6, 16384e-6, 65536e-6, 0.262144, 1.048576, 4.194304, 16.777216];

/// States of an input of the guard, as pg_calm_guard has them.
const GUARD_STATES: [&str; 6] = ["off", "unknown", "watched", "pacing", "released", "refusing"];

fn counter(instance: &Instance, value: fn(&Module) -> u64) -> Option<u64> {
    instance.module.as_ref().map(value)
}

/// Durations of calls by operation and process: three types of process that matter here, and the others.
fn histograms(io: &[IoHistogram]) -> BTreeMap<(&str, &'static str), Histogram> {
    let mut sums: BTreeMap<(&str, &'static str), Histogram> = BTreeMap::new();
    for histogram in io {
        let process = match histogram.backend_type.as_str() {
            "client backend" => "client_backend",
            "checkpointer" => "checkpointer",
            "background writer" => "background_writer",
            _ => "other",
        };
        let sums = sums.entry((histogram.operation.as_str(), process)).or_insert_with(|| Histogram::new(&BOUNDS));
        for bucket in &histogram.buckets {
            let calls = bucket.count * u64::from(histogram.sampled_every);
            sums.add(bucket.upper_bound_seconds, calls);
        }
    }
    sums
}

pub const TABLE: &[Metric] = &[
    Metric {
        name: "pgcalm_unflushed_bytes",
        kind: Kind::Gauge,
        help: "Pages that are written and not flushed; generation is old (before the last checkpoint began to write) or new",
        labels: &["generation"],
        read: Read::Instance(|instance, points| {
            if let Some(unflushed) = &instance.unflushed {
                points.add(&["old"], unflushed.old_pages * unflushed.page_bytes);
                points.add(&["new"], unflushed.new_pages * unflushed.page_bytes);
            }
        }),
    },
    Metric {
        name: "pgcalm_module_in_flight_bytes",
        kind: Kind::Gauge,
        help: "Pages that pg_calm is writing back now",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.unflushed.map(|unflushed| unflushed.in_flight_pages * unflushed.page_bytes));
        }),
    },
    Metric {
        name: "pgcalm_module_worker_up",
        kind: Kind::Gauge,
        help: "Whether pg_calm's writeback worker runs",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.module.as_ref().map(|module| module.worker_running));
        }),
    },
    Metric {
        name: "pgcalm_module_degraded",
        kind: Kind::Gauge,
        help: "Whether pg_calm does less than its mode says; pg_calm_status tells why",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.module.as_ref().map(|module| module.degraded.is_some()));
        }),
    },
    Metric {
        name: "pgcalm_module_degraded_state",
        kind: Kind::Gauge,
        help: "1 for each state that pg_calm_status.degraded names, 0 for the others; state is not_flushed, worker_down, \
               worker_stuck, no_cap, other_devices, map_full, not_bridged, not_shared, breaker or other",
        labels: &["state"],
        read: Read::Instance(|instance, points| {
            for (state, named) in instance.module.iter().flat_map(|module| module.degraded_states()) {
                points.add(&[state], named);
            }
        }),
    },
    Metric {
        name: "pgcalm_module_pages",
        kind: Kind::Counter,
        help: "Pages by how they came to be written, in mode shadow would have been: flushed by pg_calm, fsynced by \
               PostgreSQL, handed to the kernel flusher, kernel_flushed before pg_calm came to them, bridged (clean ones \
               between dirty ones)",
        labels: &["way"],
        read: Read::Instance(|instance, points| {
            if let Some(module) = &instance.module {
                points.add(&["flushed"], module.flushed_pages);
                points.add(&["fsynced"], module.fsynced_pages);
                points.add(&["handed"], module.handed_pages);
                points.add(&["kernel_flushed"], module.kernel_flushed_pages);
                points.add(&["bridged"], module.bridged_pages);
            }
        }),
    },
    Metric {
        name: "pgcalm_module_device_operations",
        kind: Kind::Counter,
        help: "Operations of pg_calm's writes as the device counts them, in mode shadow of those that would have been",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], counter(instance, |module| module.device_operations));
        }),
    },
    Metric {
        name: "pgcalm_module_written_bytes",
        kind: Kind::Counter,
        help: "Bytes of pg_calm's writes, in mode shadow of those that would have been",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], counter(instance, |module| module.written_bytes));
        }),
    },
    Metric {
        name: "pgcalm_module_errors",
        kind: Kind::Counter,
        help: "Writeback errors that pg_calm has seen; each ends in PANIC",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], counter(instance, |module| module.errors));
        }),
    },
    Metric {
        name: "pgcalm_module_page_map_overflows",
        kind: Kind::Counter,
        help: "Times that pg_calm.page_map_memory was used up; object is region (counted as wholly dirty) or file (a write \
               to it was not tracked)",
        labels: &["object"],
        read: Read::Instance(|instance, points| {
            if let Some(module) = &instance.module {
                points.add(&["region"], module.full_regions);
                points.add(&["file"], module.full_files);
            }
        }),
    },
    Metric {
        name: "pgcalm_io_call_duration_seconds",
        kind: Kind::Histogram,
        help: "How long calls for I/O took since the server started, with pg_calm: estimated from those that it timed, and \
               the sum from the middle of its buckets; operation is write, writeback, fsync or fsync_other; process is \
               client_backend, checkpointer, background_writer or other",
        labels: &["operation", "process"],
        read: Read::Instance(|instance, points| {
            for ((operation, process), histogram) in histograms(&instance.io) {
                points.histogram(&[&operation.replace(' ', "_"), process], histogram);
            }
        }),
    },
    Metric {
        name: "pgcalm_guard_state",
        kind: Kind::Gauge,
        help: "1 for the state that an input of the guard is in, 0 for the others; input is wal_space, max_wal, lag or \
               archive; state is off, unknown, watched, pacing, released or refusing",
        labels: &["input", "state"],
        read: Read::Instance(|instance, points| {
            for input in instance.guard.iter().flat_map(|guard| &guard.inputs) {
                for state in GUARD_STATES {
                    points.add(&[&input.input, state], input.state == state);
                }
            }
        }),
    },
    Metric {
        name: "pgcalm_guard_held_sessions",
        kind: Kind::Gauge,
        help: "Sessions that the guard holds now",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.guard.as_ref().map(|guard| guard.holds.len() as u64));
        }),
    },
    Metric {
        name: "pgcalm_guard_holds",
        kind: Kind::Counter,
        help: "Waits of sessions for the guard since the server started, in its mode shadow that there would have been",
        labels: &["input"],
        read: Read::Instance(|instance, points| {
            for input in instance.guard.iter().flat_map(|guard| &guard.inputs) {
                points.add(&[&input.input], input.holds);
            }
        }),
    },
    Metric {
        name: "pgcalm_guard_held_seconds",
        kind: Kind::Counter,
        help: "Time of the waits for the guard that are over, all sessions together",
        labels: &["input"],
        read: Read::Instance(|instance, points| {
            for input in instance.guard.iter().flat_map(|guard| &guard.inputs) {
                points.add(&[&input.input], input.held_seconds);
            }
        }),
    },
    Metric {
        name: "pgcalm_guard_allowed_bytes",
        kind: Kind::Gauge,
        help: "Bytes of WAL per second that the guard allows; absent if any",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.guard.as_ref().and_then(|guard| guard.allowed_bytes_per_second));
        }),
    },
    Metric {
        name: "pgcalm_share_members",
        kind: Kind::Gauge,
        help: "Instances that share the device's budget by pg_calm_share, this one included; absent if it is not shared",
        labels: &[],
        read: Read::Instance(|instance, points| {
            if !instance.share.is_empty() {
                points.add(&[], instance.share.len() as u64);
            }
        }),
    },
    Metric {
        name: "pgcalm_share_write_operations",
        kind: Kind::Gauge,
        help: "Share of the instance in the device's write operations per second; absent if not limited",
        labels: &[],
        read: Read::Instance(|instance, points| {
            let own = instance.share.iter().find(|member| member.own);
            points.maybe(&[], own.and_then(|member| member.write_operations_per_second));
        }),
    },
    Metric {
        name: "pgcalm_wal_flushes",
        kind: Kind::Counter,
        help: "Flushes of WAL since the server started, with pg_calm",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.wal.as_ref().map(|wal| wal.flushes));
        }),
    },
    Metric {
        name: "pgcalm_wal_flush_waits",
        kind: Kind::Counter,
        help: "Flushes of WAL that a commit waited before (pg_calm.commit_delay)",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.wal.as_ref().map(|wal| wal.waits));
        }),
    },
    Metric {
        name: "pgcalm_wal_flush_wait_seconds",
        kind: Kind::Counter,
        help: "Time of these waits",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.wal.as_ref().map(|wal| wal.wait_seconds));
        }),
    },
    Metric {
        name: "pgcalm_wal_flushes_saved",
        kind: Kind::Counter,
        help: "Flushes that as many commits would have needed without waiting, less those that there were",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.wal.as_ref().map(|wal| wal.saved));
        }),
    },
    Metric {
        name: "pgcalm_wal_commit_delay_seconds",
        kind: Kind::Gauge,
        help: "How long a commit waits now before it flushes WAL, where pg_calm.commit_delay is auto; 0: it does not",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.wal.as_ref().map(|wal| wal.delay_seconds));
        }),
    },
    Metric {
        name: "pgcalm_wal_proposed_delay_seconds",
        kind: Kind::Gauge,
        help: "How long it would wait, in mode shadow too; absent if that would bring nothing, or nothing is measured",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.wal.as_ref().and_then(|wal| wal.proposed_delay_seconds));
        }),
    },
    Metric {
        name: "pgcalm_wal_commits_per_flush",
        kind: Kind::Gauge,
        help: "Commits in each flush of WAL lately; absent if they are not counted",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.wal.as_ref().and_then(|wal| wal.commits_per_flush));
        }),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::IoBucket;

    #[test]
    fn buckets_are_joined_and_calls_that_were_not_timed_are_estimated() {
        let histogram = |backend_type: &str, buckets: &[(Option<f64>, u64)]| IoHistogram {
            operation: "write".to_string(),
            backend_type: backend_type.to_string(),
            sampled_every: 8,
            buckets: buckets
                .iter()
                .map(|(upper_bound_seconds, count)| IoBucket {
                    upper_bound_seconds: *upper_bound_seconds,
                    count: *count,
                })
                .collect(),
        };
        let io = [
            histogram("walwriter", &[(Some(16e-6), 1), (Some(32e-6), 2)]),
            histogram("autovacuum worker", &[(Some(64e-6), 4), (None, 1)]),
        ];
        let sums = histograms(&io);
        let others = &sums[&("write", "other")];
        assert_eq!(others.count, 64);
        assert_eq!(others.buckets[0], (16e-6, 8));
        assert_eq!(others.buckets[1], (64e-6, 48));
        assert_eq!(others.buckets[BOUNDS.len()], (f64::MAX, 8));
        // 8 of 12, 16 of 24, 32 of 48 microseconds, and 8 that have no upper bound count as the last one.
        let expected = 8.0 * 12e-6 + 16.0 * 24e-6 + 32.0 * 48e-6 + 8.0 * 16.777216;
        assert!((others.sum - expected).abs() < 1e-9, "{}", others.sum);
    }
}
