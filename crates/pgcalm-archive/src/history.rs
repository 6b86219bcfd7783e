//! Timeline history files are text without a checksum: their lines are all that can be checked.

/// What is wrong with the history of `timeline`; `None` if nothing is.
///
/// `readTimeLineHistory` (timeline.c) takes an empty file for a timeline without a parent, and recovery would then look
/// for all WAL on that timeline alone. The server never writes such a file: the first timeline has none.
pub fn complaint(timeline: u32, text: &[u8]) -> Option<String> {
    let Ok(text) = std::str::from_utf8(text) else {
        return Some("is not the text of a timeline history".to_string());
    };
    let mut parents = 0;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !is_entry(line, timeline) {
            return Some(format!("{line:?} is not a line of a timeline history"));
        }
        parents += 1;
    }
    (parents == 0).then(|| "names no parent timeline".to_string())
}

/// A parent, the position where it was left, and why: `1\t0/3000148\tno recovery target specified`.
fn is_entry(line: &str, timeline: u32) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let parent = fields.next().and_then(|field| field.parse::<u32>().ok());
    let position = fields.next().and_then(|field| field.split_once('/'));
    let is_half = |half: &str| u32::from_str_radix(half, 16).is_ok();
    parent.is_some_and(|parent| parent < timeline)
        && position.is_some_and(|(upper, lower)| is_half(upper) && is_half(lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_server_would_write_passes() {
        let good =
            b"1\t0/3000148\tno recovery target specified\n\n2\t0/5000000\tat restore point \"x\"\n";
        assert_eq!(complaint(3, good), None);
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
