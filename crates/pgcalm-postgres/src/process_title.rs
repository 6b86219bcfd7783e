//! Passwords in this process's arguments, which every user of the host may read (`ps`).

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::{fs, io};

use crate::conninfo;

/// The option whose values are connection strings.
const OPTION: &[u8] = b"--connect";

/// What stands where a password stood.
const MASK: u8 = b'*';

/// Overwrites the passwords of `--connect`'s values, so that the process list shows them no longer than the moments until
/// this is called. For after the arguments were read: `std::env::args` gives them overwritten, too.
///
/// Where the kernel forbids it, nothing happens: it is a help, and no replacement for a password file.
pub fn hide_passwords() {
    let _ = overwrite();
}

fn overwrite() -> io::Result<()> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let Some(arguments) = arguments_at(&stat) else { return Ok(()) };
    // Not /proc/self/cmdline: after an earlier change of the title that shows something else.
    let memory = OpenOptions::new().read(true).write(true).open("/proc/self/mem")?;
    let mut text = vec![0; (arguments.end - arguments.start) as usize];
    memory.read_exact_at(&mut text, arguments.start)?;
    for range in passwords(&text) {
        mask(&memory, arguments.start, range)?;
    }
    Ok(())
}

fn mask(memory: &File, start: u64, range: Range<usize>) -> io::Result<()> {
    let stars = vec![MASK; range.len()];
    memory.write_all_at(&stars, start + range.start as u64)
}

/// `arg_start` and `arg_end` of proc(5)'s stat, fields 48 and 49. The second field may contain blanks and brackets.
fn arguments_at(stat: &str) -> Option<Range<u64>> {
    let (_, fields) = stat.rsplit_once(')')?;
    // From the third on.
    let mut fields = fields.split_ascii_whitespace().skip(45);
    let start: u64 = fields.next()?.parse().ok()?;
    let end: u64 = fields.next()?.parse().ok()?;
    (0 < start && start <= end).then_some(start..end)
}

/// Where passwords are among arguments, which end with a zero each.
fn passwords(arguments: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut is_value = false;
    for argument in arguments.split(|byte| *byte == 0) {
        let after_option = argument.strip_prefix(OPTION).and_then(|rest| rest.strip_prefix(b"="));
        let value = match after_option {
            Some(value) => Some(value),
            None if is_value => Some(argument),
            None => None,
        };
        if let Some(Ok(text)) = value.map(std::str::from_utf8) {
            let offset = start + argument.len() - text.len();
            let ranges = conninfo::passwords(text).into_iter();
            found.extend(ranges.map(|range| range.start + offset..range.end + offset));
        }
        is_value = argument == OPTION;
        start += argument.len() + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_passwords_of_connection_strings_are_found() {
        let text =
            b"pgcalm\0lag\0--connect\0host=a password=se\\ cret user=x\0--connect=postgresql://u:pw@h/d?sslpassword=k&x=y\0password=kept\0";
        let mut text = text.to_vec();
        for range in passwords(&text) {
            text[range].fill(MASK);
        }
        let expected =
            b"pgcalm\0lag\0--connect\0host=a password=******** user=x\0--connect=postgresql://u:**@h/d?sslpassword=*&x=y\0password=kept\0";
        assert_eq!(String::from_utf8_lossy(&text), String::from_utf8_lossy(expected));
    }

    #[test]
    fn arguments_are_found_in_stat() {
        let fields: Vec<String> = (3..=52).map(|field| (field * 10).to_string()).collect();
        let stat = format!("7 (a) b) {}", fields.join(" "));
        assert_eq!(arguments_at(&stat), Some(480..490));
        assert_eq!(arguments_at("7 (a) S 1"), None);
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert!(arguments_at(&own).is_some(), "{own}");
    }
}
