//! When the kernel writes dirty pages by itself.

use crate::report::Observation;

/// Dirty bytes of the device at which the kernel's flusher starts on it, if `device_bytes_per_s` are written to it.
///
/// The device's share of the background threshold is its share of all that is written lately, or an eighth of what is left
/// of it if that is more (`__wb_calc_thresh` and `wb_over_bg_thresh` in the kernel's mm/page-writeback.c, as
/// extension/pg_calm/src/device/kernel_flusher.c estimates it). What a loop device hands on is counted a second time there.
pub(super) fn device_threshold(
    observation: &Observation,
    device_bytes_per_s: f64,
    speed: f64,
    dirty_bytes: f64,
) -> f64 {
    let background = observation.kernel.background_bytes as f64;
    let others = observation.device.other_mib_per_s * f64::from(1 << 20) * speed;
    let all = device_bytes_per_s * f64::from(observation.device.counted_times.max(1)) + others;
    let share = if all > 0.0 { device_bytes_per_s / all } else { 0.0 };
    let left = (background - dirty_bytes).max(0.0);
    (background * share).max(left / 8.0)
}

/// Seconds from the first dirty page of a file to the visit of the flusher; infinite if it does not come by time. It looks
/// each `vm.dirty_writeback_centisecs`, so it is half of that late in the mean (`wb_check_old_data_flush` in the kernel's
/// fs/fs-writeback.c).
pub(super) fn visit_interval(observation: &Observation) -> f64 {
    let kernel = &observation.kernel;
    if kernel.expire_s <= 0.0 || kernel.interval_s <= 0.0 {
        f64::INFINITY
    } else {
        kernel.expire_s + kernel.interval_s / 2.0
    }
}
