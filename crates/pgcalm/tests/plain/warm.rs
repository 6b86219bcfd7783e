//! `pgcalm warm` on a real server and its files. Needs PostgreSQL; says so and passes otherwise.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pgcalm_testkit::programs::{Programs, bindir, server_user};
use pgcalm_testkit::server::Server;
use pgcalm_testkit::{need, programs};
use pgcalm_warm::report::{End, Report, Restoring, Saving};
use pgcalm_warm::residency;
use rustix::fs::Advice;

/// Of a block of PostgreSQL's.
const BLOCK: u64 = 8192;

fn report(output: &Output) -> Report {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn refused(mut command: Command, code: i32, parts: &[&str]) {
    let said = programs::refused(&mut command, code);
    assert!(parts.iter().all(|part| said.contains(part)), "{command:?}: {said}");
}

/// A server with two tables of 24 MB, and what is kept of it.
struct Warm {
    server: Server,
    tables: [PathBuf; 2],
}

impl Warm {
    fn start() -> Option<Self> {
        let bindir = need::met("warm", &[need::SERVER]).then(bindir).flatten()?;
        let programs = Programs::in_directory(&bindir, "pgcalm-warm");
        // The program's own place may be root's alone.
        fs::copy(env!("CARGO_BIN_EXE_pgcalm"), programs.directory().join("pgcalm")).unwrap();
        let server = Server::create(
            &programs,
            "autovacuum = off\nshared_buffers = 4MB\nbgwriter_lru_maxpages = 0\nfsync = off\n",
        );
        for name in ["read", "unread"] {
            server.sql(&format!(
                "CREATE TABLE {name} (n int, filler char(990)) WITH (autovacuum_enabled = off); \
                 INSERT INTO {name} SELECT n, '' FROM generate_series(1, 24000) n"
            ));
            // No hint bits are left to be set by who reads.
            server.sql(&format!("VACUUM {name}"));
        }
        let tables = ["read", "unread"]
            .map(|name| server.data().join(server.sql(&format!("SELECT pg_relation_filepath('{name}')"))));
        server.sql("CHECKPOINT");
        Some(Self { server, tables })
    }

    /// The verb as the server's user: it needs no root.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.server.directory().join("pgcalm"));
        command.arg("warm").args(arguments).env("PGUSER", "postgres");
        if let Some((uid, gid)) = server_user() {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn data(&self) -> &str {
        self.server.data().to_str().unwrap()
    }

    fn file(&self) -> String {
        self.server.directory().join("kept/file").display().to_string()
    }

    fn save(&self, more: &[&str]) -> Saving {
        let file = self.file();
        let output = self.command(&[&["--save", "--json", "--file", &file], more].concat()).output().unwrap();
        match report(&output) {
            Report::Saving(saving) => saving,
            other => panic!("{other:?}"),
        }
    }

    fn restore(&self, more: &[&str]) -> (Restoring, Output) {
        let file = self.file();
        let arguments = ["--restore", "--json", "--data-directory", self.data(), "--file", &file];
        let output = self.command(&[&arguments, more].concat()).output().unwrap();
        match report(&output) {
            Report::Restoring(restoring) => (restoring, output),
            other => panic!("{other:?}"),
        }
    }

    /// Nothing of the tables is cached any more.
    fn drop_caches(&self) {
        for table in &self.tables {
            let file = File::open(table).unwrap();
            file.sync_all().unwrap();
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            assert_eq!(cached(table), 0, "{}", table.display());
        }
    }

    /// Reads part of a table past the server, as the kernel had it in its cache.
    fn read(&self, table: usize, blocks: std::ops::Range<u64>) {
        let file = File::open(&self.tables[table]).unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
        let mut buffer = vec![0; ((blocks.end - blocks.start) * BLOCK) as usize];
        file.read_exact_at(&mut buffer, blocks.start * BLOCK).unwrap();
    }
}

/// Cached blocks of a file.
fn ranges(path: &Path) -> Vec<std::ops::Range<u64>> {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    residency::cached(&file, 0..size).unwrap()
}

fn cached(path: &Path) -> u64 {
    ranges(path).iter().map(|range| range.end - range.start).sum()
}

#[test]
fn what_was_cached_is_cached_again_and_what_was_not_is_not() {
    let Some(mut warm) = Warm::start() else { return };
    // Of a schema with a quote in its name.
    warm.server.sql("CREATE SCHEMA \"it's\"");
    warm.server.sql("CREATE EXTENSION pg_buffercache SCHEMA \"it's\"");
    warm.drop_caches();
    warm.read(0, 100..1500);
    warm.read(0, 2000..2100);
    // Hot, and in shared buffers alone.
    warm.server.sql("SELECT count(*) FROM unread WHERE ctid >= '(700,0)' AND ctid < '(764,0)'");
    let hot = File::open(&warm.tables[1]).unwrap();
    rustix::fs::fadvise(&hot, 0, None, Advice::DontNeed).unwrap();
    let before = ranges(&warm.tables[0]);
    assert_eq!(before, [100..1500, 2000..2100]);
    let saving = warm.save(&["--instance", warm.data()]);
    assert!(saving.shared_buffers_bytes.known().is_some_and(|bytes| *bytes > 0), "{saving:?}");
    assert!(saving.cached_bytes >= saving.page_cache_bytes + 60 * BLOCK, "{saving:?}");
    assert!(saving.file_bytes < 20 * saving.ranges, "{saving:?}");

    warm.server.stop();
    warm.drop_caches();
    // A part is enough for --limit; it is of the table, since what is hotter is less.
    let (limited, output) = warm.restore(&["--limit", "4MB"]);
    assert!(output.status.success() && limited.end == End::Limit, "{limited:?}");
    assert!(limited.read_bytes <= 4 << 20 && limited.cold_bytes() > 6 << 20, "{limited:?}");
    assert!(ranges(&warm.tables[1]).iter().any(|range| range.contains(&730)), "the hottest come first");
    assert!(cached(&warm.tables[0]) < 600);

    let (rest, output) = warm.restore(&[]);
    assert!(output.status.success() && rest.end == End::All, "{rest:?}");
    assert_eq!((rest.cold_bytes(), rest.changed_bytes), (0, 0), "{rest:?}");
    assert!(rest.already_bytes >= limited.warmed_bytes, "{rest:?}");
    // The kernel may have taken single blocks back since: nothing else is cached, and nearly all of it is.
    let holds = |block: u64| before.iter().any(|range| range.contains(&block));
    let after = ranges(&warm.tables[0]);
    assert!(after.iter().all(|range| range.clone().all(holds)), "{after:?}");
    assert!(cached(&warm.tables[0]) > 1425, "{after:?}");
    assert!(cached(&warm.tables[1]) < 900, "{:?}", ranges(&warm.tables[1]));
    let (again, _) = warm.restore(&[]);
    // Whoever else works on this machine may have pushed a block out.
    assert_eq!(again.already_bytes + again.warmed_bytes, again.wanted_bytes, "{again:?}");
    assert!(again.read_bytes < 1 << 20, "{again:?}");
}

#[test]
fn files_that_have_changed_are_recognised() {
    let Some(mut warm) = Warm::start() else { return };
    warm.drop_caches();
    warm.read(0, 0..1000);
    warm.read(1, 0..1000);
    let saving = warm.save(&["--data-directory", warm.data()]);
    let why = saving.shared_buffers_bytes.unknown().unwrap().to_string();
    assert!(why.contains("CREATE EXTENSION pg_buffercache"), "{why}");

    for change in ["VACUUM FULL read", "DELETE FROM unread WHERE n > 1600", "VACUUM unread", "CHECKPOINT"] {
        warm.server.sql(change);
    }
    warm.server.stop();
    let old_size = 1000 * BLOCK;
    let size = fs::metadata(&warm.tables[1]).unwrap().len();
    assert!(size < old_size, "{size}");
    let (restoring, output) = warm.restore(&[]);
    assert!(output.status.success() && restoring.end == End::All, "{output:?}");
    assert!(restoring.gone_files >= 1 && restoring.shorter_files >= 1, "{restoring:?}");
    assert!(restoring.changed_bytes >= old_size + old_size - size, "{restoring:?}");
    assert_eq!(restoring.cold_bytes(), 0, "{restoring:?}");

    // Of a new standby the file is the same, of another cluster it is not.
    let copy = warm.server.directory().join("standby");
    let copied = Command::new("cp").args(["-a", warm.data(), copy.to_str().unwrap()]).status().unwrap();
    assert!(copied.success());
    let (file, standby) = (warm.file(), copy.to_str().unwrap());
    let restored = warm.command(&["--restore", "--data-directory", standby, "--file", &file]).output().unwrap();
    assert!(restored.status.success(), "{restored:?}");
    let control = copy.join("global/pg_control");
    let mut bytes = fs::read(&control).unwrap();
    bytes[0] ^= 1;
    fs::write(&control, bytes).unwrap();
    refused(
        warm.command(&["--restore", "--data-directory", standby, "--file", &file]),
        2,
        &["was saved of the cluster", &saving.system_identifier, "--file"],
    );
}

#[test]
fn what_can_not_be_done_is_one_line() {
    let Some(warm) = Warm::start() else { return };
    let (file, data) = (warm.file(), warm.data());
    let restore = || warm.command(&["--restore", "--data-directory", data, "--file", &file]);
    refused(restore(), 2, &[&file, "No such file", "pgcalm warm --save"]);
    warm.save(&["--data-directory", data]);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&file, &bytes).unwrap();
    refused(restore(), 2, &[&file, "is damaged", "pgcalm warm --save"]);
    fs::write(&file, "mine").unwrap();
    refused(restore(), 2, &["is not what pgcalm warm --save writes"]);
    let save = |more: &[&str]| warm.command(&[&["--save", "--data-directory"], more].concat());
    refused(save(&["/nonexistent"]), 3, &["/nonexistent/global/pg_control", "No such file"]);
    refused(save(&[data, "--file", "/proc/no/such"]), 1, &["/proc/no/such", "--file"]);
    refused(save(&[data, "--restore"]), 2, &["--restore"]);
    refused(save(&[data, "--limit", "1MB"]), 2, &["--limit"]);
    refused(warm.command(&["--data-directory", data]), 2, &["--save"]);
    warm.server.sql("CREATE ROLE low LOGIN");
    let low = warm.server.conninfo().replace("user=postgres", "user=low");
    refused(warm.command(&["--save", "--connect", &low]), 3, &["may not see the data directory", "pg_monitor"]);

    // What lies at the server's path here may be another cluster's.
    if !need::met("warm of another host", &[need::ROOT]) {
        return;
    }
    let control = warm.server.data().join("global/pg_control");
    let mut bytes = fs::read(&control).unwrap();
    bytes[0] ^= 1;
    let other = warm.server.directory().join("other");
    fs::write(&other, bytes).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", r#"mount --bind "$1" "$2" && shift 2 && exec "$@""#, "sh"]);
    command.args([&other, &control, &warm.server.directory().join("pgcalm")]);
    command.args(["warm", "--save", "--connect", &warm.server.conninfo(), "--file", &file]);
    refused(command, 3, &["of another cluster", "on the server's host"]);
}

/// Its unit tries again what could not be read.
#[test]
fn a_file_that_can_not_be_read_is_a_failure_in_the_end() {
    let Some(mut warm) = Warm::start() else { return };
    warm.drop_caches();
    warm.read(0, 0..1000);
    warm.read(1, 0..1000);
    warm.save(&["--data-directory", warm.data()]);
    warm.server.stop();
    warm.drop_caches();
    let table = &warm.tables[0];
    fs::rename(table, warm.server.directory().join("moved")).unwrap();
    std::os::unix::fs::symlink(warm.server.directory().join("moved"), table).unwrap();
    let name = table.display().to_string();
    let (restoring, output) = warm.restore(&[]);
    assert!(restoring.read_error.is_some_and(|why| why.contains(&name)), "{output:?}");
    assert!(output.status.code() == Some(1) && String::from_utf8_lossy(&output.stderr).contains(&name), "{output:?}");
    assert!(cached(&warm.tables[1]) > 900);
    let output = warm.command(&["--save", "--data-directory", warm.data(), "--file", &warm.file()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn a_signal_ends_it_between_two_reads() {
    let Some(warm) = Warm::start() else { return };
    warm.drop_caches();
    warm.read(0, 0..3000);
    warm.save(&["--data-directory", warm.data()]);
    warm.drop_caches();
    let (file, data) = (warm.file(), warm.data());
    // A minute, were it not for the signal.
    let mut command =
        warm.command(&["--restore", "--json", "--data-directory", data, "--file", &file, "--rate", "400kB"]);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    pgcalm_testkit::wait_for("the first read", || cached(&warm.tables[0]) > 0);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let Report::Restoring(restoring) = report(&output) else { panic!("{output:?}") };
    assert!(restoring.end == End::Interrupted && restoring.cold_bytes() > 10 << 20, "{restoring:?}");
}
