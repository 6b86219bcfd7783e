use std::os::unix::fs::PermissionsExt;

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

    /// Restores, or says why not.
    fn restore(&self, file: &str) -> Result<Restored, String> {
        match self.outcome(file) {
            Ok(Outcome::Restored(restored)) => Ok(restored),
            Ok(Outcome::Absent(text)) => panic!("{text}"),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sees that nothing but the target is ever left in pg_wal.
    fn outcome(&self, file: &str) -> Result<Outcome, Failure> {
        let _ = fs::remove_file(self.target());
        let result = restore(&Request {
            archive: self.dir.path().join("archive"),
            file: file.to_string(),
            target: Target::File(self.target()),
        });
        let left = fs::read_dir(self.target().parent().unwrap()).unwrap().count();
        assert_eq!(left, usize::from(matches!(result, Ok(Outcome::Restored(_)))), "{result:?}");
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

fn is_damaged(result: &Result<Restored, String>) -> bool {
    result.as_ref().is_err_and(|error| error.contains("another copy of the archive"))
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

/// Else a backup as a member of the group would fail at the file once the server has recycled it.
#[test]
fn a_restored_file_has_the_mode_of_the_clusters_files() {
    let cluster = Site::new();
    cluster.archive(NAME, &segment());
    for (directory, file) in [(0o750, 0o640), (0o700, 0o600)] {
        let data = cluster.dir.path().join("data");
        fs::set_permissions(data, fs::Permissions::from_mode(directory)).unwrap();
        cluster.restore(NAME).unwrap();
        assert_eq!(fs::metadata(cluster.target()).unwrap().permissions().mode() & 0o777, file);
    }
}

#[test]
fn frames_without_a_checksum_are_told_of() {
    let bytes = segment();
    for (suffix, stored) in [(".zst", zstd(&bytes, false)), (".lz4", lz4(&bytes, false)), (".lz4", legacy_lz4(&bytes))]
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
    let error = cluster.restore(NAME).unwrap_err();
    assert!(error.contains("another cluster"), "{error}");
}

#[test]
fn only_what_is_in_no_form_there_is_not_found() {
    let cluster = Site::new();
    for file in [NAME, "00000002.history"] {
        assert!(matches!(cluster.outcome(file), Ok(Outcome::Absent(_))));
    }
    fs::remove_dir(cluster.dir.path().join("archive")).unwrap();
    assert!(cluster.restore(NAME).unwrap_err().starts_with("archive "));
    assert!(matches!(cluster.outcome("../secret"), Err(Failure::Usage(_))));
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
    let error = cluster.restore(NAME).unwrap_err();
    assert!(error.starts_with(&format!("{}: is not finished", partial.display())), "{error}");
    fs::write(cluster.dir.path().join("data/standby.signal"), "").unwrap();
    assert!(matches!(cluster.outcome(NAME), Ok(Outcome::Absent(text)) if text.contains(".partial")));
    // By its own name it is a file as any other.
    cluster.restore(&format!("{NAME}.partial")).unwrap();
    cluster.archive(&format!("{NAME}.xz"), b"");
    assert!(cluster.outcome(NAME).is_err());
}

/// It goes on where another one may bring the file, by streaming too; a check says what is wrong.
#[test]
fn a_damaged_file_stops_a_recovery_and_no_standby() {
    let bytes = noisy_segment();
    let cut = checksummed(&bytes).into_iter().chain([("", bytes.clone())]);
    let mut copies: Vec<_> = cut.map(|(suffix, stored)| (NAME, suffix, stored[..stored.len() / 2].to_vec())).collect();
    // Over NFS a later part can be there first.
    let mut hole = bytes;
    hole[50 * 8192..60 * 8192].fill(0);
    copies.extend([(NAME, "", hole), ("00000002.history", "", Vec::new())]);
    for (file, suffix, stored) in copies {
        let what = format!("{file}{suffix}, {} bytes", stored.len());
        let cluster = Site::new();
        let source = cluster.archive(&format!("{file}{suffix}"), &stored);
        assert!(is_damaged(&cluster.restore(file)), "{what}");
        fs::write(cluster.dir.path().join("data/standby.signal"), "").unwrap();
        let outcome = cluster.outcome(file);
        assert!(matches!(&outcome, Ok(Outcome::Absent(text)) if text.contains("yet: ")), "{what}: {outcome:?}");
        age(&source);
        let outcome = cluster.outcome(file);
        assert!(matches!(&outcome, Ok(Outcome::Absent(text)) if text.contains("streams")), "{what}: {outcome:?}");
        let check = restore(&Request {
            archive: cluster.dir.path().join("archive"),
            file: file.to_string(),
            target: Target::Nowhere(Some(cluster.target())),
        });
        assert!(matches!(&check, Err(Failure::Host(text)) if text.contains("another copy")), "{what}: {check:?}");
    }
}

/// As one that nobody writes to any more.
fn age(file: &Path) {
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    fs::File::options().write(true).open(file).unwrap().set_modified(then).unwrap();
}

/// As a standby with `archive_mode = always` archives it when the primary has gone.
#[test]
fn a_standby_waits_at_the_end_of_a_timeline_that_was_left() {
    let mut bytes = noisy_segment();
    bytes[100 * 8192..].fill(0);
    let cluster = Site::new();
    let source = cluster.archive(NAME, &bytes);
    age(&source);
    let error = cluster.restore(NAME).unwrap_err();
    assert!(error.contains("uncompressed"), "{error}");
    assert!(error.contains("no WAL page at offset 819200") && error.contains("move it to pg_wal"), "{error}");
    fs::write(cluster.dir.path().join("data/standby.signal"), "").unwrap();
    let outcome = cluster.outcome(NAME);
    assert!(matches!(&outcome, Ok(Outcome::Absent(text)) if text.contains("offset 819200")), "{outcome:?}");
}

#[test]
fn a_link_that_leads_nowhere_is_passed_over_for_a_good_form() {
    let cluster = Site::new();
    let link = cluster.dir.path().join("archive").join(NAME);
    std::os::unix::fs::symlink("/nonexistent/tier", &link).unwrap();
    assert!(cluster.restore(NAME).unwrap_err().contains("/nonexistent/tier"));
    cluster.archive(&format!("{NAME}.zst"), &zstd(&segment(), true));
    assert_eq!(cluster.restore(NAME).unwrap().damaged.len(), 1);
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let cluster = Site::new();
    fs::create_dir(cluster.dir.path().join("archive").join(NAME)).unwrap();
    assert!(cluster.restore(NAME).unwrap_err().ends_with("; move it away"));
}

#[test]
fn an_archive_that_cant_be_read_stops_a_recovery_and_no_standby() {
    let cluster = Site::new();
    let archive = cluster.dir.path().join("archive");
    let put = |name: &str| std::os::unix::fs::symlink(name, archive.join(name)).unwrap();
    // A link to itself fails to open with ELOOP, which is neither absence nor damage.
    put(NAME);
    put("00000002.history");
    fs::write(cluster.dir.path().join("data/recovery.signal"), "").unwrap();
    // What can't be read does not hide a good form.
    let form = cluster.archive(&format!("{NAME}.zst"), &zstd(&segment(), true));
    assert!(cluster.restore(NAME).unwrap().damaged[0].contains("symbolic links"));
    fs::remove_file(form).unwrap();
    let expect = |what: &str, is_standby: bool| {
        for file in [NAME, "00000002.history"] {
            match cluster.outcome(file) {
                Ok(Outcome::Absent(text)) if is_standby => assert!(text.contains(what), "{text}"),
                Err(Failure::Unreachable(text)) if !is_standby => assert!(text.contains(what), "{text}"),
                other => panic!("{file}, {what}, {is_standby}: {other:?}"),
            }
        }
    };
    let signal = cluster.dir.path().join("data/standby.signal");
    expect("symbolic links", false);
    fs::write(&signal, "").unwrap();
    expect("symbolic links", true);
    fs::remove_dir_all(&archive).unwrap();
    expect("see that it is mounted", true);
    // A promotion removes the signals before it asks for the last history.
    fs::remove_file(&signal).unwrap();
    fs::remove_file(cluster.dir.path().join("data/recovery.signal")).unwrap();
    assert!(matches!(cluster.outcome("00000002.history"), Ok(Outcome::Absent(_))));
    assert!(matches!(cluster.outcome(NAME), Err(Failure::Unreachable(_))));
    fs::write(cluster.dir.path().join("data/recovery.signal"), "").unwrap();
    expect("see that it is mounted", false);
    fs::write(&archive, "").unwrap();
    fs::write(&signal, "").unwrap();
    expect("Not a directory", true);
}

#[test]
fn a_cluster_that_cant_be_written_to_stops_a_recovery_and_no_standby() {
    let cluster = Site::new();
    cluster.archive(NAME, &segment());
    // In the place of the file that is written.
    fs::create_dir(cluster.target().with_file_name(format!("xlogtemp.pgcalm.{}", std::process::id()))).unwrap();
    let request = Request {
        archive: cluster.dir.path().join("archive"),
        file: NAME.to_string(),
        target: Target::File(cluster.target()),
    };
    assert!(matches!(restore(&request), Err(Failure::Unreachable(text)) if text.starts_with("create ")));
    fs::write(cluster.dir.path().join("data/standby.signal"), "").unwrap();
    assert!(matches!(restore(&request), Ok(Outcome::Absent(text)) if text.starts_with("create ")));
}

#[test]
fn a_standby_waits_for_what_a_link_leads_to() {
    let cluster = Site::new();
    let link = cluster.dir.path().join("archive").join(NAME);
    std::os::unix::fs::symlink("/nonexistent/tier", &link).unwrap();
    fs::write(cluster.dir.path().join("data/standby.signal"), "").unwrap();
    assert!(matches!(cluster.outcome(NAME), Ok(Outcome::Absent(text)) if text.contains("/nonexistent/tier")));
}

/// A fast stop ends a restore by SIGTERM.
#[test]
fn what_a_restore_left_that_was_ended_is_removed_by_the_next_one() {
    let cluster = Site::new();
    cluster.archive(NAME, &segment());
    let left = cluster.target().with_file_name("xlogtemp.pgcalm.4194303");
    fs::write(&left, "a part").unwrap();
    cluster.restore(NAME).unwrap();
    // One that is being written stays.
    let written = Replacement::create(left.clone(), 0o600).unwrap();
    written.lock().unwrap();
    let request = Request {
        archive: cluster.dir.path().join("archive"),
        file: NAME.to_string(),
        target: Target::File(cluster.target()),
    };
    assert!(matches!(restore(&request), Ok(Outcome::Restored(_))));
    assert!(left.exists());
}
