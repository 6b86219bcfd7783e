//! Bad input gets one line that names the option and the fix, and exit code 2. No privileges needed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt;
use std::process::{Command, Output, Stdio};
use std::thread;

use pgcalm_testkit::programs::{Running, refused};
use rustix::fs::FileType;
use rustix::process::Signal;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgcalm"));
    command.args(arguments).env_remove("PGHOST").stdin(std::process::Stdio::null());
    command
}

fn pgcalm(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Lets everybody in, and tells its version; the port.
fn old_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _startup = stream.read(&mut [0; 1024]).unwrap();
            // AuthenticationOk, ParameterStatus, ReadyForQuery.
            stream.write_all(b"R\0\0\0\x08\0\0\0\0S\0\0\0\x22server_version\x0013.14 (Debian)\0Z\0\0\0\x05I").unwrap();
        }
    });
    port
}

/// Whatever the verb: a server that can't be reached or is too old, a name that fits none, a string that is none, a file that can't be
/// written.
#[test]
fn the_same_mistake_has_the_same_end_in_every_verb() {
    let ends = |verb: &str, option: &[&str], code: i32, part: &str| {
        let mut arguments: Vec<&str> = verb.split(' ').collect();
        arguments.extend(option);
        let stderr = refused(&mut command(&arguments), code);
        assert!(stderr.starts_with("pgcalm: "), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    };
    for verb in ["doctor", "predict", "lag", "targets", "top --once"] {
        let nowhere = &["--connect", "host=/nonexistent port=1"];
        ends(verb, nowhere, 4, "--connect: no ");
        ends(verb, &["--connect", "nonsense"], 2, "--connect: ");
    }
    let old = format!("host=127.0.0.1 port={} user=x sslmode=disable", old_server());
    let why = "PostgreSQL 13.14 is too old: 15 to 19 are supported";
    for verb in ["doctor", "predict", "lag", "targets", "ready-to-stop", "warm --save"] {
        ends(verb, &["--connect", &old], 4, why);
    }
    let picture = pgcalm(&["top", "--once", "--connect", &old]).stdout;
    assert!(String::from_utf8(picture).unwrap().contains(why));
    // Others' servers may be hidden from who is not root; then it may be one of them: exit code 3.
    if rustix::process::geteuid().is_root() {
        for verb in ["doctor", "predict", "lag", "targets", "top --once", "trace why"] {
            let nobody = &["--instance", "/nonexistent"];
            ends(verb, nobody, 4, "--instance /nonexistent: no such server");
        }
    }
    for verb in [
        "doctor",
        "predict",
        "lag",
        "targets",
        "isolate show",
        "isolate check",
        "trace why",
        "lab run checkpoint",
        "lab run torture",
    ] {
        let file = &["--json", "/nonexistent/x.json"];
        ends(verb, file, 2, "name a file in a directory that exists");
    }
    for verb in ["top", "lag", "export", "trace io"] {
        ends(verb, &["--interval", "0.01"], 2, "0.1 s to 1 h");
        ends(verb, &["--interval", "2 weeks"], 2, "0.1 s to 1 h");
    }
    for verb in ["doctor", "isolate clear"] {
        ends(verb, &["--apply", "--plan"], 2, "cannot be used with");
        ends(verb, &["--yes"], 2, "--apply");
    }
    ends("report", &["x.json"], 2, "pgcalm lab report");
}

/// What the command line says of values that mean nothing or can't work; tests of `usage.rs` try all options.
#[test]
fn a_bad_value_is_refused_with_the_option_and_the_fix() {
    for (arguments, part) in [
        ("doctor --iops 0", "give a whole number per second from 1"),
        ("doctor --iops 3k", "without a unit, e.g. 3000"),
        ("predict --bandwidth 125", "give a unit: 125MB or 125MiB"),
        ("doctor --duration -1", "give a time up to 366d"),
        ("lag --duration 0", "give a time above 0"),
        ("lag --count -1", "give a whole number from 1"),
        ("lag --count 99999999999999999999", "give a whole number from 1"),
        ("trace checkpoint --around 0.5", "give whole seconds"),
        ("predict --reads -1", "or seen"),
        ("doctor --write-bandwidth 0MB", "or none"),
        ("isolate set --write-iops 0", "or none"),
        ("lab run checkpoint --seconds -5s", "e.g. 60, 60s or 5min"),
        ("lab run checkpoint --data-iops NaN", "or none"),
        ("lab up --port 65536", "from 1 to 65535"),
        ("lab volume --size 20", "give a unit: 20MB or 20MiB"),
        ("lab volume --profile gp3:iops=3k", "from 1 to 10000000"),
        ("lab volume --profile gp3:bandwidth=125", "125MB or 125MiB"),
        ("lab run predict --points medium,dense", "zipfian"),
        ("lab run predict --points medium,medium", "once"),
        ("lab run predict --observe 1", "5 to 3600"),
        ("lab run predict --seconds 1", "5 to 3600"),
        ("lab run predict --checkpoint-timeout 5", "30s"),
        ("lab run checkpoint --rows many", "4000000"),
        ("lab run checkpoint --rows 10", "1000"),
        ("lab run checkpoint --shared-buffers 1.5QB", "256kB"),
        ("lab run checkpoint --data-iops 0", "none"),
        ("lab run checkpoint --data-bps fast", "125MB"),
        ("lab run checkpoint --wal-bps fast", "125MB"),
        ("lab run checkpoint --data-max-io 5000B", "multiple of 4kB"),
        ("lab run checkpoint --wal-size 64MB", "128MB"),
        ("lab run checkpoint --fs zfs", "ext4, xfs"),
        ("lab run checkpoint --clients 0", "1 to 1000"),
        ("lab run checkpoint --rate 0", "none"),
        ("lab run checkpoint --rate 2000000", "1 to 1000000"),
        ("lab run checkpoint --seconds 1", "3s"),
        ("lab run checkpoint --checkpoint-timeout 5", "30s"),
        ("lab run checkpoint --sysctl tight", "default:SIZE"),
        ("lab run checkpoint --sysctl default:1MB", "1GB or more"),
        ("lab run checkpoint --contestants stock,fast", "stock-tuned"),
        ("lab run checkpoint --contestants stock,stock", "--repeat"),
        ("lab run checkpoint --distribution normal", "zipfian"),
        ("lab run checkpoint --repeat 0", "1 to 100"),
        ("lab run checkpoint --set work_mem", "name=value"),
        ("lab run checkpoint --set port=5433", "leave it out"),
        ("lab run checkpoint --set-contestant pg_calm-off:a=1", "--contestants"),
        ("lab run checkpoint --json /nonexistent/x.json", "directory that exists"),
        ("lab run checkpoint --html /nonexistent/x.html", "directory that exists"),
        ("lab run torture --cycles 0", "--control"),
        ("lab run torture --rows 10", "1000"),
        ("lab run torture --clients 0", "1 to 50"),
        ("lab run torture --seconds 1", "2 to 3600"),
        ("lab run torture --crash reboot", "kill, shutdown, both"),
        ("lab run torture --fs zfs", "ext4, xfs, both"),
        ("lab run torture --size 1MB", "300000 rows need"),
        ("lab run torture --seed x", "whole number"),
        ("lab run torture --set port=1", "leave it out"),
        ("lab run archive-crash --cycles 0", "--control"),
        ("lab run archive-crash --cycles 1001", "0 to 1000"),
        ("lab run archive-crash --fs zfs", "ext4, xfs, both"),
        ("lab run archive-crash --control none", "directory, cp"),
        ("lab run journal --layouts zfs", "xfs-logdev"),
        ("lab run journal --seconds 1", "3 to 3600"),
        ("lab run journal --write-iops 0", "1 to 1000000"),
        ("lab run journal --sessions 65", "1 to 64"),
        ("lab run journal --size 100MB", "need"),
        ("lab run journal --set port=1", "leave it out"),
        ("lab run journal --mount-options nobarrier", "--layouts of one"),
        ("lab run journal --layouts xfs --mkfs-options -f", "a value each"),
        ("lab run checkpoint --rwos 4", "'--rows'"),
        ("lab run checkpoint --qqqq", "--help"),
        ("top", "not a terminal"),
        ("top", "--once"),
        ("top --interval 0.01", "0.1 s to 1 h"),
        ("top --interval nan", "0.1 s to 1 h"),
        ("top --once --connect nonsense", "user=monitor"),
    ] {
        let words: Vec<&str> = arguments.split(' ').collect();
        let line = refused(&mut command(&words), 2);
        assert!(line.contains(part), "{arguments}: {line}");
        let option = words.iter().rfind(|word| word.starts_with("--"));
        assert!(option.is_none_or(|option| line.contains(option)), "{arguments}: {line}");
    }
}

#[test]
fn isolate_refuses_what_is_not_there() {
    for (arguments, part) in [
        (&["set", "--instance", "x", "--device", "/dev/null"][..], "--write-iops"),
        (&["set", "--instance", "x", "--device", "/dev/null", "--write-iops", "1"], "not a block device"),
        (&["set", "--instance", "x", "--device", "/dev/null", "--write-iops", "0"], "none"),
        (&["set", "--instance", "x"], "--device"),
        (&["set", "--hold"], "--apply"),
    ] {
        let mut all = vec!["isolate"];
        all.extend(arguments);
        let output = pgcalm(&all);
        let stderr = String::from_utf8(output.stderr).unwrap();
        // What is isolated on this host is noted where only root can read it.
        let (code, part) = if stderr.contains("Permission denied") { (3, "run it with sudo") } else { (2, part) };
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}

#[test]
fn an_output_file_that_was_only_tried_is_not_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    refused(&mut command(&["lab", "run", "checkpoint", "--json", json.to_str().unwrap(), "--clients", "0"]), 2);
    assert!(!json.exists());
}

/// The link was once removed, and the file that it leads to left.
#[test]
fn a_link_to_an_output_file_that_is_not_there_yet_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (link, file) = (dir.path().join("link"), dir.path().join("file"));
    std::os::unix::fs::symlink("file", &link).unwrap();
    refused(&mut command(&["lab", "run", "checkpoint", "--json", link.to_str().unwrap(), "--clients", "0"]), 2);
    assert!(link.is_symlink());
    assert!(!file.exists());
}

#[test]
fn a_file_that_can_not_be_written_whole_is_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.json");
    for old in [None, Some("of last week")] {
        old.iter().for_each(|old| std::fs::write(&file, old).unwrap());
        // As on a full disk: no file gets larger than that.
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; exec prlimit --fsize=20 \"$@\"", "sh", env!("CARGO_BIN_EXE_pgcalm")]);
        let stderr = refused(shell.args(["isolate", "show", "--json"]).arg(&file), 1);
        assert!(stderr.contains("write ") && stderr.contains("report.json: File too large"), "{stderr}");
        assert_eq!(std::fs::read_to_string(&file).ok().as_deref(), old);
    }
}

/// The trial once took the reader's end of file for it, and the run then waited for another reader.
#[test]
fn a_fifo_is_written_to_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    make_node(&fifo, FileType::Fifo, 0).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_pgcalm"))
        .args(["isolate", "show", "--json"])
        .arg(&fifo)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let text = std::fs::read_to_string(&fifo).unwrap();
    if text.is_empty() {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert!(text.starts_with('{'), "{text:?}");
    assert!(status.success(), "{status}");
    assert!(fifo.symlink_metadata().unwrap().file_type().is_fifo());
}

#[test]
fn a_disk_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    // Needs root. The number is one that no driver has.
    if make_node(&disk, FileType::BlockDevice, rustix::fs::makedev(120, 0)).is_err() {
        eprintln!("skipped: only root may make a device node");
        return;
    }
    let disk = disk.to_str().unwrap();
    let report = dir.path().join("report.json");
    std::fs::write(&report, "{}").unwrap();
    let output = pgcalm(&["isolate", "show", "--json", disk]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("is a device and no file"), "{text}");
    let markdown = pgcalm(&["lab", "report", report.to_str().unwrap(), "--markdown", "/dev/null"]);
    assert_eq!(markdown.status.code(), Some(2));
}

fn make_node(path: &std::path::Path, kind: FileType, device: u64) -> rustix::io::Result<()> {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, device)
}

#[test]
fn help_documents_the_exit_codes() {
    for arguments in [
        &["--help"][..],
        &["lab", "run", "checkpoint", "--help"],
        &["lab", "run", "journal", "--help"],
        &["lab", "run", "torture", "--help"],
        &["lab", "clean", "--help"],
        &["isolate", "set", "--help"],
        &["isolate", "check", "--help"],
        &["lab", "report", "--help"],
    ] {
        let output = pgcalm(arguments);
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("130"), "{arguments:?}: {text}");
    }
}

#[test]
fn help_says_what_it_does_without_a_command_and_where_documents_are() {
    let text = String::from_utf8(pgcalm(&["--help"]).stdout).unwrap();
    assert!(text.contains("Without a command it says"), "{text}");
    assert!(text.contains("/usr/share/doc/pgcalm"), "{text}");
}

#[test]
fn the_list_names_scenarios_and_contestants() {
    let output = pgcalm(&["lab", "list"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    for name in ["checkpoint", "journal", "torture", "xfs-logdev", "stock-tuned", "pg_calm", "stock-uncapped"] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn a_closed_standard_output_is_no_error() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    drop(reader);
    let status = Command::new(env!("CARGO_BIN_EXE_pgcalm")).args(["lab", "list"]).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_hangup_that_was_ignored_stays_ignored() {
    let script = "trap '' HUP; exec \"$0\" export --listen 127.0.0.1:0";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_pgcalm")]).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut export = Running(command.spawn().unwrap());
    // By then it has taken its signals.
    let mut said = BufReader::new(export.0.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("/metrics"), "{line}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", export.0.id())).unwrap();
    let has = |mask: &str, signal: u32| {
        let mask = status.lines().find_map(|line| line.strip_prefix(mask)).unwrap();
        (u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1)) & 1 == 1
    };
    assert!(has("SigIgn:", 1) && !has("SigCgt:", 1) && has("SigCgt:", 15), "{status}");
    export.signal(Signal::HUP);
    export.signal(Signal::TERM);
    assert_eq!(export.0.wait().unwrap().code(), Some(0));
}

#[test]
fn report_says_what_to_give_it_when_the_file_is_none_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("other.json");
    std::fs::write(&file, "{\"a\": 1}").unwrap();
    let absent = dir.path().join("absent.json");
    for path in [&file, &absent] {
        let stderr = refused(&mut command(&["lab", "report", path.to_str().unwrap()]), 2);
        assert!(stderr.contains(path.to_str().unwrap()), "{stderr}");
        assert!(stderr.contains("lab run --json"), "{stderr}");
    }
}

/// A name mistyped would leave mounts and devices behind, and say that there were none.
#[test]
fn clean_of_a_directory_that_is_not_there_is_a_mistake() {
    let stderr = refused(&mut command(&["lab", "clean", "--dir", "/nonexistent/pgcalm"]), 2);
    assert!(stderr.contains("--dir /nonexistent/pgcalm"), "{stderr}");
}
