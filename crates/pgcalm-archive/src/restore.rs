use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};

use pgcalm_host::replacement;
use pgcalm_host::replacement::Replacement;

use crate::remains::Remains;
use crate::{FileName, Form, RestoreError, SegmentCheck, Stored, cluster, history, remains};

/// Size of the parts in which a file is checked and written.
const PART: usize = 256 << 10;

/// The largest timeline history that is read: 100,000 timelines, and far from memory's end.
const LARGEST_HISTORY: u64 = 16 << 20;

/// How often the archive is looked through for a file that arrives meanwhile.
const LOOKS: usize = 3;

/// What to restore.
#[derive(Debug, Clone)]
pub struct Request {
    /// Directory of the archive.
    pub archive: PathBuf,
    /// Name of the file, without a suffix: `%f`.
    pub file: String,
    /// Where it is to appear.
    pub target: Target,
}

/// Where a file is to appear.
#[derive(Debug, Clone)]
pub enum Target {
    /// Under this name: `%p`. It tells the cluster, too: that in whose pg_wal it lies.
    File(PathBuf),
    /// Nowhere: it is only checked. With a path as `%p` it must be of that cluster.
    Nowhere(Option<PathBuf>),
}

/// A file that was restored, or checked.
#[derive(Debug)]
pub struct Restored {
    /// The file of the archive that it came from.
    pub source: PathBuf,
    /// Whether that is compressed without a checksum of its content, so that only what the WAL pages tell was checked.
    pub unchecked: bool,
    /// Other forms of the file that were found first and can't be used.
    pub damaged: Vec<RestoreError>,
}

/// The cluster that asks, as far as it is known.
#[derive(Debug, Clone, Copy)]
struct Cluster {
    system: Option<u64>,
    is_standby: bool,
}

/// Restores a file, or leaves no trace of it at the target.
///
/// Forms are tried in the order of [`Form::ALL`]; one that can't be used is passed over if there is a good one. The file is
/// written beside the target, synced, and renamed. The rename needs no sync: a recovery that finds it undone asks for the
/// file again.
pub fn restore(request: &Request) -> Result<Restored, RestoreError> {
    let name = FileName::parse(&request.file).ok_or_else(|| RestoreError::BadName(request.file.clone()))?;
    let (target, place) = match &request.target {
        Target::File(path) => (Some(path.as_path()), Some(path)),
        Target::Nowhere(path) => (None, path.as_ref()),
    };
    if let Some(path) = target {
        replacement::check(path).map_err(|source| RestoreError::Target { path: path.to_path_buf(), source })?;
    }
    let cluster = Cluster {
        system: place.and_then(|path| cluster::system_identifier(path)),
        is_standby: place.is_some_and(|path| cluster::is_standby(path)),
    };
    // A directory that isn't there holds nothing, which must not pass for the end of WAL.
    fs::read_dir(&request.archive)
        .map_err(|source| RestoreError::NoArchive { archive: request.archive.clone(), source })?;
    for _ in 0..LOOKS {
        if let Some(restored) = from_forms(request, name, target, cluster)? {
            return Ok(restored);
        }
        let (archive, file) = (&request.archive, &request.file);
        let remains = remains::find(archive, file, name, cluster.system)?;
        return Err(match remains {
            Some(Remains::Arrived) => continue,
            None => RestoreError::NotFound { file: file.clone(), archive: archive.clone() },
            Some(Remains::Unfinished(found)) if cluster.is_standby => {
                RestoreError::NotYet { file: file.clone(), found }
            }
            Some(Remains::Unfinished(path)) => RestoreError::Unusable {
                path,
                reason: format!(
                    "is not finished; if no more of it will come, rename it to {file} to have it replayed, or move it away to \
                     end recovery before it"
                ),
            },
            Some(Remains::Unusable(path, reason)) => RestoreError::Unusable { path, reason },
        });
    }
    Err(RestoreError::Unusable {
        path: request.archive.join(&request.file),
        reason: "comes and goes; let whatever changes the archive finish".to_string(),
    })
}

/// Restores from the first form that is there and whole; `None` if none is there.
fn from_forms(
    request: &Request,
    name: FileName,
    target: Option<&Path>,
    cluster: Cluster,
) -> Result<Option<Restored>, RestoreError> {
    let mut damaged = Vec::new();
    for form in Form::ALL {
        let source = form.place(&request.archive, &request.file);
        let copied = open(&source).and_then(|stored| match stored {
            Some(stored) => copy(stored, &source, name, target, cluster).map(Some),
            None => Ok(None),
        });
        match copied {
            Ok(None) => {}
            Ok(Some(unchecked)) => {
                return Ok(Some(Restored { source, unchecked, damaged }));
            }
            Err(error @ (RestoreError::Damaged { .. } | RestoreError::Unusable { .. })) => {
                damaged.push(error);
            }
            Err(error) => return Err(error),
        }
    }
    match damaged.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(None),
    }
}

/// Opens a file of the archive; `None` if it isn't there. A link that leads nowhere is there.
fn open(source: &Path) -> Result<Option<Stored>, RestoreError> {
    let unusable = |reason: String| RestoreError::Unusable { path: source.to_path_buf(), reason };
    match Stored::open(source) {
        Ok(stored) => Ok(Some(stored)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(source) {
            Ok(target) => {
                Err(unusable(format!("is a link to {}, which is not there; mount what holds it", target.display())))
            }
            Err(_) => Ok(None),
        },
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(unusable(format!("{error}; move it away"))),
        Err(error) => Err(RestoreError::io("read", source, error)),
    }
}

/// Checks one file, and writes it if it is to appear somewhere. Returns whether it has no checksum.
fn copy(
    mut stored: Stored,
    source: &Path,
    name: FileName,
    target: Option<&Path>,
    cluster: Cluster,
) -> Result<bool, RestoreError> {
    let mut output = target.map(Output::create).transpose()?;
    let mut check = SegmentCheck::new(name, cluster.system);
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
                return Err(damage(source, "is too large for a timeline history".to_string()));
            }
            history.extend_from_slice(bytes);
        }
        if let Some(output) = &mut output {
            output.write(bytes)?;
        }
    }
    if let Some(check) = check {
        check.finish().map_err(|reason| damage(source, reason))?;
    }
    if let FileName::History { timeline } = name
        && let Some(reason) = history::complaint(timeline, &history)
    {
        return Err(damage(source, reason));
    }
    if let Some(output) = output {
        output.finish()?;
    }
    Ok(stored.lacks_checksum())
}

fn damage(source: &Path, reason: String) -> RestoreError {
    RestoreError::Damaged { path: source.to_path_buf(), reason }
}

/// An error of the system is one; anything else that a decoder says is about the file's content.
fn unreadable(source: &Path, error: io::Error) -> RestoreError {
    if error.raw_os_error().is_some() {
        RestoreError::io("read", source, error)
    } else {
        damage(source, format!("does not decompress: {error}"))
    }
}

/// The file while it is written.
///
/// It is called `xlogtemp.*`: what a crash leaves of it in pg_wal is removed by the server when it starts
/// (`RemoveTempXlogFiles`, xlog.c).
struct Output<'a> {
    file: Replacement,
    target: &'a Path,
}

impl<'a> Output<'a> {
    fn create(target: &'a Path) -> Result<Self, RestoreError> {
        let path = target.with_file_name(format!("xlogtemp.pgcalm.{}", std::process::id()));
        let file =
            Replacement::create(path.clone(), 0o600).map_err(|error| RestoreError::io("create", &path, error))?;
        Ok(Self { file, target })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.file.write_all(bytes).map_err(|error| RestoreError::io("write", self.file.path(), error))
    }

    fn finish(self) -> Result<(), RestoreError> {
        self.file.sync().map_err(|error| RestoreError::io("sync", self.file.path(), error))?;
        self.file.rename_to(self.target).map_err(|error| RestoreError::io("rename to", self.target, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment_check::tests::{NAME, SYSTEM, segment};

    struct Site {
        dir: tempfile::TempDir,
    }

    impl Site {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in ["archive", "data", "data/pg_wal", "data/global"] {
                fs::create_dir(dir.path().join(name)).unwrap();
            }
            fs::write(dir.path().join("data/global/pg_control"), SYSTEM.to_ne_bytes()).unwrap();
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
                target: Target::File(self.target()),
            });
            let left = fs::read_dir(self.target().parent().unwrap()).unwrap().count();
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

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// As `lz4 -l` writes it.
    fn legacy_lz4(bytes: &[u8]) -> Vec<u8> {
        let mut frame = 0x184C_2102_u32.to_le_bytes().to_vec();
        for block in bytes.chunks(8 << 20) {
            let block = lz4_flex::block::compress(block);
            frame.extend((block.len() as u32).to_le_bytes());
            frame.extend(block);
        }
        frame
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

    fn checksummed(bytes: &[u8]) -> [(&'static str, Vec<u8>); 3] {
        [(".zst", zstd(bytes, true)), (".lz4", lz4(bytes, true)), (".gz", gzip(bytes))]
    }

    fn is_damaged(result: &Result<Restored, RestoreError>) -> bool {
        matches!(result, Err(RestoreError::Damaged { .. }))
    }

    #[test]
    fn a_segment_is_restored_from_each_form() {
        let bytes = noisy_segment();
        for (suffix, stored) in
            [("", bytes.clone()), (".zst", zstd(&bytes, true)), (".lz4", lz4(&bytes, true)), (".gz", gzip(&bytes))]
        {
            let cluster = Site::new();
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
        for (suffix, stored) in
            [(".zst", zstd(&bytes, false)), (".lz4", lz4(&bytes, false)), (".lz4", legacy_lz4(&bytes))]
        {
            let cluster = Site::new();
            cluster.archive(&format!("{NAME}{suffix}"), &stored);
            assert!(cluster.restore(NAME).unwrap().unchecked, "{suffix}");
        }
    }

    #[test]
    fn a_compressed_file_that_is_cut_anywhere_is_refused() {
        let bytes = noisy_segment();
        for (suffix, stored) in checksummed(&bytes) {
            let cluster = Site::new();
            let length = stored.len();
            let cuts = (0..16).chain([length / 3, length / 2]).chain(length - 12..length);
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
        for (suffix, stored) in checksummed(&bytes) {
            let cluster = Site::new();
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
        for (suffix, mut stored) in checksummed(&bytes) {
            let cluster = Site::new();
            stored.extend_from_slice(b"more");
            cluster.archive(&format!("{NAME}{suffix}"), &stored);
            assert!(is_damaged(&cluster.restore(NAME)), "{suffix}");
        }
    }

    #[test]
    fn a_damaged_form_is_passed_over_for_a_good_one_and_told_of() {
        let bytes = segment();
        let cluster = Site::new();
        cluster.archive(NAME, &bytes[..5000]);
        let good = cluster.archive(&format!("{NAME}.zst"), &zstd(&bytes, true));
        let restored = cluster.restore(NAME).unwrap();
        assert_eq!(restored.source, good);
        assert_eq!(restored.damaged.len(), 1);
    }

    #[test]
    fn another_clusters_segment_is_refused_by_pg_control() {
        let cluster = Site::new();
        cluster.archive(NAME, &segment());
        fs::write(cluster.dir.path().join("data/global/pg_control"), (SYSTEM + 1).to_ne_bytes()).unwrap();
        let error = cluster.restore(NAME).unwrap_err().to_string();
        assert!(error.contains("another cluster"), "{error}");
    }

    #[test]
    fn only_what_is_in_no_form_there_is_not_found() {
        let cluster = Site::new();
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
        let cluster = Site::new();
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
    fn several_frames_are_read_as_one_file() {
        let bytes = noisy_segment();
        let (one, two) = bytes.split_at(bytes.len() / 3);
        let skippable = [0x5A, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3].to_vec();
        for (suffix, frames) in [
            (".zst", vec![zstd(one, true), zstd(two, true)]),
            (".gz", vec![gzip(one), gzip(two)]),
            (".lz4", vec![lz4(one, true), lz4(two, true)]),
            (".lz4", vec![skippable.clone(), lz4(one, true), skippable, lz4(two, true)]),
            (".lz4", vec![legacy_lz4(one), lz4(two, true)]),
            (".lz4", vec![lz4(one, true), legacy_lz4(two)]),
            (".lz4", vec![legacy_lz4(one), legacy_lz4(two)]),
        ] {
            let cluster = Site::new();
            let stored = frames.concat();
            cluster.archive(&format!("{NAME}{suffix}"), &stored);
            cluster.restore(NAME).unwrap();
            assert_eq!(fs::read(cluster.target()).unwrap(), bytes, "{suffix}");
            let first = frames[0].len();
            for cut in [first, first + 2, first + 5, stored.len() - 1] {
                cluster.archive(&format!("{NAME}{suffix}"), &stored[..cut]);
                assert!(is_damaged(&cluster.restore(NAME)), "{suffix} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_legacy_frame_that_is_cut_or_nonsense_is_refused() {
        let stored = legacy_lz4(&noisy_segment());
        let cluster = Site::new();
        for cut in [0, 3, 4, 6, 8, stored.len() / 2, stored.len() - 1] {
            cluster.archive(&format!("{NAME}.lz4"), &stored[..cut]);
            assert!(is_damaged(&cluster.restore(NAME)), "cut at {cut}");
        }
        let mut long = stored.clone();
        long[4..8].fill(0xFF);
        cluster.archive(&format!("{NAME}.lz4"), &long);
        assert!(is_damaged(&cluster.restore(NAME)));
    }

    #[test]
    fn only_a_standby_waits_for_what_is_not_finished() {
        let cluster = Site::new();
        let partial = cluster.archive(&format!("{NAME}.partial"), &segment());
        let result = cluster.restore(NAME);
        assert!(matches!(&result, Err(RestoreError::Unusable { path, .. }) if *path == partial));
        fs::write(cluster.dir.path().join("data/standby.signal"), "").unwrap();
        let error = cluster.restore(NAME).unwrap_err();
        assert!(error.is_absence() && error.to_string().contains(".partial"));
        // By its own name it is a file as any other.
        cluster.restore(&format!("{NAME}.partial")).unwrap();
        cluster.archive(&format!("{NAME}.xz"), b"");
        assert!(!cluster.restore(NAME).unwrap_err().is_absence());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_passed_over_for_a_good_form() {
        let cluster = Site::new();
        let link = cluster.dir.path().join("archive").join(NAME);
        std::os::unix::fs::symlink("/nonexistent/tier", &link).unwrap();
        let error = cluster.restore(NAME).unwrap_err();
        assert!(!error.is_absence() && error.to_string().contains("/nonexistent/tier"));
        cluster.archive(&format!("{NAME}.zst"), &zstd(&segment(), true));
        assert_eq!(cluster.restore(NAME).unwrap().damaged.len(), 1);
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_waited_for() {
        let cluster = Site::new();
        fs::create_dir(cluster.dir.path().join("archive").join(NAME)).unwrap();
        let result = cluster.restore(NAME);
        assert!(matches!(result, Err(RestoreError::Unusable { .. })), "{result:?}");
    }
}
