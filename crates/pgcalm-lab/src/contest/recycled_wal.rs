//! WAL segments to write into, as a server that has run for a while has them.
//!
//! A cluster just made has none in reserve, and fills each new one with zeros before it uses it (`wal_init_zero`,
//! XLogFileInitInternal in xlog.c): twice the bytes on the WAL volume until the first checkpoint has recycled some, which no
//! server in use has to write. A recycled segment is a file with a later name whose blocks are written; the server takes what
//! lies there under the name that it needs next, whatever is in it. So they are made before it starts, which takes a fifth of
//! the time that it would take itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::{Size, device, shared_file};

/// WAL that is prepared for each second of the load: what a run writes until its first checkpoint is complete, and not
/// much more, since it is written to the device before.
const PER_SECOND: u64 = 48 << 20;

/// Bytes of segments to make for `seconds` of load on a server with `settings`: as much as it would keep of recycled ones, that is
/// max_wal_size at most, and half of the WAL volume; none where it recycles none.
pub(crate) fn bytes(seconds: u32, wal_size: Size, settings: &BTreeMap<String, String>) -> u64 {
    let recycles = settings
        .get("wal_recycle")
        .is_none_or(|value| !["off", "false", "no", "0"].contains(&value.to_lowercase().as_str()));
    if !recycles {
        return 0;
    }
    let most = settings.get("max_wal_size").and_then(|size| size.parse::<Size>().ok()).map_or(u64::MAX, Size::bytes);
    (u64::from(seconds) * PER_SECOND).min(wal_size.bytes() / 2).min(most)
}

/// Makes segments in `pg_wal` of a cluster that is shut down, to follow those that are there, until all are `bytes` together.
pub(crate) fn prepare(
    pg_wal: &Path,
    bytes: u64,
    installation: &Installation,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let mut last: Option<(String, u64)> = None;
    let mut there = 0;
    for entry in fs::read_dir(pg_wal).with_context(|| format!("read {}", pg_wal.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_segment(&name) {
            let length = entry.metadata()?.len();
            there += length;
            if last.as_ref().is_none_or(|(last, _)| *last < name) {
                last = Some((name, length));
            }
        }
    }
    let Some((mut name, size)) = last else { return Ok(()) };
    for _ in 0..bytes.saturating_sub(there) / size.max(1) {
        let Some(next) = following(&name, size) else { break };
        let path = pg_wal.join(&next);
        device::fill(&path, Size(size), interrupt)?;
        shared_file::give(&path, installation)
            .with_context(|| format!("give {} to the servers' user", path.display()))?;
        name = next;
    }
    Ok(())
}

/// Timeline, and the number of the segment in two parts, 8 digits each.
fn is_segment(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte))
}

/// The name of the segment after `name` (XLogFileName in xlog_internal.h).
fn following(name: &str, size: u64) -> Option<String> {
    let part = |range: std::ops::Range<usize>| u64::from_str_radix(name.get(range)?, 16).ok();
    let in_one = (1u64 << 32) / size;
    let number = part(8..16)? * in_one + part(16..24)? + 1;
    Some(format!("{}{:08X}{:08X}", name.get(..8)?, number / in_one, number % in_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_one_another_over_the_border_of_a_log() {
        let follows = |name| following(name, 16 << 20).unwrap();
        assert_eq!(follows("00000001000000000000000A"), "00000001000000000000000B");
        assert_eq!(follows("0000000100000002000000FF"), "000000010000000300000000");
        assert!(is_segment("0000000100000002000000FF"));
        assert!(!is_segment("00000002.history"));
        assert!(!is_segment("archive_status"));
    }

    #[test]
    fn as_much_is_made_as_the_server_would_keep() {
        let settings = |name: &str, value: &str| [(name.to_string(), value.to_string())].into();
        let of = |seconds, settings| bytes(seconds, Size(8 << 30), &settings);
        assert_eq!(of(10, BTreeMap::new()), 480 << 20);
        assert_eq!(of(1000, BTreeMap::new()), 4 << 30);
        assert_eq!(of(1000, settings("max_wal_size", "1GB")), 1 << 30);
        assert_eq!(of(10, settings("wal_recycle", "off")), 0);
    }
}
