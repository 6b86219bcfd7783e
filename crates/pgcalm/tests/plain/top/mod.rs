//! `pgcalm top` on real servers, and in a real terminal. Needs root to run servers; says so and passes otherwise.

#[path = "../../../../pgcalm-top/tests/plain/support/pty.rs"]
mod pty;
mod server;

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::User;
use pgcalm_testkit::server::Server;
use rustix::process::Signal;

use self::pty::Terminal;
use server::installation;

const PGCALM: &str = env!("CARGO_BIN_EXE_pgcalm");

fn once(arguments: &[&str]) -> Command {
    let mut command = Command::new(PGCALM);
    command.args(["top", "--once"]).args(arguments);
    command
}

/// The picture, of which nothing may steer a terminal or be on standard error.
fn picture(output: Output) -> String {
    picture_with(output, 0, "")
}

/// The same with another end.
fn picture_with(output: Output, code: i32, complaint: &str) -> String {
    let text = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.as_str()), (Some(code), complaint), "{text}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    text
}

/// What follows the name of a section.
fn section<'a>(picture: &'a str, name: &str) -> &'a str {
    picture.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in\n{picture}")).trim()
}

#[test]
fn a_server_without_the_module() {
    let Some(installation) = installation() else { return };
    let server = server::start(&installation, false).unwrap();
    one_picture_has_what_the_server_and_the_host_tell(&server);
    an_instance_of_the_host_is_chosen_by_directory_or_process_id(&server);
    without_root_what_is_hidden_is_named(&server);
    once_it_ends_that_is_seen_and_the_past_remains(server);
}

fn one_picture_has_what_the_server_and_the_host_tell(server: &Server) {
    let text = picture(once(&["--connect", &server.conninfo()]).output().unwrap());
    let line = text.lines().find(|line| line.starts_with("> ")).unwrap();
    assert!(line.contains("looked_at") && line.contains("primary"), "{text}");
    section(&text, "Checkpoint");
    assert!(section(&text, "TPS").ends_with("/s"), "{text}");
    assert!(section(&text, "Sessions").ends_with("of 100"), "{text}");
    assert_eq!(section(&text, "Archive"), "off");
    assert!(text.contains("missing: module: "), "{text}");
    for absent in ["Unflushed", "pg_calm ", "Guard"] {
        assert!(!text.lines().any(|line| line.starts_with(absent)), "{text}");
    }
    // Its disk, if it is on one here: overlay and tmpfs have none, and then that is told.
    let has_disk = text.lines().any(|line| line.contains("writes  "));
    assert_ne!(has_disk, text.contains("missing: devices: "), "{text}");
}

fn an_instance_of_the_host_is_chosen_by_directory_or_process_id(server: &Server) {
    for instance in [server.data().display().to_string(), server.pid().to_string()] {
        let text = picture(once(&["--instance", &instance]).output().unwrap());
        let line = text.lines().find(|line| line.starts_with("> ")).unwrap();
        assert!(line.contains("looked_at"), "{text}");
    }
    let output = once(&["--instance", &server.pid().to_string()]).env("PGDATABASE", "none").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

fn without_root_what_is_hidden_is_named(server: &Server) {
    let nobody = User::from_name("nobody").unwrap().unwrap();
    // The program may be where only root can go; a copy beside the server is not.
    let program = server.directory().join("pgcalm");
    std::fs::copy(PGCALM, &program).unwrap();
    let output = Command::new(program)
        .args(["top", "--once", "--connect", &server.conninfo()])
        .uid(nobody.uid.as_raw())
        .gid(nobody.gid.as_raw())
        .current_dir("/")
        .output()
        .unwrap();
    let text = picture(output);
    assert!(section(&text, "TPS").ends_with("/s"), "{text}");
    assert!(text.contains("missing: devices: "), "{text}");
}

fn once_it_ends_that_is_seen_and_the_past_remains(mut server: Server) {
    let connect = server.conninfo();
    let arguments = ["top", "--interval", "0.2", "--connect", &connect];
    let mut terminal = Terminal::run(PGCALM, &arguments, 24, 80);
    terminal.wait_for_text("TPS         ");
    // Some samples of that, so that going back can't miss it.
    terminal.wait_for("five seconds", |text| {
        let seconds = text.split("curves 5 min of ").nth(1);
        let seconds = seconds.and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
        seconds.is_some_and(|seconds| seconds >= 5)
    });
    server.kill();
    terminal.wait_for_text("Server      unreachable: ");
    terminal.type_until("\x1b[D", "the past", |text| text.contains("PAUSED at ") && text.contains("TPS         "));
    terminal.type_keys("\x1b[F");
    terminal.wait_for_text("Server      unreachable: ");
    terminal.type_keys("\x03");
    let (status, _) = terminal.wait_for_end();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_server_with_the_module() {
    let Some(installation) = installation() else { return };
    let Some(server) = server::start(&installation, true) else { return };
    one_picture_has_what_the_module_tells(&server);
    keys_change_the_picture_and_q_leaves_the_terminal_as_it_was(&server);
}

fn one_picture_has_what_the_module_tells(server: &Server) {
    let text = picture(once(&["--connect", &server.conninfo()]).output().unwrap());
    assert!(section(&text, "Unflushed").contains(" pages, "), "{text}");
    assert!(section(&text, "pg_calm").starts_with("on, "), "{text}");
    assert!(!text.contains("\nGuard"), "the guard is not loaded: {text}");
    assert!(!text.contains("missing: module: "), "{text}");
}

const NO_ANSWER: &str = "pgcalm: --connect: no answer from /nonexistent:5999; the picture says why\n";

#[test]
fn a_server_that_is_not_there_is_a_picture_too() {
    let output = once(&["--connect", "host=/nonexistent port=5999 user=x"]).output().unwrap();
    let text = picture_with(output, 4, NO_ANSWER);
    assert!(section(&text, "Server").starts_with("unreachable: "), "{text}");
    assert!(text.contains("missing: connection: "), "{text}");
}

#[test]
fn whoever_closes_the_pipe_wants_no_more() {
    let mut child = once(&["--connect", "host=/nonexistent port=5999 user=x"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), NO_ANSWER);
}

fn keys_change_the_picture_and_q_leaves_the_terminal_as_it_was(server: &Server) {
    let connect = server.conninfo();
    let arguments = ["top", "--interval", "0.2", "--connect", &connect];
    let mut terminal = Terminal::run(PGCALM, &arguments, 24, 80);
    terminal.wait_for_text("live ");
    terminal.wait_for_text("Unflushed   ");
    terminal.assert_taken();
    // Help, shown and hidden.
    terminal.type_keys("?");
    terminal.wait_for_text("┌ keys ──");
    terminal.type_keys("\x1b");
    terminal.wait_for("the end of help", |text| !text.contains("┌ keys"));
    // The other pages.
    terminal.type_keys("2");
    terminal.wait_for("charts", |text| text.contains("Instance ") && text.contains("TPS  "));
    terminal.type_keys("\t");
    terminal.wait_for_text("This host, and instance ");
    terminal.type_keys("1");
    terminal.wait_for_text("Checkpoint  ");
    // A load shows.
    let mut load = server
        .psql("DO $$ BEGIN LOOP PERFORM 1; COMMIT; END LOOP; END $$")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    terminal.wait_for("an active session", |text| text.contains("1 active"));
    load.kill().unwrap();
    load.wait().unwrap();
    // Pause, and back in time.
    terminal.type_keys(" ");
    terminal.wait_for_text("PAUSED at ");
    terminal.type_keys("\x1b[H");
    terminal.wait_for_text("PAUSED at ");
    terminal.type_keys("\x1b[C\x1b[D");
    terminal.type_keys("\x1b[F");
    terminal.wait_for_text("live ");
    // A larger terminal has charts beside the figures.
    terminal.resize(50, 160);
    terminal.wait_for("charts beside", |text| {
        text.lines().any(|line| line.starts_with("Checkpoint") && line.contains("TPS  "))
    });
    terminal.type_keys("q");
    let (status, _) = terminal.wait_for_end();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let arguments = ["top", "--connect", "host=/nonexistent port=5999 user=x"];
        let mut terminal = Terminal::run(PGCALM, &arguments, 24, 80);
        terminal.wait_for_text("Server      unreachable: ");
        terminal.assert_taken();
        terminal.signal(signal);
        let (status, text) = terminal.wait_for_end();
        assert_eq!(status.code(), Some(130), "{text}");
        assert!(text.contains("pgcalm: interrupted"), "{text}");
    }
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    // Not the terminal of its session, so that no SIGHUP comes.
    let (mut pty, pts) = pty_process::blocking::open().unwrap();
    pty.resize(pty_process::Size::new(24, 80)).unwrap();
    let file = || Stdio::from(pts.as_fd().try_clone_to_owned().unwrap());
    let mut child = Command::new(PGCALM)
        .args(["top", "--connect", "host=/nonexistent port=5999 user=x"])
        .env("TERM", "xterm-256color")
        .stdin(file())
        .stdout(file())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("unreachable") {
        let mut bytes = [0; 4096];
        let count = pty.read(&mut bytes).unwrap();
        assert!(count > 0);
        shown.extend_from_slice(&bytes[..count]);
    }
    drop(pts);
    drop(pty);
    let end = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status.expect("it does not end").code(), Some(130));
}

#[test]
fn it_can_be_suspended_and_goes_on() {
    // A shell with job control, as a user has.
    let script = format!(
        "set -m; {PGCALM} top --connect 'host=/nonexistent port=5999 user=x'; echo stopped: $?; read x; fg; echo ended: $?"
    );
    let mut terminal = Terminal::run("/bin/bash", &["-c", &script], 24, 80);
    terminal.wait_for_text("Server      unreachable: ");
    terminal.type_keys("\x1a");
    // 128 + SIGTSTP
    terminal.wait_for_text("stopped: 148");
    terminal.assert_restored();
    terminal.type_keys("\n");
    terminal.wait_for_text("Server      unreachable: ");
    terminal.assert_taken();
    terminal.type_keys("q");
    let (_, text) = terminal.wait_for_end();
    assert!(text.contains("ended: 0"), "{text}");
}
