//! What counters come to per second, between two samples.

use std::time::Duration;

use crate::model::{Counters, Device, DeviceRates, Interface, InterfaceRates, Module, ModuleRates, Rates};

/// Rates of a server; `None` if it was restarted or its statistics were reset in between, or no time has passed.
pub(crate) fn of_server(before: &Counters, after: &Counters, elapsed: Duration) -> Option<Rates> {
    let rate = |counter: fn(&Counters) -> u64| per_second(counter(before), counter(after), elapsed);
    Some(Rates {
        commits_per_second: rate(|c| c.commits)?,
        rollbacks_per_second: rate(|c| c.rollbacks)?,
        wal_bytes_per_second: rate(|c| c.wal_position_bytes)?,
        wal_full_page_images_per_second: rate(|c| c.wal_full_page_images)?,
        buffers_written_by_checkpoints_per_second: rate(|c| c.buffers_written_by_checkpoints)?,
        buffers_written_by_background_writer_per_second: rate(|c| c.buffers_written_by_background_writer)?,
        buffers_written_by_backends_per_second: rate(|c| c.buffers_written_by_backends)?,
        temporary_bytes_per_second: rate(|c| c.temporary_bytes)?,
        sessions_per_second: rate(|c| c.sessions)?,
        blocks_read_per_second: rate(|c| c.blocks_read)?,
    })
}

/// Rates of the module, likewise.
pub(crate) fn of_module(before: &Module, after: &Module, elapsed: Duration) -> Option<ModuleRates> {
    let rate = |counter: fn(&Module) -> u64| per_second(counter(before), counter(after), elapsed);
    Some(ModuleRates {
        flushed_pages_per_second: rate(|m| m.flushed_pages)?,
        bridged_pages_per_second: rate(|m| m.bridged_pages)?,
        device_operations_per_second: rate(|m| m.device_operations)?,
        written_bytes_per_second: rate(|m| m.written_bytes)?,
    })
}

/// Rates of a disk, likewise.
pub(crate) fn of_device(before: &Device, after: &Device, elapsed: Duration) -> Option<DeviceRates> {
    let rate = |counter: fn(&Device) -> u64| per_second(counter(before), counter(after), elapsed);
    let busy = match (before.busy_seconds, after.busy_seconds) {
        (Some(before), Some(after)) if after >= before => Some(((after - before) / elapsed.as_secs_f64()).min(1.0)),
        _ => None,
    };
    Some(DeviceRates {
        read_operations_per_second: rate(|d| d.read_operations)?,
        read_bytes_per_second: rate(|d| d.read_bytes)?,
        write_operations_per_second: rate(|d| d.write_operations)?,
        write_bytes_per_second: rate(|d| d.write_bytes)?,
        busy,
    })
}

/// Rates of a network interface, likewise.
pub(crate) fn of_interface(before: &Interface, after: &Interface, elapsed: Duration) -> Option<InterfaceRates> {
    let rate = |counter: fn(&Interface) -> u64| per_second(counter(before), counter(after), elapsed);
    Some(InterfaceRates {
        sent_bytes_per_second: rate(|i| i.sent_bytes)?,
        sent_packets_per_second: rate(|i| i.sent_packets)?,
        received_bytes_per_second: rate(|i| i.received_bytes)?,
        received_packets_per_second: rate(|i| i.received_packets)?,
    })
}

fn per_second(before: u64, after: u64, elapsed: Duration) -> Option<f64> {
    let grown = after.checked_sub(before)?;
    (!elapsed.is_zero()).then(|| grown as f64 / elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_SECONDS: Duration = Duration::from_secs(2);

    #[test]
    fn counters_that_grow_have_a_rate_and_one_that_fell_has_none() {
        let before = Counters { commits: 100, wal_position_bytes: 1000, ..Counters::default() };
        let after = Counters { commits: 150, wal_position_bytes: 5000, ..Counters::default() };
        let rates = of_server(&before, &after, TWO_SECONDS).unwrap();
        assert_eq!(rates.commits_per_second, 25.0);
        assert_eq!(rates.wal_bytes_per_second, 2000.0);
        assert_eq!(rates.rollbacks_per_second, 0.0);
        assert_eq!(of_server(&after, &before, TWO_SECONDS), None);
        assert_eq!(of_server(&before, &after, Duration::ZERO), None);
    }

    #[test]
    fn a_disk_is_busy_for_at_most_all_of_the_time() {
        let before = Device { busy_seconds: Some(10.0), ..Device::default() };
        let after = Device { busy_seconds: Some(13.0), write_operations: 8, ..Device::default() };
        let rates = of_device(&before, &after, TWO_SECONDS).unwrap();
        assert_eq!(rates.busy, Some(1.0));
        assert_eq!(rates.write_operations_per_second, 4.0);
    }
}
