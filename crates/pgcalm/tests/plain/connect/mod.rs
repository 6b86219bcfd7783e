//! Connections of the command's verbs to a real server: passwords, TLS, services, several hosts, errors. Says so and passes
//! where there is no PostgreSQL.

mod proof;
mod server;

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_postgres::{Address, Caller, DefaultUser, Session};
use pgcalm_testkit::need;
use postgres::error::SqlState;

use self::server::{PASSWORD, Server};

/// A run of `pgcalm lag`, which asks once and ends, in an environment that has nothing of PostgreSQL's.
struct Run<'a> {
    server: &'a Server,
    variables: Vec<(&'a str, String)>,
}

impl<'a> Run<'a> {
    fn new(server: &'a Server) -> Self {
        Self { server, variables: Vec::new() }
    }

    fn with(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    fn output(&self, connect: &str) -> Output {
        command()
            .args(["lag", "--count", "1", "--interval", "0.1", "--connect"])
            .arg(connect)
            .env("HOME", self.server.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap()
    }

    /// Connects, and gives the server's line about the session.
    #[track_caller]
    fn works(&self, connect: &str) -> String {
        let before = self.server.log().len();
        let output = self.output(connect);
        assert_eq!(output.status.code(), Some(0), "{connect}: {output:?}");
        let log = self.server.log().split_off(before);
        let line = log.lines().find(|line| line.contains("connection authorized"));
        line.unwrap_or_else(|| panic!("{log}")).to_string()
    }

    /// Is refused with one line, which has these parts and no password.
    #[track_caller]
    fn fails(&self, connect: &str, parts: &[&str]) {
        let output = self.output(connect);
        let text = String::from_utf8(output.stderr).unwrap();
        // A server that can't be reached, or a value that can't be right.
        let code = if text.contains("no connection to") { 4 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{connect}: {text}");
        assert_eq!(text.lines().count(), 1, "{connect}: {text}");
        assert!(!text.contains("cret"), "{text}");
        for part in parts {
            assert!(text.contains(part), "{connect}: {text}: no {part}");
        }
    }
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    let ours = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG"));
    for (name, _) in ours {
        command.env_remove(name);
    }
    command
}

/// One server for all: making one takes longer than using it.
#[test]
fn a_server_is_reached_as_by_psql() {
    let Some(bindir) = server::bindir() else { return };
    let server = Server::start(&bindir);
    for role in ["monitor", "plain", "secured", "holder"] {
        server.sql(&format!("CREATE ROLE {role} LOGIN IN ROLE pg_monitor"));
    }
    let quoted = PASSWORD.replace('\'', "''");
    server.sql(&format!("ALTER ROLE monitor PASSWORD '{quoted}'"));
    passwords(&server);
    services(&server);
    encryption(&server);
    hosts(&server);
    sessions(&server);
    roles(&server);
}

fn passwords(server: &Server) {
    let run = || Run::new(server);
    let connect = format!("host=localhost port={} user=monitor", server.port);
    let place = format!("localhost port {}, database postgres, user monitor", server.port);
    run().fails(&connect, &[&place, "wants a password", "~/.pgpass", "PGPASSWORD"]);
    let wrong = run().with("PGPASSWORD", "another secret");
    wrong.fails(&connect, &["authentication failed", "is that of PGPASSWORD"]);
    run().with("PGPASSWORD", PASSWORD).works(&connect);

    let file = server.path().join(".pgpass");
    let escaped = PASSWORD.replace('\\', r"\\").replace(':', r"\:");
    let lines = format!("# mine\nlocalhost:1:*:*:secret\nlocalhost:{}:*:monitor:{escaped}\n", server.port);
    fs::write(&file, &lines).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    run().fails(&connect, &[".pgpass is ignored", "chmod 600"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    run().works(&connect);
    // As libpq has it, by the name that was given.
    run().fails(&connect.replace("localhost", "127.0.0.1"), &["wants a password"]);
    fs::write(&file, lines.replace("se'", "x")).unwrap();
    run().fails(&connect, &["authentication failed", "line 3 of", ".pgpass"]);

    let elsewhere = server.file("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    fs::write(&elsewhere, lines).unwrap();
    run().fails(&connect, &["wants a password"]);
    run().with("PGPASSFILE", &elsewhere).works(&connect);
    run().works(&format!("{connect} passfile='{elsewhere}'"));
}

fn services(server: &Server) {
    let file = server.file("services");
    let text =
        format!("[db1]\nhost=localhost\nport={}\nuser=monitor\npassword={PASSWORD}\n[bad]\nhots=x\n", server.port);
    fs::write(&file, text).unwrap();
    let run = || Run::new(server).with("PGSERVICEFILE", &file);
    run().works("service=db1");
    run().with("PGSERVICE", "db1").works("");
    run().works("postgresql:///?service=db1");
    // What is given comes first.
    run().fails("service=db1 port=1", &["localhost port 1,", "refused"]);
    run().fails("service=db1 password=secret", &["is that of the connection string"]);
    run().fails("service=none", &["[none]", "services", "PGSERVICEFILE"]);
    run().fails("service=bad", &["line 7", "\"hots\""]);
}

fn encryption(server: &Server) {
    let authority = server.file("ca.crt");
    let run = || Run::new(server).with("PGPASSWORD", PASSWORD);
    let secure = |line: String| line.contains("SSL enabled");
    let to = |more: &str| format!("host=localhost port={} user=monitor {more}", server.port);
    // With what is at hand, as psql.
    assert!(secure(run().works(&to(""))));
    assert!(!secure(run().works(&to("sslmode=disable"))));
    assert!(!secure(run().works(&to("sslmode=allow"))));
    assert!(secure(run().works(&to("sslmode=require"))));
    let uri = format!("postgresql://monitor@localhost:{}/postgres?sslmode=require", server.port);
    assert!(secure(run().works(&uri)));
    assert!(secure(run().with("PGSSLMODE", "require").works(&to(""))));
    // The other way round, as pg_hba.conf wants it.
    assert!(secure(run().works(&to("sslmode=allow user=secured"))));
    assert!(!secure(run().works(&to("sslmode=prefer user=plain"))));
    run().fails(&to("sslmode=disable user=secured"), &["no pg_hba.conf entry", "sslmode=prefer"]);
    run().fails(&to("sslmode=require user=plain"), &["no pg_hba.conf entry", "sslmode=prefer"]);
    // Certificates.
    for mode in ["verify-ca", "verify-full"] {
        run().fails(&to(&format!("sslmode={mode}")), &["sslrootcert", "root.crt is not there"]);
        assert!(secure(run().works(&to(&format!("sslmode={mode} sslrootcert={authority}")))));
        let other = server.file("other.crt");
        let error = ["certificate verify failed", "sslrootcert"];
        run().fails(&to(&format!("sslmode={mode} sslrootcert={other}")), &error);
    }
    let error = ["certificate verify failed"];
    run().with("PGSSLROOTCERT", "system").fails(&to(""), &error);
    run().fails(&to("sslrootcert=system sslmode=require"), &["verify-full only"]);
    // The certificate is for localhost.
    let full = format!("sslmode=verify-full sslrootcert={authority}");
    let address = to(&full).replace("localhost", "127.0.0.1");
    run().fails(&address, &["IP address mismatch", "verify-ca"]);
    let name = to(&full).replace("localhost", "db1.example hostaddr=127.0.0.1");
    run().fails(&name, &["ostname mismatch", "db1.example", "verify-ca"]);
    run().works(&name.replace("verify-full", "verify-ca"));
    // ~/.postgresql/root.crt counts with any mode but the first.
    let own = server.path().join(".postgresql");
    fs::create_dir(&own).unwrap();
    fs::copy(server.file("other.crt"), own.join("root.crt")).unwrap();
    run().fails(&to("sslmode=require"), &error);
    assert!(!secure(run().works(&to("sslmode=prefer"))));
    fs::remove_dir_all(&own).unwrap();
    // Bound to the channel, or not.
    assert!(secure(run().works(&to("channel_binding=require"))));
    run().fails(&to("channel_binding=require sslmode=disable"), &["channel binding"]);
    // A certificate instead of a password.
    let key = server.file("holder.key");
    let holder = format!("user=holder sslcert={} sslkey={key}", server.file("holder.crt"));
    assert!(secure(run().works(&to(&holder))));
    run().fails(&to("user=holder"), &["holder"]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    run().fails(&to(&holder), &[&key, "others may read it"]);
}

fn hosts(server: &Server) {
    let run = || Run::new(server).with("PGPASSWORD", PASSWORD);
    let port = server.port;
    let both = format!("host=127.0.0.1,localhost port=1,{port} user=monitor");
    run().works(&both);
    run().works(&format!("postgresql://monitor@127.0.0.1:1,localhost:{port}/"));
    run().works(&format!("{both} target_session_attrs=primary"));
    let names = ["127.0.0.1 port 1,", "nor to localhost port", "it is no standby"];
    run().fails(&format!("{both} target_session_attrs=standby"), &names);
    run().works(&format!("{both} target_session_attrs=prefer-standby"));
    run().with("PGHOST", "127.0.0.1").with("PGPORT", port.to_string()).works("user=monitor");
    run().fails(&format!("{both} dbname=none"), &["database none", "dbname="]);
    run().fails("host=127.0.0.1 port=1 user=x", &["127.0.0.1 port 1", "refused", "listen_addresses"]);
    run().fails("host=/nonexistent", &["/nonexistent port 5432", "host and port"]);
    run().fails("requirepeer=postgres", &["requirepeer", "no support"]);
    run().fails("sslmode=yes host=a", &["sslmode", "verify-full"]);

    // One that takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|address| (silent, address.port()));
    let (_listener, port) = silent.unwrap();
    let connect = format!("host=127.0.0.1 port={port} user=x");
    run().fails(&format!("{connect} connect_timeout=1"), &["no answer within 1 s"]);
    run().with("PGCONNECT_TIMEOUT", "1").fails(&connect, &["no answer within 1 s"]);
    no_password_in_the_process_list(port);
}

fn no_password_in_the_process_list(silent_port: u16) {
    let connect = format!("host=127.0.0.1 port={silent_port} user=x password=secret connect_timeout=60");
    let mut child = command().args(["lag", "--connect", &connect]).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    let shown = loop {
        let mut shown = String::new();
        let mut file = fs::File::open(format!("/proc/{}/cmdline", child.id())).unwrap();
        file.read_to_string(&mut shown).unwrap();
        if shown.contains("******") || Instant::now() > end {
            break shown;
        }
        thread::sleep(Duration::from_millis(20));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(shown.contains("user=x password=******"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
}

fn sessions(server: &Server) {
    let run = || Run::new(server).with("PGPASSWORD", PASSWORD);
    let connect = format!("host=localhost port={} user=monitor", server.port);
    let line = run().works(&connect);
    assert!(line.contains("application_name=pgcalm lag"), "{line}");
    let line = run().with("PGAPPNAME", "mine").works(&connect);
    assert!(line.contains("application_name=mine"), "{line}");
    run().with("PGOPTIONS", "-c geqo=nonsense").fails(&connect, &["geqo"]);
    // The settings come after those of the role and of the string.
    server.sql("ALTER ROLE monitor SET search_path = public");
    let caller = Caller {
        application_name: "pgcalm test",
        user: DefaultUser::OperatingSystem,
        connect_timeout: Duration::from_secs(30),
        gives_up: true,
        session: Some(Session::WATCH),
    };
    let quoted = PASSWORD.replace('\\', r"\\").replace('\'', r"\'");
    let connect = format!("{connect} password='{quoted}' options='-c lock_timeout=9s -c work_mem=77kB'");
    let mut client = Address::new(&connect, None, &caller).unwrap().connect().unwrap();
    for (name, value) in [
        ("search_path", "pg_catalog, pg_temp"),
        ("default_transaction_read_only", "on"),
        ("statement_timeout", "5s"),
        ("lock_timeout", "1s"),
        ("idle_in_transaction_session_timeout", "1min"),
        ("idle_session_timeout", "0"),
        ("work_mem", "77kB"),
    ] {
        let row = client.query_one("SELECT current_setting($1)", &[&name]).unwrap();
        assert_eq!(row.get::<_, &str>(0), value, "{name}");
    }
    let error = client.batch_execute("CREATE TABLE public.t (a int)").unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION), "{error}");
}

/// By the Unix socket, where the operating system says who it is.
fn roles(server: &Server) {
    let connect = format!("host={} port={}", server.path().display(), server.port);
    let run = || Run::new(server);
    run().fails(&format!("{connect} user=monitor"), &["Peer authentication failed", "user="]);
    // TLS is for TCP.
    run().works(&format!("{connect} user=tester sslmode=verify-full"));
    if need::met("connect as the server's user", &[need::ROOT]) {
        server.sql("CREATE ROLE postgres LOGIN SUPERUSER");
        let line = run().works(&connect);
        assert!(line.contains("user=postgres"), "{line}");
        run().works(&format!("{connect} user=postgres"));
    }
}
