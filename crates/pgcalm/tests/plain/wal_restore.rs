//! `pgcalm wal-restore` as restore_command of a real server: recovery to a point in time from archives of every form,
//! and from damaged ones. Needs an installed PostgreSQL and, as root, its OS user; says so and passes otherwise.

mod refusals;

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pgcalm_host::{HostRoot, postgres};
use pgcalm_testkit::need;
use pgcalm_testkit::programs::{Programs, give_to_server, initdb};
use rustix::fs::{CWD, FileType, Mode};

/// Rows committed before the restore point; afterwards there are more.
const ROWS: usize = 40_000;

const TO_RESTORE_POINT: &[u8] = b"recovery_target_name = 'here'\n";

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
                let _ = self.command("pg_ctl").args(["stop", "-m", "immediate", "-w", "-D"]).arg(&data).output();
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
        let dir = PathBuf::from(format!("/var/tmp/pgcalm-test-{}-{test}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        give_to_server(&dir);
        let site = Self { programs: Programs::new(&bindir, &dir), dir };
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
        self.done(self.command("pg_ctl").args(["stop", "-m", "fast", "-w", "-D"]).arg(self.dir.join(server)));
    }

    fn log(&self, server: &str) -> PathBuf {
        self.dir.join(format!("{server}.log"))
    }

    fn sql(&self, sql: &str) -> String {
        let mut psql = self.command("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"])
            .arg(&self.dir)
            .args(["-c", sql]);
        self.done(&mut psql).trim().to_string()
    }

    fn create(&self) {
        fs::create_dir(self.archive()).unwrap();
        give_to_server(&self.archive());
        let primary = self.dir.join("primary");
        initdb(self.command("initdb"), &primary, &["--wal-segsize=1", "--encoding=SQL_ASCII"]);
        let mut configuration = fs::OpenOptions::new().append(true).open(primary.join("postgresql.conf")).unwrap();
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
                .args(["-X", "none", "-c", "fast", "--no-sync", "-U", "postgres", "-h"])
                .arg(&self.dir)
                .arg("-D")
                .arg(self.dir.join("base")),
        );
        self.sql("create table witness (id int, filler text)");
        self.sql(&format!("insert into witness select i, md5(i::text) from generate_series(1, {ROWS}) i"));
        self.sql("select pg_create_restore_point('here')");
        // The same place, with a name that is no UTF-8.
        self.sql("select pg_create_restore_point(convert_from('\\x636166e9', 'SQL_ASCII'))");
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

    /// Starts recovery of the base backup, with `settings` to say how far.
    fn recover(&self, restore_command: &str, settings: &[u8]) -> Output {
        let restored = self.dir.join("restored");
        let _ = fs::remove_dir_all(&restored);
        let _ = fs::remove_file(self.log("restored"));
        self.done(Command::new("cp").arg("--archive").arg(self.dir.join("base")).arg(&restored));
        fs::write(restored.join("recovery.signal"), "").unwrap();
        give_to_server(&restored.join("recovery.signal"));
        let mut configuration = fs::OpenOptions::new().append(true).open(restored.join("postgresql.conf")).unwrap();
        write!(
            configuration,
            "archive_mode = off\nrecovery_target_action = 'promote'\n\
             restore_command = '{restore_command}'\n"
        )
        .unwrap();
        configuration.write_all(settings).unwrap();
        drop(configuration);
        self.start("restored")
    }

    fn recover_with_pgcalm(&self, settings: &[u8]) -> Output {
        let command = format!("{} wal-restore --archive {} %f %p", self.program().display(), self.archive().display());
        self.recover(&command, settings)
    }

    /// Sees that recovery ends at the restore point with all rows.
    fn expect_recovery(&self, what: &str) {
        self.expect_promotion(what, TO_RESTORE_POINT);
        self.stop("restored");
    }

    /// Sees that recovery ends with all rows; the server runs still.
    fn expect_promotion(&self, what: &str, settings: &[u8]) {
        let started = self.recover_with_pgcalm(settings);
        let log = fs::read_to_string(self.log("restored")).unwrap_or_default();
        assert!(started.status.success(), "{what}: {log}");
        for _ in 0..300 {
            if self.sql("select pg_is_in_recovery()") == "f" {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!(self.sql("select pg_is_in_recovery()"), "f", "{what}");
        assert_eq!(self.sql("select count(*) from witness"), ROWS.to_string(), "{what}");
    }

    /// Sees that recovery stops and that the database was not opened.
    fn expect_refusal(&self, what: &str, reason: &str) {
        let started = self.recover_with_pgcalm(TO_RESTORE_POINT);
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
            assert!(!name.starts_with("xlogtemp") && !name.ends_with(".history"), "{what}: {name}");
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

fn unpacked(path: &Path) -> Vec<u8> {
    let output = Command::new("lz4").arg("-dc").arg(path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn replace(path: &Path, suffix: &str, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    let path = PathBuf::from(format!("{}{suffix}", path.display()));
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn recovery_reaches_its_target_from_every_form_and_mixed() {
    let Some(site) = Site::new("forms") else { return };
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

    // As other programs write them.
    let stored = PathBuf::from(format!("{}.lz4", segments[1].display()));
    let (one, two) = (site.dir.join("one"), site.dir.join("two"));
    let whole = unpacked(&stored);
    fs::write(&one, &whole[..whole.len() / 3]).unwrap();
    fs::write(&two, &whole[whole.len() / 3..]).unwrap();
    for (program, arguments) in [("lz4", &["-c"][..]), ("lz4", &["-lc"]), ("gzip", &["-c"])] {
        let compressed = |file: &Path| {
            let output = Command::new(program).args(arguments).arg(file).output();
            output.unwrap().stdout
        };
        let bytes = [compressed(&one), compressed(&two)].concat();
        fs::remove_file(&stored).unwrap();
        let form = if program == "gzip" { "gz" } else { program };
        let path = stored.with_extension(form);
        fs::write(&path, &bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        site.expect_recovery(&format!("{program} {arguments:?}"));
        fs::rename(&path, &stored).unwrap();
    }
}

/// Recovery once opened the database without the segment, since none of these is called as it is.
#[test]
fn what_the_archive_has_under_another_name_stops_recovery() {
    let Some(site) = Site::new("remains") else { return };
    let victim = site.victim();
    let name = victim.file_name().unwrap().to_str().unwrap();
    let sum = "0123456789abcdef0123456789abcdef01234567";
    let directory = site.archive().join(&name[..16]);
    fs::create_dir(&directory).unwrap();
    give_to_server(&directory);
    for (moved, reason) in [
        (format!("{name}.xz"), "is in no form that is read"),
        (format!("{name}.partial"), "is not finished"),
        (format!("{name}.tmp"), "is not finished"),
        (format!("{name}-{sum}.gz"), "is pgBackRest's"),
        (format!("{}/{name}", &name[..16]), "lies in a subdirectory"),
    ] {
        let path = site.archive().join(&moved);
        fs::rename(&victim, &path).unwrap();
        site.expect_refusal(&moved, &format!("{}: {reason}", path.display()));
        fs::rename(&path, &victim).unwrap();
    }
    let away = site.dir.join("tier");
    fs::rename(&victim, &away).unwrap();
    symlink(site.dir.join("unmounted"), &victim).unwrap();
    site.expect_refusal("dangling link", &format!("{}: is a link to ", victim.display()));
    fs::remove_file(&victim).unwrap();
    symlink(&away, &victim).unwrap();
    site.expect_recovery("link");
}

/// The archive has the old timeline's last segment as .partial then, and a history with the restore point's name in it.
#[test]
fn after_a_promotion_the_new_timeline_is_recovered() {
    let Some(site) = Site::new("timeline") else { return };
    site.expect_promotion("first", b"recovery_target_name = 'caf\xe9'\narchive_mode = on\n");
    site.sql("select pg_switch_wal()");
    site.stop("restored");
    let history = fs::read(site.archive().join("00000002.history")).unwrap();
    assert!(history.contains(&0xE9), "{history:?}");
    // As if the first timeline's server had died there, and the promoted one had archived what it has of its last segment.
    let of = |timeline: &str| {
        let mut segments = site.segments();
        segments.retain(|path| path.file_name().unwrap().as_bytes().starts_with(timeline.as_bytes()));
        segments
    };
    let branch = of("00000002").swap_remove(0);
    let branch = &branch.file_name().unwrap().to_str().unwrap()[8..];
    for segment in of("00000001") {
        let name = segment.file_name().unwrap().to_str().unwrap();
        match name[8..].cmp(branch) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => {
                fs::rename(&segment, segment.with_extension("partial")).unwrap();
            }
            std::cmp::Ordering::Greater => fs::remove_file(&segment).unwrap(),
        }
    }

    site.expect_promotion("second", b"recovery_target_timeline = 'latest'\n");
    let log = fs::read_to_string(site.log("restored")).unwrap();
    assert!(log.contains("selected new timeline ID: 3"), "{log}");
}
