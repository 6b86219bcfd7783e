//! `pgcalm export` for real servers, read by a real Prometheus. Needs root to run servers; says so and passes otherwise.

#[path = "export/unit.rs"]
mod unit;

#[path = "../../../pgcalm-monitor/tests/support/mod.rs"]
pub(crate) mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use pgcalm_testkit::programs::{Running, refused};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use support::Servers;

/// Generous: what is waited for comes within seconds on a machine that has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// The user `nobody`.
const NOBODY: u32 = 65534;

/// The programs of Debian's package, where bench/install-deps has unpacked them; says so if they aren't there.
fn prometheus(program: &str) -> Option<PathBuf> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/prometheus").join(program);
    if !file.exists() {
        eprintln!("skipped: {program} is not there: make deps unpacks it");
        return None;
    }
    Some(file.canonicalize().unwrap())
}

fn dashboards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dashboards")
}

/// Starts a program; what it says on standard error comes line by line.
fn start(command: &mut Command) -> (Running, impl Iterator<Item = String> + use<>) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    (Running(child), lines.map_while(Result::ok))
}

fn terminate(mut running: Running) -> i32 {
    running.signal(Signal::TERM);
    running.0.wait().unwrap().code().unwrap_or(-1)
}

/// `pgcalm export` as an ordinary user, with the address that it listens on.
fn exporter(servers: &Servers, arguments: &[String]) -> (Running, String) {
    // Where the build is, that user may not go.
    let program = servers.directory.path().join("pgcalm");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_pgcalm"), &program).unwrap();
    }
    let mut command = Command::new(program);
    command.args(["export", "--interval", "1"]).args(arguments).env_clear();
    serving(command.uid(NOBODY).gid(NOBODY).current_dir("/"))
}

/// A started exporter, and the address that it listens on.
fn serving(command: &mut Command) -> (Running, String) {
    let (running, mut lines) = start(command);
    let line = lines.next().expect("a line with the address");
    let address = line
        .strip_prefix("pgcalm export: http://")
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .unwrap_or_else(|| panic!("{line}: {:?}", lines.next()))
        .to_string();
    thread::spawn(|| lines.for_each(|line| eprintln!("export: {line}")));
    (running, address)
}

/// Status, head and body of an answer.
fn get(address: &str, path: &str, accept: &str) -> Option<(u16, String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, head.to_string(), body.to_string()))
}

/// What comes once it is there.
fn wait_for<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} has not come");
        thread::sleep(Duration::from_millis(100));
    }
}

/// The results of a query, as Prometheus' API gives them.
fn query(address: &str, expression: &str) -> Option<Vec<Value>> {
    let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let (status, _, body) = get(address, &format!("/api/v1/query?query={encoded}"), "*/*")?;
    let answer: Value = serde_json::from_str(&body).ok()?;
    // Not ready yet.
    if status == 503 {
        return None;
    }
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    Some(answer["data"]["result"].as_array().unwrap().clone())
}

/// The queries of the dashboard, with Grafana's variables filled in.
fn dashboard_queries() -> Vec<String> {
    let text = fs::read_to_string(dashboards().join("pgcalm.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten()
        .map(|target| {
            let query = target["expr"].as_str().unwrap();
            let query = query.replace("$__rate_interval", "30s").replace("$instance", ".*");
            query.replace("$server", ".*")
        })
        .collect()
}

/// Servers are all called 5432, and disks sda.
#[test]
fn the_dashboard_adds_up_no_hosts_and_tells_which_is_which() {
    let text = fs::read_to_string(dashboards().join("pgcalm.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for target in panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten() {
        let groups = target["expr"].as_str().unwrap().split("by (").skip(1).filter_map(|rest| rest.split(')').next());
        for labels in groups.chain(target["legendFormat"].as_str()) {
            let names = |label: &str| labels.contains(label);
            assert!(names("instance") || !names("server") && !names("device"), "{target}");
        }
    }
}

#[test]
fn a_record_that_can_not_be_read_is_told() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command.args(["export", "--listen", "127.0.0.1:0", "--interval", "0.1", "--record", "/nonexistent"]);
    let (running, lines) = start(&mut command);
    let said: Vec<String> = lines.take(2).collect();
    assert!(said[0].contains("--record /nonexistent: no record is there"), "{said:?}");
    assert!(said[1].contains("http://"), "{said:?}");
    assert_eq!(terminate(running), 0);
}

#[test]
fn alert_rules_are_valid_and_fire_when_they_should() {
    let Some(promtool) = prometheus("promtool") else { return };
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let output = Command::new(&promtool).args(arguments).current_dir(dashboards()).output().unwrap();
        assert!(
            output.status.success(),
            "promtool {arguments:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn prometheus_scrapes_two_instances() {
    if !support::can_run_module() {
        return;
    }
    let (Some(program), Some(promtool)) = (prometheus("prometheus"), prometheus("promtool")) else { return };
    let mut servers = Servers::with_module();
    let stock = servers.start("stock", &[]);
    let of_module = servers.module_settings();
    let of_module: Vec<_> = of_module.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let calm = servers.start("calm", &of_module);
    for server in [stock, calm] {
        servers.sql(server, "CREATE ROLE monitor LOGIN IN ROLE pg_monitor");
    }
    servers.create_extensions(calm);
    servers.sql(calm, "CREATE TABLE t (i int)");
    let textfile = servers.own_directory("textfile", NOBODY).join("pgcalm.prom");
    let connect = |name| format!("--connect=host={} user=monitor", servers.socket(name).display());
    let (exporter, address) = exporter(
        &servers,
        &[
            "--listen=127.0.0.1:0".to_string(),
            connect("stock"),
            connect("calm"),
            format!("--textfile={}", textfile.display()),
        ],
    );
    // A port that is free at this moment: Prometheus does not tell which one it would have been given for 0.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let own = servers.own_directory("prometheus", servers.installation.uid);
    fs::copy(dashboards().join("alerts.yml"), own.join("alerts.yml")).unwrap();
    fs::write(
        own.join("prometheus.yml"),
        format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: [alerts.yml]\nscrape_configs:\n  \
             - job_name: pgcalm\n    static_configs:\n      - targets: [\"{address}\"]\n"
        ),
    )
    .unwrap();
    let program_copy = own.join("prometheus");
    fs::copy(&program, &program_copy).unwrap();
    let mut command = Command::new(&program_copy);
    command
        .arg(format!("--config.file={}", own.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", own.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--log.level=error");
    servers.installation.run_as(&mut command, &own);
    let (_prometheus, lines) = start(&mut command);
    thread::spawn(|| lines.for_each(|line| eprintln!("prometheus: {line}")));
    let api = format!("127.0.0.1:{port}");

    wait_for("up == 1", || query(&api, "up{job=\"pgcalm\"} == 1").filter(|found| found.len() == 1));
    wait_for("both instances", || query(&api, "pgcalm_up == 1").filter(|found| found.len() == 2));
    let transactions = wait_for("a metric of both", || {
        query(&api, "pgcalm_transactions_total{outcome=\"commit\"} > 0").filter(|found| found.len() == 2)
    });
    for name in ["stock", "calm"] {
        let server = format!("{}:5432", servers.socket(name).display());
        assert!(
            transactions.iter().any(|found| found["metric"]["server"] == server.as_str()),
            "{server}: {transactions:?}"
        );
    }
    let info = query(&api, "pgcalm_instance_info{mode=\"on\",role=\"primary\"}").unwrap();
    assert_eq!(info.len(), 1, "{info:?}");
    servers.sql(calm, "CHECKPOINT");
    servers.sql(stock, "CHECKPOINT");

    // All queries of the dashboard are understood, and those that need neither module, caps nor standbys find something.
    let mut answered = 0;
    for expression in dashboard_queries() {
        let found = query(&api, &expression).unwrap();
        answered += usize::from(!found.is_empty());
    }
    assert!(answered >= 15, "{answered} queries of the dashboard found something");
    let (_, _, rules) = get(&api, "/api/v1/rules", "*/*").unwrap();
    let rules: Value = serde_json::from_str(&rules).unwrap();
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap();
    for rule in rules {
        assert_eq!(rule["lastError"], Value::Null, "{rule}");
    }

    let text =
        wait_for("the textfile", || fs::read_to_string(&textfile).ok().filter(|text| text.contains("pgcalm_up")));
    let mut check = Command::new(&promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success(), "promtool check metrics: {}", String::from_utf8_lossy(&output.stderr));

    assert_eq!(terminate(exporter), 0);
    assert!(!textfile.exists(), "a file that nobody keeps up to date");
    wait_for("up == 0", || query(&api, "up{job=\"pgcalm\"} == 0").filter(|found| found.len() == 1));
}

/// Waits until /alive says so of the only server; what it says. Before that it may say anything but `never`.
fn alive(address: &str, state: &str, never: &str) -> Value {
    wait_for(state, || {
        let (status, head, body) = get(address, "/alive", "application/json")?;
        assert!(head.contains("application/json"), "{head}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        let life = answer["servers"][0].clone();
        assert_ne!(life["state"], never, "{body}");
        // Only then a probe may end it.
        assert_eq!(status, if life["state"] == "gone" { 503 } else { 200 }, "{body}");
        assert_eq!(answer["alive"], status == 200, "{body}");
        (life["state"] == state).then_some(life)
    })
}

#[test]
fn a_probe_learns_that_a_busy_server_is_alive() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    let server = servers.start("probed", &[]);
    servers.sql(server, "CREATE ROLE monitor LOGIN IN ROLE pg_monitor");
    let connect = format!("--connect=host={} user=monitor", servers.socket("probed").display());
    let (exporter, address) = exporter(&servers, &["--listen=127.0.0.1:0".to_string(), connect]);
    wait_for("a sample", || {
        let (_, _, body) = get(&address, "/metrics", "*/*")?;
        body.lines().any(|line| line.starts_with("pgcalm_up{") && line.ends_with(" 1.0")).then_some(())
    });
    let life = alive(&address, "up", "gone");
    assert_eq!((&life["reason"], &life["since_seconds"]), (&Value::Null, &Value::Null), "{life}");

    // It stalls: nobody of it answers, and its socket takes connections all the same.
    let family = servers.family(server);
    let signal = |signal| {
        for pid in &family {
            let _ = rustix::process::kill_process(Pid::from_raw(*pid).unwrap(), signal);
        }
    };
    signal(Signal::STOP);
    let life = wait_for("a verdict", || {
        let life = alive(&address, "busy", "gone");
        life["cause"].is_string().then_some(life)
    });
    assert!(life["since_seconds"].as_f64().unwrap() >= 3.0, "{life}");
    assert!(life["reason"].as_str().unwrap().contains("did not answer"), "{life}");
    let (status, _, text) = get(&address, "/alive", "*/*").unwrap();
    assert_eq!(status, 200, "{text}");
    assert!(text.contains(": busy, alive, since ") && text.contains(" s, because: "), "{text}");
    let name = life["server"].as_str().unwrap();
    assert_eq!(get(&address, &format!("/alive?server={name}"), "*/*").unwrap().0, 200);
    assert_eq!(get(&address, "/alive?server=another", "*/*").unwrap().0, 503);
    signal(Signal::CONT);
    alive(&address, "up", "gone");

    servers.servers[server].stop().unwrap();
    alive(&address, "gone", "");
    wait_for("its end", || servers.servers[server].has_ended().unwrap().then_some(()));
    // It replays WAL for as long as there may be more, and takes nobody in.
    let data = servers.directory.path().join("probed/data");
    fs::write(data.join("standby.signal"), "").unwrap();
    let mut settings = fs::OpenOptions::new().append(true).open(data.join("postgresql.auto.conf")).unwrap();
    settings.write_all(b"hot_standby = off\n").unwrap();
    servers.servers[server].start_again().unwrap();
    let life = alive(&address, "rejecting", "up");
    assert!(life["reason"].as_str().unwrap().contains("database system"), "{life}");
    assert!(life["since_seconds"].as_f64().unwrap() > 0.0 && life["recovery_most_seconds"].is_f64(), "{life}");
    assert_eq!(terminate(exporter), 0);
}

#[test]
fn an_ordinary_user_finds_servers_by_their_sockets() {
    let Some(mut servers) = support::can_run().then(Servers::new) else { return };
    let server = servers.start("found", &[]);
    servers.sql(server, "CREATE ROLE nobody LOGIN IN ROLE pg_monitor");
    let (exporter, address) = exporter(&servers, &["--listen=127.0.0.1:0".to_string()]);
    let openmetrics = "application/openmetrics-text;version=1.0.0";
    let data = servers.directory.path().join("found/data");
    let text = wait_for("the instance", || {
        let (status, head, body) = get(&address, "/metrics", openmetrics)?;
        assert_eq!(status, 200);
        assert!(head.contains("application/openmetrics-text"), "{head}");
        // Other servers of this host may have the port, too.
        let version = servers.installation.version.split(' ').nth(1).unwrap();
        let line = body
            .lines()
            .find(|line| line.starts_with("pgcalm_instance_info{") && line.contains(&format!("version=\"{version}\"")));
        // What is hidden from that user is named, by the look at the host, which may end after the first answer.
        line.filter(|_| body.contains("subject=\"devices\"")).map(|_| body.clone())
    });
    assert!(text.ends_with("# EOF\n"));
    assert!(!text.contains(data.to_str().unwrap()), "no path of the server's: {text}");

    let (_, head, body) = get(&address, "/metrics", "*/*").unwrap();
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(body.contains("# TYPE pgcalm_transactions_total counter"), "{body}");
    assert_eq!(get(&address, "/", "*/*").unwrap().0, 200);
    assert_eq!(get(&address, "/other", "*/*").unwrap().0, 404);
    assert_eq!(terminate(exporter), 0);
}

/// `pgcalm export` as the package's service runs it.
fn service(unit: &unit::Unit, directory: &Path, arguments: &[String]) -> (Running, String) {
    let program = directory.join("pgcalm");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_pgcalm"), &program).unwrap();
    }
    let mut command = unit.command(directory, &program);
    command.args(["export", "--interval=1", "--listen=127.0.0.1:0"]);
    serving(command.args(arguments))
}

/// A directory that a service sees whatever is hidden from it.
fn visible() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("pgcalm-export-test-").tempdir_in("/var/lib").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// A server with who gets its WAL, over an address of the loopback that nobody else takes the server's port on.
fn with_receiver(net: &str) -> (Servers, Running, String) {
    let mut servers = Servers::new();
    let host = format!("{net}.{}.4", std::process::id() % 250 + 1);
    let server = servers.start("found", &[("listen_addresses", &host)]);
    servers.sql(server, "CREATE ROLE nobody LOGIN IN ROLE pg_monitor");
    let wal = servers.own_directory("wal", servers.installation.uid);
    let mut receiver = servers.installation.command("pg_receivewal", &wal);
    let receiver = Running::start(receiver.args(["-h", &host, "-U", "postgres", "-D"]).arg(&wal));
    (servers, receiver, host)
}

#[test]
fn the_packages_service_exports_all_that_the_program_offers() {
    let Some(directory) = support::can_run().then(visible) else { return };
    let (servers, _receiver, _) = with_receiver("127.91");
    let textfile = directory.path().join("textfile");
    fs::create_dir(&textfile).unwrap();
    std::os::unix::fs::chown(&textfile, Some(NOBODY), None).unwrap();
    let textfile = textfile.join("pgcalm.prom");
    let mut unit = unit::Unit::of_package();
    // What the unit's comment tells for --textfile.
    unit.set("ReadWritePaths", textfile.parent().unwrap().to_str().unwrap());
    let argument = format!("--textfile={}", textfile.display());
    let (exporter, address) = service(&unit, directory.path(), &[argument]);
    let text = wait_for("the connection of who gets WAL", || {
        let (_, _, body) = get(&address, "/metrics", "*/*")?;
        let is_there = |name: &str| {
            let mut lines = body.lines().filter(|line| line.starts_with(name));
            lines.any(|line| line.contains("interface=\"lo\""))
        };
        is_there("pgcalm_walsender_network_bytes_per_second{").then(|| body.clone())
    });
    for name in ["pgcalm_network_bytes_total{", "pgcalm_network_packets_total{"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let own = format!("server=\"{}", servers.socket("found").display());
    let missing: Vec<&str> =
        text.lines().filter(|line| line.starts_with("pgcalm_missing{") && line.contains(&own)).collect();
    assert!(!missing.iter().any(|line| line.contains("replication") || line.contains("connection")), "{missing:?}");
    let mode = wait_for("the textfile", || fs::metadata(&textfile).ok()).permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "{mode:o}");
    assert_eq!(terminate(exporter), 0);
}

#[test]
fn what_a_service_hides_is_missing_and_named() {
    let Some(directory) = support::can_run().then(visible) else { return };
    let (_servers, _receiver, host) = with_receiver("127.92");
    let mut unit = unit::Unit::of_package();
    unit.set("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6");
    let connect = format!("--connect=host={host} user=nobody dbname=postgres");
    let (exporter, address) = service(&unit, directory.path(), &[connect]);
    wait_for("what is missing of replication", || {
        let (_, _, body) = get(&address, "/metrics", "*/*")?;
        let mut lines = body.lines().filter(|line| line.starts_with("pgcalm_missing{"));
        lines.any(|line| line.contains("subject=\"replication\"")).then_some(())
    });
    assert_eq!(terminate(exporter), 0);
}

/// Who finds a server by its process connects through a link to its socket, and /tmp is read-only for units.
#[test]
fn units_have_a_directory_for_links_to_sockets() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../debian");
    let mut units = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = name.strip_prefix("pgcalm.").and_then(|name| name.strip_suffix(".service")) else { continue };
        units += 1;
        let lines = format!("\nRuntimeDirectory={name}\nEnvironment=TMPDIR=%t/{name}\n");
        assert!(fs::read_to_string(&path).unwrap().contains(&lines), "{name}");
    }
    assert_eq!(units, 4);
}

/// No wrong use, which its unit would not try again: at a boot an address may come late.
#[test]
fn an_address_that_is_taken_is_tried_again() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    let text = refused(command.args(["export", &listen, "--connect=host=/nonexistent"]), 3);
    assert!(text.contains("--listen 127.0.0.1:"), "{text}");
}

#[test]
fn bad_options_end_with_one_line_that_names_them() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("a.prom");
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let textfile = format!("--textfile={}", fifo.display());
    let taken_directory = format!("--textfile={}", directory.path().display());
    for (arguments, expected) in [
        (vec!["--listen=here"], "give an address and a port, e.g. 127.0.0.1:9187"),
        (vec![textfile.as_str()], "is a FIFO and no file"),
        (vec!["--textfile=/dev/null"], "is a device and no file"),
        (vec![taken_directory.as_str()], "is a directory and no file"),
        (vec!["--connect=port=x password=secret"], "--connect: "),
        (vec!["--connect=host=a", "--connect=host=a"], "--connect: a:5432 is named twice"),
        (vec!["--textfile=/nonexistent/a.prom"], "--textfile /nonexistent/a.prom: "),
        (vec!["--interval=0"], "--interval"),
    ] {
        let text = refused(Command::new(env!("CARGO_BIN_EXE_pgcalm")).arg("export").args(&arguments), 2);
        assert!(text.contains(expected), "{arguments:?}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
}
