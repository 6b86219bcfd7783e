//! What is not restored, and what that is called.

use super::*;

#[test]
fn a_check_writes_nothing() {
    let Some(site) = Site::new("check") else { return };
    let victim = site.victim();
    let name = victim.file_name().unwrap().to_str().unwrap();
    let check = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
        command.args(["wal-restore", "--check", "--archive"]);
        let output = command.arg(site.archive()).args(more).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), output.stdout, text)
    };
    let whole = format!("{}: whole\n", victim.display()).into_bytes();
    assert_eq!(check(&[name]), (0, whole.clone(), String::new()));
    // As it would be restored by the server.
    let target = site.dir.join("primary/pg_wal/RECOVERYXLOG");
    let target = target.to_str().unwrap();
    assert_eq!(check(&[name, target]), (0, whole, String::new()));
    assert!(!Path::new(target).exists());
    // A device is not looked at for its cluster, and stays.
    assert_eq!(check(&[name, "/dev/null"]).0, 0);
    assert_eq!(check(&["0000000100000000000000FF"]).0, 1);

    let control = site.dir.join("primary/global/pg_control");
    let mut bytes = fs::read(&control).unwrap();
    bytes[0] ^= 1;
    fs::write(&control, &bytes).unwrap();
    let (code, _, text) = check(&[name, target]);
    assert_eq!(code, 200);
    assert!(text.contains("is of another cluster"), "{text}");
    let mut bytes = fs::read(&victim).unwrap();
    bytes[8192 * 3..8192 * 4].fill(0);
    fs::write(&victim, &bytes).unwrap();
    let (code, _, text) = check(&[name]);
    assert_eq!(code, 200);
    assert!(text.contains("has no WAL page at offset 24576"), "{text}");
}

#[test]
fn only_a_file_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let name = "00000002.history";
    fs::write(dir.path().join(name), "1\t0/3000148\tx\n").unwrap();
    let place = |name: &str| dir.path().join(name);
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(CWD, place("fifo"), FileType::Fifo, mode, 0).unwrap();
    symlink("elsewhere", place("link")).unwrap();
    fs::create_dir(place("directory")).unwrap();
    let mut targets = vec!["fifo", "link", "directory"];
    // Needs root: /dev/null's number.
    let null = rustix::fs::makedev(1, 3);
    if rustix::fs::mknodat(CWD, place("device"), FileType::CharacterDevice, mode, null).is_ok() {
        targets.push("device");
    }
    let restore = |target: &str| {
        Command::new(env!("CARGO_BIN_EXE_pgcalm"))
            .args(["wal-restore", "--archive", ".", name, target])
            .current_dir(dir.path())
            .output()
            .unwrap()
    };
    for target in targets {
        let before = fs::symlink_metadata(place(target)).unwrap().file_type();
        let output = restore(target);
        let text = String::from_utf8(output.stderr).unwrap();
        let after = fs::symlink_metadata(place(target)).unwrap().file_type();
        assert_eq!(before, after, "{target}");
        assert_eq!(output.status.code(), Some(200), "{target}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("and no file"), "{text}");
    }
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    fs::write(place("file"), "old").unwrap();
    for target in ["file", "new"] {
        assert!(restore(target).status.success());
        assert_eq!(fs::read(place(target)).unwrap(), fs::read(place(name)).unwrap());
    }
}

#[test]
fn damage_stops_recovery_instead_of_ending_it() {
    let Some(site) = Site::new("damage") else { return };
    let victim = site.victim();
    let good = fs::read(&victim).unwrap();

    // As a copy that was not synced looks after a power cut.
    let mut zeroed = good.clone();
    zeroed[64 * 8192..65 * 8192].fill(0);
    replace(&victim, "", &zeroed);
    site.expect_refusal("zeroed page", "has no WAL page at offset 524288");

    replace(&victim, "", &good[..good.len() / 2]);
    site.expect_refusal("truncated", "is cut off: 524288 bytes of the 1048576");

    let mut foreign = good.clone();
    foreign[24] ^= 1;
    replace(&victim, "", &foreign);
    site.expect_refusal("another cluster's", "is of another cluster");

    let segments = site.segments();
    let neighbour = fs::read(&segments[segments.len() - 3]).unwrap();
    replace(&victim, "", &neighbour);
    site.expect_refusal("another segment", "instead of");

    for (suffix, stored) in [(".zst", zstd(&good)), (".lz4", lz4(&good))] {
        let path = victim.with_extension("");
        if !path.exists() {
            fs::write(&path, "").unwrap();
        }
        replace(&path, suffix, &stored[..stored.len() - 1]);
        site.expect_refusal(suffix, "does not decompress");
        let mut flipped = stored.clone();
        flipped[stored.len() / 2] ^= 1;
        let file = PathBuf::from(format!("{}{suffix}", victim.display()));
        fs::write(&file, &flipped).unwrap();
        // What decompresses nevertheless is no WAL any more.
        site.expect_refusal(suffix, "restore this file from another copy");
        fs::remove_file(&file).unwrap();
    }

    // All of it is whole again: what was refused was refused for its damage.
    fs::write(&victim, &good).unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o644)).unwrap();
    site.expect_recovery("repaired");
}

#[test]
fn only_absence_has_a_code_that_recovery_takes_for_the_end_of_wal() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_pgcalm"))
            .arg("wal-restore")
            .args(arguments)
            .current_dir(dir.path())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        output.status.code().unwrap()
    };
    let name = "000000010000000000000001";
    assert_eq!(run(&["--archive", ".", name, "target"]), 1);
    assert_eq!(run(&["--archive", ".", "00000002.history", "target"]), 1);
    assert_eq!(run(&["--archive", "absent", name, "target"]), 200);
    assert_eq!(run(&["--archive", ".", "nonsense", "target"]), 200);
    assert_eq!(run(&["--archive", ".", name]), 200);
    assert_eq!(run(&["--unknown", ".", name, "target"]), 200);
    // What may mean the file, and can't be used.
    let remains = [".xz", ".bz2", ".zstd", ".partial", ".tmp", "-0123"];
    for suffix in remains {
        let path = dir.path().join(format!("{name}{suffix}"));
        fs::write(&path, "").unwrap();
        assert_eq!(run(&["--archive", ".", name, "target"]), 200, "{suffix}");
        fs::remove_file(&path).unwrap();
    }
    // What doesn't.
    fs::write(dir.path().join(format!("{name}.00000028.backup")), "").unwrap();
    fs::create_dir(dir.path().join("lost+found")).unwrap();
    fs::write(dir.path().join("000000010000000000000002.xz"), "").unwrap();
    assert_eq!(run(&["--archive", ".", name, "target"]), 1);
    // A standby asks again when somebody has finished it.
    for directory in ["data", "data/pg_wal"] {
        fs::create_dir(dir.path().join(directory)).unwrap();
    }
    fs::write(dir.path().join("data/standby.signal"), "").unwrap();
    fs::write(dir.path().join(format!("{name}.partial")), "").unwrap();
    let recovery = "data/pg_wal/RECOVERYXLOG";
    assert_eq!(run(&["--archive", ".", name, recovery]), 1);
    // It is promoted, or streams on, while the archive is away.
    for file in [name, "00000002.history"] {
        assert_eq!(run(&["--archive", "absent", file, recovery]), 1);
    }
    fs::write(dir.path().join(format!("{name}.xz")), "").unwrap();
    assert_eq!(run(&["--archive", ".", name, recovery]), 200);
    // Not waited for.
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(CWD, dir.path().join(name), FileType::Fifo, mode, 0).unwrap();
    assert_eq!(run(&["--archive", ".", name, "target"]), 200);
    fs::remove_file(dir.path().join(name)).unwrap();
    fs::write(dir.path().join(name), "cut").unwrap();
    assert_eq!(run(&["--archive", ".", name, "target"]), 200);
    assert!(!dir.path().join("target").exists());
}
