//! Whether bytes are the WAL segment that their name says: `XLogPageHeaderData` and `XLogLongPageHeaderData` of
//! xlog_internal.h, as `XLogReaderValidatePageHeader` (xlogreader.c) checks them, but for every page of the segment and
//! before the server sees any of it.
//!
//! The server takes a page with a wrong header for the end of WAL and opens the database there. In an archive such a
//! page is damage, usually a block that never reached the disk: the server has written every page of a segment that it
//! archives, but for those after a switch to the next segment (`pg_switch_wal`, a base backup, `archive_timeout`), which are
//! zero since version 11. So zeros pass after an XLOG_SWITCH record and up to the end only. CRCs of records are left to
//! recovery.
//!
//! A standby with `archive_mode = always` archives the last segment that it was sent of a timeline (`WalReceiverMain`,
//! walreceiver.c) under its full name, though it is written up to where the timeline was left only: then it is zero, or what
//! an earlier segment in its place had. So that is told apart from what has WAL after a bad page.

use crate::{FileName, SegmentName};

/// Bit of `xlp_info`: the page has the long header, as the first page of each segment.
const XLP_LONG_HEADER: u16 = 0x0002;

/// `SizeOfXLogShortPHD` and `SizeOfXLogLongPHD`.
const SHORT_HEADER: usize = 24;
pub(crate) const LONG_HEADER: usize = 40;

/// `SizeOfXLogRecord`; a switch has nothing else.
const RECORD: usize = 24;

/// `XLOG_SWITCH` in the upper half of `xl_info`, of the resource manager `RM_XLOG_ID`.
const XLOG_SWITCH: u8 = 0x40;
const RM_XLOG_ID: u8 = 0;

/// Segment sizes that initdb allows (`IsValidWalSegSize`).
const SEGMENT_SIZES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 30;

/// Page sizes that configure allows (`--with-wal-blocksize`).
const PAGE_SIZES: std::ops::RangeInclusive<u64> = 1 << 10..=64 << 10;

/// The system identifier in the header of a segment's first page; `None` if it is no such header.
pub(crate) fn system_identifier(header: &[u8; LONG_HEADER]) -> Option<u64> {
    let magic = u16::from_ne_bytes([header[0], header[1]]);
    let info = u16::from_ne_bytes([header[2], header[3]]);
    let (_, rest) = header.split_at(24);
    let is_first = is_magic(magic) && info & XLP_LONG_HEADER != 0;
    is_first.then_some(u64::from_ne_bytes(*rest.first_chunk()?))
}

/// XLOG_PAGE_MAGIC is 0xD110 in version 15 and counts up with the format.
fn is_magic(magic: u16) -> bool {
    magic & 0xFC00 == 0xD000
}

/// Takes the bytes of one segment in order.
#[derive(Debug)]
pub struct SegmentCheck {
    name: SegmentName,
    /// Whether all pages were written, or only the first one need be right.
    complete: bool,
    /// The system identifier that it must have, if known.
    expected_system: Option<u64>,
    /// What the first page said.
    first: Option<First>,
    /// Header of the page at hand, as far as it was seen.
    header: Vec<u8>,
    /// What follows the headers of the page at hand and of the two before it: a record may lie on two pages.
    body: Vec<u8>,
    previous_body: Vec<u8>,
    earlier_body: Vec<u8>,
    /// Where the pages after a switch begin; only zeros may follow.
    unused_from: Option<u64>,
    /// What is wrong with the first page that is zero or of earlier WAL, if all after it are, too.
    unwritten: Option<String>,
    /// Bytes taken.
    length: u64,
}

#[derive(Debug, Clone, Copy)]
struct First {
    magic: u16,
    start: u64,
    segment_size: u64,
    page_size: u64,
}

impl SegmentCheck {
    /// A check of the segment `name`; `expected_system` is the system identifier of the cluster that wants it.
    /// `None` for files that are no segments.
    pub fn new(name: FileName, expected_system: Option<u64>) -> Option<Self> {
        let (name, complete) = match name {
            FileName::Segment(name) => (name, true),
            FileName::Partial(name) => (name, false),
            FileName::History { .. } | FileName::Backup => return None,
        };
        Some(Self {
            name,
            complete,
            expected_system,
            first: None,
            header: Vec::with_capacity(LONG_HEADER),
            body: Vec::new(),
            previous_body: Vec::new(),
            earlier_body: Vec::new(),
            unused_from: None,
            unwritten: None,
            length: 0,
        })
    }

    /// Takes the next bytes; the error says what is wrong.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let (page_size, wanted) = match self.first {
                None => (u64::MAX, LONG_HEADER),
                Some(first) if self.length >= first.segment_size => {
                    return Err(format!("is longer than the {} bytes that its header tells", first.segment_size));
                }
                Some(first) => (first.page_size, SHORT_HEADER),
            };
            let offset = self.length % page_size;
            if offset == 0 {
                self.header.clear();
                std::mem::swap(&mut self.earlier_body, &mut self.previous_body);
                std::mem::swap(&mut self.previous_body, &mut self.body);
                self.body.clear();
            }
            let missing = wanted.saturating_sub(self.header.len());
            let in_header = self.header.len() as u64 == offset && missing > 0;
            let part = if in_header {
                let part = missing.min(bytes.len());
                self.header.extend_from_slice(&bytes[..part]);
                part
            } else {
                let rest = page_size - offset;
                let part = usize::try_from(rest).unwrap_or(usize::MAX).min(bytes.len());
                self.take_body(&bytes[..part]);
                part
            };
            self.length += part as u64;
            bytes = &bytes[part..];
            if in_header && self.header.len() == wanted {
                self.check_header()?;
            }
        }
        Ok(())
    }

    /// Call after the last byte. Returns from where on it is not written, if it is right before.
    pub fn finish(self) -> Result<Option<String>, String> {
        match self.first {
            None => Err(format!("is cut off: {} bytes are too few for a WAL page header", self.length)),
            Some(first) if self.length != first.segment_size => {
                Err(format!("is cut off: {} bytes of the {} that its header tells", self.length, first.segment_size))
            }
            Some(_) => Ok(self.unwritten),
        }
    }

    fn check_header(&mut self) -> Result<(), String> {
        match self.first {
            None => {
                let first = self.first_page()?;
                self.first = Some(first);
                self.page(first, 0)
            }
            Some(_) if !self.complete => Ok(()),
            Some(first) => {
                let offset = self.length - SHORT_HEADER as u64;
                // Zeros, or what a recycled file held before.
                let is_older = self.u64_at(8) < first.start + offset;
                let page = self.page(first, offset);
                if self.unused_from.is_some() || (is_older && self.unwritten.is_none() && self.switched()) {
                    // A crash can leave any of it: nobody reads, nor writes, what follows a switch.
                    let from = *self.unused_from.get_or_insert(offset);
                    return match page {
                        Ok(()) => Err(format!("has no WAL page at offset {from}, but WAL after it")),
                        Err(_) => Ok(()),
                    };
                }
                match (page, self.unwritten.take()) {
                    (Err(reason), earlier) if is_older => {
                        self.unwritten = earlier.or(Some(reason));
                        Ok(())
                    }
                    (_, Some(reason)) | (Err(reason), None) => Err(reason),
                    (Ok(()), None) => Ok(()),
                }
            }
        }
    }

    fn take_body(&mut self, bytes: &[u8]) {
        if self.complete && self.unused_from.is_none() {
            self.body.extend_from_slice(bytes);
        }
    }

    /// Whether the last record before the page at hand switches to the next segment.
    fn switched(&self) -> bool {
        let wal = [self.earlier_body.as_slice(), self.previous_body.as_slice()].concat();
        let Some(last) = wal.iter().rposition(|byte| *byte != 0) else { return false };
        // Records are aligned to 8 bytes, headers are multiples of that.
        (0..=last / 8)
            .rev()
            .map(|number| number * 8)
            .take_while(|start| start + RECORD > last)
            .filter_map(|start| wal.get(start..start + RECORD))
            .any(|record| {
                record[..4] == (RECORD as u32).to_ne_bytes()
                    && record[16] & 0xF0 == XLOG_SWITCH
                    && record[17] == RM_XLOG_ID
            })
    }

    fn first_page(&self) -> Result<First, String> {
        let magic = self.u16_at(0);
        if !is_magic(magic) || self.u16_at(2) & XLP_LONG_HEADER == 0 {
            return Err("does not begin with a WAL page header".to_string());
        }
        let system = self.u64_at(24);
        let segment_size = u64::from(self.u32_at(32));
        let page_size = u64::from(self.u32_at(36));
        if !segment_size.is_power_of_two()
            || !SEGMENT_SIZES.contains(&segment_size)
            || !page_size.is_power_of_two()
            || !PAGE_SIZES.contains(&page_size)
        {
            return Err(format!(
                "tells sizes that do not exist, {segment_size} bytes for its segment and {page_size} for its pages"
            ));
        }
        if let Some(expected) = self.expected_system.filter(|expected| *expected != system) {
            return Err(format!("is of another cluster: its system identifier is {system}, not {expected}"));
        }
        let start = self
            .name
            .start(segment_size)
            .ok_or_else(|| format!("has a name that no segment of its {segment_size} bytes has"))?;
        Ok(First { magic, start, segment_size, page_size })
    }

    /// What holds for every page.
    fn page(&self, first: First, offset: u64) -> Result<(), String> {
        let (magic, timeline, address) = (self.u16_at(0), self.u32_at(4), self.u64_at(8));
        if magic != first.magic {
            return Err(format!(
                "has no WAL page at offset {offset}: magic number {magic:04X} instead of {:04X}",
                first.magic
            ));
        }
        let expected = first.start + offset;
        if address != expected {
            return Err(format!(
                "holds at offset {offset} the WAL page {} instead of {}",
                position(address),
                position(expected)
            ));
        }
        // A page written before a switch of timelines keeps the older one.
        if timeline == 0 || timeline > self.name.timeline {
            return Err(format!("holds at offset {offset} a WAL page of timeline {timeline}, later than its own"));
        }
        Ok(())
    }

    fn u16_at(&self, offset: usize) -> u16 {
        u16::from_ne_bytes(self.bytes_at(offset))
    }

    fn u32_at(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.bytes_at(offset))
    }

    fn u64_at(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.bytes_at(offset))
    }

    fn bytes_at<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.header[offset..offset + N]);
        bytes
    }
}

/// As PostgreSQL prints positions.
fn position(address: u64) -> String {
    format!("{:X}/{:X}", address >> 32, address as u32)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const PAGE: usize = 8192;
    pub(crate) const SYSTEM: u64 = 7_361_234_567_890_123_456;
    pub(crate) const NAME: &str = "000000020000000A00000003";

    /// A segment of 1 MB as [`NAME`] has it.
    pub(crate) fn segment() -> Vec<u8> {
        let mut bytes = vec![0x5A; 1 << 20];
        let start = 0xA_0030_0000_u64;
        for (number, page) in bytes.chunks_mut(PAGE).enumerate() {
            let info = if number == 0 { XLP_LONG_HEADER } else { 0 };
            page[..2].copy_from_slice(&0xD110_u16.to_ne_bytes());
            page[2..4].copy_from_slice(&info.to_ne_bytes());
            page[4..8].copy_from_slice(&u32::from(number != 0).saturating_add(1).to_ne_bytes());
            page[8..16].copy_from_slice(&(start + (number * PAGE) as u64).to_ne_bytes());
        }
        bytes[24..32].copy_from_slice(&SYSTEM.to_ne_bytes());
        bytes[32..36].copy_from_slice(&(1_u32 << 20).to_ne_bytes());
        bytes[36..40].copy_from_slice(&(PAGE as u32).to_ne_bytes());
        bytes
    }

    fn check(name: &str, bytes: &[u8], step: usize) -> Result<(), String> {
        let name = FileName::parse(name).unwrap();
        let mut check = SegmentCheck::new(name, Some(SYSTEM)).unwrap();
        for part in bytes.chunks(step) {
            check.take(part)?;
        }
        check.finish()?.map_or(Ok(()), Err)
    }

    #[test]
    fn a_whole_segment_passes_in_parts_of_any_size() {
        for step in [1, 7, 23, 24, 4096, PAGE, PAGE + 1, 1 << 20] {
            assert_eq!(check(NAME, &segment(), step), Ok(()), "{step}");
        }
    }

    #[test]
    fn what_is_short_or_long_is_refused() {
        let mut bytes = segment();
        for length in [0, 39, 40, PAGE, bytes.len() - PAGE, bytes.len() - 1] {
            let error = check(NAME, &bytes[..length], 4096).unwrap_err();
            assert!(error.contains("cut off"), "{length}: {error}");
        }
        bytes.push(0);
        assert!(check(NAME, &bytes, 4096).unwrap_err().contains("longer"));
    }

    #[test]
    fn a_page_that_never_reached_the_disk_is_found() {
        for number in [1, 77, 127] {
            let mut bytes = segment();
            bytes[number * PAGE..][..4096].fill(0);
            let error = check(NAME, &bytes, 4096).unwrap_err();
            assert!(error.contains(&(number * PAGE).to_string()), "{error}");
        }
    }

    /// Ends the WAL of a segment at `offset` of its payload with a switch, as version 11 and later do.
    fn switch_at(bytes: &mut [u8], page: usize, offset: usize) {
        let mut record = [0; RECORD];
        record[..4].copy_from_slice(&(RECORD as u32).to_ne_bytes());
        record[16] = XLOG_SWITCH;
        record[20] = 0xC3;
        let start = page * PAGE + offset;
        let here = RECORD.min(PAGE - offset);
        bytes[start..][..here].copy_from_slice(&record[..here]);
        let mut end = start + here;
        if here < RECORD {
            end += SHORT_HEADER;
            bytes[end..][..RECORD - here].copy_from_slice(&record[here..]);
            end += RECORD - here;
        }
        bytes[end..].fill(0);
    }

    #[test]
    fn zeros_pass_after_a_switch_up_to_the_end_only() {
        // In the middle of a page, at its end, on two pages, on the first page.
        for (page, offset) in [(5, 800), (5, PAGE - RECORD), (5, PAGE - 8), (0, LONG_HEADER)] {
            let mut bytes = segment();
            switch_at(&mut bytes, page, offset);
            assert_eq!(check(NAME, &bytes, 4096), Ok(()), "{page}, {offset}");
            // Of a recycled file, after zeros or at once; and a page of its own, which would be lost.
            for from in [100, page + 1 + usize::from(offset + RECORD > PAGE)] {
                let mut bytes = bytes.clone();
                for page in bytes[from * PAGE..].chunks_mut(PAGE) {
                    page.fill(7);
                    page[8..16].copy_from_slice(&0x9_0000_0000_u64.to_ne_bytes());
                }
                assert_eq!(check(NAME, &bytes, 4096), Ok(()), "{page}, {offset}, {from}");
                bytes[120 * PAGE..][..PAGE].copy_from_slice(&segment()[120 * PAGE..][..PAGE]);
                let error = check(NAME, &bytes, 4096).unwrap_err();
                assert!(error.contains("but WAL after it"), "{page}, {offset}, {from}: {error}");
            }
        }
    }

    #[test]
    fn an_end_that_never_reached_the_disk_is_found() {
        let mut bytes = segment();
        bytes[100 * PAGE..].fill(0);
        let error = check(NAME, &bytes, 4096).unwrap_err();
        assert!(error.contains("no WAL page at offset 819200"), "{error}");
    }

    #[test]
    fn a_segment_that_is_written_up_to_a_page_only_is_told_apart() {
        let unwritten = |bytes: &[u8]| {
            let mut check = SegmentCheck::new(FileName::parse(NAME).unwrap(), None).unwrap();
            check.take(bytes).and_then(|()| check.finish())
        };
        assert_eq!(unwritten(&segment()), Ok(None));
        for old in [0, 0x9_0000_0000_u64] {
            let mut bytes = segment();
            for page in bytes[90 * PAGE..].chunks_mut(PAGE) {
                page[8..16].copy_from_slice(&old.to_ne_bytes());
            }
            bytes[100 * PAGE..110 * PAGE].fill(0);
            let reason = unwritten(&bytes).unwrap().unwrap();
            assert!(reason.contains(&format!("offset {}", 90 * PAGE)), "{reason}");
            // WAL after it, and a page that is neither.
            let good = segment();
            bytes[127 * PAGE..].copy_from_slice(&good[127 * PAGE..]);
            assert_eq!(unwritten(&bytes), Err(reason.clone()));
            bytes[127 * PAGE + 15] = 0xFF;
            assert_eq!(unwritten(&bytes), Err(reason));
        }
    }

    #[test]
    fn a_page_of_recycled_wal_is_found_unless_the_segment_is_partial() {
        let mut bytes = segment();
        let old = 0x9_0000_0000_u64;
        bytes[9 * PAGE + 8..][..8].copy_from_slice(&old.to_ne_bytes());
        let error = check(NAME, &bytes, 4096).unwrap_err();
        assert!(error.contains("9/0 instead of A/312000"), "{error}");
        assert_eq!(check(&format!("{NAME}.partial"), &bytes, 4096), Ok(()));
    }

    #[test]
    fn another_clusters_segment_and_another_segment_are_refused() {
        let mut bytes = segment();
        bytes[24] ^= 1;
        assert!(check(NAME, &bytes, 4096).unwrap_err().contains("another cluster"));
        for name in ["000000020000000A00000004", "000000020000000B00000003"] {
            let error = check(name, &segment(), 4096).unwrap_err();
            assert!(error.contains("instead of"), "{error}");
        }
        // Written on timeline 2, so it can't be what timeline 1 archived.
        let error = check("000000010000000A00000003", &segment(), 4096).unwrap_err();
        assert!(error.contains("timeline 2"), "{error}");
    }

    #[test]
    fn nonsense_in_the_first_header_is_refused() {
        for (offset, what) in [(1, "begin with"), (2, "begin with"), (33, "sizes"), (37, "sizes")] {
            let mut bytes = segment();
            bytes[offset] ^= 0x7F;
            let error = check(NAME, &bytes, 4096).unwrap_err();
            assert!(error.contains(what), "{offset}: {error}");
        }
    }
}
