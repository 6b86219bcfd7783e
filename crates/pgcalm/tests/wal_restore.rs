//! `pgcalm wal-restore` as restore_command of a real server: recovery to a point in time from archives of every form,
//! and from damaged ones. Needs an installed PostgreSQL and, as root, its OS user; says so and passes otherwise.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;

use pgcalm_host::HostRoot;
use pgcalm_host::postgres;
use pgcalm_testkit::need;
use pgcalm_testkit::programs::Programs;
use pgcalm_testkit::programs::give_to_server;
use pgcalm_testkit::programs::initdb;

/// Rows committed before the restore point; afterwards there are more.
const ROWS: usize = 40_000;

/// A base backup of a cluster with segments of 1 MB, and its archive.
struct Site {
    dir: PathBuf,
    programs: Programs,
}

impl Drop for Site {
    fn drop(&mut self) {
        for server in ["primary", "restored"] {
            let data = self.dir.join(server);
            if data.join("postmaster.pid").exists() {
                let _ = self
                    .command("pg_ctl")
                    .args(["stop", "-m", "immediate", "-w", "-D"])
                    .arg(&data)
                    .output();
            }
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Site {
    fn new(test: &str) -> Option<Self> {
        if !need::met("wal-restore", &[need::ANY_SERVER]) {
            return None;
        }
        let bindir = postgres::bindirs(&HostRoot::default()).swap_remove(0);
        let dir = PathBuf::from(format!(
            "/var/tmp/pgcalm-test-{}-{test}",
            std::process::id()
        ));
        fs::create_dir(&dir).unwrap();
        give_to_server(&dir);
        let site = Self {
            programs: Programs::new(&bindir, &dir),
            dir,
        };
        // Where the tests are built, the server's user may not come.
        fs::copy(env!("CARGO_BIN_EXE_pgcalm"), site.program()).unwrap();
        site.create();
        Some(site)
    }

    fn program(&self) -> PathBuf {
        self.dir.join("pgcalm")
    }

    fn archive(&self) -> PathBuf {
        self.dir.join("archive")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.programs.command(program);
        command.env("LC_ALL", "C");
        command
    }

    fn done(&self, command: &mut Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn start(&self, server: &str) -> Output {
        self.command("pg_ctl")
            .args(["start", "-w", "-t", "60", "-D"])
            .arg(self.dir.join(server))
            .arg("-l")
            .arg(self.log(server))
            .output()
            .unwrap()
    }

    fn stop(&self, server: &str) {
        self.done(
            self.command("pg_ctl")
                .args(["stop", "-m", "fast", "-w", "-D"])
                .arg(self.dir.join(server)),
        );
    }

    fn log(&self, server: &str) -> PathBuf {
        self.dir.join(format!("{server}.log"))
    }

    fn sql(&self, sql: &str) -> String {
        let mut psql = self.command("psql");
        psql.args([
            "-XAtq",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "postgres",
            "-d",
            "postgres",
            "-h",
        ])
        .arg(&self.dir)
        .args(["-c", sql]);
        self.done(&mut psql).trim().to_string()
    }

    fn create(&self) {
        fs::create_dir(self.archive()).unwrap();
        give_to_server(&self.archive());
        let primary = self.dir.join("primary");
        initdb(self.command("initdb"), &primary, &["--wal-segsize=1"]);
        let mut configuration = fs::OpenOptions::new()
            .append(true)
            .open(primary.join("postgresql.conf"))
            .unwrap();
        write!(
            configuration,
            "listen_addresses = ''\nunix_socket_directories = '{}'\nfsync = off\narchive_mode = on\n\
             archive_command = 'cp %p {}/%f'\n",
            self.dir.display(),
            self.archive().display()
        )
        .unwrap();
        let started = self.start("primary");
        assert!(started.status.success(), "{started:?}");
        self.done(
            self.command("pg_basebackup")
                .args([
                    "-X",
                    "none",
                    "-c",
                    "fast",
                    "--no-sync",
                    "-U",
                    "postgres",
                    "-h",
                ])
                .arg(&self.dir)
                .arg("-D")
                .arg(self.dir.join("base")),
        );
        self.sql("create table witness (id int, filler text)");
        self.sql(&format!(
            "insert into witness select i, md5(i::text) from generate_series(1, {ROWS}) i"
        ));
        self.sql("select pg_create_restore_point('here')");
        self.sql("insert into witness select i, '' from generate_series(1, 1000) i");
        // A fast shutdown archives all that is left.
        self.sql("select pg_switch_wal()");
        self.stop("primary");
    }

    /// Segments of the archive in order; rows of the witness fill several.
    fn segments(&self) -> Vec<PathBuf> {
        let mut segments: Vec<PathBuf> = fs::read_dir(self.archive())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().len() == 24)
            .collect();
        segments.sort();
        assert!(segments.len() >= 6, "{segments:?}");
        segments
    }

    /// One after the base backup and before the restore point.
    fn victim(&self) -> PathBuf {
        let segments = self.segments();
        segments[segments.len() - 4].clone()
    }

    /// Starts recovery of the base backup to the restore point.
    fn recover(&self, restore_command: &str) -> Output {
        let restored = self.dir.join("restored");
        let _ = fs::remove_dir_all(&restored);
        let _ = fs::remove_file(self.log("restored"));
        self.done(
            Command::new("cp")
                .arg("--archive")
                .arg(self.dir.join("base"))
                .arg(&restored),
        );
        fs::write(restored.join("recovery.signal"), "").unwrap();
        give_to_server(&restored.join("recovery.signal"));
        let mut configuration = fs::OpenOptions::new()
            .append(true)
            .open(restored.join("postgresql.conf"))
            .unwrap();
        write!(
            configuration,
            "archive_mode = off\nrecovery_target_name = 'here'\nrecovery_target_action = 'promote'\n\
             restore_command = '{restore_command}'\n"
        )
        .unwrap();
        self.start("restored")
    }

    fn recover_with_pgcalm(&self) -> Output {
        self.recover(&format!(
            "{} wal-restore --archive {} %f %p",
            self.program().display(),
            self.archive().display()
        ))
    }

    /// Sees that recovery ends at the restore point with all rows.
    fn expect_recovery(&self, what: &str) {
        let started = self.recover_with_pgcalm();
        let log = fs::read_to_string(self.log("restored")).unwrap_or_default();
        assert!(started.status.success(), "{what}: {log}");
        for _ in 0..300 {
            if self.sql("select pg_is_in_recovery()") == "f" {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!(self.sql("select pg_is_in_recovery()"), "f", "{what}");
        assert_eq!(
            self.sql("select count(*) from witness"),
            ROWS.to_string(),
            "{what}"
        );
        self.stop("restored");
    }

    /// Sees that recovery stops and that the database was not opened.
    fn expect_refusal(&self, what: &str, reason: &str) {
        let started = self.recover_with_pgcalm();
        let log = fs::read_to_string(self.log("restored")).unwrap_or_default();
        assert!(!started.status.success(), "{what}: {log}");
        assert!(log.contains("pgcalm wal-restore: "), "{what}: {log}");
        assert!(log.contains(reason), "{what}: {log}");
        assert!(log.contains("exit code 200"), "{what}: {log}");
        assert!(!log.contains("archive recovery complete"), "{what}: {log}");
        let wal = fs::read_dir(self.dir.join("restored/pg_wal")).unwrap();
        for entry in wal {
            let name = entry.unwrap().file_name();
            let name = name.to_str().unwrap();
            assert!(
                !name.starts_with("xlogtemp") && !name.ends_with(".history"),
                "{what}: {name}"
            );
        }
    }
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let info = lz4_flex::frame::FrameInfo::new().content_checksum(true);
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn replace(path: &Path, suffix: &str, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    let path = PathBuf::from(format!("{}{suffix}", path.display()));
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn recovery_reaches_its_target_from_every_form_and_mixed() {
    let Some(site) = Site::new("forms") else {
        return;
    };
    site.expect_recovery("plain");
    let segments = site.segments();
    for (number, segment) in segments.iter().enumerate() {
        let bytes = fs::read(segment).unwrap();
        match number % 3 {
            0 => replace(segment, ".zst", &zstd(&bytes)),
            1 => replace(segment, ".lz4", &lz4(&bytes)),
            _ => {}
        }
    }
    site.expect_recovery("mixed");
}

#[test]
fn damage_stops_recovery_instead_of_ending_it() {
    let Some(site) = Site::new("damage") else {
        return;
    };
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
    fs::write(dir.path().join(name), "cut").unwrap();
    assert_eq!(run(&["--archive", ".", name, "target"]), 200);
    assert!(!dir.path().join("target").exists());
}
