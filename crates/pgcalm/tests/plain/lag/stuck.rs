//! Servers that answer nothing, and readers that read nothing.

use pgcalm_testkit::programs::Running;

use super::*;

/// What /proc/PID/syscall begins with.
#[cfg(target_arch = "x86_64")]
const EPOLL_WAIT: &str = "232 ";
#[cfg(target_arch = "x86_64")]
const WRITE_TO_OUTPUT: &str = "1 0x1 ";
#[cfg(target_arch = "aarch64")]
const EPOLL_WAIT: &str = "22 ";
#[cfg(target_arch = "aarch64")]
const WRITE_TO_OUTPUT: &str = "64 0x1 ";

/// A run of the command that may be stuck.
fn start(arguments: &[&str], output: Stdio) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    Running(command.args(arguments).stdout(output).stderr(Stdio::null()).spawn().unwrap())
}

/// How it ends, which it has to.
fn end(running: &mut Running) -> ExitStatus {
    wait_for("the end of pgcalm", || running.0.try_wait().unwrap().is_some());
    running.0.wait().unwrap()
}

/// Whether it is in that system call.
fn is_in_call(running: &Running, call: &str) -> bool {
    let file = format!("/proc/{}/syscall", running.0.id());
    std::fs::read_to_string(file).is_ok_and(|text| text.starts_with(call))
}

/// The server process of a session, once it has asked the same thing twice: before, it may still be connecting.
fn backend(server: &server::Server, application_name: &str) -> i32 {
    let mut asked = BTreeMap::new();
    let mut pid = None;
    wait_for("a session that asks again and again", || {
        let row = server.sql(&format!(
            "SELECT pid || '|' || query_start || '|' || query FROM pg_stat_activity
             WHERE application_name = '{application_name}' AND query <> ''"
        ));
        if let [number, start, query] = row.splitn(3, '|').collect::<Vec<_>>()[..]
            && asked.insert(query.to_string(), start.to_string()).is_some_and(|before| before != start)
        {
            pid = Some(number.parse().unwrap());
        }
        pid.is_some()
    });
    pid.unwrap()
}

/// A server that is stopped answers nothing, and none of its own limits counts.
#[test]
fn a_stopped_server_and_a_full_pipe_hold_up_no_signal() {
    if !need::met("signals", &[need::SERVER]) {
        return;
    }
    let programs = Programs::in_directory(&programs::bindir().unwrap(), "pgcalm-signals");
    let server = server::Server::create(&programs, "");
    let connect = server.conninfo();
    for (verb, code, more) in [
        // A signal is the usual end of a watch without one.
        ("lag", 0, ["--interval", "0.1"]),
        ("lag", 130, ["--count", "1000000"]),
        ("predict", 130, ["--duration", "1h"]),
    ] {
        let arguments = [&[verb, "--connect", &connect], &more[..]].concat();
        let mut running = start(&arguments, Stdio::null());
        let stopped = Stopped::new(backend(&server, &format!("pgcalm {verb}")));
        wait_for("a question", || is_in_call(&running, EPOLL_WAIT));
        running.signal(Signal::INT);
        assert_eq!(end(&mut running).code(), Some(code), "{arguments:?}");
        drop(stopped);
    }

    // Of a write that nobody takes the process can't look at anything: the second signal ends it.
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    let arguments = ["lag", "--connect", &connect, "--interval", "0.1", "--json"];
    let mut running = start(&arguments, Stdio::from(writer));
    wait_for("a full pipe", || is_in_call(&running, WRITE_TO_OUTPUT));
    wait_for("its end", || {
        running.signal(Signal::TERM);
        running.0.try_wait().unwrap().is_some()
    });
    assert_eq!(end(&mut running).signal(), Some(Signal::TERM.as_raw()));
    drop(reader);
}

/// Nobody sends a signal: the session's own limit ends the wait, and the server's has no part in it.
#[test]
fn a_stopped_server_is_given_up() {
    if !need::met("a server that is stopped", &[need::SERVER]) {
        return;
    }
    let programs = Programs::in_directory(&programs::bindir().unwrap(), "pgcalm-stopped");
    let server = server::Server::create(&programs, "");
    let caller = Caller {
        application_name: "pgcalm test",
        user: DefaultUser::Superuser,
        connect_timeout: Duration::from_secs(30),
        gives_up: true,
        session: Some(Session { statement_timeout: Duration::from_millis(100), ..Session::WATCH }),
    };
    let address = Address::new(&server.conninfo(), None, &caller).unwrap();
    let mut client = address.connect().unwrap();
    let stopped = Stopped::new(client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0));
    let error = client.query_one("SELECT 1", &[]).unwrap_err();
    assert!(pgcalm_postgres::is_lost(&error), "{error:?}");
    let text = pgcalm_postgres::with_cause(&error);
    assert!(text.contains("no answer within 5.1 s"), "{text}");
    assert!(client.is_closed());
    let again = client.query_one("SELECT 1", &[]).unwrap_err();
    assert!(again.is_closed(), "{again}");
    drop(stopped);
}
