//! WAL segments to write into, as a server that has run for a while has them.

use crate::Size;
use crate::interrupt::Interrupt;
use crate::server::Server;

/// WAL that is prepared for each second of the load: what a run writes until its first checkpoint is complete, and not
/// much more, since it is written to the device before.
const PER_SECOND: u64 = 20 << 20;

/// Keeps the segments of the first round until the second has written as many.
const SLOT: &str = "pgcalm_lab_recycled_wal";

/// Fills WAL segments and recycles them with a checkpoint.
///
/// A cluster just made has none in reserve, and fills each new one with zeros before it uses it (`wal_init_zero`,
/// XLogFileInitInternal in xlog.c): twice the bytes on the WAL volume until the first checkpoint has recycled some,
/// which no server in use has to write.
///
/// In two rounds, of which each writes half of max_wal_size at most: more would start a checkpoint in between
/// (CalculateCheckpointSegments). A replication slot keeps the segments of the first from being recycled for the
/// second; the last checkpoint recycles all of them, since it expects as much WAL as in a round until the next, and
/// keeps twice that (XLOGfileslop). Half of the WAL volume at most, which is the same unless max_wal_size was set to
/// more than the volume has. Called before the caps are in force; does nothing where segments are not recycled, and one
/// round where there can be no slot.
pub(super) fn prepare(
    server: &Server,
    seconds: u32,
    wal_size: Size,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let bytes = (u64::from(seconds) * PER_SECOND).min(wal_size.bytes() / 2) / 2;
    for statement in [
        create_slot(),
        fill(bytes),
        "checkpoint".to_string(),
        fill(bytes),
        drop_slot(),
        "checkpoint".to_string(),
    ] {
        server.sql(&statement, interrupt)?;
    }
    Ok(())
}

/// A slot that keeps WAL from now on. None where the settings of the run allow none, or keep only part of its WAL.
fn create_slot() -> String {
    format!(
        "select pg_create_physical_replication_slot('{SLOT}', true) \
         where current_setting('wal_level') <> 'minimal' \
         and current_setting('max_replication_slots')::integer > 0 \
         and current_setting('wal_recycle')::boolean"
    )
}

fn drop_slot() -> String {
    format!(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '{SLOT}'"
    )
}

/// A switch takes effect only where something was written since the one before.
fn fill(bytes: u64) -> String {
    format!(
        "select count(pg_logical_emit_message(false, 'pgcalm lab', '')), count(pg_switch_wal()) \
         from generate_series(1, case when current_setting('wal_recycle')::boolean then \
         least({bytes}, pg_size_bytes(current_setting('max_wal_size')) / 2) \
         / pg_size_bytes(current_setting('wal_segment_size')) else 0 end)"
    )
}
