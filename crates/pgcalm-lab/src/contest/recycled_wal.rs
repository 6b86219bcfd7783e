//! WAL segments to write into, as a server that has run for a while has them.

use crate::interrupt::Interrupt;
use crate::quantity::Size;
use crate::server::Server;

/// WAL that is prepared for each second of the load: what a run writes until its first checkpoint is complete, and not
/// much more, since it is written to the device before.
const PER_SECOND: u64 = 20 << 20;

/// Fills WAL segments and recycles them with a checkpoint.
///
/// A cluster just made has none in reserve, and fills each new one with zeros before it uses it (`wal_init_zero`,
/// XLogFileInitInternal in xlog.c): twice the bytes on the WAL volume until the first checkpoint has recycled some,
/// which no server in use has to write. Half of max_wal_size at most: more would start a checkpoint in between
/// (CalculateCheckpointSegments). The checkpoint recycles all of them, since it expects as much WAL until the next
/// (XLOGfileslop). A quarter of the WAL volume at most, which is the same unless max_wal_size was set to more than the
/// volume has. Called before the caps are in force; does nothing where segments are not recycled.
pub(super) fn prepare(
    server: &Server,
    seconds: u32,
    wal_size: Size,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let bytes = (u64::from(seconds) * PER_SECOND).min(wal_size.bytes() / 4);
    server.sql(&statement(bytes), interrupt)?;
    server.sql("checkpoint", interrupt)?;
    Ok(())
}

/// A switch takes effect only where something was written since the one before.
fn statement(bytes: u64) -> String {
    format!(
        "select count(pg_logical_emit_message(false, 'pgcalm lab', '')), count(pg_switch_wal()) \
         from generate_series(1, case when current_setting('wal_recycle')::boolean then \
         least({bytes}, pg_size_bytes(current_setting('max_wal_size')) / 2) \
         / pg_size_bytes(current_setting('wal_segment_size')) else 0 end)"
    )
}
