use super::*;
use std::os::unix::fs::MetadataExt;

#[test]
fn a_row_is_as_copys_binary_format_has_it() {
    let mut row = Vec::new();
    put_row(&mut row, 258, 0xf1, 1);
    assert_eq!(row.len(), 2 + 8 + 4 + 32 + 4 + 8);
    assert_eq!(row[..10], [0, 3, 0, 0, 0, 4, 0, 0, 1, 2]);
    assert_eq!(row[14..46], *b"1f000000000000000000000000000000");
    assert_eq!(row[46..], [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(COPY_HEADER.len(), 11 + 4 + 4);
}

#[test]
fn room_is_made_by_what_was_used_longest_ago_and_never_by_what_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    // Not the host's lock, which a lab at work would hold.
    let lab = LabDir::open_torture(dir.path()).unwrap();
    let path = |name: &str| lab.templates().join(name);
    for (name, age) in [("needed", 30), ("older", 20), ("old", 10), ("new", 0)] {
        fs::create_dir_all(path(name)).unwrap();
        fs::write(path(name).join("PG_VERSION"), "0123456789").unwrap();
        File::open(path(name)).unwrap().set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
    }
    let progress = Progress::new();
    let room = |needed| {
        let space = || {
            let gone = ["older", "old", "new"].iter().filter(|name| !path(name).exists());
            Ok(100 + 10 * gone.count() as u64)
        };
        Template::make_room(&lab, &path("needed"), needed, space, &progress).unwrap();
        fs::read_dir(lab.templates()).unwrap().count()
    };
    assert_eq!(room(100), 4, "enough");
    assert_eq!(room(140), 4, "not to be had");
    assert_eq!(room(120), 2);
    let there = |name| path(name).exists();
    assert!(there("needed") && there("new"));
    assert!(!there("older") && !there("old"));
}

#[test]
fn files_of_any_length_are_copied_whole_and_wal_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let user = fs::metadata(dir.path()).unwrap();
    let installation = Installation::for_test(user.uid(), user.gid());
    let from = dir.path().join("from");
    fs::create_dir_all(from.join("base/1")).unwrap();
    fs::create_dir_all(from.join("pg_wal")).unwrap();
    let content = |length: usize| -> Vec<u8> { (0..length).map(|i| (i / 7) as u8).collect() };
    for (name, length) in [
        ("PG_VERSION", 3),
        ("base/1/1", 0),
        ("base/1/2", COPY),
        ("base/1/3", 2 * COPY + 8192 + 5),
        ("pg_wal/000000010000000000000001", COPY - 1),
    ] {
        fs::write(from.join(name), content(length)).unwrap();
    }
    let (to, wal) = (dir.path().join("to"), dir.path().join("wal"));
    let interrupt = Interrupt::default();
    copy(&from, &to, Some(&wal), Cache::Past, &installation, &interrupt).unwrap();
    for (file, length) in [
        (to.join("PG_VERSION"), 3),
        (to.join("base/1/1"), 0),
        (to.join("base/1/2"), COPY),
        (to.join("base/1/3"), 2 * COPY + 8192 + 5),
        (wal.join("000000010000000000000001"), COPY - 1),
    ] {
        assert!(fs::read(&file).unwrap() == content(length), "{}", file.display());
    }
    assert_eq!(fs::read_link(to.join("pg_wal")).unwrap(), wal);
}
