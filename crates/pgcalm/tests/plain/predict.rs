//! `pgcalm predict` on a real server, with and without the module. Needs root (to become the server's user) and
//! PostgreSQL, and a built module for the half with it; says so and passes otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pgcalm_predict::report::{Prediction, text};
use pgcalm_testkit::programs::{Programs, bindir};
use pgcalm_testkit::{module_directory, need, programs, server};

/// As long as a slow machine may need.
const PATIENCE: Duration = Duration::from_secs(120);

/// The server programs, if the tests can run here; if not, says why not.
fn can_run() -> Option<PathBuf> {
    need::met("predict", &[need::ROOT, need::SERVER]).then(bindir).flatten()
}

fn module() -> Option<&'static Path> {
    need::met("predict with the module", &[need::MODULE]).then(module_directory)
}

/// Writes many pages, and has all of them written and synced, so that one round is enough to be counted.
const LOAD: &str = "\\set aid random(1, 290000)
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid BETWEEN :aid AND :aid + 5000;
CHECKPOINT;
";

/// A server of a test's own, on a Unix socket only.
struct Server {
    server: server::Server,
    dir: tempfile::TempDir,
}

impl Server {
    fn start(bindir: &Path, module: Option<&Path>) -> Self {
        let dir = programs::directory("pgcalm-predict");
        let mut settings = "autovacuum = off\n".to_string();
        if let Some(module) = module {
            fs::copy(module.join("pg_calm.so"), dir.path().join("pg_calm.so")).unwrap();
            settings.push_str(&format!(
                "dynamic_library_path = '{}:$libdir'\nshared_preload_libraries = 'pg_calm'\n\
                 pg_calm.mode = shadow\npg_calm.iops = 300\npg_calm.write_bandwidth = '50MB'\n",
                dir.path().display()
            ));
        }
        let programs = Programs::new(bindir, dir.path());
        let server = Self { server: server::Server::create(&programs, &settings), dir };
        if let Some(module) = module {
            server.create_functions(module);
        }
        let made = server.server.client("pgbench").args(["-i", "-q", "-s", "3"]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        server
    }

    /// What CREATE EXTENSION would do if the module were installed.
    fn create_functions(&self, module: &Path) {
        let script = fs::read_to_string(module.join("pg_calm--0.1.sql")).unwrap();
        let script: String = script
            .lines()
            .filter(|line| !line.starts_with('\\'))
            .map(|line| line.replace("MODULE_PATHNAME", "pg_calm") + "\n")
            .collect();
        // The tools look for the views where the extension is, so that nobody else's are taken for them.
        let script = script
            + "INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
               VALUES (9999, 'pg_calm', 10, 'public'::regnamespace, true, '0.1');\n";
        let file = self.dir.path().join("functions.sql");
        fs::write(&file, script).unwrap();
        let output = self
            .server
            .client("psql")
            .env("PGOPTIONS", "-c allow_system_table_mods=on")
            .args(["-v", "ON_ERROR_STOP=1", "-q", "-f"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Runs `pgcalm predict` while pgbench writes.
    fn predict(&self, more: &[&str]) -> Output {
        let script = self.dir.path().join("load.sql");
        fs::write(&script, LOAD).unwrap();
        let mut load = self
            .server
            .client("pgbench")
            .args(["-n", "-T", "600", "-f"])
            .arg(&script)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = pgcalm(&self.server.conninfo(), more);
        load.kill().unwrap();
        load.wait().unwrap();
        output
    }
}

fn pgcalm(conninfo: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pgcalm")).args(["predict", "--connect", conninfo]).args(more).output().unwrap()
}

fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn without_the_module_stock_is_held_against_the_caps() {
    let Some(bindir) = can_run() else { return };
    let server = Server::start(&bindir, None);
    let output = server.predict(&["--duration", "8", "--iops", "60", "--bandwidth", "40MB", "--reads", "50", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let prediction: Prediction = serde_json::from_slice(&output.stdout).unwrap();
    let observation = &prediction.observation;
    assert!(observation.tps > 0.0, "{observation:?}");
    assert!(observation.checkpointer_pages_per_s > 0.0, "{observation:?}");
    assert_eq!(observation.device.write_iops, Some(60.0));
    assert_eq!(observation.device.all_iops, Some(60.0));
    assert_eq!(observation.device.reads_per_s, 50.0);
    assert_eq!((&observation.shadow, &prediction.pg_calm, prediction.helps), (&None, &None, None));
    // Reads alone take more than half of the cap.
    assert!(prediction.reason.contains("of its operations"), "{prediction:?}");
    assert!(text::render(&prediction).contains("load pg_calm in shadow mode"), "{prediction:?}");

    let output = server.predict(&["--duration", "5", "--write-iops", "none", "--write-bandwidth", "none"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("it will not help, because nothing caps"), "{output:?}");
    assert!(text.contains("sustainable TPS"), "{output:?}");
}

#[test]
fn with_the_module_in_shadow_mode_it_is_what_that_counts_and_with_it_on_there_is_nothing_to_predict() {
    let Some(bindir) = can_run() else { return };
    let Some(module) = module() else { return };
    let server = Server::start(&bindir, Some(module));
    let output = server.predict(&["--duration", "8", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let prediction: Prediction = serde_json::from_slice(&output.stdout).unwrap();
    let observation = &prediction.observation;
    // The module's own caps.
    assert_eq!(observation.device.write_iops, Some(300.0));
    assert_eq!(observation.device.write_bytes_per_s, Some(50.0 * 1_048_576.0));
    // Which counts reads.
    assert_eq!(observation.device.all_iops, Some(300.0));
    assert_eq!(observation.device.all_bytes_per_s, None);
    // Data and WAL are on the same device, unless it can't be seen.
    let device = &observation.device;
    assert!(device.name.is_empty() || device.wal_writes_per_s > 0.0, "{device:?}");
    let counted = observation.shadow.as_ref().unwrap();
    assert!(counted.flushed_pages_per_s > 0.0, "{observation:?}");
    assert!(counted.device_operations_per_s > 0.0, "{observation:?}");
    let pg_calm = prediction.pg_calm.as_ref().unwrap();
    assert_eq!(pg_calm.device_operations_per_s, counted.device_operations_per_s);
    assert!(pg_calm.sustainable_tps > 0.0, "{prediction:?}");

    let output = server
        .server
        .client("psql")
        .args(["-c", "alter system set pg_calm.mode = on", "-c", "select pg_reload_conf()"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let end = Instant::now() + PATIENCE;
    loop {
        let output = pgcalm(&server.server.conninfo(), &["--duration", "5"]);
        // Until a new session has the new setting.
        if output.status.code() == Some(3) {
            let text = complaint(&output);
            assert!(text.contains("pg_calm.mode is on"), "{text}");
            break;
        }
        assert!(Instant::now() < end, "{output:?}");
    }
}

#[test]
fn what_can_not_work_is_said_in_a_line() {
    let output = pgcalm("host=/nonexistent", &["--duration", "5"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(complaint(&output).contains("/nonexistent"), "{output:?}");
    let output = pgcalm("port=many", &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(complaint(&output).contains("--connect"), "{output:?}");
    let output = pgcalm("", &["--duration", "2"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(complaint(&output).contains("--duration 2s"), "{output:?}");
}
