//! The views of a real server. `bench/test-versions` runs this in the chroot of each version, with PG_BINDIR.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pgcalm_postgres::{Address, Archiver, Client, Settings, Version, Wal, Writes, module_schema};
use pgcalm_testkit::programs::Programs;
use pgcalm_testkit::{need, programs};

/// Whether servers can be run as another user; if not, says so.
fn can_run() -> bool {
    need::met("versions", &[need::ROOT])
}

/// A server that ends with the test.
struct Server {
    programs: Programs,
    directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let server = Self::new();
        server.programs.initdb(&server.directory.path().join("data"), &[]);
        server.launch()
    }

    /// A standby of this one.
    fn standby(&self) -> Self {
        let server = Self::new();
        let (socket, data) = (self.path(""), server.path("data"));
        let flags = ["-h", &socket, "-U", "postgres", "-c", "fast", "-R", "-D"];
        let arguments = [&flags[..], &[data.as_str()]].concat();
        server.programs.run("pg_basebackup", &arguments);
        server.launch()
    }

    fn new() -> Self {
        let bindir = std::env::var_os("PG_BINDIR").map_or_else(|| "/usr/lib/postgresql/15/bin".into(), PathBuf::from);
        let directory = programs::directory("pgcalm-versions");
        Self { programs: Programs::new(&bindir, directory.path()), directory }
    }

    fn launch(self) -> Self {
        let options = format!(
            "-k {} -c listen_addresses= -c fsync=off -c shared_buffers=16MB -c autovacuum=off \
             -c bgwriter_lru_maxpages=0 -c max_parallel_workers_per_gather=0",
            self.path("")
        );
        let (data, log) = (self.path("data"), self.path("log"));
        let start = ["start", "-w", "-D", &data, "-l", &log, "-o", &options];
        self.programs.run("pg_ctl", &start);
        self
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Starts it anew, with archiving, and connects.
    fn archive_by(&self, command: &str) -> Client {
        let mut client = self.connect();
        for (name, value) in [("archive_mode", "on"), ("archive_command", command)] {
            client.batch_execute(&format!("ALTER SYSTEM SET {name} = '{value}'")).unwrap();
        }
        drop(client);
        let (data, log) = (self.path("data"), self.path("log"));
        let restart = ["restart", "-w", "-D", &data, "-l", &log];
        self.programs.run("pg_ctl", &restart);
        self.connect()
    }

    fn connect(&self) -> Client {
        let directory = self.directory.path();
        let address = Address::of_superuser(directory, "pgcalm test").unwrap();
        address.connect().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let stop = ["stop", "-m", "immediate", "-D", &self.path("data")];
        let _ = self.programs.command("pg_ctl").args(stop).status();
    }
}

/// COPY extends a table far larger than shared buffers, by many blocks at a time, and writes it out of its ring; the first scan
/// sets hint bits and writes it again, out of a ring with which nothing is ever extended.
#[test]
fn blocks_and_checkpoints_are_counted_alike() {
    let Some(server) = can_run().then(Server::start) else { return };
    let mut client = server.connect();
    let version = Version::read(&mut client).unwrap();
    let before = Writes::read(&mut client, version).unwrap();
    client.batch_execute("CREATE TABLE t (i int, filler text)").unwrap();
    client
        .batch_execute(
            "COPY t FROM PROGRAM 'seq 400000 | sed ''s/$/\t0123456789012345678901234567890123456789012345678901234567890123456789/'''",
        )
        .unwrap();
    let blocks: i64 =
        client.query_one("SELECT pg_relation_size('t') / current_setting('block_size')::int", &[]).unwrap().get(0);
    client.batch_execute("SELECT count(*) FROM t").unwrap();
    client.batch_execute("CHECKPOINT").unwrap();
    // A session reports what it counted when it ends, the checkpointer after it has answered.
    drop(client);
    let mut client = server.connect();
    let mut after = Writes::read(&mut client, version).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while 2 * (after.buffers_backend - before.buffers_backend) < 5 * blocks
        || after.checkpoints_done == before.checkpoints_done
    {
        assert!(Instant::now() < deadline, "{after:?}, {blocks} blocks");
        std::thread::sleep(Duration::from_millis(50));
        after = Writes::read(&mut client, version).unwrap();
    }
    assert!(2 * (after.buffers_backend - before.buffers_backend) < 7 * blocks, "{after:?}, {blocks} blocks");
    assert!(after.buffers_evicted <= after.buffers_backend);
    assert_eq!(after.checkpoints_requested - before.checkpoints_requested, 1);
    assert!(after.buffers_checkpoint > before.buffers_checkpoint);
    let row = client.query_one(&format!("SELECT * FROM {} w", version.wal()), &[]).unwrap();
    assert!(row.get::<_, i64>("wal_writes") > 0);
    let wal = Wal::of(&row).unwrap();
    assert!(wal.bytes > blocks && wal.records > 0, "{wal:?}");
    assert!(wal.page_images < wal.records, "{wal:?}");
    assert!(wal.counted_seconds.unwrap() > 0.0, "{wal:?}");
}

/// What a transaction writes is told when it ends, since 17.
#[test]
fn writes_are_late_while_a_transaction_is_open() {
    let Some(server) = can_run().then(Server::start) else { return };
    let mut client = server.connect();
    let version = Version::read(&mut client).unwrap();
    let tells_at_end = version.major() >= 17;
    assert!(!Writes::are_late(&mut client, version).unwrap());
    let mut writer = server.connect();
    writer.batch_execute("SET application_name = writer; CREATE TABLE w (i int)").unwrap();
    let before = Writes::read(&mut client, version).unwrap();
    writer.batch_execute("BEGIN; INSERT INTO w SELECT generate_series(1, 1000000); SELECT pg_sleep(5.1)").unwrap();
    let now = Writes::read(&mut client, version).unwrap();
    assert_eq!(now.buffers_backend - before.buffers_backend < 1000, tells_at_end, "{before:?} {now:?}");
    assert_eq!(Writes::are_late(&mut client, version).unwrap(), tells_at_end);
    // Of a session that it can't see a role does not know.
    client.batch_execute("CREATE ROLE nobody; SET ROLE nobody").unwrap();
    assert_eq!(Writes::are_late(&mut client, version).unwrap(), tells_at_end);
    client.batch_execute("RESET ROLE").unwrap();
    writer.batch_execute("COMMIT").unwrap();
    assert!(!Writes::are_late(&mut client, version).unwrap());
    assert!(!tells_at_end || Writes::are_late(&mut server.standby().connect(), version).unwrap());
}

/// No command leaves the server, and a module's setting that nobody has defined is not there.
#[test]
fn settings_have_their_units_and_hide_commands() {
    let Some(server) = can_run().then(Server::start) else { return };
    let mut client = server.archive_by("copy --password=x %p");
    client.batch_execute("SET pg_calm.mode = 'on'").unwrap();
    let names =
        ["archive_command", "pg_calm.mode", "shared_buffers", "checkpoint_timeout", "wal_segment_size", "wal_level"];
    let settings = Settings::read(&mut client, &names).unwrap();
    assert_eq!(settings.text("archive_command"), Some("set"));
    assert_eq!(settings.text("pg_calm.mode"), None);
    assert_eq!(settings.number("shared_buffers"), Some(16_777_216.0));
    assert_eq!(settings.number("checkpoint_timeout"), Some(300.0));
    assert_eq!(settings.number("wal_segment_size"), Some(16_777_216.0));
    let (_, level) = settings.into_iter().find(|(name, _)| name == "wal_level").unwrap();
    assert!(level.values.contains(&"logical".to_string()), "{level:?}");
    assert_eq!(level.context, "postmaster");
    assert_eq!(module_schema(&mut client).unwrap(), None);
}

/// Waits until the archiver has done what is meant.
fn archiver_that(client: &mut Client, is_meant: fn(&Archiver) -> bool) -> Archiver {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let archiver = Archiver::read(client).unwrap();
        if is_meant(&archiver) {
            return archiver;
        }
        assert!(Instant::now() < deadline, "{archiver:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_archiver_fails_and_then_succeeds() {
    let Some(server) = can_run().then(Server::start) else { return };
    assert_eq!(Archiver::read(&mut server.connect()).unwrap(), Archiver::default());
    let mut client = server.archive_by("false");
    client.batch_execute("SELECT txid_current(), pg_switch_wal()").unwrap();
    let failed = archiver_that(&mut client, |archiver| archiver.failed > 0);
    assert!(failed.is_failing() && failed.archived == 0, "{failed:?}");
    assert!(failed.last_failed_file.is_some());
    client.batch_execute("ALTER SYSTEM SET archive_command = 'true'").unwrap();
    client.batch_execute("SELECT pg_reload_conf()").unwrap();
    let archived = archiver_that(&mut client, |archiver| archiver.archived > 0);
    assert!(!archived.is_failing(), "{archived:?}");
}

/// A standby's checkpoints are restartpoints.
#[test]
fn restartpoints_are_counted() {
    let Some(primary) = can_run().then(Server::start) else { return };
    let standby = primary.standby();
    let mut client = standby.connect();
    let version = Version::read(&mut client).unwrap();
    let before = Writes::read(&mut client, version).unwrap();
    client.batch_execute("CHECKPOINT").unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while Writes::read(&mut client, version).unwrap().checkpoints_requested == before.checkpoints_requested {
        assert!(Instant::now() < deadline, "still {before:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
