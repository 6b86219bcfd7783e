//! An observation that tests change where they need another.

use crate::report::Device;
use crate::report::Kernel;
use crate::report::Observation;
use crate::report::RegionClass;
use crate::report::Settings;

const MIB: f64 = 1_048_576.0;

/// A server at 1000 transactions per second, each of which dirties a page; 1000 regions get dirty alike, and nothing is
/// absorbed. The kernel keeps away, and so do checkpoints, nearly: one in 1000 s. Buffers are not cleaned.
pub(crate) fn observation() -> Observation {
    Observation {
        source: "shadow".into(),
        seconds: 2000.0,
        tps: 1000.0,
        unhindered_tps: 1000.0,
        checkpointer_pages_per_s: 0.0,
        background_writer_pages_per_s: 0.0,
        backend_pages_per_s: 1000.0,
        wal_bytes_per_s: 1.0,
        settings: Settings {
            server_version: 150_000,
            checkpoint_timeout_s: 1000.0,
            checkpoint_completion_target: 0.9,
            max_wal_bytes: 1 << 40,
            shared_buffers_bytes: 1 << 30,
            checkpoint_flush_after_bytes: 256 << 10,
            bgwriter_flush_after_bytes: 512 << 10,
            backend_flush_after_bytes: 0,
            full_page_writes: true,
            flush_age_s: 100.0,
            unflushed_limit_bytes: 1 << 40,
            bridge: true,
            clean_buffers: false,
        },
        kernel: Kernel { background_bytes: 1 << 40, limit_bytes: 1 << 41, expire_s: 0.0, interval_s: 0.0 },
        device: Device {
            name: "vdb".into(),
            write_iops: Some(500.0),
            write_bytes_per_s: Some(500.0 * MIB),
            all_iops: None,
            all_bytes_per_s: None,
            operation_bytes: 1 << 20,
            max_segments: 0,
            caps_source: String::new(),
            operations_per_s: 0.0,
            mib_per_s: 0.0,
            reads_per_s: 0.0,
            read_mib_per_s: 0.0,
            wal_writes_per_s: 0.0,
            other_mib_per_s: 0.0,
            counted_times: 1,
        },
        checkpoint_pages: 0.0,
        regions: vec![RegionClass { regions: 1000.0, pages_first_second: 1.0, exponent: 1.0, checkpoint_pages: 0.0 }],
        files: 0.0,
        shadow: None,
    }
}

/// Checkpoints are asked for by WAL, just before their time, and may write until the next.
pub(super) fn no_time_for_drains(observation: &mut Observation) {
    let settings = &mut observation.settings;
    settings.checkpoint_completion_target = 1.0;
    settings.max_wal_bytes = (2.0 * observation.wal_bytes_per_s * settings.checkpoint_timeout_s) as u64 - 1;
}
