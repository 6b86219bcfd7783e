//! Timeline history files are text without a checksum: their lines are all that can be checked.

/// What is wrong with the history of `timeline`; `None` if nothing is.
///
/// `readTimeLineHistory` (timeline.c) takes an empty file for a timeline without a parent, and recovery would then look
/// for all WAL on that timeline alone. The server never writes such a file: the first timeline has none.
///
/// The reason at the end of a line may be in any encoding: a restore point's name is in that of its cluster.
pub(crate) fn complaint(timeline: u32, text: &[u8]) -> Option<String> {
    let mut parents = 0;
    for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        if read_entry(line, timeline).is_none() {
            let line = String::from_utf8_lossy(line);
            return Some(format!("{line:?} is not a line of a timeline history"));
        }
        parents += 1;
    }
    (parents == 0).then(|| "names no parent timeline".to_string())
}

/// A parent, the position where it was left, and why: `1\t0/3000148\tno recovery target specified`.
fn read_entry(line: &[u8], timeline: u32) -> Option<()> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).map(std::str::from_utf8);
    let parent: u32 = fields.next()?.ok()?.parse().ok()?;
    let (upper, lower) = fields.next()?.ok()?.split_once('/')?;
    for half in [upper, lower] {
        u32::from_str_radix(half, 16).ok()?;
    }
    (parent < timeline).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_server_would_write_passes() {
        let good = b"1\t0/3000148\tno recovery target specified\n\n2\t0/5000000\tat restore point \"x\"\n";
        assert_eq!(complaint(3, good), None);
        let latin1 = b"1\t0/3000148\tat restore point \"caf\xe9\"\r\n# d\xe9but\n";
        assert_eq!(complaint(3, latin1), None);
        let bad: [&[u8]; 7] = [
            b"",
            b"\n# comment\n",
            b"\0\0\0\0",
            b"1\t0/3000148\tx\n2\t0/5",
            b"1\n",
            b"3\t0/3000148\tnot older\n",
            b"\xff\xfe",
        ];
        for text in &bad[..3] {
            assert!(complaint(3, text).is_some(), "{text:?}");
        }
        for text in &bad[4..] {
            assert!(complaint(3, text).is_some(), "{text:?}");
        }
        // Cut off in a number that still is one: nothing in the file tells.
        assert_eq!(complaint(3, bad[3]), None);
    }
}
