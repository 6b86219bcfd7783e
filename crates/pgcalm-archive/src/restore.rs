use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use crate::FileName;
use crate::Form;
use crate::RestoreError;
use crate::SegmentCheck;
use crate::Stored;
use crate::history;
use crate::system_identifier;

/// Size of the parts in which a file is checked and written.
const PART: usize = 256 << 10;

/// The largest timeline history that is read: 100,000 timelines, and far from memory's end.
const LARGEST_HISTORY: u64 = 16 << 20;

/// What to restore.
#[derive(Debug, Clone)]
pub struct Request {
    /// Directory of the archive.
    pub archive: PathBuf,
    /// Name of the file, without a suffix: `%f`.
    pub file: String,
    /// Where it is to appear: `%p`.
    pub target: PathBuf,
}

/// A file that was restored.
#[derive(Debug)]
pub struct Restored {
    /// The file of the archive that it came from.
    pub source: PathBuf,
    /// Whether that is compressed without a checksum of its content, so that only what the WAL pages tell was checked.
    pub unchecked: bool,
    /// Other forms of the file that were found first and are damaged.
    pub damaged: Vec<RestoreError>,
}

/// Restores a file, or leaves no trace of it at the target.
///
/// Forms are tried in the order of [`Form::ALL`]; a damaged one is passed over if there is a good one. The file is
/// written beside the target, synced, and renamed. The rename needs no sync: a recovery that finds it undone asks for the
/// file again.
pub fn restore(request: &Request) -> Result<Restored, RestoreError> {
    let name = FileName::parse(&request.file)
        .ok_or_else(|| RestoreError::BadName(request.file.clone()))?;
    // A directory that isn't there holds nothing, which must not pass for the end of WAL.
    fs::read_dir(&request.archive).map_err(|source| RestoreError::NoArchive {
        archive: request.archive.clone(),
        source,
    })?;
    let mut damaged = Vec::new();
    for form in Form::ALL {
        let source = form.place(&request.archive, &request.file);
        let stored = match Stored::open(&source) {
            Ok(stored) => stored,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(RestoreError::io("read", &source, error)),
        };
        let unchecked = form != Form::Plain && !stored.has_checksum();
        match copy(stored, &source, name, &request.target) {
            Ok(()) => {
                return Ok(Restored {
                    source,
                    unchecked,
                    damaged,
                });
            }
            Err(error @ RestoreError::Damaged { .. }) => damaged.push(error),
            Err(error) => return Err(error),
        }
    }
    Err(damaged
        .into_iter()
        .next()
        .unwrap_or_else(|| RestoreError::NotFound {
            file: request.file.clone(),
            archive: request.archive.clone(),
        }))
}

/// Checks and writes one file.
fn copy(
    mut stored: Stored,
    source: &Path,
    name: FileName,
    target: &Path,
) -> Result<(), RestoreError> {
    let mut temporary = Temporary::create(target)?;
    let mut check = SegmentCheck::new(name, system_identifier::of_cluster(target));
    let mut history = Vec::new();
    let mut part = vec![0; PART];
    loop {
        let length = match stored.read(&mut part) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(source, error)),
        };
        let bytes = &part[..length];
        if let Some(check) = &mut check {
            check.take(bytes).map_err(|reason| damage(source, reason))?;
        }
        if let FileName::History { .. } = name {
            if history.len() as u64 + length as u64 > LARGEST_HISTORY {
                return Err(damage(
                    source,
                    "is too large for a timeline history".to_string(),
                ));
            }
            history.extend_from_slice(bytes);
        }
        temporary.write(bytes)?;
    }
    if let Some(check) = check {
        check.finish().map_err(|reason| damage(source, reason))?;
    }
    if let FileName::History { timeline } = name
        && let Some(reason) = history::complaint(timeline, &history)
    {
        return Err(damage(source, reason));
    }
    temporary.rename_to(target)
}

fn damage(source: &Path, reason: String) -> RestoreError {
    RestoreError::Damaged {
        path: source.to_path_buf(),
        reason,
    }
}

/// An error of the system is one; anything else that a decoder says is about the file's content.
fn unreadable(source: &Path, error: io::Error) -> RestoreError {
    if error.raw_os_error().is_some() {
        RestoreError::io("read", source, error)
    } else {
        damage(source, format!("does not decompress: {error}"))
    }
}

/// The file while it is written; removed unless it gets its name.
///
/// It is called `xlogtemp.*`: what a crash leaves of it in pg_wal is removed by the server when it starts
/// (`RemoveTempXlogFiles`, xlog.c).
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    file: File,
    renamed: bool,
}

impl Temporary {
    fn create(target: &Path) -> Result<Self, RestoreError> {
        let path = target.with_file_name(format!("xlogtemp.pgcalm.{}", std::process::id()));
        // That of an earlier process with our number.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(RestoreError::io("remove", &path, error));
            }
            _ => {}
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| RestoreError::io("create", &path, error))?;
        Ok(Self {
            path,
            file,
            renamed: false,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.file
            .write_all(bytes)
            .map_err(|error| RestoreError::io("write", &self.path, error))
    }

    fn rename_to(mut self, target: &Path) -> Result<(), RestoreError> {
        self.file
            .sync_all()
            .map_err(|error| RestoreError::io("sync", &self.path, error))?;
        fs::rename(&self.path, target)
            .map_err(|error| RestoreError::io("rename to", target, error))?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            // The server removes it at its next start if this fails.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment_check::tests::NAME;
    use crate::segment_check::tests::SYSTEM;
    use crate::segment_check::tests::segment;

    struct Cluster {
        dir: tempfile::TempDir,
    }

    impl Cluster {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in ["archive", "data", "data/pg_wal", "data/global"] {
                fs::create_dir(dir.path().join(name)).unwrap();
            }
            fs::write(
                dir.path().join("data/global/pg_control"),
                SYSTEM.to_ne_bytes(),
            )
            .unwrap();
            Self { dir }
        }

        fn archive(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.dir.path().join("archive").join(name);
            fs::write(&path, bytes).unwrap();
            path
        }

        fn target(&self) -> PathBuf {
            self.dir.path().join("data/pg_wal/RECOVERYXLOG")
        }

        /// Restores, and sees that nothing but the target is ever left in pg_wal.
        fn restore(&self, file: &str) -> Result<Restored, RestoreError> {
            let _ = fs::remove_file(self.target());
            let result = restore(&Request {
                archive: self.dir.path().join("archive"),
                file: file.to_string(),
                target: self.target(),
            });
            let left = fs::read_dir(self.target().parent().unwrap())
                .unwrap()
                .count();
            assert_eq!(left, usize::from(result.is_ok()), "{result:?}");
            result
        }
    }

    fn zstd(bytes: &[u8], checksum: bool) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(checksum).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn lz4(bytes: &[u8], checksum: bool) -> Vec<u8> {
        let info = lz4_flex::frame::FrameInfo::new().content_checksum(checksum);
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Like WAL, it must not compress to nothing: else there is hardly a byte to damage.
    fn noisy_segment() -> Vec<u8> {
        let mut bytes = segment();
        let mut state = 1_u32;
        for page in bytes.chunks_mut(8192) {
            for byte in &mut page[40..4096] {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (state >> 24) as u8;
            }
        }
        bytes
    }

    fn is_damaged(result: &Result<Restored, RestoreError>) -> bool {
        matches!(result, Err(RestoreError::Damaged { .. }))
    }

    #[test]
    fn a_segment_is_restored_from_each_form() {
        let bytes = noisy_segment();
        for (suffix, stored) in [
            ("", bytes.clone()),
            (".zst", zstd(&bytes, true)),
            (".lz4", lz4(&bytes, true)),
        ] {
            let cluster = Cluster::new();
            let source = cluster.archive(&format!("{NAME}{suffix}"), &stored);
            let restored = cluster.restore(NAME).unwrap();
            assert_eq!(restored.source, source);
            assert!(!restored.unchecked);
            assert_eq!(fs::read(cluster.target()).unwrap(), bytes);
        }
    }

    #[test]
    fn frames_without_a_checksum_are_told_of() {
        let bytes = segment();
        for (suffix, stored) in [(".zst", zstd(&bytes, false)), (".lz4", lz4(&bytes, false))] {
            let cluster = Cluster::new();
            cluster.archive(&format!("{NAME}{suffix}"), &stored);
            assert!(cluster.restore(NAME).unwrap().unchecked, "{suffix}");
        }
    }

    #[test]
    fn a_compressed_file_that_is_cut_anywhere_is_refused() {
        let bytes = noisy_segment();
        for (suffix, stored) in [(".zst", zstd(&bytes, true)), (".lz4", lz4(&bytes, true))] {
            let cluster = Cluster::new();
            let length = stored.len();
            let cuts = (0..16)
                .chain([length / 3, length / 2])
                .chain(length - 12..length);
            for cut in cuts {
                cluster.archive(&format!("{NAME}{suffix}"), &stored[..cut]);
                let result = cluster.restore(NAME);
                assert!(is_damaged(&result), "{suffix} cut at {cut}: {result:?}");
            }
        }
    }

    #[test]
    fn a_flipped_bit_in_a_compressed_file_is_found_by_its_checksum() {
        let bytes = noisy_segment();
        for (suffix, stored) in [(".zst", zstd(&bytes, true)), (".lz4", lz4(&bytes, true))] {
            let cluster = Cluster::new();
            for at in [stored.len() / 5, stored.len() / 2, stored.len() - 1] {
                let mut stored = stored.clone();
                stored[at] ^= 0x10;
                cluster.archive(&format!("{NAME}{suffix}"), &stored);
                let result = cluster.restore(NAME);
                assert!(is_damaged(&result), "{suffix} flipped at {at}: {result:?}");
            }
        }
    }

    #[test]
    fn what_follows_a_frame_is_refused() {
        let bytes = segment();
        for (suffix, mut stored) in [(".zst", zstd(&bytes, true)), (".lz4", lz4(&bytes, true))] {
            let cluster = Cluster::new();
            stored.extend_from_slice(b"more");
            cluster.archive(&format!("{NAME}{suffix}"), &stored);
            assert!(is_damaged(&cluster.restore(NAME)), "{suffix}");
        }
    }

    #[test]
    fn a_damaged_form_is_passed_over_for_a_good_one_and_told_of() {
        let bytes = segment();
        let cluster = Cluster::new();
        cluster.archive(NAME, &bytes[..5000]);
        let good = cluster.archive(&format!("{NAME}.zst"), &zstd(&bytes, true));
        let restored = cluster.restore(NAME).unwrap();
        assert_eq!(restored.source, good);
        assert_eq!(restored.damaged.len(), 1);
    }

    #[test]
    fn another_clusters_segment_is_refused_by_pg_control() {
        let cluster = Cluster::new();
        cluster.archive(NAME, &segment());
        fs::write(
            cluster.dir.path().join("data/global/pg_control"),
            (SYSTEM + 1).to_ne_bytes(),
        )
        .unwrap();
        let error = cluster.restore(NAME).unwrap_err().to_string();
        assert!(error.contains("another cluster"), "{error}");
    }

    #[test]
    fn only_what_is_in_no_form_there_is_not_found() {
        let cluster = Cluster::new();
        for file in [NAME, "00000002.history"] {
            let result = cluster.restore(file);
            assert!(matches!(result, Err(RestoreError::NotFound { .. })));
        }
        fs::remove_dir(cluster.dir.path().join("archive")).unwrap();
        let result = cluster.restore(NAME);
        assert!(matches!(result, Err(RestoreError::NoArchive { .. })));
        let result = cluster.restore("../secret");
        assert!(matches!(result, Err(RestoreError::BadName(_))));
    }

    #[test]
    fn histories_and_backup_files_are_restored_and_an_empty_history_is_not() {
        let cluster = Cluster::new();
        cluster.archive("00000002.history.zst", &zstd(b"1\t0/3000148\tx\n", true));
        cluster.restore("00000002.history").unwrap();
        assert_eq!(fs::read(cluster.target()).unwrap(), b"1\t0/3000148\tx\n");
        cluster.archive("00000003.history", b"");
        assert!(is_damaged(&cluster.restore("00000003.history")));
        let backup = format!("{NAME}.00000028.backup");
        cluster.archive(&backup, b"");
        cluster.restore(&backup).unwrap();
        assert_eq!(fs::read(cluster.target()).unwrap(), b"");
    }

    #[test]
    fn a_failure_of_the_system_is_not_taken_for_damage_or_absence() {
        let cluster = Cluster::new();
        fs::create_dir(cluster.dir.path().join("archive").join(NAME)).unwrap();
        let result = cluster.restore(NAME);
        assert!(matches!(result, Err(RestoreError::Io { .. })), "{result:?}");
    }
}
