use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use pgcalm_monitor::model::{Host, Identity, Instance, Missing, Subject};

use super::*;
use crate::incident::{Cause, Cure, Incident};
use crate::second::Second;

pub(crate) const NOW: u64 = 1_800_000_000_000;

fn limits(bytes: u64) -> Limits {
    Limits { keep: Duration::from_secs(7 * 86_400), bytes }
}

fn host(time_ms: u64) -> Host {
    Host {
        time_ms,
        instances: vec![Instance {
            identity: Identity { name: "5432".to_string(), port: Some(5432), ..Identity::default() },
            missing: vec![Missing { subject: Subject::Module, reason: format!("{}", time_ms % 977), remedy: None }],
            ..Instance::default()
        }],
        ..Host::default()
    }
}

fn second(time_ms: u64) -> Item {
    let second = Second { time_ms, commits: Some(100.04), active: 3, ..Second::default() };
    Item::Second("5432".to_string(), Box::new(second), false)
}

pub(crate) fn incident(started_ms: u64, cause: Cause) -> Incident {
    Incident {
        pgcalm: "0".to_string(),
        id: None,
        server: "5432".to_string(),
        data_directory: None,
        server_version: None,
        started_ms,
        ended_ms: started_ms + 5000,
        seconds: 6.0,
        ended_by: None,
        usual_commits_per_second: Some(100.0),
        worst_commits_per_second: Some(0.0),
        lost_commits: 500.0,
        held_sessions: 4,
        longest_wait_seconds: 3.0,
        cause,
        sentence: String::new(),
        chain: Vec::new(),
        evidence: Vec::new(),
        also: Vec::new(),
        waits: Vec::new(),
        blocked: Vec::new(),
        stuck: Vec::new(),
        samples: None,
        changes: Vec::new(),
        cure: Cure { rule: None, text: String::new(), command: String::new() },
        timeline: Vec::new(),
    }
}

fn stored(directory: &Path, seconds: u64) -> Writer {
    let mut writer = Writer::open(directory, limits(64 << 20)).unwrap();
    let mut packer = Packer::default();
    let mut items = Vec::new();
    for number in 0..seconds {
        items.extend(packer.pack(&host(NOW + number * 1000)).unwrap());
        items.push(second(NOW + number * 1000));
    }
    writer.write(&items).unwrap();
    writer
}

fn times(reader: &Reader, from: u64, to: u64) -> Vec<u64> {
    let mut times = Vec::new();
    reader.samples(from, to, |host| times.push(host.time_ms)).unwrap();
    times
}

#[test]
fn samples_and_incidents_come_back_as_they_were_beside_a_recorder_that_writes() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = stored(directory.path(), 10);
    let reader = Reader::open(directory.path()).unwrap();
    let mut all = Vec::new();
    reader.samples(NOW + 2000, NOW + 4000, |host| all.push(host)).unwrap();
    assert_eq!(all, [host(NOW + 2000), host(NOW + 3000), host(NOW + 4000)]);
    assert_eq!(reader.range().unwrap(), Some((NOW, NOW + 9000)));

    let first = incident(NOW + 3000, Cause::CheckpointSync);
    writer.write(&[Item::Incident(Box::new(first.clone()))]).unwrap();
    let longer = Incident { ended_ms: NOW + 9000, ..first.clone() };
    writer.write(&[Item::Incident(Box::new(longer.clone()))]).unwrap();
    writer.write(&[Item::Incident(Box::new(incident(NOW + 60_000, Cause::CheckpointSync)))]).unwrap();
    assert_eq!(reader.incident(1).unwrap(), Some(Incident { id: Some(1), ..longer }));
    assert_eq!(reader.incident(3).unwrap(), None);
    assert_eq!(reader.incident(u64::MAX).unwrap(), None);
    assert_eq!(reader.incidents(NOW + 60_000).unwrap().len(), 1);
    let counts = reader.counts().unwrap();
    assert_eq!((counts[0].verdict.as_str(), counts[0].total, counts[0].last_id), ("checkpoint_sync", 2, 2));
    assert!(counts.len() > 20 && counts[1..].iter().all(|count| count.total == 0), "{counts:?}");
}

/// A stall of an hour began and ended farther from its middle than a short one that came after it.
#[test]
fn what_a_moment_lies_in_is_nearer_than_what_is_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = stored(directory.path(), 10);
    let long = Incident { ended_ms: NOW + 3_600_000, ..incident(NOW, Cause::VolumeHung) };
    let beside = Incident { server: "5433".to_string(), ..incident(NOW + 1_830_000, Cause::CpuBusy) };
    let later = incident(NOW + 3_700_000, Cause::Journal);
    let items = [long, beside, later].map(|incident| Item::Incident(Box::new(incident)));
    writer.write(&items).unwrap();
    let reader = Reader::open(directory.path()).unwrap();
    let around = |at: u64| reader.around(NOW + at).unwrap().iter().map(|it| it.cause).collect::<Vec<_>>();
    assert_eq!(around(1_800_000), [Cause::VolumeHung, Cause::CpuBusy]);
    assert_eq!(around(1_831_000), [Cause::CpuBusy, Cause::VolumeHung]);
    assert_eq!(around(3_690_000), [Cause::Journal]);
    assert_eq!(around(3_800_000), []);
}

#[test]
fn what_was_not_recorded_is_not_taken_for_calm() {
    let directory = tempfile::tempdir().unwrap();
    let _writer = stored(directory.path(), 10);
    let reader = Reader::open(directory.path()).unwrap();
    let covered = [NOW - 30_000, NOW + 5000, NOW + 60_000, NOW + 90_000].map(|at| reader.covers(at).unwrap());
    assert_eq!(covered, [true, true, true, false]);
    assert_eq!(reader.silence(NOW + 20_000).unwrap(), None);
    let silence = reader.silence(NOW + 90_000).unwrap().unwrap();
    assert!(silence.starts_with("nothing is recorded since 20"), "{silence}");
}

#[test]
fn after_an_hour_each_tenth_second_is_kept_and_all_around_an_incident() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = stored(directory.path(), 400);
    writer.write(&[Item::Incident(Box::new(incident(NOW + 200_000, Cause::Unknown)))]).unwrap();
    writer.tidy(NOW + 400_000).unwrap();
    let reader = Reader::open(directory.path()).unwrap();
    assert_eq!(times(&reader, 0, u64::MAX).len(), 400);
    writer.tidy(NOW + 4_100_000).unwrap();
    assert_eq!(times(&reader, NOW, NOW + 139_000), (0..14).map(|n| NOW + n * 10_000).collect::<Vec<_>>());
    assert_eq!(times(&reader, NOW + 140_000, NOW + 265_000).len(), 126);
    // What is older than --keep goes, the seconds of the tables, too.
    writer.tidy(NOW + 7 * 86_400_000 + 300_000).unwrap();
    assert_eq!(reader.range().unwrap(), Some((NOW + 300_000, NOW + 390_000)));
    assert_eq!(reader.incidents(0).unwrap(), []);
    assert_eq!(reader.counts().unwrap()[0].total, 1, "a counter does not fall");
}

#[test]
fn a_server_of_which_nothing_is_kept_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = stored(directory.path(), 10);
    let gone = Second { time_ms: NOW, ..Second::default() };
    let of_gone = Incident { server: "5432:3f2a".to_string(), ..incident(NOW, Cause::Unknown) };
    let items = [
        Item::Second(of_gone.server.clone(), Box::new(gone), true),
        Item::Incident(Box::new(of_gone)),
        Item::Incident(Box::new(incident(NOW, Cause::Unknown))),
    ];
    writer.write(&items).unwrap();
    writer.tidy(NOW + 7 * 86_400_000 + 6000).unwrap();
    let counts = Reader::open(directory.path()).unwrap().counts().unwrap();
    assert!(counts.iter().all(|count| count.server == "5432"), "{counts:?}");
    assert_eq!(counts.iter().map(|count| count.total).sum::<u64>(), 1);
}

#[test]
fn the_file_keeps_to_its_size_and_the_newest_stay() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(directory.path(), limits(Limits::LEAST_BYTES)).unwrap();
    let blob = vec![7_u8; 20_000];
    let mut time_ms = NOW;
    for _ in 0..60 {
        let items: Vec<Item> = (0..50)
            .map(|_| {
                time_ms += 1000;
                Item::Sample { time_ms, dictionary: 0, length: 1, packed: blob.clone() }
            })
            .collect();
        writer.write(&items).unwrap();
    }
    let reader = Reader::open(directory.path()).unwrap();
    let (first, last) = reader.range().unwrap().unwrap();
    assert!(first > NOW + 1000 && last == time_ms, "{first} {last}");
    writer.tidy(time_ms).unwrap();
    assert_eq!(reader.range().unwrap().unwrap().1, time_ms);
    let size: u64 =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(size <= Limits::LEAST_BYTES, "{size}");
}

#[test]
fn a_file_that_was_allowed_more_shrinks_to_a_lower_limit() {
    let directory = tempfile::tempdir().unwrap();
    let sample = |second| Item::Sample { time_ms: NOW + second, dictionary: 0, length: 1, packed: vec![7; 20_000] };
    let mut writer = Writer::open(directory.path(), limits(64 << 20)).unwrap();
    writer.write(&(0..1000).map(sample).collect::<Vec<_>>()).unwrap();
    drop(writer);
    let length = || std::fs::metadata(directory.path().join(FILE)).unwrap().len();
    assert!(length() > Limits::LEAST_BYTES + (3 << 20), "{}", length());
    let mut writer = Writer::open(directory.path(), limits(Limits::LEAST_BYTES)).unwrap();
    writer.tidy(NOW).unwrap();
    drop(writer);
    assert!(length() <= Limits::LEAST_BYTES, "{}", length());
}

#[test]
fn what_a_wrong_clock_has_left_does_not_push_out_all_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let keep = Duration::from_secs(1000);
    let mut writer = Writer::open(directory.path(), Limits { keep, bytes: Limits::LEAST_BYTES }).unwrap();
    let sample = |time_ms| Item::Sample { time_ms, dictionary: 0, length: 1, packed: vec![7_u8; 20_000] };
    writer.write(&[sample(NOW + 10 * 365 * 86_400_000)]).unwrap();
    let items: Vec<Item> = (0..750).map(|second| sample(NOW + second * 1000)).collect();
    items.chunks(50).for_each(|part| writer.write(part).unwrap());
    writer.tidy(NOW + 750_000).unwrap();
    let count = |connection: &Connection| connection.query_row("SELECT count(*) FROM sample", [], |row| row.get(0));
    let kept: i64 = count(&open_to_read(&directory.path().join(FILE)).unwrap()).unwrap();
    assert!((400..700).contains(&kept), "{kept}");
}

#[test]
fn what_is_no_record_of_this_version_is_told_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    let told = |path: &Path| {
        let error = Reader::open(path).and_then(|reader| reader.incidents(0)).map(drop).unwrap_err().to_string();
        assert!(!error.contains('\n') && error.contains(';'), "{error}");
        error
    };
    assert!(told(&path).contains("no record is there"));
    std::fs::write(&path, "something else, as long as a page of a database would be at the very least").unwrap();
    assert!(told(&path).contains("is no record of pgcalm"));
    assert!(Writer::open(directory.path(), limits(64 << 20)).is_err());
    std::fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    assert!(told(&path).contains("is no record of pgcalm"));
    std::fs::remove_file(&path).unwrap();

    drop(stored(directory.path(), 100));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(told(&path).contains("has version 99"));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", VERSION).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[PAGE_OF_SCHEMA..].iter_mut().for_each(|byte| *byte = 0xa5);
    std::fs::write(&path, bytes).unwrap();
    assert!(told(&path).contains("is damaged"));
}

/// The first page has the schema.
const PAGE_OF_SCHEMA: usize = 4096;

#[test]
fn a_record_that_was_left_before_it_had_tables_is_begun_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    drop(connection);
    assert!(std::fs::metadata(&path).unwrap().len() > 0);
    drop(stored(directory.path(), 10));
    assert_eq!(times(&Reader::open(directory.path()).unwrap(), 0, u64::MAX).len(), 10);
}

#[test]
fn two_recorders_do_not_write_into_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    let first = Writer::open(directory.path(), limits(64 << 20)).unwrap();
    let error = Writer::open(directory.path(), limits(64 << 20)).map(drop).unwrap_err().to_string();
    assert!(error.contains("another pgcalm record"), "{error}");
    drop(first);
    Writer::open(directory.path(), limits(64 << 20)).unwrap();
}

#[test]
fn who_reads_in_the_recorder_s_process_leaves_it_its_lock_on_the_file() {
    // Of a file system whose numbers of files are those that the kernel tells of locks.
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let _writer = stored(directory.path(), 10);
    drop(Reader::open(directory.path()).unwrap());
    let file = std::fs::metadata(directory.path().join(FILE)).unwrap().ino();
    // The bytes by which SQLite tells that somebody reads.
    let shared = format!(":{file} {} {}\n", 0x4000_0002, 0x4000_0002 + 509);
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    assert!(locks.contains(&shared), "{shared}{locks}");
}

#[test]
fn a_copy_is_a_record_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let _writer = stored(directory.path(), 10);
    let copy = directory.path().join("copy'.sqlite");
    let reader = Reader::open(directory.path()).unwrap();
    reader.export(&copy).unwrap();
    assert_eq!(times(&Reader::open(&copy).unwrap(), 0, u64::MAX).len(), 10);
    assert!(reader.export(&copy).unwrap_err().to_string().contains("is there already"));
}

#[test]
fn a_copy_that_fails_half_way_is_not_left() {
    let directory = tempfile::tempdir().unwrap();
    drop(stored(directory.path(), 100));
    let path = directory.path().join(FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let copies = tempfile::tempdir().unwrap();
    let reader = Reader::open(directory.path()).unwrap();
    reader.export(&copies.path().join("copy")).unwrap_err();
    assert_eq!(std::fs::read_dir(copies.path()).unwrap().count(), 0);
}

#[test]
fn a_days_worth_of_an_instance_is_small() {
    let directory = tempfile::tempdir().unwrap();
    drop(stored(directory.path(), 3600));
    let size = std::fs::metadata(directory.path().join(FILE)).unwrap().len();
    // Of a made-up instance; the real one is measured beside a server.
    assert!(size < 1_000_000, "{size}");
}
