//! What an archive holds after a power cut, compared with what it should hold.

use std::collections::HashMap;
use std::io;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use pgcalm_archive::{SegmentName, Stored};

use crate::archive::backlog::Backlog;
use crate::interrupt::Interrupt;
use crate::{shared_file, template};

/// Size of the parts that are compared.
const PART: usize = 256 << 10;

/// The outcome.
#[derive(Debug, Default)]
pub(super) struct Survivors {
    /// Files that are not there.
    pub missing: u64,
    /// Files that are there with another content.
    pub different: u64,
    /// The first of them, and what is wrong.
    pub first_loss: Option<String>,
}

/// Compares every file of `names`, however the archiver names and compresses it.
pub(super) fn compare(
    archive: &Path,
    backlog: &Backlog,
    names: &[String],
    interrupt: &Interrupt,
) -> anyhow::Result<Survivors> {
    let mut found: HashMap<String, PathBuf> = HashMap::new();
    template::for_each_file(archive, &mut |path| {
        if let Some(segment) = segment_of(path) {
            found.insert(segment, path.to_path_buf());
        }
        Ok(())
    })?;
    let mut survivors = Survivors::default();
    for name in names {
        interrupt.check()?;
        let loss = match found.get(name) {
            None => {
                survivors.missing += 1;
                Some("not there".to_string())
            }
            Some(path) => {
                let loss = match differs(path, &backlog.original(name)) {
                    Ok(loss) => loss.map(str::to_string),
                    Err(error) => Some(error.to_string()),
                };
                survivors.different += u64::from(loss.is_some());
                loss
            }
        };
        if let Some(loss) = loss {
            survivors.first_loss.get_or_insert_with(|| format!("{name}: {loss}"));
        }
    }
    Ok(survivors)
}

/// The WAL file that a file of an archive is: its own name, or with `.zst`, `.lz4`, or pgBackRest's checksum after it.
/// `None` for what is not finished, such as `.partial` and temporary files.
fn segment_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (segment, rest) = name.split_at_checked(24)?;
    SegmentName::parse(segment)?;
    let rest = match rest.strip_prefix('-') {
        Some(rest) => rest.trim_start_matches(|c: char| c.is_ascii_hexdigit()),
        None => rest,
    };
    matches!(rest, "" | ".zst" | ".lz4").then(|| segment.to_string())
}

/// How the stored file differs from the original; `None` if it doesn't.
fn differs(stored: &Path, original: &Path) -> io::Result<Option<&'static str>> {
    let mut stored = BufReader::with_capacity(PART, Stored::open(stored)?);
    let mut original = BufReader::with_capacity(PART, shared_file::open_for_reading(original)?);
    let (mut ours, mut theirs) = (vec![0; PART], vec![0; PART]);
    loop {
        let length = fill(&mut stored, &mut ours)?;
        if length != fill(&mut original, &mut theirs)? {
            return Ok(Some("another length"));
        }
        if ours[..length] != theirs[..length] {
            return Ok(Some("another content"));
        }
        if length == 0 {
            return Ok(None);
        }
    }
}

/// Reads until the buffer is full or there is no more.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match reader.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(part) => length += part,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archived_files_are_told_from_unfinished_ones() {
        let name = "00000001000000000000000A";
        let sum = "-0123456789abcdef0123456789abcdef01234567";
        for rest in ["", ".zst", ".lz4", sum, &format!("{sum}.lz4")] {
            let path = PathBuf::from(format!("/archive/{name}{rest}"));
            assert_eq!(segment_of(&path).as_deref(), Some(name), "{rest}");
        }
        for rest in [".partial", ".tmp", ".zst.tmp", &format!("{sum}.pgbackrest.tmp")] {
            let path = PathBuf::from(format!("/archive/{name}{rest}"));
            assert_eq!(segment_of(&path), None, "{rest}");
        }
        assert_eq!(segment_of(Path::new("/archive/.pgcalm-tmp.x")), None);
    }

    #[test]
    fn a_changed_byte_and_another_length_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let mut bytes = vec![7; PART + 5];
        std::fs::write(&a, &bytes).unwrap();
        std::fs::write(&b, &bytes).unwrap();
        assert_eq!(differs(&a, &b).unwrap(), None);
        std::fs::write(&b, &bytes[..PART]).unwrap();
        assert_eq!(differs(&a, &b).unwrap(), Some("another length"));
        bytes[PART + 2] = 8;
        std::fs::write(&b, &bytes).unwrap();
        assert_eq!(differs(&a, &b).unwrap(), Some("another content"));
    }
}
