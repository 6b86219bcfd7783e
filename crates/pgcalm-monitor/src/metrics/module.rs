//! pg_calm: page map, writes, guard, share, flushes of WAL.

use crate::metrics::{Kind, Metric, Read};
use crate::model::{Instance, Module};

/// States of an input of the guard, as pg_calm_guard has them.
const GUARD_STATES: [&str; 6] = ["off", "unknown", "watched", "pacing", "released", "refusing"];

fn counter(instance: &Instance, value: fn(&Module) -> u64) -> Option<u64> {
    instance.module.as_ref().map(value)
}

pub const TABLE: &[Metric] = &[
    Metric {
        name: "pgcalm_unflushed_bytes",
        kind: Kind::Gauge,
        help: "Pages that are written and not flushed",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.unflushed.map(|unflushed| unflushed.pages * unflushed.page_bytes));
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
               PostgreSQL, kernel_flushed before pg_calm came to them, bridged (clean ones \
               between dirty ones)",
        labels: &["way"],
        read: Read::Instance(|instance, points| {
            if let Some(module) = &instance.module {
                points.add(&["flushed"], module.flushed_pages);
                points.add(&["fsynced"], module.fsynced_pages);
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
        help: "Writes that could not be tracked because pg_calm.page_map_memory was used up",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], counter(instance, |module| module.map_full));
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
        help: "Flushes of WAL by fdatasync or fsync since the server started, with pg_calm",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.module.as_ref().map(|module| module.wal_flushes));
        }),
    },
    Metric {
        name: "pgcalm_wal_flush_seconds",
        kind: Kind::Counter,
        help: "How long these took, all together",
        labels: &[],
        read: Read::Instance(|instance, points| {
            points.maybe(&[], instance.module.as_ref().map(|module| module.wal_flush_seconds));
        }),
    },
];
