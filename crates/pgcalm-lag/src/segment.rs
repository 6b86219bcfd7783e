//! Names of WAL segments (`XLogFileName` in xlog_internal.h).

use crate::lsn::Lsn;

/// Name of the segment with a position.
pub fn name(lsn: Lsn, timeline: i32, segment_bytes: u64) -> String {
    let size = segment_bytes.max(1);
    let number = lsn.0 / size;
    let per_id = (1u64 << 32) / size;
    let per_id = per_id.max(1);
    format!("{timeline:08X}{:08X}{:08X}", number / per_id, number % per_id)
}

/// Position at which a segment begins; none if that is no name of one.
pub fn begin(name: &str, segment_bytes: u64) -> Option<Lsn> {
    let digits = name.get(8..).filter(|digits| digits.len() == 16)?;
    let id = u64::from_str_radix(&digits[..8], 16).ok()?;
    let number = u64::from_str_radix(&digits[8..], 16).ok()?;
    Some(Lsn((id << 32) + number.checked_mul(segment_bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_pg_walfile_name() {
        let size = 16 << 20;
        let lsn = Lsn(0x16_B374_D848);
        assert_eq!(name(lsn, 1, size), "0000000100000016000000B3");
        assert_eq!(begin("0000000100000016000000B3", size), Some(Lsn(0x16_B300_0000)));
        assert_eq!(name(Lsn(0x1_4000_0000), 2, 1 << 30), "000000020000000100000001");
        assert_eq!(begin("000000020000000100000001", 1 << 30), Some(Lsn(0x1_4000_0000)));
        assert_eq!(begin("archive_status", size), None);
    }
}
