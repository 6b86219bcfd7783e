//! The names of files that are archived (PostgreSQL: xlog_internal.h, `IsXLogFileName` and its like).

/// A name in pg_wal that is archived, told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileName {
    /// A complete WAL segment: 24 hexadecimal digits.
    Segment(SegmentName),
    /// The last segment of a timeline that was left at a promotion: a segment's name and `.partial`. Only its beginning
    /// was ever written.
    Partial(SegmentName),
    /// The history of a timeline: 8 digits and `.history`.
    History {
        /// The timeline whose history it is.
        timeline: u32,
    },
    /// What a base backup leaves: a segment's name, a dot, 8 digits and `.backup`. It may be empty.
    Backup,
}

/// The three parts of a segment's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentName {
    /// Timeline.
    pub timeline: u32,
    /// Upper half of the position at which the segment starts.
    pub log: u32,
    /// Number of the segment within that half's 4 GiB.
    pub segment: u32,
}

impl FileName {
    /// Tells the name apart; `None` if it is none that PostgreSQL archives.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(timeline) = name.strip_suffix(".history") {
            return hexadecimal(timeline, 8).map(|timeline| Self::History { timeline });
        }
        if let Some(segment) = name.strip_suffix(".partial") {
            return SegmentName::parse(segment).map(Self::Partial);
        }
        if let Some(start) = name.strip_suffix(".backup") {
            let (segment, offset) = start.split_once('.')?;
            SegmentName::parse(segment)?;
            hexadecimal(offset, 8)?;
            return Some(Self::Backup);
        }
        SegmentName::parse(name).map(Self::Segment)
    }
}

impl SegmentName {
    /// Tells the parts of a segment's name without any suffix.
    pub fn parse(name: &str) -> Option<Self> {
        if name.len() != 24 || !name.is_ascii() {
            return None;
        }
        Some(Self {
            timeline: hexadecimal(&name[..8], 8)?,
            log: hexadecimal(&name[8..16], 8)?,
            segment: hexadecimal(&name[16..], 8)?,
        })
    }

    /// The WAL position at which the segment starts, for segments of `size` bytes. `None` if there is no such segment: of
    /// large ones fewer fit into 4 GiB than the name has digits for.
    pub fn start(self, size: u64) -> Option<u64> {
        let offset = u64::from(self.segment).checked_mul(size)?;
        (offset < 1 << 32).then_some(u64::from(self.log) << 32 | offset)
    }
}

/// `digits` upper-case hexadecimal digits, as PostgreSQL writes them, and nothing else.
fn hexadecimal(text: &str, digits: usize) -> Option<u32> {
    let all = text.bytes().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte));
    if text.len() != digits || !all {
        return None;
    }
    u32::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_archived_file_is_told_by_its_name() {
        let segment = SegmentName { timeline: 2, log: 0x1A, segment: 0xFF };
        let cases = [
            ("000000020000001A000000FF", Some(FileName::Segment(segment))),
            ("000000020000001A000000FF.partial", Some(FileName::Partial(segment))),
            ("00000003.history", Some(FileName::History { timeline: 3 })),
            ("000000020000001A000000FF.00000028.backup", Some(FileName::Backup)),
            ("000000020000001a000000FF", None),
            ("000000020000001A000000FF.zst", None),
            ("000000020000001A000000FF0", None),
            ("../000000020000001A00000", None),
            ("+00000020000001A000000FF", None),
            ("3.history", None),
            ("x.00000028.backup", None),
            ("RECOVERYXLOG", None),
            ("", None),
        ];
        for (name, expected) in cases {
            assert_eq!(FileName::parse(name), expected, "{name}");
        }
    }

    #[test]
    fn the_start_follows_from_name_and_size() {
        let segment = SegmentName::parse("000000010000000A00000003").unwrap();
        assert_eq!(segment.start(16 << 20), Some(0xA_0300_0000));
        assert_eq!(segment.start(1 << 30), Some(0xA_C000_0000));
        let beyond = SegmentName::parse("000000010000000A00000004").unwrap();
        assert_eq!(beyond.start(1 << 30), None);
    }
}
