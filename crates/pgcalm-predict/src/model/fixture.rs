//! An observation that tests change where they need another.

use crate::report::{Counted, Device, Observation, Settings};

/// A server at 500 transactions per second, each of which writes a page. The device takes 1000 operations and 100 MiB per
/// second; it has completed 500 and 4 MiB, pg_calm would have 100 and 8 MiB. WAL is elsewhere, nothing is read.
pub(crate) fn observation() -> Observation {
    Observation {
        seconds: 2000.0,
        tps: 500.0,
        unhindered_tps: 600.0,
        checkpointer_pages_per_s: 200.0,
        background_writer_pages_per_s: 0.0,
        backend_pages_per_s: 300.0,
        wal_bytes_per_s: 1.0,
        writes_are_late: false,
        settings: Settings {
            checkpoint_timeout_s: 1000.0,
            checkpoint_completion_target: 0.9,
            max_wal_bytes: 1 << 40,
            full_page_writes: true,
            bridge: true,
            page_bytes: 8192,
        },
        device: Device {
            name: "vdb".into(),
            write_iops: Some(1000.0),
            write_bytes_per_s: Some(f64::from(100 << 20)),
            all_iops: None,
            all_bytes_per_s: None,
            caps_source: String::new(),
            counted: true,
            operations_per_s: 500.0,
            mib_per_s: 3.90625,
            reads_per_s: 0.0,
            read_mib_per_s: 0.0,
            wal_writes_per_s: 0.0,
            wal_is_uncounted: false,
        },
        shadow: Some(Counted {
            device_operations_per_s: 100.0,
            mib_per_s: 8.0,
            flushed_pages_per_s: 500.0,
            fsynced_pages_per_s: 0.0,
            kernel_flushed_pages_per_s: 0.0,
            bridged_pages_per_s: 524.0,
        }),
    }
}
