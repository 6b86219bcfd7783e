//! The file in which it is kept.
//!
//! All integers but those of fixed width are LEB128. Version 1:
//!
//! | what | |
//! |---|---|
//! | `pgcwarm` and a newline | 8 bytes |
//! | version | 1 byte |
//! | the cluster's system identifier | 8 bytes, little-endian |
//! | milliseconds since 1970, when it was saved | integer |
//! | 1 if shared buffers are known, else 0 | 1 byte |
//! | number of files | integer |
//! | of each file: length of its name, name, size in bytes, number of runs | |
//! | of each run: blocks since the end of the one before; its length · 8 + heat | |
//! | CRC-32 of all before | 4 bytes, little-endian |
//!
//! Names are paths below the data directory, which a standby has in common with its primary.

use std::path::Path;
use std::{fs, io, process};

use anyhow::Context;
use pgcalm_host::replacement::Durability;
use pgcalm_host::{Failure, replacement};

use crate::relation_file;
use crate::runs::{HOTTEST, PAGE_CACHE, Run};

const MAGIC: &[u8; 8] = b"pgcwarm\n";
const VERSION: u8 = 1;
const CHECKSUM: usize = 4;

/// More is no such file: 8 TB of single blocks would take as much.
const LARGEST: u64 = 2 << 30;

/// Ends its name, before the number of the process, while one is written: two may be at once.
const UNFINISHED: &str = ".pgcalm-unfinished.";

/// What was cached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// Of the cluster: another one's files are others.
    pub system_identifier: u64,
    /// Since 1970.
    pub time_ms: u64,
    /// Whether shared buffers were known, too.
    pub has_buffers: bool,
    /// Those of which something was cached.
    pub files: Vec<CachedFile>,
}

/// Of a file of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedFile {
    /// Below the data directory, e.g. `base/5/16384.1`. A rewritten relation gets another.
    pub path: String,
    /// Bytes that it had.
    pub size: u64,
    /// In their order.
    pub runs: Vec<Run>,
}

impl Saved {
    /// All runs.
    pub fn runs(&self) -> usize {
        self.files.iter().map(|file| file.runs.len()).sum()
    }

    /// Bytes of those runs.
    pub fn bytes(&self) -> u64 {
        let of = |file: &CachedFile| {
            let lengths = file.runs.iter().map(|run| run.bytes(file.size)).map(|range| range.end - range.start);
            lengths.sum::<u64>()
        };
        self.files.iter().map(of).sum()
    }

    /// Replaces the file as a whole; its size.
    pub fn write(&self, path: &Path) -> anyhow::Result<u64> {
        let bytes = self.encode();
        let write = || -> io::Result<()> {
            let named = path.parent().filter(|directory| !directory.as_os_str().is_empty());
            let directory = named.unwrap_or(Path::new("."));
            fs::create_dir_all(directory)?;
            let unfinished = format!("{}{UNFINISHED}", path.file_name().unwrap_or_default().to_string_lossy());
            replacement::remove_abandoned(directory, &unfinished);
            let temporary = directory.join(format!("{unfinished}{}", process::id()));
            replacement::write(path, &temporary, 0o600, &bytes, Durability::Synced)
        };
        write().with_context(|| {
            format!("write {}, for which --file may name a place that this user can write to", path.display())
        })?;
        Ok(bytes.len() as u64)
    }

    /// Reads one. That there is none that can be read is wrong use: it stays so, however often a service tries.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let read = || -> Result<Self, String> {
            let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
            if !metadata.is_file() || metadata.len() > LARGEST {
                return Err(NO_SAVE.to_string());
            }
            Self::decode(&fs::read(path).map_err(|error| error.to_string())?)
        };
        let useless = |why: String| Failure::Usage(format!("{}: {why}; pgcalm warm --save writes one", path.display()));
        read().map_err(|why| useless(why).into())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(VERSION);
        out.extend(self.system_identifier.to_le_bytes());
        push(&mut out, self.time_ms);
        out.push(self.has_buffers.into());
        push(&mut out, self.files.len() as u64);
        for file in &self.files {
            push(&mut out, file.path.len() as u64);
            out.extend(file.path.as_bytes());
            push(&mut out, file.size);
            push(&mut out, file.runs.len() as u64);
            let mut end = 0;
            for run in &file.runs {
                push(&mut out, run.start - end);
                push(&mut out, run.length << 3 | u64::from(run.heat));
                end = run.end();
            }
        }
        let checksum = crc32fast::hash(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else { return Err(NO_SAVE.to_string()) };
        match rest.first() {
            Some(&VERSION) => {}
            Some(version) => return Err(format!("has version {version}, and this pgcalm reads {VERSION}")),
            None => return Err(DAMAGED.to_string()),
        }
        let whole = rest.len().checked_sub(CHECKSUM).map(|length| rest.split_at(length));
        let body = whole.filter(|(_, checksum)| {
            let computed = crc32fast::hash(&bytes[..bytes.len() - CHECKSUM]);
            **checksum == computed.to_le_bytes()
        });
        body.and_then(|(body, _)| Reader(&body[1..]).saved()).ok_or_else(|| DAMAGED.to_string())
    }
}

const NO_SAVE: &str = "is not what pgcalm warm --save writes";
const DAMAGED: &str = "is damaged";

fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What is not read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn saved(mut self) -> Option<Saved> {
        let mut saved = Saved {
            system_identifier: u64::from_le_bytes(self.take(8)?.try_into().ok()?),
            time_ms: self.integer()?,
            has_buffers: self.take(1)? == [1],
            files: Vec::new(),
        };
        for _ in 0..self.integer()? {
            saved.files.push(self.file()?);
        }
        self.0.is_empty().then_some(saved)
    }

    fn file(&mut self) -> Option<CachedFile> {
        let length = self.integer()?.try_into().ok()?;
        let path = String::from_utf8(self.take(length)?.to_vec()).ok()?;
        // Whoever can write the file is not to have root read any other.
        let mut file = relation_file::is_path(&path).then_some(CachedFile { path, size: 0, runs: Vec::new() })?;
        file.size = self.integer()?;
        let mut end = 0_u64;
        for _ in 0..self.integer()? {
            let start = end.checked_add(self.integer()?)?;
            let packed = self.integer()?;
            let run = Run { start, length: packed >> 3, heat: (packed & 7) as u8 };
            let is_run = run.length > 0 && (PAGE_CACHE..=HOTTEST).contains(&run.heat);
            end = start.checked_add(run.length).filter(|_| is_run)?;
            file.runs.push(run);
        }
        Some(file)
    }

    fn integer(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use pgcalm_host::replacement::Replacement;

    use super::*;

    fn saved() -> Saved {
        let run = |start, length, heat| Run { start, length, heat };
        let file = |path: &str, runs| CachedFile { path: path.to_string(), size: 1 << 30, runs };
        Saved {
            system_identifier: u64::MAX - 5,
            time_ms: 1_796_000_000_000,
            has_buffers: true,
            files: vec![
                file("base/5/16384", vec![run(0, 1, 1), run(1, 127, 7), run(131_071, 1, 2)]),
                file("pg_tblspc/16500/PG_15_202209061/5/16400_vm", vec![run(300, 20_000, 1)]),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_takes_a_few_bytes_for_each_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        for saved in [saved(), Saved::default()] {
            let size = saved.write(&path).unwrap();
            assert_eq!((Saved::read(&path).unwrap(), fs::metadata(&path).unwrap().len()), (saved, size));
        }
        let many = (0..1000).map(|number| Run { start: number * 3, length: 2, heat: 1 }).collect();
        let file = CachedFile { path: "base/5/1".to_string(), size: 1 << 30, runs: many };
        assert!(Saved { files: vec![file], ..Saved::default() }.encode().len() < 2100);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    /// The timer's and one by hand, or those of a primary and a standby on one host.
    #[test]
    fn a_save_beside_another_leaves_its_file_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1");
        let of_process = |id: u32| path.with_file_name(format!("1{UNFINISHED}{id}"));
        let other = Replacement::create(of_process(u32::MAX), 0o600).unwrap();
        other.lock().unwrap();
        let killed = of_process(u32::MAX - 1);
        fs::write(&killed, "a part").unwrap();
        saved().write(&path).unwrap();
        assert!(other.path().exists() && !killed.exists());
        assert_eq!(Saved::read(&path).unwrap(), saved());
        // Its own name, which nobody else takes.
        fs::create_dir(of_process(process::id())).unwrap();
        let error = format!("{:#}", saved().write(&path).unwrap_err());
        assert!(error.contains("is a directory"), "{error}");
    }

    /// After wrong use the unit of --restore is not tried again, where without a server it is, and saves wait for it.
    #[test]
    fn without_a_file_of_use_it_is_wrong_use() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1");
        let mut later = saved().encode();
        later[MAGIC.len()] = VERSION + 1;
        for bytes in [None, Some(later), Some(b"damaged".to_vec())] {
            if let Some(bytes) = &bytes {
                fs::write(&path, bytes).unwrap();
            }
            let error = Saved::read(&path).unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(Failure::Usage(_))), "{error:#}");
        }
    }

    #[test]
    fn bytes_end_where_the_file_ended() {
        let mut saved = saved();
        saved.files.truncate(1);
        assert_eq!((saved.runs(), saved.bytes()), (3, 129 * 8192));
        saved.files[0].size = 8192 + 10;
        assert_eq!(saved.bytes(), 8192 + 10);
    }

    /// Cut off anywhere, or a bit turned over anywhere.
    #[test]
    fn damage_is_recognised() {
        let bytes = saved().encode();
        assert_eq!(Saved::decode(&bytes), Ok(saved()));
        for length in 0..bytes.len() {
            assert!(Saved::decode(&bytes[..length]).is_err(), "{length}");
        }
        for index in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[index] ^= 1 << (index % 8);
            assert!(Saved::decode(&bytes).is_err(), "{index}");
        }
        let mut later = bytes.clone();
        later[MAGIC.len()] = VERSION + 1;
        assert!(Saved::decode(&later).unwrap_err().contains("version 2"));
        assert_eq!(Saved::decode(b"PGDATA").unwrap_err(), NO_SAVE);
    }

    /// With a checksum that is right: somebody may have made it.
    #[test]
    fn names_lead_nowhere_but_to_relations() {
        let one = |path: &str, run| {
            let files = vec![CachedFile { path: path.to_string(), size: 1, runs: vec![run] }];
            Saved::decode(&Saved { files, ..Saved::default() }.encode())
        };
        let run = Run { start: 0, length: 1, heat: 1 };
        assert!(one("base/5/16384", run).is_ok());
        for path in ["/etc/shadow", "../5/16384", "base/../5", "global/pg_control", ""] {
            assert!(one(path, run).is_err(), "{path}");
        }
        assert!(one("base/5/1", Run { heat: 0, ..run }).is_err() && one("base/5/1", Run { length: 0, ..run }).is_err());
    }
}
