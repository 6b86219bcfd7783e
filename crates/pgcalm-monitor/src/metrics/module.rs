//! pg_calm: page map, writes, guard, share, flushes of WAL.

use crate::metrics::{Kind, Metric, Read};
use crate::model::{Instance, Module};

/// States of an input of the guard, as pg_calm_guard has them.
const GUARD_STATES: [&str; 6] = ["off", "unknown", "watched", "pacing", "released", "refusing"];

fn counter(instance: &Instance, value: fn(&Module) -> u64) -> Option<u64> {
    instance.module.as_ref().map(value)
}

metrics! {
    Gauge "pgcalm_unflushed_bytes" []
        "Pages that are written and not flushed"
        Instance |instance| instance.unflushed.map(|unflushed| unflushed.pages * unflushed.page_bytes);
    Gauge "pgcalm_module_in_flight_bytes" []
        "Pages that pg_calm is writing back now"
        Instance |instance| instance.unflushed.map(|unflushed| unflushed.in_flight_pages * unflushed.page_bytes);
    Gauge "pgcalm_module_worker_up" []
        "Whether pg_calm's writeback worker runs"
        Instance |instance| instance.module.as_ref().map(|module| module.worker_running);
    Gauge "pgcalm_module_degraded" []
        "Whether pg_calm does less than its mode says; pg_calm_status tells why"
        Instance |instance| instance.module.as_ref().map(|module| module.degraded.is_some());
    Gauge "pgcalm_module_degraded_state" ["state"]
        "1 for each state that pg_calm_status.degraded names, 0 for the others; state is not_flushed, worker_down, \
         worker_stuck, no_cap, other_devices, map_full, gives_less, not_bridged, not_shared, breaker or other"
        Instance |instance, points| {
            for (state, named) in instance.module.iter().flat_map(super::super::model::module::Module::degraded_states) {
                points.add(&[state], named);
            }
        };
    Counter "pgcalm_module_pages" ["way"]
        "Pages by how they came to be written, in mode shadow would have been: flushed by pg_calm, fsynced by \
         PostgreSQL, kernel_flushed before pg_calm came to them, bridged (clean ones between dirty ones)"
        Instance |instance, points| {
            if let Some(module) = &instance.module {
                points.add(&["flushed"], module.flushed_pages);
                points.add(&["fsynced"], module.fsynced_pages);
                points.add(&["kernel_flushed"], module.kernel_flushed_pages);
                points.add(&["bridged"], module.bridged_pages);
            }
        };
    Counter "pgcalm_module_device_operations" []
        "Operations of pg_calm's writes as the device counts them, in mode shadow of those that would have been"
        Instance |instance| counter(instance, |module| module.device_operations);
    Counter "pgcalm_module_written_bytes" []
        "Bytes of pg_calm's writes, in mode shadow of those that would have been"
        Instance |instance| counter(instance, |module| module.written_bytes);
    Counter "pgcalm_module_errors" []
        "Writeback errors that pg_calm has seen; each ends in PANIC"
        Instance |instance| counter(instance, |module| module.errors);
    Counter "pgcalm_module_page_map_overflows" []
        "Writes that could not be tracked because pg_calm.page_map_memory was used up"
        Instance |instance| counter(instance, |module| module.map_full);
    Counter "pgcalm_module_target_checkpoints" []
        "Checkpoints that pg_calm has requested for pg_calm.recovery_target"
        Instance |instance| counter(instance, |module| module.target_checkpoints);
    Gauge "pgcalm_guard_state" ["input", "state"]
        "1 for the state that an input of the guard is in, 0 for the others; input is wal_space, max_wal, lag or \
         archive; state is off, unknown, watched, pacing, released or refusing"
        Instance |instance, points| {
            for input in instance.guard.iter().flat_map(|guard| &guard.inputs) {
                for state in GUARD_STATES {
                    points.add(&[&input.input, state], input.state == state);
                }
            }
        };
    Gauge "pgcalm_guard_mode" ["mode"]
        "Always 1: mode of the guard (off, shadow, on)"
        Instance |instance, points| {
            for mode in instance.guard.iter().flat_map(|guard| &guard.mode) {
                points.add(&[mode], 1);
            }
        };
    Gauge "pgcalm_guard_held_sessions" []
        "Sessions that the guard holds now"
        Instance |instance| instance.guard.as_ref().map(|guard| guard.holds.len() as u64);
    Counter "pgcalm_guard_holds" ["input"]
        "Waits of sessions for the guard since the server started, in its mode shadow that there would have been"
        Instance |instance, points| {
            for input in instance.guard.iter().flat_map(|guard| &guard.inputs) {
                points.add(&[&input.input], input.holds);
            }
        };
    Counter "pgcalm_guard_held_seconds" ["input"]
        "Time of the waits for the guard that are over, all sessions together"
        Instance |instance, points| {
            for input in instance.guard.iter().flat_map(|guard| &guard.inputs) {
                points.add(&[&input.input], input.held_seconds);
            }
        };
    Gauge "pgcalm_guard_allowed_bytes" []
        "Bytes of WAL per second that the guard allows; absent if any"
        Instance |instance| instance.guard.as_ref().and_then(|guard| guard.allowed_bytes_per_second);
    Gauge "pgcalm_share_members" []
        "Instances that share the device's budget by pg_calm_share, this one included; absent if it is not shared"
        Instance |instance, points| {
            if !instance.share.is_empty() {
                points.add(&[], instance.share.len() as u64);
            }
        };
    Gauge "pgcalm_share_write_operations" []
        "Share of the instance in the device's write operations per second; absent if not limited"
        Instance |instance, points| {
            let own = instance.share.iter().find(|member| member.own);
            points.maybe(&[], own.and_then(|member| member.write_operations_per_second));
        };
    Counter "pgcalm_wal_flushes" []
        "Flushes of WAL by fdatasync or fsync since the server started, with pg_calm"
        Instance |instance| instance.module.as_ref().map(|module| module.wal_flushes);
    Counter "pgcalm_wal_flush_seconds" []
        "How long these took, all together"
        Instance |instance| instance.module.as_ref().map(|module| module.wal_flush_seconds);
}
